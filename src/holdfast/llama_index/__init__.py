"""LlamaIndex on Holdfast: a memory that shows packs, a chat store, and a memory block with facts. Extra `llama-index`."""

from holdfast.frameworks.engines import require_package

require_package("llama_index.core", "The adapter for LlamaIndex", "llama-index")

from holdfast.llama_index.chat_store import HoldfastChatStore  # noqa: E402
from holdfast.llama_index.memory import HoldfastMemory  # noqa: E402
from holdfast.llama_index.memory_block import HoldfastFacts  # noqa: E402

__all__ = ["HoldfastChatStore", "HoldfastFacts", "HoldfastMemory"]
