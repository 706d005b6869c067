"""The output of a response: built from the pieces of a reply, with the events of a stream.

Laws: the events follow the order of the Responses API, and together they spell the output. What the server runs itself, the
calls of the engine's own tools, is kept for the record and shown in no event. A reply that breaks off leaves items that
can be shown: texts as far as they came, and calls only if they are complete.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias

from holdfast.conversion import parse_object
from holdfast.model import limits
from holdfast.server.v1.bodies import Fields

Emit: TypeAlias = Callable[[str, Fields], None]
OUTPUT_BYTES = limits.PAYLOAD_BYTES * 16
"""The most bytes of one reply of the upstream."""
ID_BYTES = 24
OWN_NAMES = {"message": "msg", "function_call": "fc"}
"""The items of an upstream that get ids of ours. Others go back to it as they came, with their ids."""


class OutputTooLarge(Exception):
    """The upstream sends more than OUTPUT_BYTES."""


def make_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(ID_BYTES)}"


class _OpenPart:
    """A text that is still growing."""

    def __init__(self, item: Fields, kind: str, index: int) -> None:
        self.item = item
        self.kind = kind
        self.index = index
        self.pieces: list[str] = []


class _OpenCall:
    """A call whose arguments are still growing."""

    def __init__(self, item: Fields, index: int | None) -> None:
        self.item = item
        self.index = index
        """Its place in the output; None if it is not shown."""
        self.pieces: list[str] = []


class OutputBuilder:
    """Builds the output of a response, over all rounds of its model calls. `name_item` gives an item its id."""

    def __init__(
        self, emit: Emit, engine_tools: Collection[str] = (), name_item: Callable[[str], str] = make_id
    ) -> None:
        self._emit = emit
        self._name_item = name_item
        self._names: dict[int, str] = {}
        self._engine_tools = engine_tools
        self._part: _OpenPart | None = None
        self._calls: dict[object, _OpenCall] = {}
        self._places: dict[int, int | None] = {}
        self._texts: dict[int, list[str]] = {}
        self._bytes = 0
        self.output: list[Fields] = []
        """The items that the client sees."""
        self.reply: list[Fields] = []
        """All items of this round, as they are recorded."""

    def begin_round(self, engine_tools: Collection[str]) -> None:
        self._engine_tools = engine_tools
        self._bytes = 0
        self._calls, self._places, self._texts, self._names, self.reply = {}, {}, {}, {}, []

    @property
    def engine_calls(self) -> list[str]:
        """The ids of the calls of this round that the server runs."""
        return [item["call_id"] for item in self.reply if self._is_engine_call(item)]

    @property
    def client_calls(self) -> list[str]:
        calls = (item for item in self.reply if str(item.get("type", "")).endswith("_call") and "call_id" in item)
        return [item["call_id"] for item in calls if not self._is_engine_call(item)]

    def _is_engine_call(self, item: Fields) -> bool:
        return item.get("type") == "function_call" and item.get("name") in self._engine_tools

    # Pieces of a reply

    def add_text(self, text: str, kind: str = "output_text") -> None:
        """Add a piece of the text, of a refusal, or of reasoning."""
        if not text:
            return
        text = _clean_text(text)
        self._count(text)
        part = self._part
        if part is None or part.kind != kind:
            part = self._begin_part(kind)
        part.pieces.append(text)
        fields: Fields = {"item_id": part.item["id"], "output_index": part.index, "content_index": 0, "delta": text}
        if kind == "output_text":
            fields["logprobs"] = []
        self._emit(f"response.{kind}.delta", fields)

    def seal_reasoning(self, sealed: str) -> None:
        """Add what the provider needs back of its reasoning."""
        part = self._part
        if part is None or part.kind != "reasoning_text":
            part = self._begin_part("reasoning_text")
        part.item["encrypted_content"] = sealed
        self._count(sealed)
        self._end_part()

    def begin_call(self, key: object, call_id: str, name: str) -> None:
        self._end_part()
        self._count(name)
        item = {"id": self._name_item("fc"), "type": "function_call", "status": "in_progress"}
        item |= {"call_id": call_id or make_id("call"), "name": name, "arguments": ""}
        self._calls[key] = _OpenCall(item, self._begin_item(item))

    def has_call(self, key: object) -> bool:
        return key in self._calls

    def add_arguments(self, key: object, text: str) -> None:
        call = self._calls[key]
        if not text:
            return
        text = _clean_text(text)
        self._count(text)
        call.pieces.append(text)
        if call.index is not None:
            fields = {"item_id": call.item["id"], "output_index": call.index, "delta": text}
            self._emit("response.function_call_arguments.delta", fields)

    def end_round(self, status: str = "completed") -> None:
        """End all that is open. Calls that broke off are left out, unless the reply is complete."""
        self._end_part(status)
        for call in self._calls.values():
            self._end_call(call, status)
        self._calls = {}
        self._end_passed_items(status)
        if status != "completed":
            self._drop_broken_calls()

    # Whole items and events of an upstream that speaks the same language

    def add_item(self, item: Fields) -> None:
        """Add an item that came in one piece."""
        for kind, fields in spell_item(item, len(self.output)):
            self.pass_event({"type": kind, **fields})

    def pass_event(self, event: Fields) -> None:
        """Pass an event of an upstream on, with our numbers."""
        kind, place = str(event.get("type")), event.get("output_index")
        fields = {key: value for key, value in event.items() if key not in ("type", "sequence_number")}
        if type(place) is not int:
            return
        if kind == "response.output_item.added":
            item = dict(event["item"])
            if item.get("type") in OWN_NAMES:
                self._names[place] = self._name_item(OWN_NAMES[item["type"]])
                item["id"] = self._names[place]
            fields["item"] = item
            is_shown = not self._is_engine_call(item)
            self._places[place] = len(self.output) if is_shown else None
            self._texts[place] = []
            if is_shown:
                self.output.append(item)
        index = self._places.get(place)
        if kind == "response.output_text.delta" and place in self._texts:
            self._count(str(event.get("delta", "")))
            self._texts[place].append(str(event.get("delta", "")))
        if kind == "response.output_item.done":
            item = complete_item(event["item"])
            if place in self._names:
                item["id"] = self._names[place]
            fields["item"] = item
            self._count(str(item))
            self._texts.pop(place, None)
            self.reply.append(item)
            if index is not None:
                self.output[index] = item
        if "item_id" in fields and place in self._names:
            fields["item_id"] = self._names[place]
        if index is not None:
            self._emit(kind, {**fields, "output_index": index})

    # Inside

    def _count(self, text: str) -> None:
        self._bytes += len(text)
        if self._bytes > OUTPUT_BYTES:
            raise OutputTooLarge(f"the reply has more than {OUTPUT_BYTES} bytes")

    def _begin_item(self, item: Fields) -> int | None:
        self.reply.append(item)
        if self._is_engine_call(item):
            return None
        self.output.append(item)
        index = len(self.output) - 1
        self._emit("response.output_item.added", {"output_index": index, "item": _copy(item)})
        return index

    def _begin_part(self, kind: str) -> _OpenPart:
        self._end_part()
        item: Fields = {"id": self._name_item("msg"), "type": "message", "status": "in_progress", "role": "assistant"}
        item["content"] = []
        if kind == "reasoning_text":
            item = {
                "id": self._name_item("rs"),
                "type": "reasoning",
                "status": "in_progress",
                "summary": [],
                "content": [],
            }
        index = self._begin_item(item)
        assert index is not None, "a message is shown"
        self._part = _OpenPart(item, kind, index)
        fields = {"item_id": item["id"], "output_index": index, "content_index": 0, "part": _show_part(kind, "")}
        self._emit("response.content_part.added", fields)
        return self._part

    def _end_part(self, status: str = "completed") -> None:
        part, self._part = self._part, None
        if part is None:
            return
        text = "".join(part.pieces)
        shown = _show_part(part.kind, text)
        part.item["content"] = [shown] if text or part.kind != "reasoning_text" else []
        part.item["status"] = status
        place: Fields = {"item_id": part.item["id"], "output_index": part.index, "content_index": 0}
        if part.kind == "refusal":
            self._emit("response.refusal.done", {**place, "refusal": text})
        else:
            more: Fields = {"logprobs": []} if part.kind == "output_text" else {}
            self._emit(f"response.{part.kind}.done", {**place, "text": text, **more})
        self._emit("response.content_part.done", {**place, "part": dict(shown)})
        self._emit("response.output_item.done", {"output_index": part.index, "item": _copy(part.item)})

    def _end_call(self, call: _OpenCall, status: str) -> None:
        item, text = call.item, "".join(call.pieces)
        item["arguments"] = text
        item["status"] = status if status == "completed" or parse_object(text) is None else "completed"
        if call.index is None:
            return
        done = {"item_id": item["id"], "output_index": call.index, "name": item["name"], "arguments": text}
        self._emit("response.function_call_arguments.done", done)
        self._emit("response.output_item.done", {"output_index": call.index, "item": _copy(item)})

    def _end_passed_items(self, status: str) -> None:
        """End items whose end the upstream did not send: messages stay as far as they came."""
        gone: list[Fields] = []
        for place, pieces in self._texts.items():
            index = self._places[place]
            if index is None:
                continue
            item, text = self.output[index], "".join(pieces)
            if item.get("type") != "message" or not text:
                gone.append(item)
                continue
            item |= {"status": status, "content": [_show_part("output_text", text)]}
            self.reply.append(item)
            self._emit("response.output_item.done", {"output_index": index, "item": _copy(item)})
        self._texts = {}
        self.output = [item for item in self.output if not any(item is each for each in gone)]

    def _drop_broken_calls(self) -> None:
        broken = [
            item
            for item in self.reply
            if item.get("type") == "function_call" and parse_object(item.get("arguments", "")) is None
        ]
        self.reply = [item for item in self.reply if not any(item is each for each in broken)]
        self.output = [item for item in self.output if not any(item is each for each in broken)]


def _clean_text(text: str) -> str:
    """Text of an upstream, with a mark for each half of a character: it cannot be stored."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _show_part(kind: str, text: str) -> Fields:
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": kind, "text": text} | ({"annotations": [], "logprobs": []} if kind == "output_text" else {})


