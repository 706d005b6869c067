"""One question to a model: asked blocking or awaited, with what it used, whether it succeeded or not."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.errors import InvalidArgument, ModelFailed, describe_value
from holdfast.model.content import Usage
from holdfast.model.names import shorten_name
from holdfast.model.sessions.model_uses import ModelUse
from holdfast.models.model import Model, PromptMessage
from holdfast.models.prompt_files import Prompt
from holdfast.models.schemas import AnswerSchema

_LOGGER = logging.getLogger("holdfast.models")


class ModelOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a question."""

    value: Any = None
    """None if the model failed."""
    use: ModelUse
    error: str = ""


class ModelQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Messages for a model, and what they are for."""

    purpose: str
    prompt: Prompt
    messages: Sequence[PromptMessage]
    schema: AnswerSchema | None = None
    pack: Any = None
    max_tokens: int | None = None

    def ask(self, model: Model) -> ModelOutcome:
        try:
            answer = model.complete(self.messages, self.schema, pack=self.pack, max_tokens=self.max_tokens)
        except ModelFailed as error:
            return self._fail(model, error)
        return ModelOutcome(value=answer.value, use=self._use(answer.model or model.name, answer.usage))

    async def ask_async(self, model: Model) -> ModelOutcome:
        try:
            answer = await model.complete_async(self.messages, self.schema, pack=self.pack, max_tokens=self.max_tokens)
        except ModelFailed as error:
            return self._fail(model, error)
        return ModelOutcome(value=answer.value, use=self._use(answer.model or model.name, answer.usage))

    def _fail(self, model: Model, error: ModelFailed) -> ModelOutcome:
        """Nobody else may see it: an engine goes on by its rules."""
        _LOGGER.warning("no %s by a model: %s: %s", self.purpose, type(error).__name__, error)
        usage = error.usage if isinstance(error.usage, Usage) else Usage()
        return ModelOutcome(use=self._use(model.name, usage), error=f"{type(error).__name__}: {error}")

    def _use(self, model: str, usage: Usage) -> ModelUse:
        return ModelUse(purpose=self.purpose, model=shorten_name(model), usage=usage, prompt=self.prompt.label)


def name_author(model: Model, prompt: Prompt) -> str:
    """Who made a result, as it is stored with it: "model:claude-haiku-4-5/detect@1"."""
    return shorten_name(f"model:{model.name}/{prompt.short_label}")


def used(use: ModelUse) -> tuple[ModelUse, ...]:
    """The use, if there was any."""
    return () if use.usage == Usage() else (use,)


def check_model(model: object) -> Model:
    if not isinstance(model, Model):
        reason = f"{describe_value(model)} is not a model: pass an OpenAIModel, an AnthropicModel or your own Model"
        raise InvalidArgument(argument="model", reason=reason)
    return model
