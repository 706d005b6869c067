"""OpenAI's responses dialect.

System messages are its `instructions`: what the function returns are arguments of `client.responses.create`, and what is
pinned stands apart there, as it does in the history. A call of one of OpenAI's own tools goes back as such if its result
can; else both are a function call and its output, which may be any text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.context.fence import cleared
from holdfast.model.content import Body, Data, File, Image, Text, ToolCall
from holdfast.model.messages import History, Message, Summary
from holdfast.providers.openai import CALLS, LOCAL_CALLS, OUTPUTS
from holdfast.providers.parts import OPENAI_PARTS
from holdfast.providers.plain import OPENAI
from holdfast.render import entries
from holdfast.render.chat import data_url, detail_of, failed, file_name, file_text, image_url, tail_of
from holdfast.render.entries import NO_BODIES, Around, Entry, Foreign, Mark, Own, Shown
from holdfast.render.turns import Answer, Calls, Ids, Turn, arguments_of, name_of, object_of, turns

PARTS = frozenset({"input_file", "input_image"})
"""The parts beside text that a user's message or a result may hold."""

TEXT_OUTPUTS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "apply_patch_call"})
"""Calls whose output may be any text."""

OFFICE = (
    "application/msword",
    "application/rtf",
    "application/vnd.ms-",
    "application/vnd.oasis.opendocument.",
    "application/vnd.openxmlformats-officedocument.",
)
"""How the types of other files begin that are read for the model."""

KEYED = frozenset({"item_reference", "local_shell_call_output"})
"""Items whose id is that of another one."""

NEEDED: dict[str, dict[str, Any]] = {"computer_call": {"pending_safety_checks": []}}
"""Empty lists say nothing and were not kept; some are asked for."""


def openai_responses(history: History, bodies: Mapping[str, bytes] = NO_BODIES) -> dict[str, Any]:
    """`instructions` (or None) and `input` for `client.responses.create`. `bodies` has the bytes of images and files by
    their digest."""
    made = _Input(bodies)
    for item in history.items:
        if isinstance(item, Summary):
            made.items.append({"role": "user", "content": cleared(item.shown)})
        else:
            for turn in turns(item):
                made.turn(turn)
    if tail := tail_of(history):
        made.items.append({"role": "developer", "content": tail})
    instructions = "\n\n".join(filter(None, map(made.instructions, history.system)))
    return {"instructions": instructions or None, "input": [*_once(made.items)]}


