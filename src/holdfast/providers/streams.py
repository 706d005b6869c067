"""How each provider's stream adds up to the reply that the provider would have sent in one piece."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.codec import checked_json, encode
from holdfast.core.arguments import carried_object
from holdfast.errors import InvalidContent, TooLarge
from holdfast.model import limits
from holdfast.providers.openai import CALLS, error_text
from holdfast.providers.plain import fields, listed, needed, word

STREAM_BYTES = limits.PAYLOAD_BYTES * 16
"""What is held of one stream."""

SLOT_BYTES = 64
"""What a block, an item or a call is counted for beside its text, so that empty ones end too."""

RESPONSES_TEXTS = {"response.output_text.delta": "output_text", "response.refusal.delta": "refusal"}
RESPONSES_BEGINS = frozenset({"response.created", "response.in_progress", "response.queued"})
RESPONSES_ENDS = frozenset({"response.completed", "response.incomplete"})
RESPONSES_EVENTS = (
    RESPONSES_BEGINS | RESPONSES_ENDS | RESPONSES_TEXTS.keys() | {"response.output_item.done", "response.failed"}
)
ANTHROPIC_EVENTS = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)
EVENTS = RESPONSES_EVENTS | ANTHROPIC_EVENTS | {"error"}


class Stream(Protocol):
    complete: bool

    def add(self, event: dict[str, Any]) -> None: ...

    @property
    def text(self) -> str: ...

    def response(self) -> dict[str, Any]: ...

    def partial(self) -> dict[str, Any]: ...


class _Held:
    """Counts what a stream holds."""

    def __init__(self) -> None:
        self._bytes = 0

    def text(self, text: str) -> str:
        self._count(len(text) if text.isascii() else len(text.encode(errors="surrogatepass")))
        return text

    def value(self, value: object) -> Any:
        checked = checked_json("an event of the stream", value)
        self._count(SLOT_BYTES + len(encode(checked)))
        return checked

    def slot(self) -> None:
        self._count(SLOT_BYTES)

    def _count(self, size: int) -> None:
        if self._bytes + size > STREAM_BYTES:
            raise TooLarge(
                what="the stream",
                size=self._bytes + size,
                unit="bytes",
                limit_name="STREAM_BYTES",
                limit=STREAM_BYTES,
                advice="Stop reading it; record partial() to keep what has arrived.",
            )
        self._bytes += size


def _index(item: dict[str, Any], key: str) -> int | None:
    value = item.get(key)
    return value if type(value) is int and 0 <= value <= limits.WHOLE_NUMBER else None


class _Call:
    """A call of a chat stream: its id and name come first, its arguments in pieces."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.fields: dict[str, Any] = {}
        self.name = ""
        self.arguments: list[str] = []

    @property
    def id(self) -> str | None:
        return word(self.fields, "id") or None

    def add(self, piece: dict[str, Any], function: dict[str, Any], held: _Held) -> None:
        for key, value in piece.items():
            if key not in ("index", "function") and value is not None and key not in self.fields:
                self.fields[key] = held.value(value)
        name, arguments = word(function, "name"), word(function, "arguments")
        if name and name != self.name:  # some providers repeat it in every piece
            self.name += held.text(name)
        if arguments:
            self.arguments.append(held.text(arguments))

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"type": "function", **self.fields, "function": function}


