"""Items of the Responses API: read from requests, and shown from the messages of a session.

Laws: an item that a client brought comes back as it was: its id, its order, the text of its arguments, and all of it if its
type is unknown here. An item without an id has one that follows from its message alone (m12_0), so it never changes. What
the server did for itself, the calls of the engine's own tools, is not shown. Texts are shown whole, never as previews.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

import holdfast
from holdfast import codec
from holdfast.core.sessions.message_ids import is_own_id, item_id
from holdfast.errors import HoldfastError, describe_value
from holdfast.model.content import BlobRef, Body, Data, File, Image, Opaque, Part, Text, ToolCall, calling_seq
from holdfast.model.sessions.messages import Message
from holdfast.providers.fields import OPENAI, build_opaque
from holdfast.providers.openai import CALLS, ITEMS, LOCAL_CALLS
from holdfast.providers.parts import OPENAI_PARTS
from holdfast.render import entries
from holdfast.render.entries import CallMark, MessageShell, OwnBlock, RenderEntry, ShownPart
from holdfast.render.openai import data_url, file_name, image_detail
from holdfast.server.v1.bodies import Fields, wrong_type
from holdfast.server.v1.errors import ApiError, invalid

ROLES = ("user", "assistant", "system", "developer")
BATCH_ITEMS = 20
"""The most items of one request of the Conversations API."""
INPUT_ITEMS = 10_000
"""The most items of the input of a response."""
BATCH_SIZE = 200
"""About how many items are recorded at once."""
ENGINE_CALLS = "engine_calls"
"""The metadata of a reply that names the calls which the server runs itself."""
_MESSAGE_FIELDS = ("type", "role", "content", "id", "status", "phase", "name")
_INCOMPLETE = ("length", "incomplete", "content_filter")


# Read


def read_items(values: list[Any], param: str, most: int) -> list[Any]:
    """Items of a request, as session.record_all() takes them."""
    if len(values) > most:
        raise invalid(f"'{param}' has {len(values)} items; at most {most} are accepted. Nothing was stored.", param)
    items = [_read_item(value, f"{param}[{number}]") for number, value in enumerate(values)]
    brought = list(brought_ids(values))
    repeated = {name for name in brought if brought.count(name) > 1}
    if repeated:
        raise duplicate_id(min(repeated), param)
    return items


def duplicate_id(name: str, param: str) -> ApiError:
    return invalid(f"Duplicate item found with id '{name[:100]}'. Remove it and try again.", param, "duplicate_item")


def brought_ids(values: Iterable[Any]) -> Iterable[str]:
    """The ids that a client brought, without those of Holdfast, which are not kept."""
    for value in values:
        if isinstance(value, dict) and value.get("type") not in ("item_reference", "local_shell_call_output"):
            name = value.get("id")
            if isinstance(name, str) and name and not is_own_id(name):
                yield name


def _read_item(value: object, where: str) -> Any:
    if type(value) is not dict:
        raise wrong_type(where, value, "an object")
    verbatim: Fields = dict(value)
    name = verbatim.get("id")
    if name is not None and type(name) is not str:
        raise wrong_type(f"{where}.id", name, "a string")
    if name is not None and (not name or is_own_id(name)):
        del verbatim["id"]
    item = {key: each for key, each in verbatim.items() if each is not None}
    kind = item.get("type", "message" if "role" in item else None)
    if type(kind) is not str or not kind:
        raise wrong_type(f"{where}.type", kind, "the type of an item")
    if kind == "message":
        return _read_message(item, where)
    if kind == "item_reference":
        raise invalid(
            f"'{where}' is an item_reference, which only the input of a response may have. Nothing was stored.",
            where,
        )
    if kind in ITEMS:
        return item
    return ("user", [build_opaque(OPENAI, verbatim)])


def _read_message(item: Fields, where: str) -> Fields:
    role = item.get("role")
    if role not in ROLES:
        raise invalid(f"Invalid '{where}.role': {describe_value(role)} is not one of {', '.join(ROLES)}.", where)
    content = item.get("content")
    if type(content) not in (str, list):
        raise wrong_type(f"{where}.content", content, "a string or an array")
    for number, part in enumerate(content if type(content) is list else ()):
        if type(part) is not dict or type(part.get("type")) is not str:
            raise wrong_type(f"{where}.content[{number}]", part, "a part with a type")
    message = {key: item[key] for key in _MESSAGE_FIELDS if key in item} | {"type": "message"}
    if role == "assistant":  # successive items of the model are one message: this keeps them apart
        message.setdefault("status", "completed")
    if role == "developer":
        message["metadata"] = {"role": role}
    return message


def split_items(items: list[Any]) -> list[list[Any]]:
    """The items in batches that can be recorded one after the other: each but the first begins with a message of the user,
    so that no reply is torn."""
    batches: list[list[Any]] = [[]]
    for item in items:
        begins = isinstance(item, dict) and item.get("role") == "user"
        if begins and len(batches[-1]) >= BATCH_SIZE:
            batches.append([])
        batches[-1].append(item)
    return batches


# Show


def is_visible(message: Message) -> bool:
    """Whether the items of a message are in the conversation."""
    return not (message.erased or message.withdrawn or message.frame or message.late)


def is_listed(message: Message) -> bool:
    """Whether a conversation lists a message: a reply that broke off belongs to its response alone."""
    return is_visible(message) and message.skipped != "incomplete"


async def find_engine_calls(session: holdfast.AsyncSession) -> set[str]:
    """The ids of the open calls that the server runs itself."""
    found: set[str] = set()
    for call in await session.open_calls():
        message = await session.find_message(call.id)
        if message is not None and call.provider_id in _hidden_calls(message):
            found.add(call.id)
    return found


class ItemReader:
    """Shows the messages of a session as items. Bodies and calls that they refer to are read when needed."""

    def __init__(self, session: holdfast.AsyncSession, blobs: Any) -> None:
        self._session = session
        self._blobs = blobs
        self._calling: dict[int, Message] = {}

    async def show(self, messages: Sequence[Message]) -> list[list[Fields]]:
        """The items of each message."""
        self._calling |= {message.seq: message for message in messages if message.role == "assistant"}
        return [await self._show_message(message) if is_visible(message) else [] for message in messages]

    async def find(self, name: str) -> tuple[Message, Fields] | None:
        """The item with this id, and its message; None if there is none."""
        try:
            message = await self._session.find_message(name)
        except HoldfastError:
            return None
        if message is None:
            return None
        (items,) = await self.show([message])
        return next(((message, item) for item in items if item.get("id") == name), None)

    async def _show_message(self, message: Message) -> list[Fields]:
        bodies = await self._read_bodies(message)
        whole = _with_whole_texts(message, bodies)
        if message.role == "assistant":
            return _ReplyItems(whole, bodies).items
        if message.role == "tool":
            items = [await self._show_result(whole, number, bodies) for number in range(len(whole.tool_results))]
            return [item for item in items if item is not None]
        return _show_input(whole, bodies)

    async def _read_bodies(self, message: Message) -> dict[str, bytes]:
        bodies: dict[str, bytes] = {}
        for part in (*message.content, *(part for result in message.tool_results for part in result.content)):
            ref = part.body if isinstance(part, Opaque) else getattr(part, "ref", None)
            if isinstance(ref, BlobRef) and ref.digest not in bodies:
                bodies[ref.digest] = await self._blobs.read(ref)
        return bodies

    async def _show_result(self, message: Message, number: int, bodies: dict[str, bytes]) -> Fields | None:
        result = message.tool_results[number]
        call, shell, is_hidden = await self._find_call(result.tool_call_id)
        if is_hidden:
            return None
        kind = f"{_call_kind(shell)}_output"
        name = item_id(message.seq, number)
        call_name = result.tool_call_id if call is None else call.provider_id or call.id
        content = entries.result_entries(message, number, OPENAI, bodies)
        about: Fields = {}
        parts: list[Fields] = []
        for at, entry in enumerate(content):
            if isinstance(entry, OwnBlock) and entry.block["type"].endswith("_output"):
                return {**entry.block, "id": _choose_id(entry.block, name)}
            if isinstance(entry, MessageShell):
                about = entry.shell
            elif isinstance(entry, ShownPart):
                part = result.content[_part_number(result.content, content, at)]
                parts += _input_part(part, entry.shell, bodies)
            elif isinstance(entry, OwnBlock):
                parts.append(entry.block)
        lone = len(parts) == 1 and parts[0].keys() == {"type", "text"} and parts[0]["type"] == "input_text"
        output: Any = parts[0]["text"] if lone else parts or ""
        status = about.get("status") or ("incomplete" if message.closing or result.is_error else "completed")
        brought = {"id": about.get("id") or message.metadata.get("id")}
        return {
            **{key: value for key, value in about.items() if key not in ("type", "id")},
            "id": _choose_id(brought, name),
            "type": about.get("type", kind) if str(about.get("type", kind)).endswith("_output") else kind,
            "call_id": call_name,
            "output": output,
            "status": status,
        }

    async def _find_call(self, name: str) -> tuple[ToolCall | None, Fields, bool]:
        """The call of a result, its shell, and whether the server made it for itself."""
        seq = calling_seq(name)
        if seq is None:
            return None, {}, False
        if seq not in self._calling:
            found = await self._session.messages(before=seq + 1, limit=1)
            if not found or found[0].seq != seq:
                return None, {}, False
            self._calling[seq] = found[0]
        message = self._calling[seq]
        call = next((each for each in message.tool_calls if each.id == name), None)
        if call is None:
            return None, {}, False
        shells = (_decode_shell(part) for part in message.content if isinstance(part, Opaque))
        own = next((shell for shell in shells if shell.get("call_id", shell.get("id")) == call.provider_id), {})
        return call, own, call.provider_id in _hidden_calls(message)


def _with_whole_texts(message: Message, bodies: dict[str, bytes]) -> Message:
    """The message with every stored text in full."""

    def restore(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        if not any(isinstance(part, Body) for part in parts):
            return parts
        return tuple(
            Text(bodies[part.ref.digest].decode(errors="replace")) if isinstance(part, Body) else part for part in parts
        )

    results = tuple(msgspec.structs.replace(result, content=restore(result.content)) for result in message.tool_results)
    return msgspec.structs.replace(message, content=restore(message.content), tool_results=results)


def _part_number(parts: tuple[Part, ...], content: list[RenderEntry], at: int) -> int:
    """Which of the parts an entry shows: shells are no entries of their own."""
    shown = [number for number, part in enumerate(parts) if not isinstance(part, Opaque)]
    before = sum(isinstance(entry, ShownPart) for entry in content[:at])
    return shown[before]


def _decode_shell(part: Opaque) -> Fields:
    if not isinstance(part.body, str) or '"around"' not in part.body:
        return {}
    try:
        shell = json.loads(part.body).get("around")
    except ValueError:
        return {}
    return shell if isinstance(shell, dict) else {}


def _hidden_calls(message: Message) -> Sequence[Any]:
    hidden = message.metadata.get(ENGINE_CALLS)
    return hidden if isinstance(hidden, list) else ()


def _choose_id(item: Fields, piece: str) -> str:
    name = item.get("id")
    return name if isinstance(name, str) and name and not is_own_id(name) else piece


def _text_of(part: Text | Data | Body) -> str:
    match part:
        case Text(text) | Body(preview=text):
            return text
        case Data(value):
            return codec.encode(value).decode()


def _input_part(part: Part, shell: Fields, bodies: dict[str, bytes]) -> list[Fields]:
    """A part of a message of the user, or of a result."""
    match part:
        case Text() | Data() | Body():
            outer = {key: value for key, value in shell.items() if key not in ("type", "text")}
            return [{"type": "input_text", "text": _text_of(part), **outer}]
        case Image():
            url = part.url
            if part.ref is not None:
                url = data_url(part.ref.media_type or "image/png", bodies[part.ref.digest])
            outer = {key: value for key, value in shell.items() if key not in ("type", "image_url")}
            return [{"type": "input_image", "detail": "auto", **outer, **image_detail(shell), "image_url": url}]
        case File():
            data = data_url(part.ref.media_type or "application/octet-stream", bodies[part.ref.digest])
            outer = {key: value for key, value in shell.items() if key not in ("type", "file", "source")}
            return [{"type": "input_file", **outer, "filename": file_name(part), "file_data": data}]
        case _:
            return []


def _show_input(message: Message, bodies: dict[str, bytes]) -> list[Fields]:
    """A message of the user or the application, and items of unknown types beside it."""
    role = message.metadata.get("role") if message.metadata.get("role") == "developer" else message.role
    brought: Fields = {"id": message.metadata.get("id")}
    status: Any = "completed"
    about: Fields = {}
    items: list[Fields] = []
    open_item: Fields | None = None
    content = entries.content_entries(message, OPENAI, bodies)
    for at, entry in enumerate(content):
        if isinstance(entry, MessageShell):
            about = {key: value for key, value in entry.shell.items() if key in ("phase", "name")}
            brought, status = {"id": entry.shell.get("id", brought["id"])}, entry.shell.get("status", status)
            continue
        if not isinstance(entry, ShownPart | OwnBlock):
            continue
        piece = f"m{entry.handle[1:]}"
        if isinstance(entry, OwnBlock) and entry.block["type"] not in OPENAI_PARTS:
            items.append({**entry.block, "id": _choose_id(entry.block, piece)})
            open_item = None
            continue
        if open_item is None:
            name = _choose_id(brought, piece)
            open_item = {"id": name, "type": "message", "status": status, "role": role, "content": [], **about}
            items.append(open_item)
        if isinstance(entry, OwnBlock):
            open_item["content"].append(entry.block)
        else:
            part = message.content[_part_number(message.content, content, at)]
            open_item["content"] += _input_part(part, entry.shell, bodies)
    return items


class _ReplyItems:
    """The items of a reply, in the order of the model."""

    def __init__(self, message: Message, bodies: dict[str, bytes]) -> None:
        self._message = message
        self._status = "incomplete" if message.skipped in _INCOMPLETE else "completed"
        self._left = [*message.tool_calls, *message.dropped_calls]
        self._order = list(self._left)
        self._hidden = _hidden_calls(message)
        self.items: list[Fields] = []
        about: Fields = {}
        open_item: Fields | None = None
        content = entries.content_entries(message, OPENAI, bodies)
        for at, entry in enumerate(content):
            if isinstance(entry, ShownPart):
                part = message.content[_part_number(message.content, content, at)]
                open_item = self._add_part(part, entry, about, open_item)
                continue
            about, open_item = {}, None
            match entry:
                case MessageShell(shell):
                    about = shell if shell.get("type") == "message" else {}
                case CallMark(shell):
                    self._add_calls(shell)
                case OwnBlock(block):
                    self.items.append({**block, "id": _choose_id(block, f"m{entry.handle[1:]}")})
        for call in self._left:
            self._add_call(call, {})

    def _add_part(self, part: Part, entry: ShownPart, about: Fields, open_item: Fields | None) -> Fields | None:
        if not isinstance(part, Text | Data | Body):
            return open_item
        if open_item is None:
            brought = about if about.get("id") else {"id": self._message.metadata.get("id")}
            name = _choose_id(brought, f"m{entry.handle[1:]}")
            open_item = {
                "id": name,
                "type": "message",
                "status": self._status,
                **{key: value for key, value in about.items() if key not in ("type", "id", "role")},
                "role": "assistant",
                "content": [],
            }
            self.items.append(open_item)
        if entry.shell.get("type") == "refusal":
            open_item["content"].append({**entry.shell, "refusal": _text_of(part)})
        else:
            outer = entry.shell if entry.shell.get("type") == "output_text" else {}
            text = {"type": "output_text", "annotations": [], "logprobs": [], **outer, "text": _text_of(part)}
            open_item["content"].append(text)
        return open_item

    def _add_calls(self, shell: Fields) -> None:
        """The call of this shell; before it, earlier calls without one."""
        name = shell.get("call_id", shell.get("id"))
        at = next((number for number, call in enumerate(self._left) if call.provider_id == name), 0)
        taken, self._left = self._left[: at + 1], self._left[at + 1 :]
        for number, call in enumerate(taken):
            self._add_call(call, shell if number == at else {})

    def _add_call(self, call: ToolCall, shell: Fields) -> None:
        if call.provider_id is not None and call.provider_id in self._hidden:
            return
        kind = _call_kind(shell)
        number = len(self._message.tool_results) + len(self._message.content) + self._order.index(call)
        about = {key: value for key, value in shell.items() if key not in ("type", "id", "function", "custom")}
        item: Fields = {
            "id": _choose_id(shell if shell.get("type") in CALLS else {}, item_id(self._message.seq, number)),
            "type": kind,
            "status": self._status,
            **about,
            "call_id": call.provider_id or call.id,
        }
        if kind in LOCAL_CALLS:
            item |= call.args if isinstance(call.args, dict) else {}
        elif kind == "custom_tool_call":
            item |= {"name": call.name, "input": str(call.args)}
        else:
            item |= {"name": call.name, "arguments": spell_arguments(call)}
        self.items.append(item)


def _call_kind(shell: Fields) -> str:
    kind = shell.get("type")
    if kind in ("custom", "custom_tool_call"):
        return "custom_tool_call"
    return str(kind) if kind in CALLS else "function_call"


def spell_arguments(call: ToolCall) -> str:
    """The arguments of a call, as the model spelled them."""
    if call.raw is not None:
        return call.raw
    return call.args if isinstance(call.args, str) else codec.encode(call.args).decode()
