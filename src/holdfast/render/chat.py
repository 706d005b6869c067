"""OpenAI's chat dialect.

A tool message holds text alone there: the images and files of results stand in one user message behind the group.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from holdfast.context.fence import CLOSING, JOINT, OPENING, cleared, fenced
from holdfast.model.content import Body, Data, File, Image, Text, ToolCall
from holdfast.model.messages import History, Message, Summary
from holdfast.providers.messages import OPENAI_FIELDS
from holdfast.providers.plain import OPENAI
from holdfast.render import entries
from holdfast.render.entries import NO_BODIES, Around, Entry, Foreign, Mark, Own, Shown
from holdfast.render.turns import Answer, Calls, Ids, Turn, arguments_of, name_of, turns

_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
"""What a speaker may be called; any other name is refused."""

PARTS = frozenset({"file", "image_url", "input_audio"})
"""The parts beside text that a user's message may hold."""


def openai_chat(history: History, bodies: Mapping[str, bytes] = NO_BODIES) -> list[dict[str, Any]]:
    """The `messages` of `client.chat.completions.create`. `bodies` has the bytes of images and files by their digest."""
    made = _Chat(bodies)
    for message in history.system:
        made.said(message)
    for item in history.items:
        if isinstance(item, Summary):
            made.messages.append({"role": "user", "content": cleared(item.shown)})
        else:
            for turn in turns(item):
                made.turn(turn)
    if tail := tail_of(history):
        made.messages.append({"role": "developer", "content": tail})
    return made.messages


def tail_of(history: History) -> str:
    """What the application tells at this call, in its fence, whoever added to it."""
    return JOINT.join(fenced(each for each in history.tail if each not in (OPENING, CLOSING)))


class _Chat:
    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self.messages: list[dict[str, Any]] = []
        self._bodies = bodies
        self._ids = Ids(OPENAI)

    def turn(self, turn: Turn) -> None:
        if turn.message.role == "assistant":
            self._reply(turn)
        else:
            self.said(turn.message)
        beside: list[dict[str, Any]] = []
        names = {call.id: call.name for call in turn.message.tool_calls}
        for call, answer in turn.answers.items():
            shown = self._result(call, answer)
            if shown:
                beside += [text_part(f"From the result of {names[call]}, call {self._ids.of(call)}:"), *shown]
        if beside:
            self.messages.append({"role": "user", "content": beside})

    def said(self, message: Message) -> None:
        """A message of the system or a user."""
        about: dict[str, Any] = {}
        parts: list[dict[str, Any]] = []
        for entry in entries.content(message, OPENAI, self._bodies):
            if isinstance(entry, Around):
                about = _about(entry.shell)
            else:
                parts += self._part(entry, pictures=message.role != "system")
        if parts:
            role = "system" if message.role == "system" else "user"
            self.messages.append({"role": role, "content": folded(parts), **about})

    def _reply(self, turn: Turn) -> None:
        calls, about = Calls(turn), {}
        parts: list[dict[str, Any]] = []
        made: list[dict[str, Any]] = []
        for entry in entries.content(turn.message, OPENAI, self._bodies):
            match entry:
                case Around(shell):
                    about = _about(shell)
                case Mark(shell):
                    made += [self._call(turn.message, *each) for each in calls.up_to(shell)]
                case Shown():
                    parts += self._part(entry, pictures=False)
        made += [self._call(turn.message, call, {}) for call in calls.rest()]
        if not parts and not made and "audio" not in about:
            return
        message: dict[str, Any] = {"role": "assistant", "content": folded(parts) if parts else None, **about}
        if made:
            message["tool_calls"] = made
        self.messages.append(message)

    def _call(self, message: Message, call: ToolCall, shell: dict[str, Any]) -> dict[str, Any]:
        known = shell.get("type")
        kind = "custom" if known in ("custom", "custom_tool_call") and isinstance(call.args, str) else "function"
        said: dict[str, Any] = {"name": name_of(message, call, OPENAI)}
        if kind == "custom":
            said["input"] = cleared(str(call.args))
        else:
            said["arguments"] = arguments_of(call)
        outer = shell if known == kind else {}
        inner = outer.get(kind)
        return {
            **outer,
            "id": self._ids.give(message, call),
            "type": kind,
            kind: {**inner, **said} if isinstance(inner, dict) else said,
        }

    def _result(self, call: str, answer: Answer) -> list[dict[str, Any]]:
        """The tool message; returns what of the result has no place in it."""
        texts: list[dict[str, Any]] = []
        beside: list[dict[str, Any]] = []
        for entry in entries.result(answer.message, answer.number, OPENAI, self._bodies):
            for part in self._part(entry, pictures=True):
                (texts if part["type"] == "text" else beside).append(part)
        if beside and not texts:
            texts = [text_part("(shown below)")]
        if answer.result.is_error:
            texts = failed(texts)
        content = folded(texts) if texts else ""
        self.messages.append({"role": "tool", "tool_call_id": self._ids.of(call), "content": content})
        return beside

    def _part(self, entry: Entry, *, pictures: bool) -> list[dict[str, Any]]:
        match entry:
            case Shown(Text() | Data() | Body() as part, shell):
                text = entries.text_in(part)
                if not text:
                    return []
                if shell.get("type") == "refusal" and not pictures:
                    return [{**shell, "refusal": text}]
                return [{**(shell if shell.get("type") == "text" else {}), **text_part(text)}]
            case Shown(Image() | File() as part, shell, handle):
                shown = self._image(part, shell) if isinstance(part, Image) else self._file(part, shell)
                return [shown if pictures and shown is not None else text_part(entries.line(part, handle))]
            case Own(block) if block["type"] in PARTS and pictures:
                return [block]
            case Own(block):
                return [text_part(f"[a part of type {block['type']}, not shown]")] if pictures else []
            case Foreign():
                return [text_part(entry.line)] if pictures else []
            case _:
                return []

    def _image(self, part: Image, shell: dict[str, Any]) -> dict[str, Any] | None:
        url = image_url(part, self._bodies)
        if url is None:
            return None
        outer = shell if shell.get("type") == "image_url" else {}
        return {**outer, "type": "image_url", "image_url": {**detail_of(shell), "url": url}}

    def _file(self, part: File, shell: dict[str, Any]) -> dict[str, Any] | None:
        found = entries.file_of(part, self._bodies)
        if found is None:
            return self._image(Image(part.ref), {})
        text = entries.as_text(*found)
        if text is not None:
            return text_part(file_text(part, text)) if text else None
        if found[0] != entries.PDF:
            return None
        outer = shell if shell.get("type") == "file" else {}
        inner = outer.get("file")
        about = inner if isinstance(inner, dict) else {}
        return {**outer, "type": "file", "file": {**about, "filename": file_name(part), "file_data": data_url(*found)}}


