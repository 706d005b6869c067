"""Collect the stream of each provider into the reply that the provider would have sent in one piece."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.codec import check_json, encode
from holdfast.conversion import parse_object
from holdfast.errors import InvalidArgument, TooLarge
from holdfast.model import limits
from holdfast.providers.fields import get_text, read_fields, read_list, require_fields
from holdfast.providers.openai import CALLS, provider_error

STREAM_BYTES = limits.PAYLOAD_BYTES * 16
"""The most bytes that are kept of one stream."""

SLOT_BYTES = 64
"""The size of a block, an item or a call beside its text, so that the number of empty ones is limited too."""

RESPONSES_TEXTS = {"response.output_text.delta": "output_text", "response.refusal.delta": "refusal"}
RESPONSES_BEGINS = frozenset({"response.created", "response.in_progress", "response.queued"})
RESPONSES_ENDS = frozenset({"response.completed", "response.incomplete"})
RESPONSES_EVENTS = (
    RESPONSES_BEGINS | RESPONSES_ENDS | RESPONSES_TEXTS.keys() | {"response.output_item.done", "response.failed"}
)
ANTHROPIC_EVENTS = frozenset(
    f"{subject}_{step}" for subject in ("message", "content_block") for step in ("start", "delta", "stop")
)
BEDROCK_EVENTS = frozenset(
    "messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop metadata".split()
)
"""The fields of which an event of converse_stream() has one."""
BEDROCK_ERRORS = frozenset(
    """
    internalServerException modelStreamErrorException serviceUnavailableException throttlingException
    validationException
    """.split()
)
EVENTS = RESPONSES_EVENTS | ANTHROPIC_EVENTS | {"error"}


class ReplyStream(Protocol):
    """Collects the events of one stream."""

    complete: bool

    def add(self, event: dict[str, Any]) -> None: ...

    @property
    def text(self) -> str: ...

    def response(self) -> dict[str, Any]: ...

    def partial(self) -> dict[str, Any]: ...


class StreamMeter:
    """Counts the bytes that are kept of a stream."""

    def __init__(self) -> None:
        self._bytes = 0

    def count_text(self, text: str) -> str:
        self._count(len(text) if text.isascii() else len(text.encode(errors="surrogatepass")))
        return text

    def count_value(self, value: object) -> Any:
        checked = check_json("an event of the stream", value)
        self._count(SLOT_BYTES + len(encode(checked)))
        return checked

    def count_slot(self) -> None:
        self._count(SLOT_BYTES)

    def _count(self, size: int) -> None:
        if self._bytes + size > STREAM_BYTES:
            raise TooLarge(
                what="the stream",
                size=self._bytes + size,
                unit="bytes",
                limit_name="STREAM_BYTES",
                limit=STREAM_BYTES,
                advice="Stop reading it, and record deltas.partial().",
            )
        self._bytes += size


def read_index(item: dict[str, Any], key: str) -> int | None:
    value = item.get(key)
    return value if type(value) is int and 0 <= value <= limits.WHOLE_NUMBER else None


class _ChatCall:
    """A call of a chat stream: first its id and name, then its arguments in pieces."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.fields: dict[str, Any] = {}
        self.name = ""
        self.arguments: list[str] = []

    @property
    def id(self) -> str | None:
        return get_text(self.fields, "id") or None

    def add(self, piece: dict[str, Any], function: dict[str, Any], meter: StreamMeter) -> None:
        for key, value in piece.items():
            if key not in ("index", "function") and value is not None and key not in self.fields:
                self.fields[key] = meter.count_value(value)
        name, arguments = get_text(function, "name"), get_text(function, "arguments")
        if name and name != self.name:  # some providers repeat the name in every piece
            self.name += meter.count_text(name)
        if arguments:
            self.arguments.append(meter.count_text(arguments))

    def build(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"type": "function", **self.fields, "function": function}


