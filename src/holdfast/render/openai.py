"""OpenAI's two formats: the messages of a chat, and the input of a response.

In a chat, a tool message has text alone: the images and files of results are in one user message behind the group.

In a response, the system messages before the conversation are the `instructions`; later ones are items. A call of one of
OpenAI's own tools goes back as such if its result can; else both are a function call and its output, which may be any
text.
"""

from __future__ import annotations

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.model.content import Body, Data, File, Image, Text, ToolCall
from holdfast.model.history.views import HistoryView, Summary
from holdfast.model.sessions.messages import Message
from holdfast.providers.fields import OPENAI
from holdfast.providers.messages import OPENAI_FIELDS
from holdfast.providers.openai import CALLS, LOCAL_CALLS, OUTPUTS
from holdfast.providers.parts import OPENAI_PARTS
from holdfast.render import entries
from holdfast.render.entries import (
    NO_BODIES,
    AnsweredCalls,
    AnsweredMessage,
    CallAnswer,
    CallIds,
    CallMark,
    ForeignPart,
    MessageShell,
    OwnBlock,
    RenderEntry,
    ShownPart,
    arguments_object,
    arguments_text,
    pair_answers,
    tail_text,
    tool_name,
)
from holdfast.render.item_ids import (
    REFERRING_ITEMS,
    TAIL,
    ItemName,
    add_item_ids,
    name_call,
    name_entry,
    name_result,
    name_summary,
)
from holdfast.text.fence import remove_tag

_SPEAKER_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
"""A name that a speaker may have; any other is refused."""
CHAT_PARTS = frozenset({"file", "image_url", "input_audio"})
"""The parts beside text that a user's message may have."""
INPUT_PARTS = frozenset({"input_file", "input_image"})
"""The parts beside text that a user's message or a result may have."""
TEXT_OUTPUTS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "apply_patch_call"})
"""Calls whose output may be any text."""
OFFICE_TYPES = (
    "application/msword",
    "application/rtf",
    "application/vnd.ms-",
    "application/vnd.oasis.opendocument.",
    "application/vnd.openxmlformats-officedocument.",
)
"""The starts of the types of other files that are read for the model."""
REQUIRED_FIELDS: dict[str, dict[str, Any]] = {"computer_call": {"pending_safety_checks": []}}
"""Empty lists are not stored; some are required."""


# Both formats


class _OpenAIParts(ABC):
    """The parts of a message that both formats render alike."""

    issuer = OPENAI
    text_type: str
    own_parts: frozenset[str]
    office_types: tuple[str, ...] = ()

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self._bodies = bodies
        self._ids = CallIds(OPENAI)

    def _text_part(self, text: str) -> dict[str, Any]:
        return {"type": self.text_type, "text": text}

    def _content_parts(self, entry: RenderEntry, *, pictures: bool) -> list[dict[str, Any]]:
        match entry:
            case ShownPart(Text() | Data() | Body() as part, shell):
                text = entries.text_in(part)
                outer = shell if shell.get("type") == self.text_type else {}
                return [{**outer, **self._text_part(text)}] if text else []
            case ShownPart(Image() | File() as part, shell, handle):
                shown = self._image_part(part, shell) if isinstance(part, Image) else self._file_part(part, shell)
                line = entries.describe_media(part, handle)
                return [shown if pictures and shown is not None else self._text_part(line)]
            case OwnBlock(block) if block["type"] in self.own_parts and pictures:
                return [block]
            case OwnBlock(block):
                return [self._text_part(f"[a part of type {block['type']}, not shown]")] if pictures else []
            case ForeignPart():
                return [self._text_part(entry.line)] if pictures else []
            case _:
                return []

    def _image_part(self, part: Image, shell: dict[str, Any]) -> dict[str, Any] | None:
        url = image_url(part, self._bodies)
        return None if url is None else self._image_block(url, shell)

    def _file_part(self, part: File, shell: dict[str, Any]) -> dict[str, Any] | None:
        typed = entries.file_bytes(part, self._bodies)
        if typed is None:
            return self._image_part(Image(part.ref), {})
        text = entries.decode_text(*typed)
        if text is not None:
            return self._text_part(file_text(part, text)) if text else None
        if typed[0] != entries.PDF and not typed[0].startswith(self.office_types):
            return None
        return self._file_block({"filename": file_name(part), "file_data": data_url(*typed)}, shell)

    @abstractmethod
    def _image_block(self, url: str, shell: dict[str, Any]) -> dict[str, Any]: ...

    @abstractmethod
    def _file_block(self, fields: dict[str, Any], shell: dict[str, Any]) -> dict[str, Any]: ...