class Chat:
    """OpenAI chat chunks, and what others make of them."""

    def __init__(self) -> None:
        self.complete = False
        self._held = _Held()
        self._about: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._audio: dict[str, Any] = {}
        self._audio_texts: dict[str, list[str]] = {}
        self._legacy: _Call | None = None
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._stop: str | None = None
        self._usage: Any = None

    @property
    def text(self) -> str:
        return "".join(piece for key in ("content", "refusal") for piece in self._texts.get(key, ()))

    def add(self, chunk: dict[str, Any]) -> None:
        for key in ("id", "model"):
            if word(chunk, key) and key not in self._about:
                self._about[key] = self._held.text(chunk[key])
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        for choice in listed(chunk.get("choices"), "'choices'"):
            self._choice(needed(choice, "a choice"))

    def _choice(self, choice: dict[str, Any]) -> None:
        if _index(choice, "index"):
            raise InvalidContent(reason="the stream has several choices: add those of one of them")
        delta = fields(choice.get("delta")) or {}
        for call in listed(delta.get("tool_calls"), "'tool_calls'"):
            self._call(needed(call, "a tool call"))
        legacy = fields(delta.get("function_call"))
        if legacy is not None:
            self._legacy = self._legacy or _Call(0)
            self._legacy.add({}, legacy, self._held)
        for key, value in delta.items():
            if key not in ("role", "tool_calls", "function_call"):
                self._field(key, value)
        if word(choice, "finish_reason"):
            self._stop = choice["finish_reason"]
            self.complete = True

    def _field(self, key: str, value: Any) -> None:
        if type(value) is str and value:
            if key not in self._texts:
                self._texts[self._held.text(key)] = []
                self._held.slot()
            self._texts[key].append(self._held.text(value))
        elif type(value) is list and value:
            self._lists.setdefault(key, []).extend(self._held.value(value))
        elif key == "audio" and type(value) is dict:
            for name, piece in self._held.value(value).items():
                if type(piece) is str and name != "id":
                    self._audio_texts.setdefault(name, []).append(piece)
                elif piece is not None:
                    self._audio[name] = piece

    def _call(self, piece: dict[str, Any]) -> None:
        """The index says which call it belongs to. Where it is missing or always the same, a new id begins a new one."""
        index, new_id = _index(piece, "index"), word(piece, "id")
        call = self._at.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if call is None or (new_id and call.id is not None and new_id != call.id):
            self._held.slot()
            call = _Call(len(self._calls) if index is None else index)
            self._calls.append(call)
            if index is not None:
                self._at[index] = call
        call.add(piece, fields(piece.get("function")) or {}, self._held)

    def response(self) -> dict[str, Any]:
        return self._reply(self._calls, self._legacy, self._stop)

    def partial(self) -> dict[str, Any]:
        """Arguments that spell an object are whole: nothing can follow that would leave them one."""
        calls = [call for call in self._calls if carried_object("".join(call.arguments)) is not None]
        legacy = self._legacy
        if legacy is not None and carried_object("".join(legacy.arguments)) is None:
            legacy = None
        return self._reply(calls, legacy, "partial")

    def _reply(self, calls: list[_Call], legacy: _Call | None, stop: str | None) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, **self._lists}
        message.update((key, "".join(pieces)) for key, pieces in self._texts.items())
        if self._audio or self._audio_texts:
            spoken = {key: "".join(pieces) for key, pieces in self._audio_texts.items()}
            message["audio"] = {**self._audio, **spoken}
        if calls:
            message["tool_calls"] = [call.whole() for call in sorted(calls, key=lambda call: call.place)]
        if legacy is not None:
            message["function_call"] = legacy.whole()["function"]
        choices = [{"index": 0, "message": message, "finish_reason": stop}]
        return {"object": "chat.completion", **self._about, "choices": choices, "usage": self._usage}


class Responses:
    """OpenAI responses events. The last one brings the whole response; the others serve when it never comes."""

    def __init__(self) -> None:
        self.complete = False
        self._held = _Held()
        self._about: dict[str, Any] = {}
        self._said: list[str] = []
        self._texts: dict[int, dict[int, tuple[str, list[str]]]] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._whole: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return "".join(self._said)

    def add(self, event: dict[str, Any]) -> None:
        kind = word(event, "type") or ""
        if kind == "response.failed":
            failed = fields(event.get("response")) or {}
            raise InvalidContent(reason=f"the provider reported an error: {error_text(failed.get('error'))}")
        if kind in RESPONSES_ENDS:
            self._whole = needed(event.get("response"), "'response'")
            self.complete = True
        elif kind in RESPONSES_BEGINS:
            begun = fields(event.get("response")) or {}
            self._about = {key: begun[key] for key in ("id", "model") if word(begun, key)}
        elif kind == "response.output_item.done":
            place = _index(event, "output_index")
            self._items[len(self._items) if place is None else place] = self._held.value(
                needed(event.get("item"), "'item'")
            )
        else:
            self._add_text(event, RESPONSES_TEXTS[kind])

    def _add_text(self, event: dict[str, Any], kind: str) -> None:
        delta = word(event, "delta")
        if not delta:
            return
        item = self._texts.setdefault(_index(event, "output_index") or 0, {})
        place = _index(event, "content_index") or 0
        if place not in item:
            self._held.slot()
            item[place] = (kind, [])
        item[place][1].append(self._held.text(delta))
        self._said.append(delta)

    def response(self) -> dict[str, Any]:
        """Some servers leave the output of the last event empty."""
        output = self._whole.get("output")
        if not self._items or (type(output) is list and output):
            return self._whole
        return {**self._whole, "output": [self._items[place] for place in sorted(self._items)]}

    def partial(self) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        for place in sorted(self._items.keys() | self._texts.keys()):
            item = self._items.get(place) or {"type": "message", "role": "assistant", "content": self._parts(place)}
            kind = word(item, "type")
            if kind in CALLS or kind in ("message", "reasoning"):
                output.append(item)
        while output and output[-1]["type"] == "reasoning":  # it is refused without what it led to
            output.pop()
        about = {"object": "response", **self._about, "status": "incomplete"}
        return {**about, "incomplete_details": {"reason": "partial"}, "output": output}

    def _parts(self, place: int) -> list[dict[str, str]]:
        return [
            {"type": kind, "refusal" if kind == "refusal" else "text": "".join(pieces)}
            for _, (kind, pieces) in sorted(self._texts.get(place, {}).items())
        ]