class ChatStream:
    """Collects chunks of OpenAI chat, and of compatible providers."""

    def __init__(self) -> None:
        self.complete = False
        self._meter = StreamMeter()
        self._header: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._specific: dict[str, Any] = {}
        self._specific_lists: dict[str, list[Any]] = {}
        self._audio: dict[str, Any] = {}
        self._audio_texts: dict[str, list[str]] = {}
        self._legacy: _ChatCall | None = None
        self._calls: list[_ChatCall] = []
        self._calls_by_index: dict[int, _ChatCall] = {}
        self._stop: str | None = None
        self._usage: Any = None

    @property
    def text(self) -> str:
        return "".join(piece for key in ("content", "refusal") for piece in self._texts.get(key, ()))

    def add(self, chunk: dict[str, Any]) -> None:
        for key in ("id", "model"):
            if get_text(chunk, key) and key not in self._header:
                self._header[key] = self._meter.count_text(chunk[key])
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        for choice in read_list(chunk.get("choices"), "'choices'"):
            self._add_choice(require_fields(choice, "a choice"))

    def _add_choice(self, choice: dict[str, Any]) -> None:
        if read_index(choice, "index"):
            raise InvalidArgument(
                argument="event", reason="the stream has several choices: add the events of one of them"
            )
        delta = read_fields(choice.get("delta")) or {}
        for call in read_list(delta.get("tool_calls"), "'tool_calls'"):
            self._add_call(require_fields(call, "a tool call"))
        legacy = read_fields(delta.get("function_call"))
        if legacy is not None:
            self._legacy = self._legacy or _ChatCall(0)
            self._legacy.add({}, legacy, self._meter)
        for key, value in delta.items():
            if key not in ("role", "tool_calls", "function_call"):
                self._add_field(key, value)
        if get_text(choice, "finish_reason"):
            self._stop = choice["finish_reason"]
            self.complete = True

    def _add_field(self, key: str, value: Any) -> None:
        if type(value) is str and value:
            if key not in self._texts:
                self._texts[self._meter.count_text(key)] = []
                self._meter.count_slot()
            self._texts[key].append(self._meter.count_text(value))
        elif type(value) is list and value:
            self._lists.setdefault(key, []).extend(self._meter.count_value(value))
        elif key == "provider_specific_fields" and type(value) is dict:
            for name, piece in self._meter.count_value(value).items():
                if type(piece) is list:
                    self._specific_lists.setdefault(name, []).extend(piece)
                elif piece is not None:
                    self._specific[name] = piece
        elif key == "audio" and type(value) is dict:
            for name, piece in self._meter.count_value(value).items():
                if type(piece) is str and name != "id":
                    self._audio_texts.setdefault(name, []).append(piece)
                elif piece is not None:
                    self._audio[name] = piece

    def _add_call(self, piece: dict[str, Any]) -> None:
        """Add a piece of the call with this index. If the index is missing or always the same, a new id starts a new
        call."""
        index, new_id = read_index(piece, "index"), get_text(piece, "id")
        call = self._calls_by_index.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if call is None or (new_id and call.id is not None and new_id != call.id):
            self._meter.count_slot()
            call = _ChatCall(len(self._calls) if index is None else index)
            self._calls.append(call)
            if index is not None:
                self._calls_by_index[index] = call
        call.add(piece, read_fields(piece.get("function")) or {}, self._meter)

    def response(self) -> dict[str, Any]:
        return self._build_reply(self._calls, self._legacy, self._stop)

    def partial(self) -> dict[str, Any]:
        """Return what has arrived. Arguments that are a JSON object are complete: no more text can follow."""
        calls = [call for call in self._calls if parse_object("".join(call.arguments)) is not None]
        legacy = self._legacy
        if legacy is not None and parse_object("".join(legacy.arguments)) is None:
            legacy = None
        return self._build_reply(calls, legacy, "partial")

    def _build_reply(self, calls: list[_ChatCall], legacy: _ChatCall | None, stop: str | None) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, **self._lists}
        message.update((key, "".join(pieces)) for key, pieces in self._texts.items())
        if "thinking_blocks" in self._lists:
            message["thinking_blocks"] = join_thinking(self._lists["thinking_blocks"])
        if self._specific or self._specific_lists:
            message["provider_specific_fields"] = {**self._specific, **self._specific_lists}
        if self._audio or self._audio_texts:
            texts = {key: "".join(pieces) for key, pieces in self._audio_texts.items()}
            message["audio"] = {**self._audio, **texts}
        if calls:
            message["tool_calls"] = [call.build() for call in sorted(calls, key=lambda call: call.index)]
        if legacy is not None:
            message["function_call"] = legacy.build()["function"]
        choices = [{"index": 0, "message": message, "finish_reason": stop}]
        return {"object": "chat.completion", **self._header, "choices": choices, "usage": self._usage}


