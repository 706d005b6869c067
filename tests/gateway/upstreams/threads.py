"""Conversations that the fake provider keeps: later requests of a thread send their new messages alone."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.upstreams.refusals import Refusal

_CREATE_ONLY = ("system", "tools")


class MessageThreads:
    """The threads of one server, by the ids of its replies."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Any]] = {}

    def expand(self, request: dict[str, Any]) -> dict[str, Any]:
        """A request with all messages of its thread, and with the fields that the first one had."""
        thread = request.get("thread") or {}
        if thread.get("type") != "continue":
            return request
        kept = self._kept.get(str(thread.get("previous_message_id")))
        if kept is None:
            raise Refusal("thread.previous_message_id: not found", status=404, kind="not_found_error")
        given = [name for name in _CREATE_ONLY if name in request]
        if given:
            raise Refusal(f"{given[0]}: not permitted in a request that continues a thread")
        return {**kept, **request, "messages": [*kept["messages"], *request["messages"]]}

    def remember(self, request: dict[str, Any], reply: dict[str, Any]) -> None:
        if request.get("thread"):
            messages = [*request["messages"], {"role": "assistant", "content": reply["content"]}]
            first = {name: request[name] for name in _CREATE_ONLY if name in request}
            self._kept[reply["id"]] = json.loads(json.dumps({**first, "messages": messages}))
