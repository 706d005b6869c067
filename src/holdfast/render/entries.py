"""The parts of a message for a renderer: what every provider can show, in its shell, and what is the provider's own.
Calls with their results, and the ids of calls.

The reverse of `holdfast.providers.parts`: a shell and the part behind it make the provider's block again. A shell fits
the part that it was taken from; before another one, as when a line of text replaces an image, it is ignored.

Laws: a call is shown with its one result, in the same group, or not at all. An id is given once, to the first that
claims it, so that a later message never changes an earlier rendering.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from holdfast import codec
from holdfast.conversion import is_finite, parse_unstorable_object
from holdfast.core.history.previews import find_magic_type
from holdfast.model.content import BlobRef, Body, Data, File, Image, Json, Opaque, Part, Text, ToolCall, ToolResult
from holdfast.model.history.handles import piece_id
from holdfast.model.history.views import HistoryView
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.providers.fields import BEDROCK, GOOGLE, LITELLM, OPENAI
from holdfast.providers.openai import CALLS
from holdfast.text.fence import CLOSING, OPENING, SEPARATOR, fence_texts, remove_tag, remove_tag_from_parts

NO_BODIES: Mapping[str, bytes] = types.MappingProxyType({})
CALL_SHELLS = CALLS | {"tool_use", "function", "custom", "toolUse"}
"""The shells of calls: in a response and of Gemini, of Anthropic, of chat, and of Bedrock."""
_SHELL_PARTS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("text", "input_text", "output_text", "refusal", "citationsContent", "guardContent"), (Text, Body)),
    **dict.fromkeys(("image", "image_url", "input_image"), (Image,)),
    **dict.fromkeys(("document", "file", "input_file"), (File,)),
}
"""The parts that a shell of this type was taken from."""
PDF = "application/pdf"
IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""The images that every provider can view."""
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
_URL_CHARS = 200
_ID_PATTERNS = {
    "openai": re.compile(r"[a-zA-Z0-9_-]{1,40}"),
    "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "bedrock": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
}
_OWN_BEDROCK_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_OWN_NAMES = {
    BEDROCK: re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    GOOGLE: re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"),
}
"""The names of tools that a provider accepts from its own models, which write others too."""
_NAME_ESCAPES = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_CHARS = 64


def may_read(reader: str, issuer: str) -> bool:
    """Whether the parts of an issuer go to a reader: its own, and OpenAI's to LiteLLM, which speaks its format."""
    return reader == issuer or (reader == LITELLM and issuer == OPENAI)


class ShownPart(NamedTuple):
    """A part that every provider can show, and the shell of its own provider."""

    part: Text | Data | Body | Image | File
    shell: dict[str, Any]
    handle: str


class OwnBlock(NamedTuple):
    """A block or item as its issuer made it; it has a type."""

    block: dict[str, Any]
    handle: str


class MessageShell(NamedTuple):
    """The shell of a whole message, or of a whole result."""

    shell: dict[str, Any]


class CallMark(NamedTuple):
    """The position of a call, with its fields beside name, arguments and id."""

    shell: dict[str, Any]


class ForeignPart(NamedTuple):
    """A part of another issuer, or one whose body is missing."""

    issuer: str
    handle: str

    @property
    def line(self) -> str:
        return f"[{self.handle}: a part for {self.issuer} alone, not shown]"


RenderEntry: TypeAlias = ShownPart | OwnBlock | MessageShell | CallMark | ForeignPart


def content_entries(message: Message, issuer: str, bodies: Mapping[str, bytes]) -> list[RenderEntry]:
    """The content of a message for this issuer. The issuer's own parts of a reply go back together or not at all: a
    provider that signs its parts refuses half of them."""
    before = len(message.tool_results)
    handles = [piece_id(message.seq, before + number) for number in range(len(message.content))]
    content = _build_entries(message.content, handles, issuer, bodies)
    if message.role != "assistant":
        return [_clear_entry(entry) for entry in content]
    missing = any(type(entry) is ForeignPart and may_read(issuer, entry.issuer) for entry in content)
    if not missing:
        return content
    return [
        ShownPart(entry.part, {}, entry.handle) if type(entry) is ShownPart else entry
        for entry in content
        if type(entry) is ShownPart or (type(entry) is ForeignPart and not may_read(issuer, entry.issuer))
    ]