def join_thinking(pieces: list[Any]) -> list[dict[str, Any]]:
    """The thinking blocks of a stream of LiteLLM: a block comes in pieces, the last of which has its signature."""
    blocks: list[dict[str, Any]] = []
    texts: list[list[str]] = []
    for piece in pieces:
        fields = read_fields(piece) or {}
        text, signature = get_text(fields, "thinking"), get_text(fields, "signature")
        is_open = bool(blocks) and blocks[-1].get("type") == "thinking" and not blocks[-1].get("signature")
        if get_text(fields, "type") != "thinking" or not is_open:
            blocks.append(dict(fields))
            texts.append([text or ""])
            continue
        texts[-1].append(text or "")
        if signature:
            blocks[-1]["signature"] = signature
    for block, joined in zip(blocks, texts, strict=True):
        if block.get("type") == "thinking":
            block["thinking"] = "".join(joined)
    return blocks


class ResponsesStream:
    """Collects events of OpenAI responses. The last event has the complete response; the others are used if it is
    missing."""

    def __init__(self) -> None:
        self.complete = False
        self._meter = StreamMeter()
        self._header: dict[str, Any] = {}
        self._text_pieces: list[str] = []
        self._texts: dict[int, dict[int, tuple[str, list[str]]]] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._final_response: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return "".join(self._text_pieces)

    def add(self, event: dict[str, Any]) -> None:
        kind = get_text(event, "type") or ""
        if kind == "response.failed":
            failed = read_fields(event.get("response")) or {}
            raise provider_error(failed.get("error"), "event")
        if kind in RESPONSES_ENDS:
            self._final_response = require_fields(event.get("response"), "'response'")
            self.complete = True
        elif kind in RESPONSES_BEGINS:
            response = read_fields(event.get("response")) or {}
            self._header = {key: response[key] for key in ("id", "model") if get_text(response, key)}
        elif kind == "response.output_item.done":
            index = read_index(event, "output_index")
            item = self._meter.count_value(require_fields(event.get("item"), "'item'"))
            self._items[len(self._items) if index is None else index] = item
        else:
            self._add_text(event, RESPONSES_TEXTS[kind])

    def _add_text(self, event: dict[str, Any], kind: str) -> None:
        delta = get_text(event, "delta")
        if not delta:
            return
        item = self._texts.setdefault(read_index(event, "output_index") or 0, {})
        index = read_index(event, "content_index") or 0
        if index not in item:
            self._meter.count_slot()
            item[index] = (kind, [])
        item[index][1].append(self._meter.count_text(delta))
        self._text_pieces.append(delta)

    def response(self) -> dict[str, Any]:
        """Return the response. If the last event has no output, which some servers leave out, its items are added."""
        output = self._final_response.get("output")
        if not self._items or (type(output) is list and output):
            return self._final_response
        return {**self._final_response, "output": [self._items[index] for index in sorted(self._items)]}

    def partial(self) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        for index in sorted(self._items.keys() | self._texts.keys()):
            message = {"type": "message", "role": "assistant", "content": self._build_parts(index)}
            item = self._items.get(index) or message
            kind = get_text(item, "type")
            if kind in CALLS or kind in ("message", "reasoning"):
                output.append(item)
        while output and output[-1]["type"] == "reasoning":  # refused without the item that follows it
            output.pop()
        header = {"object": "response", **self._header, "status": "incomplete"}
        return {**header, "incomplete_details": {"reason": "partial"}, "output": output}

    def _build_parts(self, index: int) -> list[dict[str, str]]:
        return [
            {"type": kind, "refusal" if kind == "refusal" else "text": "".join(pieces)}
            for _, (kind, pieces) in sorted(self._texts.get(index, {}).items())
        ]