def unwrap_text(parts: list[dict[str, Any]]) -> Any:
    """The text itself, where there is nothing else."""
    return parts[0]["text"] if len(parts) == 1 and parts[0].keys() == {"type", "text"} else parts


def mark_error(parts: list[dict[str, Any]], kind: str = "text") -> list[dict[str, Any]]:
    """OpenAI has no mark for a result that is an error: its text says so."""
    first = parts[0].get("text", "") if parts else ""
    if first[:5].casefold() == "error":
        return parts
    if first:
        return [{**parts[0], "text": f"Error: {first}"}, *parts[1:]]
    return [{"type": kind, "text": "Error"}, *parts]


def image_url(part: Image, bodies: Mapping[str, bytes]) -> str | None:
    if part.ref is None:
        return entries.fetchable_url(part.url)
    typed = entries.image_bytes(part, bodies)
    return None if typed is None else data_url(*typed)


def image_detail(shell: dict[str, Any]) -> dict[str, Any]:
    """The detail at which an image is viewed, in either format."""
    inner = shell.get("image_url")
    detail = inner.get("detail") if isinstance(inner, dict) else shell.get("detail")
    return {"detail": detail} if isinstance(detail, str) else {}


def data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def file_name(part: File) -> str:
    """The name of a file: one is required."""
    return remove_tag(part.name or "") or ("file.pdf" if part.ref.media_type in (None, entries.PDF) else "file")


def file_text(part: File, text: str) -> str:
    return f'File "{remove_tag(part.name)}":\n{text}' if part.name else text


# Chat


def render_openai_chat(history: HistoryView, bodies: Mapping[str, bytes] = NO_BODIES) -> list[dict[str, Any]]:
    """The `messages` of `client.chat.completions.create`. `bodies` has the bytes of images and files by their digest."""
    chat = ChatMessages(bodies)
    chat.add_history(history)
    if tail := tail_text(history):
        chat.messages.append({"role": "developer", "content": tail})
    return chat.messages


