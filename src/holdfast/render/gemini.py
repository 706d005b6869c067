"""Gemini's contents.

Laws: roles alternate, as `alternation` says. Responses come right behind the calls, in their order and under their names,
since a call may have no id. A signature goes back on the part that it came on. A call without one, as from another
provider, has the value with which Gemini 3 accepts it.
"""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Mapping
from typing import Any

from holdfast.model.content import Data, File, Image, ToolCall
from holdfast.model.history.views import HistoryView
from holdfast.model.sessions.messages import Message
from holdfast.providers.fields import GOOGLE
from holdfast.render import entries
from holdfast.render.alternation import AlternatingMessages, Block
from holdfast.render.entries import (
    NO_BODIES,
    AnsweredMessage,
    CallAnswer,
    OwnBlock,
    ShownPart,
    arguments_object,
    tool_name,
)
from holdfast.render.openai import file_text
from holdfast.text.fence import remove_tag

IMAGES = frozenset({"image/heic", "image/heif", "image/jpeg", "image/png", "image/webp"})
"""The images that Gemini can view."""
MEDIA = ("application/pdf", "audio/", "video/")
"""The starts of the types of other files that it can view."""
UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
"""The signature of a call that Gemini did not make."""
NAME_CHARS = 64
"""The longest name of a tool that another provider named."""
EXACT_INTEGER = 1 << 53
"""Gemini reads numbers as floats: a larger one would be shown as another one, so it goes as text."""
_REPLY_KINDS = frozenset({"text", "function_call", "function_response"})
"""Parts that are never kept as they are."""
_CALL_FIELDS = frozenset({"type", "id"})
_UNSIGNED_MODELS = re.compile(r"gemini-(?:1|2)(?![0-9])")


def needs_signatures(model: str | None) -> bool:
    """Whether a model refuses calls without a signature: those before Gemini 3 do not."""
    return model is None or _UNSIGNED_MODELS.search(model) is None


def render_gemini(
    history: HistoryView, bodies: Mapping[str, bytes] = NO_BODIES, *, signed: bool = True
) -> dict[str, Any]:
    """`system_instruction` (or None) and `contents` for `client.models.generate_content`: the former is a field of its
    `config`. `bodies` has the bytes of images and files by their digest. With `signed`, the first call of a reply has a
    signature, also if Gemini did not make it."""
    built = _GeminiContents(bodies, signed=signed)
    built.add_history(history)
    built.add_tail(history)
    texts = (text for message in history.system for text in built.system_texts(message))
    return {"system_instruction": "\n\n".join(texts) or None, "contents": built.messages}


