"""Models where they help: a summarizer, a detector, an extractor, a situation updater and embedders, on any server."""

from holdfast.models.anthropic_model import AnthropicModel
from holdfast.models.model import Completion, Model, PromptMessage
from holdfast.models.openai_model import OpenAIModel

__all__ = ["AnthropicModel", "Completion", "Model", "OpenAIModel", "PromptMessage"]