class ChatMessages(_OpenAIParts):
    """The messages of one rendering for a chat."""

    text_type = "text"
    own_parts = CHAT_PARTS
    side_fields = OPENAI_FIELDS
    """The fields of a message beside its content that go back."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        super().__init__(bodies)
        self.messages: list[dict[str, Any]] = []
        self.boundary = 0
        """How many messages the part that the last boundary left has."""

    def add_history(self, history: HistoryView) -> None:
        """Add the system messages and the items of a history, without its tail."""
        for message in history.system:
            self.add_input(message)
        for number, item in enumerate(history.items, 1):
            if isinstance(item, Summary):
                self.messages.append({"role": "user", "content": remove_tag(item.shown)})
            else:
                for turn in pair_answers(item):
                    self.turn(turn)
            if number == history.frozen:
                self.boundary = len(self.messages)

    def turn(self, turn: AnsweredMessage) -> None:
        """Add a message, and the results of its calls."""
        if turn.message.role == "assistant":
            self._add_reply(turn)
        else:
            self.add_input(turn.message)
        beside: list[dict[str, Any]] = []
        names = {call.id: call.name for call in turn.message.tool_calls}
        for call, answer in turn.answers.items():
            shown = self._add_result(call, answer)
            if shown:
                beside += [self._text_part(f"From the result of {names[call]}, call {self._ids.of(call)}:"), *shown]
        if beside:
            self.messages.append({"role": "user", "content": beside})

    def add_input(self, message: Message) -> None:
        """Add a message of the system or a user."""
        about: dict[str, Any] = {}
        parts: list[dict[str, Any]] = []
        for entry in entries.content_entries(message, self.issuer, self._bodies):
            if isinstance(entry, MessageShell):
                about |= _message_fields(entry.shell, self.side_fields)
            else:
                parts += self._content_parts(entry, pictures=message.role != "system")
        if parts:
            role = "system" if message.role == "system" else "user"
            self.messages.append({"role": role, "content": unwrap_text(parts), **about})

    def _add_reply(self, turn: AnsweredMessage) -> None:
        calls = AnsweredCalls(turn)
        about: dict[str, Any] = {}
        parts: list[dict[str, Any]] = []
        call_entries: list[dict[str, Any]] = []
        for entry in entries.content_entries(turn.message, self.issuer, self._bodies):
            match entry:
                case MessageShell(shell):
                    about |= _message_fields(shell, self.side_fields)
                case CallMark(shell):
                    call_entries += [self._call_entry(turn.message, *pair) for pair in calls.take_up_to(shell)]
                case ShownPart():
                    parts += self._content_parts(entry, pictures=False)
        call_entries += [self._call_entry(turn.message, call, {}) for call in calls.take_rest()]
        if not parts and not call_entries and "audio" not in about:
            return
        message: dict[str, Any] = {"role": "assistant", "content": unwrap_text(parts) if parts else None, **about}
        if call_entries:
            message["tool_calls"] = call_entries
        self.messages.append(message)

    def _call_entry(self, message: Message, call: ToolCall, shell: dict[str, Any]) -> dict[str, Any]:
        shell_type = shell.get("type")
        kind = "custom" if shell_type in ("custom", "custom_tool_call") and isinstance(call.args, str) else "function"
        fields: dict[str, Any] = {"name": tool_name(message, call, OPENAI)}
        if kind == "custom":
            fields["input"] = remove_tag(str(call.args))
        else:
            fields["arguments"] = arguments_text(call)
        outer = shell if shell_type == kind else {}
        inner = outer.get(kind)
        return {
            **outer,
            "id": self._ids.give(message, call),
            "type": kind,
            kind: {**inner, **fields} if isinstance(inner, dict) else fields,
        }

    def _add_result(self, call: str, answer: CallAnswer) -> list[dict[str, Any]]:
        """Add the tool message; returns the parts of the result that it cannot have."""
        texts: list[dict[str, Any]] = []
        beside: list[dict[str, Any]] = []
        for entry in entries.result_entries(answer.message, answer.number, self.issuer, self._bodies):
            for part in self._content_parts(entry, pictures=True):
                (texts if part["type"] == "text" else beside).append(part)
        if beside and not texts:
            texts = [self._text_part("(shown below)")]
        if answer.result.is_error:
            texts = mark_error(texts)
        content = unwrap_text(texts) if texts else ""
        self.messages.append({"role": "tool", "tool_call_id": self._ids.of(call), "content": content})
        return beside

    def _content_parts(self, entry: RenderEntry, *, pictures: bool) -> list[dict[str, Any]]:
        match entry:
            case ShownPart(Text() | Data() | Body() as part, {"type": "refusal"} as shell) if not pictures:
                text = entries.text_in(part)
                return [{**shell, "refusal": text}] if text else []
        return super()._content_parts(entry, pictures=pictures)

    def _image_block(self, url: str, shell: dict[str, Any]) -> dict[str, Any]:
        outer = shell if shell.get("type") == "image_url" else {}
        return {**outer, "type": "image_url", "image_url": {**image_detail(shell), "url": url}}

    def _file_block(self, fields: dict[str, Any], shell: dict[str, Any]) -> dict[str, Any]:
        outer = shell if shell.get("type") == "file" else {}
        inner = outer.get("file")
        return {**outer, "type": "file", "file": {**(inner if isinstance(inner, dict) else {}), **fields}}


def _message_fields(shell: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The fields of a chat message beside its content. Of audio, the id goes back."""
    if shell.get("type") is not None:
        return {}
    about = {key: value for key, value in shell.items() if key in names}
    if "name" in about and not _SPEAKER_NAME.fullmatch(str(about["name"])):
        del about["name"]
    if isinstance(about.get("audio"), dict):
        about["audio"] = {"id": about["audio"].get("id")}
    return about


