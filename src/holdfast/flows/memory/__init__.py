"""Long-term memory: index, take, recall, deliver and forget."""