def result_entries(message: Message, number: int, issuer: str, bodies: Mapping[str, bytes]) -> list[RenderEntry]:
    """The content of one of the results of a message."""
    parts = message.tool_results[number].content
    content = _build_entries(parts, [piece_id(message.seq, number)] * len(parts), issuer, bodies)
    return [_clear_entry(entry) for entry in content]


def _build_entries(
    parts: Sequence[Part], handles: Sequence[str], issuer: str, bodies: Mapping[str, bytes]
) -> list[RenderEntry]:
    built: list[RenderEntry] = []
    waiting: dict[str, Any] = {}
    for part, handle in zip(parts, handles, strict=True):
        if not isinstance(part, Opaque):
            fits = isinstance(part, _SHELL_PARTS.get(waiting.get("type", ""), ()))
            built.append(ShownPart(part, waiting if fits else {}, handle))
            waiting = {}
            continue
        waiting = {}
        is_own = may_read(issuer, part.issuer)
        block = _decode_block(part, bodies) if is_own or isinstance(part.body, str) else None
        if block is not None and not is_own:
            if isinstance(block.get("around"), dict):
                continue  # fields around something that is shown without them
            block = None
        if block is None:
            built.append(ForeignPart(part.issuer, handle))
            continue
        shell = block.get("around")
        if not isinstance(shell, dict):
            built.append(OwnBlock(block, handle))
        elif shell.get("type") in _SHELL_PARTS:
            waiting = shell
        else:
            built.append(CallMark(shell) if shell.get("type") in CALL_SHELLS else MessageShell(shell))
    return _clear_entries(built)


def _clear_entries(content: list[RenderEntry]) -> list[RenderEntry]:
    """The entries without the tag of the fence in any text, or across several."""
    texts_at = [
        (at, entry)
        for at, entry in enumerate(content)
        if type(entry) is ShownPart and isinstance(entry.part, Text | Data | Body)
    ]
    texts = [text_in(entry.part) for _, entry in texts_at if isinstance(entry.part, Text | Data | Body)]
    for (at, entry), before, after in zip(texts_at, texts, remove_tag_from_parts(texts), strict=True):
        if after != before:
            content[at] = ShownPart(Text(after), entry.shell, entry.handle)
    return content


def _clear_entry(entry: RenderEntry) -> RenderEntry:
    """An entry of a user or a tool, without the tag in what only its provider knows: a tool quotes others there too. What a
    model wrote stays as it is, since providers sign it."""
    match entry:
        case ShownPart(part, shell, handle) if shell:
            return ShownPart(part, _clear_fields(shell), handle)
        case OwnBlock(block, handle):
            return OwnBlock(_clear_fields(block), handle)
        case MessageShell(shell):
            return MessageShell(_clear_fields(shell))
        case _:
            return entry


def _clear_fields(fields: dict[str, Any]) -> dict[str, Any]:
    texts = iter(remove_tag_from_parts(list(_texts_in(fields))))
    cleared: dict[str, Any] = _replace_texts(fields, texts)
    return cleared


def _texts_in(value: object) -> Iterator[str]:
    """The texts of a block, in order, without its types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != "type":
                yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)


def _replace_texts(value: Any, texts: Iterator[str]) -> Any:
    """A copy of a value with these texts, in the order of `_texts_in`, and no tag in a name."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, dict):
        return {remove_tag(key): item if key == "type" else _replace_texts(item, texts) for key, item in value.items()}
    return [_replace_texts(item, texts) for item in value] if isinstance(value, list) else value