# Responses


def render_openai_responses(
    history: HistoryView, bodies: Mapping[str, bytes] = NO_BODIES, *, ids: bool = False
) -> dict[str, Any]:
    """`instructions` (or None) and `input` for `client.responses.create`. `bodies` has the bytes of images and files by
    their digest. With `ids`, every item has an id: for a list of items, not for a provider, which refuses ids that it
    does not know."""
    response = _ResponsesInput(bodies)
    for item in history.items:
        if isinstance(item, Summary):
            response.add_item({"role": "user", "content": remove_tag(item.shown)}, name_summary(item.seq))
        else:
            for turn in pair_answers(item):
                response.turn(turn)
    if tail := tail_text(history):
        response.add_item({"role": "developer", "content": tail}, TAIL)
    instructions = "\n\n".join(filter(None, map(response.instructions, history.system)))
    kept = list(_drop_repeated_ids(response.items))
    items = [item for _, item in kept]
    if ids:
        items = add_item_ids(items, [response.names[at] for at, _ in kept])
    return {"instructions": instructions or None, "input": items}


class _ResponsesInput(_OpenAIParts):
    text_type = "input_text"
    own_parts = INPUT_PARTS
    office_types = OFFICE_TYPES

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        super().__init__(bodies)
        self.items: list[dict[str, Any]] = []
        self.names: list[ItemName] = []
        """The name of each item."""

    def add_item(self, item: dict[str, Any], name: ItemName) -> None:
        self.items.append(item)
        self.names.append(name)

    def instructions(self, message: Message) -> str:
        content = entries.content_entries(message, OPENAI, self._bodies)
        return "\n".join(part["text"] for entry in content for part in self._content_parts(entry, pictures=False))

    def turn(self, turn: AnsweredMessage) -> None:
        answers = {call: self._result_entries(answer) for call, answer in turn.answers.items()}
        kinds: dict[str, str] = {}
        if turn.message.role == "assistant":
            self._add_reply(turn, answers, kinds)
        else:
            self._add_input(turn.message)
        for call, answer in turn.answers.items():
            item = self._result_item(kinds[call], self._ids.of(call), answer, answers[call])
            self.add_item(item, name_result(answer.message.seq, answer.number))

    def _add_input(self, message: Message) -> None:
        role = "system" if message.role == "system" else "user"
        content = entries.content_entries(message, OPENAI, self._bodies)
        paired = _paired_calls(content)
        parts: list[dict[str, Any]] = []
        name: ItemName | None = None
        brought: object = message.metadata.get("id")
        for entry in content:
            if isinstance(entry, OwnBlock) and entry.block["type"] not in OPENAI_PARTS:
                self._add_message(role, parts, name)
                parts, name = [], None
                self._add_own_item(entry, paired)
            elif isinstance(entry, MessageShell):
                brought = entry.shell.get("id", brought)
            elif shown := self._content_parts(entry, pictures=role == "user"):
                name = name or name_entry(entry, brought)
                parts += shown
        self._add_message(role, parts, name)

    def _add_message(self, role: str, parts: list[dict[str, Any]], name: ItemName | None) -> None:
        if name is not None:
            self.add_item({"role": role, "content": unwrap_text(parts)}, name)

    def _add_reply(self, turn: AnsweredMessage, answers: dict[str, list[RenderEntry]], kinds: dict[str, str]) -> None:
        """Add messages, calls and the items that the model made, in their order."""
        calls, about, start = AnsweredCalls(turn), {}, len(self.items)
        content = entries.content_entries(turn.message, OPENAI, self._bodies)
        paired = _paired_calls(content)
        open_item: dict[str, Any] | None = None
        for entry in content:
            match entry:
                case MessageShell(shell):
                    about = shell if shell.get("type") == "message" else {}
                    open_item = None
                case ShownPart():
                    open_item = self._add_output(turn.message, entry, about, open_item)
                case CallMark(shell):
                    about, open_item = {}, None
                    for call, call_shell in calls.take_up_to(shell):
                        self._add_call(turn.message, call, call_shell, answers[call.id], kinds)
                case OwnBlock():
                    about, open_item = {}, None
                    self._add_own_item(entry, paired)
        for call in calls.take_rest():
            self._add_call(turn.message, call, {}, answers[call.id], kinds)
        while len(self.items) > start and self.items[-1].get("type") == "reasoning":  # refused without what follows it
            self.items.pop()
            self.names.pop()

    def _add_output(
        self, message: Message, entry: ShownPart, about: dict[str, Any], open_item: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """A piece of a message that the model made. With the provider's id it is that item again; else plain text."""
        shell = entry.shell
        refused = shell.get("type") == "refusal"
        if "id" not in about:
            for part in self._content_parts(ShownPart(entry.part, {}, entry.handle), pictures=False):
                labels: dict[str, Any] = {key: about[key] for key in ("type", "phase") if key in about}
                self.add_item(
                    {**labels, "role": "assistant", "content": part["text"]},
                    name_entry(entry, message.metadata.get("id")),
                )
            return None
        outer = shell if shell.get("type") == "output_text" else {}
        parts = [
            {**shell, "refusal": part["text"]}
            if refused
            else {"annotations": [], **outer, "type": "output_text", "text": part["text"]}
            for part in self._content_parts(ShownPart(entry.part, {}, entry.handle), pictures=False)
        ]
        if open_item is None and parts:
            open_item = {"status": "completed", **about, "role": "assistant", "content": []}
            self.add_item(open_item, name_entry(entry))
        if open_item is not None:
            open_item["content"] += parts
        return open_item

    def _add_own_item(self, entry: OwnBlock, paired: set[str]) -> None:
        """Add an item as it was made. A call or an output without its counterpart is left out."""
        block = entry.block
        kind = block["type"]
        if kind in OPENAI_PARTS or ((kind in CALLS or kind in OUTPUTS) and _paired_id(block) not in paired):
            return
        self.add_item(block, name_entry(entry))

    def _add_call(
        self, message: Message, call: ToolCall, shell: dict[str, Any], answer: list[RenderEntry], kinds: dict[str, str]
    ) -> None:
        kind = _call_kind(call, shell, answer)
        kinds[call.id] = kind
        outer = shell if shell.get("type") == kind else {}
        item = {**REQUIRED_FIELDS.get(kind, {}), **outer, "type": kind, "call_id": self._ids.give(message, call)}
        name = name_call(message, call)
        if kind in LOCAL_CALLS:
            self.add_item({**item, **arguments_object(call)}, name)
            return
        item["name"] = tool_name(message, call, OPENAI)
        if kind == "custom_tool_call":
            item["input"] = remove_tag(str(call.args))
        else:
            item["arguments"] = arguments_text(call)
        self.add_item(item, name)

    def _result_entries(self, answer: CallAnswer) -> list[RenderEntry]:
        return entries.result_entries(answer.message, answer.number, OPENAI, self._bodies)

    def _result_item(self, kind: str, call: str, answer: CallAnswer, content: list[RenderEntry]) -> dict[str, Any]:
        output = f"{kind}_output"
        for entry in content:
            if isinstance(entry, OwnBlock) and entry.block["type"] == output:
                return {**entry.block, "id" if kind == "local_shell_call" else "call_id": call}
        shells = (entry.shell for entry in content if isinstance(entry, MessageShell))
        shell = next((one for one in shells if one.get("type") == output), {})
        parts = [part for entry in content for part in self._content_parts(entry, pictures=True)]
        error = answer.result.is_error
        if error and shell.get("status") != "failed":
            parts = mark_error(parts, "input_text")
        if kind == "local_shell_call":
            return {**shell, "type": output, "id": call, "output": _join_texts(parts)}
        if kind == "apply_patch_call":
            status = {"status": "failed" if error else "completed"}
            return {**status, **shell, "type": output, "call_id": call, "output": _join_texts(parts)}
        return {**shell, "type": output, "call_id": call, "output": unwrap_text(parts) if parts else ""}

    def _image_block(self, url: str, shell: dict[str, Any]) -> dict[str, Any]:
        outer = shell if shell.get("type") == "input_image" else {}
        return {"detail": "auto", **outer, **image_detail(shell), "type": "input_image", "image_url": url}

    def _file_block(self, fields: dict[str, Any], shell: dict[str, Any]) -> dict[str, Any]:
        outer = shell if shell.get("type") == "input_file" else {}
        return {**outer, "type": "input_file", **fields}


def _drop_repeated_ids(items: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The items with their numbers, each id once: a second one is refused, as when a response was recorded twice. An
    item that can do without an id goes without; another one was shown before."""
    seen: set[tuple[str, str]] = set()
    for at, item in enumerate(items):
        name, kind = item.get("id"), item.get("type", "message")
        if not isinstance(name, str) or kind in REFERRING_ITEMS or (kind, name) not in seen:
            seen.add((kind, str(name)))
            yield at, item
        elif kind == "message":
            texts = (part.get("text", part.get("refusal", "")) for part in item["content"])
            yield at, {"role": item["role"], "content": "".join(texts)}
        elif kind in CALLS or kind in OUTPUTS:
            yield at, {key: value for key, value in item.items() if key != "id"}


def _call_kind(call: ToolCall, shell: dict[str, Any], answer: list[RenderEntry]) -> str:
    """The kind of item that a call is rendered as, given its result."""
    kind = shell.get("type")
    if kind in ("custom", "custom_tool_call"):
        return "custom_tool_call" if isinstance(call.args, str) else "function_call"
    if kind not in LOCAL_CALLS or not isinstance(call.args, dict) or not call.args.keys() <= set(LOCAL_CALLS[kind][1]):
        return "function_call"
    output = f"{kind}_output"
    if kind in TEXT_OUTPUTS or any(isinstance(one, OwnBlock) and one.block["type"] == output for one in answer):
        return str(kind)
    return "function_call"


def _paired_id(block: dict[str, Any]) -> str | None:
    """The call of a call item or an output: the outputs of a local shell have no other id."""
    name = block.get("call_id") or (block.get("id") if block["type"] == "local_shell_call_output" else None)
    return name if isinstance(name, str) else None


def _paired_calls(content: list[RenderEntry]) -> set[str]:
    """The calls among the items that the provider answered itself."""
    blocks = [entry.block for entry in content if isinstance(entry, OwnBlock)]
    seen: dict[str, list[bool]] = {}
    for block in blocks:
        name = _paired_id(block)
        if name is not None and (block["type"] in CALLS or block["type"] in OUTPUTS):
            seen.setdefault(name, []).append(block["type"] in CALLS)
    return {name for name, calls in seen.items() if calls == [True, False]}


def _join_texts(parts: list[dict[str, Any]]) -> str:
    return "\n".join(part["text"] if part["type"] == "input_text" else f"[{part['type']}]" for part in parts)