class _GeminiContents(AlternatingMessages):
    issuer = GOOGLE
    reply_role = "model"
    content_field = "parts"

    def __init__(self, bodies: Mapping[str, bytes], *, signed: bool) -> None:
        super().__init__(bodies)
        self._signed = signed
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def text_block(self, text: str) -> Block:
        return {"text": text}

    def shown_text(self, text: str, shell: dict[str, Any]) -> list[Block]:
        """An empty text is refused, except with a signature."""
        outer = _without_type(shell) if shell.get("type") == "text" else {}
        return [{**outer, "text": text}] if text.strip() or "thought_signature" in outer else []

    def shown_media(self, part: Image | File, shell: dict[str, Any], *, reply: bool) -> list[Block]:
        if reply and not shell:
            return []  # a picture of another model is no part of a reply
        if isinstance(part, Image) and part.ref is None:
            return _linked_image(part.url, _without_type(shell))
        ref = part.ref
        data = self._bodies.get(ref.digest) if ref is not None else None
        if data is None or ref is None:
            return []
        typed = entries.image_bytes(Image(ref), self._bodies)
        kind = typed[0] if typed is not None else (ref.media_type or "").partition(";")[0].strip().lower()
        if isinstance(part, File) and typed is None:
            typed = entries.file_bytes(part, self._bodies)
            text = entries.decode_text(*typed) if typed is not None else None
            if text is not None:
                return [self.text_block(file_text(part, text))] if text.strip() else []
            kind = typed[0] if typed is not None else kind
        if kind not in IMAGES and not kind.startswith(MEDIA):
            return []
        name = part.name if isinstance(part, File) and not reply else None
        label = [self.text_block(f'File "{remove_tag(name)}":')] if name else []
        blob = {"mime_type": kind, "data": base64.b64encode(data).decode()}
        return [*label, {**_without_type(shell), "inline_data": blob}]

    def own_reply_blocks(self, block: dict[str, Any]) -> list[Block]:
        return [] if block["type"] in _REPLY_KINDS else [_without_type(block)]

    def own_input_blocks(self, block: dict[str, Any]) -> list[Block]:
        return [] if block["type"] in _REPLY_KINDS or block["type"] == "thought" else [_without_type(block)]

    def call_block(self, message: Message, call: ToolCall, shell: dict[str, Any]) -> Block:
        outer = shell if shell.get("type") == "function_call" else {}
        name = tool_name(message, call, GOOGLE)
        self._names[call.id] = name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"[:NAME_CHARS]
        fields: dict[str, Any] = {"name": self._names[call.id], "args": arguments_object(call)}
        given = outer.get("id")
        if isinstance(given, str) and given:
            self._ids[call.id] = given
            fields["id"] = given
        return {**{key: item for key, item in outer.items() if key not in _CALL_FIELDS}, "function_call": fields}

    def finish_reply(self, blocks: list[Block]) -> list[Block]:
        first = next((block for block in blocks if "function_call" in block), None)
        if first is not None and self._signed:
            first.setdefault("thought_signature", UNSIGNED)
        if first is None and all(block.get("thought") is True or block.get("text") == "" for block in blocks):
            return []  # thoughts alone are no reply
        return blocks

    def result_blocks(self, turn: AnsweredMessage) -> list[Block]:
        """The responses in the order of their calls; behind them, what a response cannot have."""
        responses: list[Block] = []
        beside: list[Block] = []
        for call in turn.message.tool_calls:
            answer = turn.answers.get(call.id)
            if answer is None:
                continue
            response, media = self._read_answer(answer)
            identifier = {"id": self._ids[call.id]} if call.id in self._ids else {}
            name = self._names[call.id]
            responses.append({"function_response": {"name": name, "response": response, **identifier}})
            if media:
                beside += [self.text_block(f"From the result of {name}:"), *media]
        return responses + beside

    def _read_answer(self, answer: CallAnswer) -> tuple[dict[str, Any], list[Block]]:
        content = [entry for entry in self.result_entries(answer) if not isinstance(entry, OwnBlock)]
        shown = [entry.part for entry in content if isinstance(entry, ShownPart)]
        failed = answer.result.is_error
        if len(shown) == 1 and isinstance(shown[0], Data) and isinstance(shown[0].value, dict) and not failed:
            value = shown[0].value
            if value and _is_exact(value):
                return entries.copy_object(value), []
        texts: list[str] = []
        media: list[Block] = []
        for entry in content:
            for block in self.input_blocks(entry):
                if "text" in block and "thought_signature" not in block:
                    texts.append(block["text"])
                else:
                    media.append(block)
        text = "\n".join(texts)
        if failed:
            return {"error": text or "Error"}, media
        return {"output": text or ("(shown below)" if media else "")}, media


def _without_type(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "type"}


def _linked_image(url: str | None, outer: dict[str, Any]) -> list[Block]:
    """An image by its address, if Gemini can fetch it. It must be told what it is."""
    if url is None or not url.startswith(("https://", "http://", "gs://")):
        return []
    kind = mimetypes.types_map.get(f".{remove_tag(url).partition('?')[0].rpartition('.')[2].lower()}", "")
    return [{**outer, "file_data": {"file_uri": url, "mime_type": kind}}] if kind in IMAGES else []


def _is_exact(value: object) -> bool:
    """Whether every number of a value stays the same as a float."""
    if isinstance(value, dict):
        return all(map(_is_exact, value.values()))
    if isinstance(value, list):
        return all(map(_is_exact, value))
    return isinstance(value, bool) or not isinstance(value, int) or -EXACT_INTEGER <= value <= EXACT_INTEGER