class _Block:
    """A content block of Anthropic's, as it began and as it went on."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.stopped = False
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    @property
    def kind(self) -> str | None:
        return word(self.start, "type")

    def add(self, delta: dict[str, Any], held: _Held) -> str:
        """Returns the text that it brings."""
        match word(delta, "type"):
            case "text_delta":
                return self._grow("text", delta, held)
            case "thinking_delta":
                self._grow("thinking", delta, held)
            case "input_json_delta":
                self._grow("partial_json", delta, held)
            case "signature_delta" if word(delta, "signature") is not None:
                self.start["signature"] = held.text(delta["signature"])
            case "citations_delta":
                self._citations.append(held.value(fields(delta.get("citation"))))
            case "compaction_delta":
                held_delta = held.value(delta)
                self.start.update((key, value) for key, value in held_delta.items() if key != "type")
        return ""

    def _grow(self, key: str, delta: dict[str, Any], held: _Held) -> str:
        piece = held.text(word(delta, key) or "")
        if piece:
            self._pieces.setdefault(key, []).append(piece)
        return piece

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for key, pieces in self._pieces.items():
            if key == "partial_json":
                text = "".join(pieces)
                found = carried_object(text)
                block["input"] = text if found is None else found
            else:
                block[key] = "".join((word(block, key) or "", *pieces))
        if self._citations:
            before = block.get("citations")
            block["citations"] = [*(before if type(before) is list else ()), *self._citations]
        return block


class Anthropic:
    def __init__(self) -> None:
        self.complete = False
        self._held = _Held()
        self._message: dict[str, Any] | None = None
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._said: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._said)

    def add(self, event: dict[str, Any]) -> None:
        kind = word(event, "type")
        if kind == "message_start":
            self._start(needed(event.get("message"), "'message'"))
        elif self._message is None:
            raise InvalidContent(reason=f"the stream begins with {kind!r} instead of 'message_start'")
        elif kind == "message_stop":
            self.complete = True
        elif kind == "message_delta":
            delta = fields(event.get("delta")) or {}
            self._message.update((key, value) for key, value in delta.items() if value is not None)
            self._count(event.get("usage"))
        else:
            self._block(event, kind or "")

    def _start(self, message: dict[str, Any]) -> None:
        if self._message is not None:
            raise InvalidContent(reason="a second message begins: collect each in a Deltas of its own")
        self._message = dict(message)
        self._count(message.get("usage"))
        for block in listed(message.get("content"), "'content'"):
            self._begin(len(self._blocks), block)

    def _count(self, usage: object) -> None:
        """Figures are totals: a later one replaces an earlier one."""
        self._usage.update((key, value) for key, value in (fields(usage) or {}).items() if value is not None)

    def _block(self, event: dict[str, Any], kind: str) -> None:
        index = _index(event, "index")
        if kind == "content_block_start":
            self._begin(len(self._blocks) if index is None else index, event.get("content_block"))
            return
        block = self._blocks.get(-1 if index is None else index)
        if block is None:
            raise InvalidContent(reason=f"{kind!r} is about a block that did not start")
        if kind == "content_block_stop":
            block.stopped = True
        else:
            self._say(block.add(fields(event.get("delta")) or {}, self._held))

    def _begin(self, index: int, start: object) -> None:
        block = _Block(self._held.value(needed(start, "a content block")))
        self._blocks[index] = block
        self._say(word(block.start, "text") or "")

    def _say(self, text: str) -> None:
        if text:
            self._said.append(text)

    def response(self) -> dict[str, Any]:
        return self._reply([self._blocks[index].whole() for index in sorted(self._blocks)])

    def partial(self) -> dict[str, Any]:
        if word(self._message or {}, "stop_reason"):  # all of it came, only the end of the stream did not
            return self.response()
        kept: list[dict[str, Any]] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            finished = block.stopped and block.kind in ("tool_use", "thinking", "redacted_thinking")
            if finished or (block.kind == "text" and block.whole().get("text")):
                kept.append(block.whole())
        while kept and kept[-1]["type"] in ("thinking", "redacted_thinking"):  # refused without what it led to
            kept.pop()
        return {**self._reply(kept), "stop_reason": "partial"}

    def _reply(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        about = {"type": "message", "role": "assistant", "stop_reason": None, **(self._message or {})}
        return {**about, "content": content, "usage": self._usage}
