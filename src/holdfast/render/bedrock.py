"""The messages of Bedrock's Converse API, with cache points.

Laws: roles alternate, as `alternation` says. No text is blank. A document has a name that is accepted and that no other
has, with a line before it that has its real one. At most four cache points, each right behind a block that may have one;
none for a model that does not cache.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from holdfast.model.content import File, Image, ToolCall
from holdfast.model.history.views import HistoryView
from holdfast.model.names import check_whole
from holdfast.model.sessions.messages import Message
from holdfast.providers.bedrock import BLOB_FIELDS, DOCUMENT_TYPES, FREE_FIELDS
from holdfast.providers.fields import BEDROCK
from holdfast.render import entries
from holdfast.render.alternation import AlternatingMessages, Block, Position
from holdfast.render.anthropic import BREAKPOINTS
from holdfast.render.entries import (
    NO_BODIES,
    AnsweredMessage,
    CallAnswer,
    CallIds,
    MessageShell,
    OwnBlock,
    arguments_object,
    tool_name,
)
from holdfast.render.openai import file_text
from holdfast.text.fence import remove_tag

IMAGE_BYTES = 3_750_000
"""The largest image that is accepted."""
DOCUMENT_BYTES = 4_500_000
"""The largest document that is accepted."""
NO_OUTPUT = "(no output)"
"""The content of a result that has none: an empty one is refused."""
SYSTEM = -1
"""The number of the system messages, among those of messages."""
MARKABLE_BLOCKS = frozenset({"text", "image", "document", "toolUse", "toolResult"})
"""The blocks that a cache point may follow."""
RESULT_BLOCKS = frozenset({"text", "video", "searchResult", "image", "document"})
"""The blocks that a result may have."""
_FORMATS = {media_type: form for form, media_type in DOCUMENT_TYPES.items()}
_NAME_ESCAPES = re.compile(r"[^a-zA-Z0-9\-()\[\]]+")
_NAME_CHARS = 180
_CACHING_MODELS = re.compile(r"anthropic\.claude-(?:3-7-|3-5-haiku-|[a-z]+-[a-z0-9])|amazon\.nova-")
_OLD_MODELS = re.compile(r"claude-(?:instant|v\d)")
_STATUS_MODELS = re.compile(r"anthropic\.claude|amazon\.nova")


def caches_prompts(model: str | None) -> bool:
    """Whether a model is known to accept cache points; others refuse them."""
    return model is not None and _CACHING_MODELS.search(model) is not None and _OLD_MODELS.search(model) is None


def marks_errors(model: str | None) -> bool:
    """Whether a model accepts the status of a result; others refuse it."""
    return model is None or _STATUS_MODELS.search(model) is not None


def render_bedrock(
    history: HistoryView,
    bodies: Mapping[str, bytes] = NO_BODIES,
    breakpoints: int = BREAKPOINTS,
    *,
    statuses: bool = True,
) -> dict[str, Any]:
    """`system` and `messages` for `client.converse`. `bodies` has the bytes of images and files by their digest.

    Cache points are where those of Anthropic are: at the end of the history, at the end of the system messages, at the
    last boundary, and before the last reply. With fewer `breakpoints` the first of these are set; pass 0 for a model that
    does not cache. Without `statuses`, the text of a failed result says that it is an error."""
    check_whole("breakpoints", breakpoints, 0, BREAKPOINTS)
    built = _ConverseMessages(bodies, statuses=statuses)
    built.add_history(history)
    system: list[Block] = [{"text": text} for message in history.system for text in built.system_texts(message)]
    behind_system = [(SYSTEM, len(system))] if system else []
    found = [built.find_point(end) for end in (built.end(), built.boundary, built.last_request)]
    ends = [*found[0], *behind_system, *found[1], *found[2]]
    for number, at in sorted({*list(dict.fromkeys(ends))[:breakpoints]}, reverse=True):
        blocks = system if number == SYSTEM else built.messages[number]["content"]
        blocks.insert(at, {"cachePoint": {"type": "default"}})
    built.add_tail(history)
    return {"system": system, "messages": built.messages}


class _ConverseMessages(AlternatingMessages):
    issuer = BEDROCK
    reply_role = "assistant"
    content_field = "content"

    def __init__(self, bodies: Mapping[str, bytes], *, statuses: bool) -> None:
        super().__init__(bodies)
        self._statuses = statuses
        self._ids = CallIds(BEDROCK)
        self._document_names: set[str] = set()

    def find_point(self, end: Position) -> list[Position]:
        """The last position up to this one that a cache point may have, if there is one."""
        for number in range(end[0], -1, -1):
            content = self.messages[number]["content"]
            for at in range(end[1] if number == end[0] else len(content), 0, -1):
                if not MARKABLE_BLOCKS.isdisjoint(content[at - 1]):
                    return [(number, at)]
        return []

    def text_block(self, text: str) -> Block:
        return {"text": text}

    def shown_text(self, text: str, shell: dict[str, Any]) -> list[Block]:
        if not text.strip():  # refused
            return []
        fields = {key: value for key, value in shell.items() if key != "type"}
        match shell.get("type"):
            case "citationsContent":
                return [{"citationsContent": {**fields, "content": [{"text": text}]}}]
            case "guardContent":
                return [{"guardContent": {"text": {**fields, "text": text}}}]
            case _:
                return [self.text_block(text)]

    def shown_media(self, part: Image | File, shell: dict[str, Any], *, reply: bool) -> list[Block]:
        if reply:
            return []
        if isinstance(part, Image):
            return self._image_blocks(part)
        typed = entries.file_bytes(part, self._bodies)
        if typed is None:
            return self._image_blocks(Image(part.ref))
        text = entries.decode_text(*typed)
        if text is not None:
            return [self.text_block(file_text(part, text))] if text.strip() else []
        form = _FORMATS.get(typed[0].partition(";")[0].strip().lower())
        if form is None or not typed[1] or len(typed[1]) > DOCUMENT_BYTES:
            return []
        outer = {key: value for key, value in shell.items() if key != "type"} if shell.get("type") == "document" else {}
        document = {
            **outer,
            "format": form,
            "name": self._document_name(part.name or ""),
            "source": {"bytes": typed[1]},
        }
        return [self._document_label(part.name or ""), {"document": document}]

    def _image_blocks(self, part: Image) -> list[Block]:
        if part.ref is None:
            return _stored_image(part.url or "")
        typed = entries.image_bytes(part, self._bodies)
        if typed is None or not typed[1] or len(typed[1]) > IMAGE_BYTES:
            return []
        return [{"image": {"format": typed[0].removeprefix("image/"), "source": {"bytes": typed[1]}}}]

    def _document_label(self, name: str) -> Block:
        """The line before a document, with its real name. A document without a text is refused."""
        return self.text_block(f'File "{remove_tag(name)}":' if name else "File:")

    def _document_name(self, given: str) -> str:
        plain = _NAME_ESCAPES.sub(" ", remove_tag(given)).strip()[:_NAME_CHARS].strip() or "file"
        name, number = plain, 1
        while name in self._document_names:
            number += 1
            name = f"{plain} ({number})"
        self._document_names.add(name)
        return name

    def own_reply_blocks(self, block: dict[str, Any]) -> list[Block]:
        return [] if block["type"] in ("text", "cachePoint") else _own_block(block)

    def own_input_blocks(self, block: dict[str, Any]) -> list[Block]:
        closed = ("text", "cachePoint", "reasoningContent", "toolUse", "toolResult", "citationsContent")
        blocks = [] if block["type"] in closed else _own_block(block)
        document = blocks[0].get("document") if blocks else None
        if not isinstance(document, dict):
            return blocks
        name = str(document.get("name") or "")
        document["name"] = self._document_name(name)
        return [self._document_label(name), *blocks]

    def call_block(self, message: Message, call: ToolCall, shell: dict[str, Any]) -> Block:
        outer = shell if shell.get("type") == "toolUse" else {}
        fields = {key: value for key, value in outer.items() if key not in ("type", "id")}
        use = {"toolUseId": self._ids.give(message, call), "name": tool_name(message, call, BEDROCK)}
        return {"toolUse": {**fields, **use, "input": arguments_object(call)}}

    def finish_reply(self, blocks: list[Block]) -> list[Block]:
        while blocks and "reasoningContent" in blocks[-1]:  # refused without what follows it
            blocks.pop()
        return blocks

    def result_blocks(self, turn: AnsweredMessage) -> list[Block]:
        return [{"toolResult": self._result(call, answer)} for call, answer in turn.answers.items()]

    def _result(self, call: str, answer: CallAnswer) -> dict[str, Any]:
        content = self.result_entries(answer)
        shells = (entry.shell for entry in content if isinstance(entry, MessageShell))
        outer = next((shell for shell in shells if shell.get("type") == "toolResult"), {})
        blocks = [block for entry in content for block in self._result_blocks(entry)]
        failed = answer.result.is_error
        if not blocks:
            blocks = [self.text_block("Error" if failed else NO_OUTPUT)]
        elif failed and not self._statuses:
            first = blocks[0].get("text", "")
            said = first[:5].casefold() == "error"
            blocks = blocks if said else [self.text_block(f"Error: {first}".rstrip(": ")), *blocks[1 if first else 0 :]]
        fields = {key: value for key, value in outer.items() if key != "type"}
        result = {**fields, "toolUseId": self._ids.of(call), "content": blocks}
        return {**result, "status": "error"} if failed and self._statuses else result

    def _result_blocks(self, entry: Any) -> list[Block]:
        blocks = self.input_blocks(entry)
        if isinstance(entry, OwnBlock):
            return [block for block in blocks if not RESULT_BLOCKS.isdisjoint(block)]
        guarded = [block["guardContent"]["text"]["text"] if "guardContent" in block else "" for block in blocks]
        return [{"text": text} if text else block for block, text in zip(blocks, guarded, strict=True)]


def _own_block(block: dict[str, Any]) -> list[Block]:
    """A block as Bedrock made it: its only field, with bytes where they were."""
    kind = block["type"]
    return [{kind: restore_bytes(block[kind])}] if kind in block else []


def restore_bytes(value: Any, key: str = "") -> Any:
    """A value from JSON with bytes where Bedrock has them."""
    if isinstance(value, dict):
        return {name: item if name in FREE_FIELDS else restore_bytes(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [restore_bytes(item) for item in value]
    if key in BLOB_FIELDS and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            return value
    return value


def _stored_image(url: str) -> list[Block]:
    """An image in S3, which Bedrock can read. It must be told its format."""
    ending = url.rpartition(".")[2].lower()
    form = {"jpg": "jpeg"}.get(ending, ending)
    if not url.startswith("s3://") or f"image/{form}" not in entries.IMAGES or len(url) > 1_024:
        return []
    return [{"image": {"format": form, "source": {"s3Location": {"uri": url}}}}]