class _Input:
    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self.items: list[dict[str, Any]] = []
        self._bodies = bodies
        self._ids = Ids(OPENAI)

    def instructions(self, message: Message) -> str:
        found = entries.content(message, OPENAI, self._bodies)
        return "\n".join(part["text"] for entry in found for part in self._part(entry, pictures=False))

    def turn(self, turn: Turn) -> None:
        answers = {call: self._answer(answer) for call, answer in turn.answers.items()}
        kinds: dict[str, str] = {}
        if turn.message.role == "assistant":
            self._reply(turn, answers, kinds)
        else:
            self._said(turn.message)
        for call, answer in turn.answers.items():
            self.items.append(self._result(kinds[call], self._ids.of(call), answer, answers[call]))

    def _said(self, message: Message) -> None:
        role = "system" if message.role == "system" else "user"
        found = entries.content(message, OPENAI, self._bodies)
        whole = _whole_pairs(found)
        parts: list[dict[str, Any]] = []
        for entry in found:
            if isinstance(entry, Own) and entry.block["type"] not in OPENAI_PARTS:
                self._close(role, parts)
                parts = []
                self._own(entry.block, whole)
            else:
                parts += self._part(entry, pictures=role == "user")
        self._close(role, parts)

    def _close(self, role: str, parts: list[dict[str, Any]]) -> None:
        if parts:
            self.items.append({"role": role, "content": _folded(parts)})

    def _reply(self, turn: Turn, answers: dict[str, list[Entry]], kinds: dict[str, str]) -> None:
        """Messages, calls and the items that the model made, in their places."""
        calls, about, begun = Calls(turn), {}, len(self.items)
        found = entries.content(turn.message, OPENAI, self._bodies)
        whole = _whole_pairs(found)
        open_item: dict[str, Any] | None = None
        for entry in found:
            match entry:
                case Around(shell):
                    about = shell if shell.get("type") == "message" else {}
                    open_item = None
                case Shown():
                    open_item = self._say(entry, about, open_item)
                case Mark(shell):
                    about, open_item = {}, None
                    for call, own in calls.up_to(shell):
                        self._call(turn.message, call, own, answers[call.id], kinds)
                case Own(block):
                    about, open_item = {}, None
                    self._own(block, whole)
        for call in calls.rest():
            self._call(turn.message, call, {}, answers[call.id], kinds)
        while len(self.items) > begun and self.items[-1].get("type") == "reasoning":  # refused without what it led to
            self.items.pop()

    def _say(self, entry: Shown, about: dict[str, Any], open_item: dict[str, Any] | None) -> dict[str, Any] | None:
        """A piece of a message that the model made. With the provider's id it is the item that it was; else, plain text."""
        shell = entry.shell
        refused = shell.get("type") == "refusal"
        if "id" not in about:
            for part in self._part(Shown(entry.part, {}, entry.handle), pictures=False):
                labels: dict[str, Any] = {key: about[key] for key in ("type", "phase") if key in about}
                self.items.append({**labels, "role": "assistant", "content": part["text"]})
            return None
        outer = shell if shell.get("type") == "output_text" else {}
        parts = [
            {**shell, "refusal": part["text"]}
            if refused
            else {"annotations": [], **outer, "type": "output_text", "text": part["text"]}
            for part in self._part(Shown(entry.part, {}, entry.handle), pictures=False)
        ]
        if open_item is None and parts:
            open_item = {"status": "completed", **about, "role": "assistant", "content": []}
            self.items.append(open_item)
        if open_item is not None:
            open_item["content"] += parts
        return open_item

    def _own(self, block: dict[str, Any], whole: set[str]) -> None:
        """An item as it was made. A call or an output that is not paired where it stands is left out."""
        kind = block["type"]
        if kind in OPENAI_PARTS or ((kind in CALLS or kind in OUTPUTS) and _paired_id(block) not in whole):
            return
        self.items.append(block)

    def _call(
        self, message: Message, call: ToolCall, shell: dict[str, Any], answer: list[Entry], kinds: dict[str, str]
    ) -> None:
        kind = _kind(call, shell, answer)
        kinds[call.id] = kind
        outer = shell if shell.get("type") == kind else {}
        item = {**NEEDED.get(kind, {}), **outer, "type": kind, "call_id": self._ids.give(message, call)}
        if kind in LOCAL_CALLS:
            self.items.append({**item, **object_of(call)})
            return
        item["name"] = name_of(message, call, OPENAI)
        if kind == "custom_tool_call":
            item["input"] = cleared(str(call.args))
        else:
            item["arguments"] = arguments_of(call)
        self.items.append(item)

    def _answer(self, answer: Answer) -> list[Entry]:
        return entries.result(answer.message, answer.number, OPENAI, self._bodies)

    def _result(self, kind: str, call: str, answer: Answer, found: list[Entry]) -> dict[str, Any]:
        output = f"{kind}_output"
        for entry in found:
            if isinstance(entry, Own) and entry.block["type"] == output:
                return {**entry.block, "id" if kind == "local_shell_call" else "call_id": call}
        shells = (entry.shell for entry in found if isinstance(entry, Around))
        shell = next((each for each in shells if each.get("type") == output), {})
        parts = [part for entry in found for part in self._part(entry, pictures=True)]
        error = answer.result.is_error
        if error and shell.get("status") != "failed":
            parts = failed(parts, "input_text")
        if kind == "local_shell_call":
            return {**shell, "type": output, "id": call, "output": _joined(parts)}
        if kind == "apply_patch_call":
            status = {"status": "failed" if error else "completed"}
            return {**status, **shell, "type": output, "call_id": call, "output": _joined(parts)}
        return {**shell, "type": output, "call_id": call, "output": _folded(parts) if parts else ""}

    def _part(self, entry: Entry, *, pictures: bool) -> list[dict[str, Any]]:
        match entry:
            case Shown(Text() | Data() | Body() as part, shell):
                text = entries.text_in(part)
                outer = shell if shell.get("type") == "input_text" else {}
                return [{**outer, **_text(text)}] if text else []
            case Shown(Image() | File() as part, shell, handle):
                shown = self._image(part, shell) if isinstance(part, Image) else self._file(part, shell)
                return [shown if pictures and shown is not None else _text(entries.line(part, handle))]
            case Own(block) if block["type"] in PARTS and pictures:
                return [block]
            case Own(block):
                return [_text(f"[a part of type {block['type']}, not shown]")] if pictures else []
            case Foreign():
                return [_text(entry.line)] if pictures else []
            case _:
                return []

    def _image(self, part: Image, shell: dict[str, Any]) -> dict[str, Any] | None:
        url = image_url(part, self._bodies)
        if url is None:
            return None
        outer = shell if shell.get("type") == "input_image" else {}
        return {"detail": "auto", **outer, **detail_of(shell), "type": "input_image", "image_url": url}

    def _file(self, part: File, shell: dict[str, Any]) -> dict[str, Any] | None:
        found = entries.file_of(part, self._bodies)
        if found is None:
            return self._image(Image(part.ref), {})
        text = entries.as_text(*found)
        if text is not None:
            return _text(file_text(part, text)) if text else None
        if found[0] != entries.PDF and not found[0].startswith(OFFICE):
            return None
        outer = shell if shell.get("type") == "input_file" else {}
        return {**outer, "type": "input_file", "filename": file_name(part), "file_data": data_url(*found)}


