"""Models where they help: a summarizer, a detector, an extractor, a situation updater and embedders, on any server."""

from holdfast.models.anthropic_model import AnthropicModel
from holdfast.models.detector import AsyncModelDetector, AsyncModelExtractor, ModelDetector, ModelExtractor
from holdfast.models.embedders import LocalEmbedder, OpenAIEmbedder
from holdfast.models.model import Completion, Model, PromptMessage
from holdfast.models.openai_model import OpenAIModel
from holdfast.models.situation_updater import ModelSituationUpdater
from holdfast.models.summarizer import AsyncModelSummarizer, ModelSummarizer

__all__ = [
    "AnthropicModel",
    "AsyncModelDetector",
    "AsyncModelExtractor",
    "AsyncModelSummarizer",
    "Completion",
    "LocalEmbedder",
    "Model",
    "ModelDetector",
    "ModelExtractor",
    "ModelSituationUpdater",
    "ModelSummarizer",
    "OpenAIEmbedder",
    "OpenAIModel",
    "PromptMessage",
]