def _about(shell: dict[str, Any]) -> dict[str, Any]:
    """What a chat message says beside its content. Of sound, what goes back is its id."""
    if shell.get("type") is not None:
        return {}
    about = {key: value for key, value in shell.items() if key in OPENAI_FIELDS}
    if "name" in about and not _NAME.fullmatch(str(about["name"])):
        del about["name"]
    if isinstance(about.get("audio"), dict):
        about["audio"] = {"id": about["audio"].get("id")}
    return about


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def folded(parts: list[dict[str, Any]]) -> Any:
    """The text itself, where there is nothing else."""
    return parts[0]["text"] if len(parts) == 1 and parts[0].keys() == {"type", "text"} else parts


def failed(parts: list[dict[str, Any]], kind: str = "text") -> list[dict[str, Any]]:
    """OpenAI has no mark for a result that is an error: its text says so."""
    first = parts[0].get("text", "") if parts else ""
    if first[:5].casefold() == "error":
        return parts
    if first:
        return [{**parts[0], "text": f"Error: {first}"}, *parts[1:]]
    return [{"type": kind, "text": "Error"}, *parts]


def image_url(part: Image, bodies: Mapping[str, bytes]) -> str | None:
    if part.ref is None:
        return entries.fetched(part.url)
    found = entries.picture_of(part, bodies)
    return None if found is None else data_url(*found)


def detail_of(shell: dict[str, Any]) -> dict[str, Any]:
    """The detail at which an image is looked at, in either dialect."""
    inner = shell.get("image_url")
    detail = inner.get("detail") if isinstance(inner, dict) else shell.get("detail")
    return {"detail": detail} if isinstance(detail, str) else {}


def data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def file_name(part: File) -> str:
    """One is asked for."""
    return cleared(part.name or "") or ("file.pdf" if part.ref.media_type in (None, entries.PDF) else "file")


def file_text(part: File, text: str) -> str:
    return f'File "{cleared(part.name)}":\n{text}' if part.name else text