def complete_item(item: Fields) -> Fields:
    """An item of an upstream, with the fields that every item of its type has."""
    if item.get("type") != "message" or not isinstance(item.get("content"), list):
        return dict(item)
    parts = [
        {"annotations": [], "logprobs": [], **part} if part.get("type") == "output_text" else dict(part)
        for part in item["content"]
        if isinstance(part, dict)
    ]
    return {"status": "completed", **item, "content": parts}


def _copy(item: Fields) -> Fields:
    """An item as it is now: later pieces do not change it."""
    return {key: [dict(each) for each in value] if isinstance(value, list) else value for key, value in item.items()}


def spell_item(item: Fields, index: int) -> Iterator[tuple[str, Fields]]:
    """The events of a stream that add an item."""
    kind = item.get("type")
    name: Any = item.get("id")
    begun = {**item, "status": "in_progress"} if "status" in item else dict(item)
    if kind == "message":
        begun["content"] = []
    if kind == "function_call":
        begun["arguments"] = ""
    yield "response.output_item.added", {"output_index": index, "item": begun}
    if kind == "message":
        for number, part in enumerate(item["content"]):
            yield from _spell_part(part, {"item_id": name, "output_index": index, "content_index": number})
    if kind == "function_call":
        place = {"item_id": name, "output_index": index}
        yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"]}
        done = {**place, "name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", done
    yield "response.output_item.done", {"output_index": index, "item": dict(item)}


def _spell_part(part: Fields, place: Fields) -> Iterator[tuple[str, Fields]]:
    kind = str(part.get("type"))
    if kind not in ("output_text", "refusal"):
        return
    text = part.get("refusal" if kind == "refusal" else "text", "")
    more: Fields = {"logprobs": []} if kind == "output_text" else {}
    yield "response.content_part.added", {**place, "part": _show_part(kind, "")}
    yield f"response.{kind}.delta", {**place, "delta": text, **more}
    yield f"response.{kind}.done", {**place, "refusal" if kind == "refusal" else "text": text, **more}
    yield "response.content_part.done", {**place, "part": dict(part)}