def _once(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """These, with the id of an item once: a second one is refused, as when a response was recorded twice. What can do
    without an id goes without; what cannot was shown before."""
    seen: set[tuple[str, str]] = set()
    for item in items:
        own, kind = item.get("id"), item.get("type", "message")
        if not isinstance(own, str) or kind in KEYED or (kind, own) not in seen:
            seen.add((kind, str(own)))
            yield item
        elif kind == "message":
            said = (part.get("text", part.get("refusal", "")) for part in item["content"])
            yield {"role": item["role"], "content": "".join(said)}
        elif kind in CALLS or kind in OUTPUTS:
            yield {key: value for key, value in item.items() if key != "id"}


def _kind(call: ToolCall, shell: dict[str, Any], answer: list[Entry]) -> str:
    """What a call can be shown as, given its result."""
    kind = shell.get("type")
    if kind in ("custom", "custom_tool_call"):
        return "custom_tool_call" if isinstance(call.args, str) else "function_call"
    if kind not in LOCAL_CALLS or not isinstance(call.args, dict) or not call.args.keys() <= set(LOCAL_CALLS[kind][1]):
        return "function_call"
    output = f"{kind}_output"
    if kind in TEXT_OUTPUTS or any(isinstance(each, Own) and each.block["type"] == output for each in answer):
        return str(kind)
    return "function_call"


def _paired_id(block: dict[str, Any]) -> str | None:
    """The call that a call or an output is about: the outputs of a local shell have no other id."""
    own = block.get("call_id") or (block.get("id") if block["type"] == "local_shell_call_output" else None)
    return own if isinstance(own, str) else None


def _whole_pairs(found: list[Entry]) -> set[str]:
    """The calls among the items that the provider answered itself."""
    blocks = [entry.block for entry in found if isinstance(entry, Own)]
    seen: dict[str, list[bool]] = {}
    for block in blocks:
        own = _paired_id(block)
        if own is not None and (block["type"] in CALLS or block["type"] in OUTPUTS):
            seen.setdefault(own, []).append(block["type"] in CALLS)
    return {own for own, calls in seen.items() if calls == [True, False]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _folded(parts: list[dict[str, Any]]) -> Any:
    """The text itself, where there is nothing else."""
    return parts[0]["text"] if len(parts) == 1 and parts[0].keys() == {"type", "text"} else parts


def _joined(parts: list[dict[str, Any]]) -> str:
    return "\n".join(part["text"] if part["type"] == "input_text" else f"[{part['type']}]" for part in parts)
