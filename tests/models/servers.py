"""A server of models that answers by a list, for tests of what asks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from holdfast.models import AnthropicModel, Model, OpenAIModel
from holdfast.models.server_model import ServerModel
from tests.protocols import Reply, Talk
from tests.provider import Provider, serve_provider

Dialect: TypeAlias = Literal["openai", "anthropic"]
DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


class ModelServer:
    """The server, what it was asked, and what it answers next."""

    def __init__(self, address: str, provider: Provider, replies: list[Reply]) -> None:
        self.address, self.provider, self.replies = address, provider, replies
        self.models: list[ServerModel] = []

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [each.body for each in self.provider.asked]

    def answer(self, value: object, dialect: Dialect | None = None) -> None:
        """Answer the next request: with a value, as this dialect spells it, with text, or with a reply."""
        if isinstance(value, Reply):
            self.replies.append(value)
        elif isinstance(value, str):
            self.replies.append(Reply(value))
        elif dialect == "anthropic":
            assert isinstance(value, dict)
            self.replies.append(Reply("", (("answer", value),)))
        else:
            self.replies.append(Reply(json.dumps(value)))

    def model(self, dialect: Dialect, **options: Any) -> Model:
        made: ServerModel
        if dialect == "anthropic":
            made = AnthropicModel("claude-test", base_url=self.address, **options)
        else:
            made = OpenAIModel("gpt-test", base_url=f"{self.address}/v1", **options)
        self.models.append(made)
        return made


@contextmanager
def serve_models() -> Iterator[ModelServer]:
    replies: list[Reply] = []

    def script(talk: Talk) -> Reply:
        assert replies, f"an unexpected request: {talk.shown[-500:]}"
        return replies.pop(0)

    provider = Provider(script)
    provider.keep_alive = False
    with serve_provider(provider) as address:
        server = ModelServer(address, provider, replies)
        yield server
        for model in server.models:
            model.close()
