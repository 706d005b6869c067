"""Long-term memory: passages, what is asked of them, and deliveries."""
