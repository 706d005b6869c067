"""LlamaIndex: the memory, the chat store and the memory block, with its own agent and a scripted model."""