def _decode_block(part: Opaque, bodies: Mapping[str, bytes]) -> dict[str, Any] | None:
    """The object of an opaque part; None if it is not one, or its body is missing."""
    body = bodies.get(part.body.digest) if isinstance(part.body, BlobRef) else part.body.encode()
    if body is None:
        return None
    try:
        block = codec.decode_object(body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    shell = block.get("around")
    if shell is None:
        return block if isinstance(block.get("type"), str) else None
    return block if isinstance(shell, dict) and isinstance(shell.get("type", shell.get("role")), str) else None


def text_in(part: Text | Data | Body) -> str:
    """The text of a part: data as compact JSON; of a stored body, the preview."""
    match part:
        case Text(text) | Body(preview=text):
            return text
        case Data(value):
            return codec.encode(value).decode()


def describe_media(part: Image | File, handle: str) -> str:
    """The line for an image or a file that cannot be shown."""
    if isinstance(part, Image) and part.ref is None:
        return f"[{handle}: image at {remove_tag(part.url or '')[:_URL_CHARS]}]"
    noun = f'file "{remove_tag(part.name)}"' if isinstance(part, File) and part.name else type(part).__name__.lower()
    ref = part.ref
    assert ref is not None, "a file has one, and so has an image without a URL"
    kind = f", {ref.media_type}" if ref.media_type else ""
    return f"[{handle}: {noun}{kind}, {ref.size} bytes, not shown]"


def image_bytes(part: Image, bodies: Mapping[str, bytes]) -> tuple[str, bytes] | None:
    """The media type and the bytes of an image, if its kind is shown. The bytes decide, not the label: providers refuse
    a label that does not fit the bytes."""
    data = bodies.get(part.ref.digest) if part.ref is not None else None
    if data is None or part.ref is None:
        return None
    kind = _sniff_media_type(data) or part.ref.media_type
    return (kind, data) if kind in IMAGES else None


def file_bytes(part: File, bodies: Mapping[str, bytes]) -> tuple[str, bytes] | None:
    """The media type and the bytes of a file, if they are available; not of an image."""
    data = bodies.get(part.ref.digest)
    if data is None:
        return None
    kind = part.ref.media_type or _sniff_media_type(data) or "text/plain"
    return None if kind in IMAGES else (kind, data)


def _sniff_media_type(data: bytes) -> str | None:
    kind = find_magic_type(data)
    return kind if kind == PDF or kind in IMAGES else None


def fetchable_url(url: str | None) -> str | None:
    """The URL, if a provider can fetch it."""
    return url if url is not None and url.startswith(("https://", "http://")) else None


def decode_text(kind: str, data: bytes) -> str | None:
    """The text of a file that is text."""
    plain = kind.partition(";")[0].strip().lower()
    if not plain.startswith("text/") and not plain.endswith(("+json", "+xml")) and plain not in _TEXT_TYPES:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else remove_tag(text)


def bodies_of(history: HistoryView, issuer: str | None = None) -> tuple[BlobRef, ...]:
    """The bodies that a rendering of this history needs, for images, files and the issuer's own parts: each once, in
    order."""
    refs: dict[str, BlobRef] = {}
    for message in history.messages:
        for part in (*message.content, *(part for result in message.tool_results for part in result.content)):
            match part:
                case Image(ref=BlobRef() as ref) | File(ref=BlobRef() as ref):
                    refs.setdefault(ref.digest, ref)
                case Opaque(issuer=whose, body=BlobRef() as ref) if issuer is not None and may_read(issuer, whose):
                    refs.setdefault(ref.digest, ref)
    return tuple(refs.values())


def tail_text(history: HistoryView) -> str:
    """The text of the application for this call, in its fence."""
    return SEPARATOR.join(fence_texts(text for text in history.tail if text not in (OPENING, CLOSING)))


# Calls and their results


class CallAnswer(NamedTuple):
    """A result, the message that it came in, and which of its results it is."""

    message: Message
    number: int

    @property
    def result(self) -> ToolResult:
        return self.message.tool_results[self.number]


class AnsweredMessage(NamedTuple):
    """A message, and the answers to its calls in the order in which they came."""

    message: Message
    answers: dict[str, CallAnswer]


def pair_answers(group: MessageGroup) -> Iterator[AnsweredMessage]:
    """The messages of a group, each with the results of its calls."""
    answers: dict[str, CallAnswer] = {}
    for message in group.messages:
        for number, result in enumerate(message.tool_results):
            answers.setdefault(result.tool_call_id, CallAnswer(message, number))
    for message in group.messages:
        if not message.erased:
            calls = {call.id for call in message.tool_calls} if message.role == "assistant" else set()
            yield AnsweredMessage(message, {call: answer for call, answer in answers.items() if call in calls})


class AnsweredCalls:
    """The calls of a message that have a result, in the order in which they were made."""

    def __init__(self, turn: AnsweredMessage) -> None:
        self._left = list(turn.message.tool_calls)
        self._answers = turn.answers

    def take_up_to(self, shell: dict[str, Any]) -> Iterator[tuple[ToolCall, dict[str, Any]]]:
        """The call of this shell, with it; before it, earlier calls without a shell of their own."""
        name = shell.get("call_id", shell.get("id"))
        numbers = [number for number, call in enumerate(self._left) if call.provider_id == name is not None]
        last = numbers[0] if numbers else 0
        taken_calls, self._left = self._left[: last + 1], self._left[last + 1 :]
        for number, call in enumerate(taken_calls):
            if call.id in self._answers:
                yield call, shell if number == last else {}

    def take_rest(self) -> Iterator[ToolCall]:
        """The calls without a shell: they come last."""
        left, self._left = self._left, []
        yield from (call for call in left if call.id in self._answers)


class CallIds:
    """The id of a call for a provider: its own, if the provider accepts it and it is free; else the engine's."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._used: set[str] = set()
        self._ids: dict[str, str] = {}

    def give(self, message: Message, call: ToolCall) -> str:
        provider_id = call.provider_id
        number, chosen = 1, call.id
        if provider_id is not None and provider_id not in self._used and self._is_usable(message, provider_id):
            chosen = provider_id
        while chosen in self._used:
            number += 1
            chosen = f"{call.id}_{number}"
        self._used.add(chosen)
        self._ids[call.id] = chosen
        return chosen

    def of(self, call: str) -> str:
        """The id that was given to a call."""
        return self._ids[call]

    def _is_usable(self, message: Message, provider_id: str) -> bool:
        """Some systems that speak OpenAI's format put a signature into the id: their own id goes back as it is."""
        if self._issuer == OPENAI and is_from(message, OPENAI):
            return True
        if self._issuer == BEDROCK and is_from(message, BEDROCK):
            return _OWN_BEDROCK_ID.fullmatch(provider_id) is not None
        return _ID_PATTERNS[self._issuer].fullmatch(provider_id) is not None


def is_from(message: Message, issuer: str) -> bool:
    return message.source is not None and message.source.provider == issuer


def tool_name(message: Message, call: ToolCall, issuer: str) -> str:
    """The name of the tool, in characters that every provider accepts, unless the provider wrote it and accepts it."""
    own = _OWN_NAMES.get(issuer)
    if is_from(message, issuer) and (own is None or own.fullmatch(call.name)):
        return call.name
    return _NAME_ESCAPES.sub("_", call.name)[:_NAME_CHARS]


def copy_object(value: dict[str, Any]) -> dict[str, Any]:
    """A copy of an object, which the caller may change."""
    return codec.decode_object(codec.encode(value))


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, which every provider accepts. Other text, from a call that broke off or of a tool
    that takes text, is under "input". Keys and numbers are unchanged. The tag of the fence is removed."""
    text = _provider_text(call)
    if text is not None:
        arguments: dict[str, Any] = json.loads(text)
        if is_finite(arguments):
            return arguments
    return codec.decode_object(_canonical_arguments(call.args).encode())


def arguments_text(call: ToolCall) -> str:
    """The arguments as text: the provider's own text, if it is an object."""
    text = _provider_text(call)
    return _canonical_arguments(call.args) if text is None else text


def _canonical_arguments(args: Json) -> str:
    return remove_tag(_encode_arguments(args))


def _encode_arguments(args: Json) -> str:
    fields = args if isinstance(args, dict) else {"input": args} if args else {}
    return codec.encode(fields).decode()


def _provider_text(call: ToolCall) -> str | None:
    """The provider's own text of an object, unless the tag of the fence is in it, in any spelling."""
    if isinstance(call.args, dict):
        text, read = call.raw, _encode_arguments(call.args)
    elif isinstance(call.args, str) and (parsed := parse_unstorable_object(call.args)) is not None:
        text, read = call.args, json.dumps(parsed, ensure_ascii=False)
    else:
        return None
    return text if text is not None and remove_tag(text) == text and remove_tag(read) == read else None
