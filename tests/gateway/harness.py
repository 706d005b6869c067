"""A client, a desk between it and its provider, and the laws of what leaves."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

import holdfast
from holdfast.gateway.desk import Desk
from holdfast.gateway.engines import open_engine
from holdfast.gateway.lines import OPENING_BYTES
from holdfast.gateway.model import Arrival, Outcome, PreparedRequest, SentView
from holdfast.gateway.options import DeskOptions
from tests.gateway.clients import SEALER, MessagesClient, ModelClient
from tests.gateway.upstreams.messages_rules import MID_SYSTEM_BETA, MessageRules
from tests.gateway.upstreams.openai_rules import ResponseRules, check_chat
from tests.gateway.upstreams.refusals import Refusal

WORD = re.compile(r"\bw\d+\w*x\b")
OPTIONS = DeskOptions(window=4_000, policy="faithful")
STEPS = (
    *("take", "take", "take", "take", "take", "edit", "retry", "rewind", "compact", "restart"),
    *("lose", "fail", "cut", "fall", "late", "switch"),
)
BRIDGE = {"role": "assistant", "content": "(My earlier replies are in the summary.)"}
BETAS = frozenset({MID_SYSTEM_BETA})


class Harness:
    """A client, the desks that serve it in turn, and the bytes that left."""

    def __init__(
        self,
        seed: int,
        options: DeskOptions = OPTIONS,
        store: str = "memory:",
        *,
        kind: type[ModelClient] = MessagesClient,
        engines: Sequence[holdfast.Engine] = (),
    ) -> None:
        self.engines = engines or [open_engine(store)]
        self.options = options
        self.desks = [Desk(engine, options) for engine in self.engines]
        self.client = kind(seed)
        self._served: dict[int, Desk] = {}
        """The desk of each request."""
        self.other: list[dict[str, Any]] = []
        """Another branch of the client, which goes on as well."""
        self.boundaries = 0
        self.sent = 0

    @property
    def engine(self) -> holdfast.Engine:
        return self.engines[0]

    @property
    def desk(self) -> Desk:
        """The desk whose turn it is."""
        return self.desks[self.sent % len(self.desks)]

    def arrive(self, client: ModelClient | None = None) -> Arrival:
        client = client or self.client
        return Arrival(dialect=client.dialect, headers=client.headers, body=client.request())

    def send(self) -> PreparedRequest:
        self.sent += 1
        prepared = self.desk.prepare(self.arrive())
        self._served[id(prepared)] = self.desk
        self.check(prepared)
        return prepared

    def answer(self, prepared: PreparedRequest) -> dict[str, Any]:
        reply = self.client.build_reply()
        if prepared.arrival.dialect == "anthropic":  # the provider counts what was sent
            reply["usage"]["cache_read_input_tokens"] = len(prepared.body) // 4
        self.settle(prepared, reply)
        return reply

    def settle(self, prepared: PreparedRequest, reply: dict[str, Any] | None, **fields: Any) -> None:
        now = self.engine._context.clock.now_us()
        desk = self._served.pop(id(prepared), self.desk)
        left = msgspec.structs.replace(prepared)
        left.drop_bodies()  # as the gateway does, when a request has left
        desk.settle(left, Outcome(**{"status": 200, "reply": reply, "sent_us": now, "ended_us": now, **fields}))

    def step(self, name: str) -> None:
        match name:
            case "restart":
                self.desks = [Desk(engine, self.options) for engine in self.engines]
            case "rewind":
                self.client.rewind()
            case "compact":
                self.client.compact()
            case "switch":
                self.switch()
            case "fall":  # the store took too long
                prepared = self.desk.fall_back(self.arrive())
                check_laws(prepared)
                self.client.take(self.answer(prepared))
            case _:
                self.exchange(name)

    def exchange(self, name: str) -> None:
        """A request, and what becomes of it."""
        prepared = self.send()
        match name:
            case "take" | "edit":
                self.client.take(self.answer(prepared), edit=name == "edit")
            case "retry":
                self.answer(prepared)
            case "fail":
                self.settle(prepared, None, status=529)
            case "cut":
                self.settle(prepared, self.client.build_reply(), is_complete=False)
            case "late":  # the client asks again, and then the first reply is here, too
                first = self.client.build_reply()
                self.exchange("take")
                self.settle(prepared, first)
            case "lose":  # the reply never reaches the client, or the desk
                pass

    def switch(self) -> None:
        """Go on with another branch of the same conversation."""
        mine = list(self.client.messages)
        if self.other:
            self.client.messages = self.other
        else:
            self.client.rewind()
        self.other = mine

    def check(self, prepared: PreparedRequest) -> None:
        step: Any = prepared.step
        self.boundaries += step.is_boundary
        check_laws(prepared)
        if self.sent % 3:
            return
        again = Desk(self.engine, self.options)
        assert again.prepare(prepared.arrival).body == prepared.body, "a restarted gateway sends the same bytes"
        if len(self.desks) == 1:  # else its memory may not have what another desk did
            assert self.desk.fall_back(prepared.arrival).body == prepared.body, "what fails later sends the same bytes"


def check_laws(prepared: PreparedRequest) -> None:
    """What holds for every request that leaves."""
    dialect = prepared.arrival.dialect
    step: Any = prepared.step
    sent, own = json.loads(prepared.body), json.loads(prepared.arrival.body)
    view = SentView() if step is None else step.view
    if view.is_empty:
        assert prepared.body is prepared.arrival.body
    name = "input" if dialect == "responses" else "messages"
    if prepared.reading is not None:
        sent["tools"].pop()
    assert {**sent, name: 0} == {**own, name: 0}
    assert {*WORD.findall(json.dumps(sent))} <= {*WORD.findall(json.dumps(own))}, "nothing of another branch is shown"
    shown = [json.loads(text) for text in view.replaced.values()]
    check_verbatim(sent[name], own[name], json.loads(view.summary or b'""'), shown)
    assert not refuse(dialect, own), "the client is right"
    assert not refuse(dialect, sent)


def refuse(dialect: str, request: dict[str, Any]) -> str:
    """Why a provider refuses a request; empty if it does not."""
    try:
        if dialect == "anthropic":
            rules = MessageRules(SEALER)
            rules.extra_types.add("novelty")
            rules.check(request, BETAS)
        elif dialect == "chat":
            check_chat(request)
        else:
            ResponseRules(SEALER).check(request)
    except Refusal as refusal:
        return refusal.message
    return ""


def check_verbatim(sent: list[Any], own: list[Any], summary: str, shortened: Any) -> None:
    """All but the summary and shortened results are elements of the client, in its order, and the end is as it was."""
    elements = [element for message in own for element in split(message)]
    at = 0
    for element in (each for message in sent for each in split(message)):
        if summary and (summary in (element.get("text"), _text_of(element)) or element == BRIDGE):
            continue
        found = next((n for n in range(at, len(elements)) if _is_same(element, elements[n], shortened)), None)
        assert found is not None, "an element that the client did not send"
        at = found + 1
    opening = next((number for number, each in enumerate(own) if is_of_model(each)), len(own))
    if len(json.dumps(own[:opening])) <= OPENING_BYTES:
        assert sent[:opening] == own[:opening], "what stands before the first reply stays"
    last = find_last_reply(own)
    assert sent[len(sent) - (len(own) - last) :] == own[last:], "the last reply and what follows stay"


def _is_same(one: dict[str, Any], other: dict[str, Any], shortened: Any) -> bool:
    if one == other:
        return True
    names = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    return len(names) == 1 and names[0] in ("content", "output") and one.get(names[0]) in shortened


def _text_of(element: dict[str, Any]) -> Any:
    content = element.get("content")
    return content[0].get("text") if isinstance(content, list) and content else content


def split(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message of Anthropic; else the message or item."""
    content = message.get("content")
    if message.get("role") not in ("user", "assistant") or not isinstance(content, list):
        return [message]
    return content if any(block["type"] in ("text", "tool_use", "tool_result") for block in content) else [message]


def find_last_reply(own: list[dict[str, Any]]) -> int:
    """The number of the first element of the last reply."""
    last = max((number for number, each in enumerate(own) if is_of_model(each)), default=0)
    while last and own[last].get("type") is not None and is_of_model(own[last - 1]):
        last -= 1
    return last


def is_of_model(element: dict[str, Any]) -> bool:
    return element.get("role") == "assistant" or element.get("type") in (
        "reasoning",
        "function_call",
        "custom_tool_call",
    )