class _AnthropicBlock:
    """A content block of Anthropic: its start, and the deltas after it."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.is_stopped = False
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    @property
    def kind(self) -> str | None:
        return get_text(self.start, "type")

    def add(self, delta: dict[str, Any], meter: StreamMeter) -> str:
        """Add a delta. Returns its visible text."""
        match get_text(delta, "type"):
            case "text_delta":
                return self._add_piece("text", delta, meter)
            case "thinking_delta":
                self._add_piece("thinking", delta, meter)
            case "input_json_delta":
                self._add_piece("partial_json", delta, meter)
            case "signature_delta" if get_text(delta, "signature") is not None:
                self.start["signature"] = meter.count_text(delta["signature"])
            case "citations_delta":
                self._citations.append(meter.count_value(read_fields(delta.get("citation"))))
            case "compaction_delta":
                fields = meter.count_value(delta)
                self.start.update((key, value) for key, value in fields.items() if key != "type")
        return ""

    def _add_piece(self, key: str, delta: dict[str, Any], meter: StreamMeter) -> str:
        piece = meter.count_text(get_text(delta, key) or "")
        if piece:
            self._pieces.setdefault(key, []).append(piece)
        return piece

    def build(self) -> dict[str, Any]:
        block = dict(self.start)
        for key, pieces in self._pieces.items():
            if key == "partial_json":
                text = "".join(pieces)
                parsed = parse_object(text)
                block["input"] = text if parsed is None else parsed
            else:
                block[key] = "".join((get_text(block, key) or "", *pieces))
        if self._citations:
            first = block.get("citations")
            block["citations"] = [*(first if type(first) is list else ()), *self._citations]
        return block


class AnthropicStream:
    """Collects message events of Anthropic."""

    def __init__(self) -> None:
        self.complete = False
        self._meter = StreamMeter()
        self._message: dict[str, Any] | None = None
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _AnthropicBlock] = {}
        self._text_pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._text_pieces)

    def add(self, event: dict[str, Any]) -> None:
        kind = get_text(event, "type")
        if kind == "message_start":
            self._start_message(require_fields(event.get("message"), "'message'"))
        elif self._message is None:
            reason = f"the stream starts with {kind!r}, not with 'message_start'"
            raise InvalidArgument(argument="event", reason=reason)
        elif kind == "message_stop":
            self.complete = True
        elif kind == "message_delta":
            delta = read_fields(event.get("delta")) or {}
            self._message.update((key, value) for key, value in delta.items() if value is not None)
            self._update_usage(event.get("usage"))
        else:
            self._add_block_event(event, kind or "")

    def _start_message(self, message: dict[str, Any]) -> None:
        if self._message is not None:
            raise InvalidArgument(argument="event", reason="a second message starts: use a new Deltas for it")
        self._message = dict(message)
        self._update_usage(message.get("usage"))
        for block in read_list(message.get("content"), "'content'"):
            self._start_block(len(self._blocks), block)

    def _update_usage(self, usage: object) -> None:
        """Update the usage. Figures are totals: a later one replaces an earlier one."""
        self._usage.update((key, value) for key, value in (read_fields(usage) or {}).items() if value is not None)

    def _add_block_event(self, event: dict[str, Any], kind: str) -> None:
        index = read_index(event, "index")
        if kind == "content_block_start":
            self._start_block(len(self._blocks) if index is None else index, event.get("content_block"))
            return
        block = self._blocks.get(-1 if index is None else index)
        if block is None:
            raise InvalidArgument(argument="event", reason=f"{kind!r} is for a block that did not start")
        if kind == "content_block_stop":
            block.is_stopped = True
        else:
            self._add_text(block.add(read_fields(event.get("delta")) or {}, self._meter))

    def _start_block(self, index: int, start: object) -> None:
        block = _AnthropicBlock(self._meter.count_value(require_fields(start, "a content block")))
        self._blocks[index] = block
        self._add_text(get_text(block.start, "text") or "")

    def _add_text(self, text: str) -> None:
        if text:
            self._text_pieces.append(text)

    def response(self) -> dict[str, Any]:
        return self._build_reply([self._blocks[index].build() for index in sorted(self._blocks)])

    def partial(self) -> dict[str, Any]:
        if get_text(self._message or {}, "stop_reason"):  # the reply is complete, only the end of the stream is missing
            return self.response()
        content: list[dict[str, Any]] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            is_complete = block.is_stopped and block.kind in ("tool_use", "thinking", "redacted_thinking")
            if is_complete or (block.kind == "text" and block.build().get("text")):
                content.append(block.build())
        while content and content[-1]["type"] in ("thinking", "redacted_thinking"):  # refused without the next block
            content.pop()
        return {**self._build_reply(content), "stop_reason": "partial"}

    def _build_reply(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        header = {"type": "message", "role": "assistant", "stop_reason": None, **(self._message or {})}
        return {**header, "content": content, "usage": self._usage}
