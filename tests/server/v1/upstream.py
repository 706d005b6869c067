"""The model server behind /v1/responses in these tests: a real one on a real port, which speaks all three languages,
refuses what providers refuse, answers by a script, and can be held at a named point of a stream."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.protocols import Reply, Talk
from tests.provider import Provider, Script, StreamedReply, serve_provider
from tests.support import PATIENCE_S

OPTIONS = {
    "chat": {
        "top_p", "reasoning_effort", "verbosity", "prompt_cache_key", "safety_identifier", "service_tier", "user",
        "logprobs", "top_logprobs",
    },
    "responses": {
        "top_p", "text", "reasoning", "user", "safety_identifier", "prompt_cache_key", "service_tier", "top_logprobs",
    },
    "anthropic": {"top_p", "output_config"},
}  # fmt: skip
"""Fields that the real providers take, too."""
KINDS = {"openai": "chat", "openai-responses": "responses", "anthropic": "anthropic"}


class HeldEvents(list[dict[str, Any]]):
    """The events of a stream, which stop before the one that is held until somebody lets them go."""

    def __init__(self, events: list[dict[str, Any]], gate: Gate) -> None:
        super().__init__(events)
        self._gate = gate

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, event in enumerate(super().__iter__()):
            self._gate.pass_point(number)
            yield event
        self._gate.pass_point(len(self))


class Gate:
    """Holds streams at one of their events."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.reached = threading.Event()
        self.open = threading.Event()

    def hold(self, at: int) -> None:
        self.at = at
        self.reached.clear()
        self.open.clear()

    def release(self) -> None:
        self.at = None
        self.open.set()

    def pass_point(self, number: int) -> None:
        if number == self.at:
            self.reached.set()
            assert self.open.wait(PATIENCE_S), "nobody let the stream go"


class ModelServer(Provider):
    """A provider that can be held, and that has models."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.gate = Gate()
        self.keep_alive = False
        self.options: list[dict[str, Any]] = []
        """The fields of each request that the protocols of these tests do not look at."""

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": "m1", "object": "model", "created": 1, "owned_by": "me"}]}
        if path == "/v1/models/m1":
            return 200, {"id": "m1", "object": "model", "created": 1, "owned_by": "me"}
        status, reply = super().answer(path, headers, body)
        if isinstance(reply, StreamedReply):
            return status, reply._replace(events=HeldEvents(reply.events, self.gate))
        return status, reply

    def _reply(self, protocol: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        known = OPTIONS[protocol]
        self.options.append({key: value for key, value in body.items() if key in known})
        return super()._reply(protocol, headers, {key: value for key, value in body.items() if key not in known})


@contextmanager
def model_server(script: Script) -> Iterator[tuple[ModelServer, str]]:
    """A model server while the block runs, and its address."""
    server = ModelServer(script)
    with serve_provider(server) as address:
        try:
            yield server, f"{address}/v1"
        finally:
            server.gate.release()


def echo(talk: Talk) -> Reply:
    """A model that repeats the last thing it was told; a result of a tool, too."""
    last = talk.turns[-1]
    if last.results:
        return Reply(f"The tool said: {last.results[-1][1]}")
    if last.text.startswith("call ") and "look_up" in talk.tools:
        return Reply("", ((("look_up", {"word": last.text.removeprefix("call ").split(chr(10))[0]})),))
    return Reply(f"You said: {last.text.split(chr(10))[0]}")
