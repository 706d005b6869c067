"""The Conversations API: a conversation is a session, its items are its messages.

Laws: several items are stored together or not at all. Items have stable ids and a stable order, whoever else writes. An
item is deleted for good, and with all that would be refused without it: a call group goes as one.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import AsyncIterator, Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import holdfast
from holdfast import codec
from holdfast.access import access as access_module
from holdfast.access.access import open_session
from holdfast.errors import NotFound, ProposalNotFound, SessionExists
from holdfast.model import limits
from holdfast.model.content import calling_seq
from holdfast.model.sessions.messages import Message
from holdfast.runtime.options import SessionOptions
from holdfast.server.context import access_of, engine_of, settings_of
from holdfast.server.v1.bodies import (
    Fields,
    Order,
    build_page,
    digest_fields,
    get_key,
    get_list,
    get_metadata,
    get_page,
    read_body,
)
from holdfast.server.v1.errors import invalid, not_found
from holdfast.server.v1.ids import derive_conversation_id, new_conversation_id
from holdfast.server.v1.items import BATCH_ITEMS, ItemReader, brought_ids, duplicate_id, is_listed, read_items

METADATA_ENTRY = "metadata"
ITEMS_ENTRY = "v1.items"
USER_METADATA = "user"
"""The metadata of a conversation, or of a response without one, by which a program names its user."""
STATED = "stated"
"""The rule of a plain statement of the user."""
PAGE_SEQS = 200
"""How many events are read at once for a page."""
DELETED_HEADER = "Holdfast-Deleted-Items"
"""The ids of all items that went with a deleted one."""
NAME_CHARS = 256


# Open and create


async def open_conversation(request: Request, name: object, param: str = "conversation") -> holdfast.AsyncSession:
    """The session of a conversation, as the caller may use it."""
    if type(name) is not str or not name or len(name) > NAME_CHARS:
        raise not_found("Conversation", name, param)
    try:
        return await open_session(engine_of(request), access_of(request), name)
    except (NotFound, holdfast.errors.InvalidName):
        raise not_found("Conversation", name, param) from None


async def create_session(
    request: Request, name: str, *, user: str | None = None, metadata: Fields | None = None
) -> holdfast.AsyncSession:
    """A new session for the caller; the one of this name, if it exists. A program may name the user of the session."""
    access, engine = access_of(request), engine_of(request)
    options: SessionOptions = {"metadata": metadata} if metadata else {}
    user = user if access.is_program else None
    if settings_of(request).memory and (user is not None or not access.is_program):
        options["memory"] = True
    try:
        return await access_module.create_session(engine, access, name, user=user, **options)
    except SessionExists:
        return await open_session(engine, access, name)


async def observe_user(request: Request, session: holdfast.AsyncSession, messages: Iterable[Message]) -> None:
    """Read what the user states in messages for facts, if the server has a memory and the session a user. Another time it
    changes nothing.

    What users plainly state of themselves is accepted: nobody could be asked, and the end of the conversation would learn
    it anyway."""
    said = [message for message in messages if message.role == "user" and message.text]
    if not said or not settings_of(request).memory or not (await session.state()).identity.user_id:
        return
    for message in said:
        outcome = await session.observe(message, key=f"v1-observe-{message.id}")
        for each in outcome.proposals:
            if each.outcome == "asked" and each.proposal.rule == STATED:
                with contextlib.suppress(ProposalNotFound):  # it was decided before
                    await session.facts.accept(each.id, key=f"v1-accept-{message.id}-{each.id}")


def key_name(request: Request, key: str) -> str:
    """An idempotency key, as the engine uses it: the same key of two callers is two keys."""
    access = access_of(request)
    words = [access.principal, access.choose_actor(None), key]
    return f"v1-{hashlib.sha256(codec.encode(words)).hexdigest()[:40]}"


# Conversations


async def create(request: Request) -> Response:
    access_of(request).check("write")
    body, key = await read_body(request), get_key(request)
    metadata = get_metadata(body)
    values = get_list(body, "items")
    items = read_items(values, "items", BATCH_ITEMS)
    name = new_conversation_id() if key is None else derive_conversation_id(key_name(request, key), "conversation")
    session = await create_session(request, name, user=metadata.get(USER_METADATA), metadata=metadata)
    noted = None if key is None else f"{key_name(request, key)}:items"
    if noted is not None:
        await note_request(session, ITEMS_ENTRY, noted, body)
    if items:
        await observe_user(request, session, await session.record_all(items, key=noted))
    return JSONResponse(await describe_conversation(session))


async def retrieve(request: Request) -> Response:
    access_of(request).check("read")
    session = await open_conversation(request, request.path_params["conversation"])
    return JSONResponse(await describe_conversation(session))


async def update(request: Request) -> Response:
    access_of(request).check("write")
    body = await read_body(request)
    metadata = get_metadata(body)
    session = await open_conversation(request, request.path_params["conversation"])
    await session.entries.append(METADATA_ENTRY, f"metadata-{secrets.token_hex(16)}", metadata)
    return JSONResponse(await describe_conversation(session))


async def delete(request: Request) -> Response:
    """Delete a conversation for good, with the responses in it and the branches that share its items."""
    access_of(request).check("write")
    name = request.path_params["conversation"]
    session = await open_conversation(request, name)
    await session.destroy("deleted by the client", offload=False, forks="destroy")
    return JSONResponse({"id": name, "object": "conversation.deleted", "deleted": True})


async def describe_conversation(session: holdfast.AsyncSession) -> Fields:
    state = await session.state()
    changed = await session.entries.list(kind=METADATA_ENTRY, limit=1)
    return {
        "id": session.scope.session,
        "object": "conversation",
        "created_at": state.created_us // 1_000_000,
        "metadata": changed[0].body if changed else state.metadata,
    }


# Items


async def create_items(request: Request) -> Response:
    access_of(request).check("write")
    body, key = await read_body(request), get_key(request)
    values = get_list(body, "items")
    items = read_items(values, "items", BATCH_ITEMS)
    if not items:
        raise invalid("'items' is empty: pass at least one item. Nothing was stored.", "items")
    session = await open_conversation(request, request.path_params["conversation"])
    name = None if key is None else f"{key_name(request, key)}:items"
    reader = ItemReader(session, engine_of(request).blobs)
    if name is None or not await note_request(session, ITEMS_ENTRY, name, body):
        await check_new_ids(reader, values, "items")
    messages = await session.record_all(items, key=name)
    await observe_user(request, session, messages)
    shown = [item for each in await reader.show(messages) for item in each]
    return JSONResponse(build_page(shown, has_more=False))


async def note_request(session: holdfast.AsyncSession, kind: str, name: str, body: Fields) -> bool:
    """Note the request of a key. Returns whether it was noted before; another request with the key is refused."""
    before = await session.entries.get(name)
    await session.entries.append(kind, name, {"digest": digest_fields(body)})
    return before is not None


async def check_new_ids(reader: ItemReader, values: list[Any], param: str) -> None:
    """Refuse ids that items of the conversation have."""
    for name in brought_ids(values):
        if await reader.find(name) is not None:
            raise duplicate_id(name, param)


async def retrieve_item(request: Request) -> Response:
    access_of(request).check("read")
    session = await open_conversation(request, request.path_params["conversation"])
    name = request.path_params["item"]
    found = await ItemReader(session, engine_of(request).blobs).find(name)
    if found is None:
        raise not_found("Item", name)
    return JSONResponse(found[1])


async def list_items(request: Request) -> Response:
    access_of(request).check("read")
    after, order, limit = get_page(request)
    session = await open_conversation(request, request.path_params["conversation"])
    return JSONResponse(await page_items(session, engine_of(request).blobs, after, order, limit))


async def delete_item(request: Request) -> Response:
    access_of(request).check("write")
    session = await open_conversation(request, request.path_params["conversation"])
    name = request.path_params["item"]
    reader = ItemReader(session, engine_of(request).blobs)
    found = await reader.find(name)
    if found is None:
        raise not_found("Item", name)
    group = await find_group(session, found[0])
    gone = [item["id"] for items in await reader.show(group) for item in items]
    calls = {call.id for message in group for call in message.tool_calls}
    if any(call.id in calls for call in await session.open_calls()):
        closing = await session.close_calls("the call was deleted")
        group += [closing] if closing is not None else []
    await session.erase([message.seq for message in group], "deleted by the client")
    return JSONResponse(await describe_conversation(session), headers={DELETED_HEADER: ",".join(gone)})


async def find_group(session: holdfast.AsyncSession, message: Message) -> list[Message]:
    """The message with all that belongs to it: the calls of a result, and the results of calls."""
    seqs = [seq for result in message.tool_results if (seq := calling_seq(result.tool_call_id)) is not None]
    if seqs:
        found = await session.messages(before=min(seqs) + 1, limit=1)
        message = found[0] if found and found[0].seq == min(seqs) else message
    open_calls = {call.id for call in message.tool_calls} - {call.id for call in await session.open_calls()}
    group = [message]
    if not open_calls:
        return group
    async for later in walk_messages(session, message.seq):
        answered = {result.tool_call_id for result in later.tool_results} & open_calls
        if answered:
            group.append(later)
            open_calls -= answered
        if not open_calls:
            break
    return group


# Pages


async def page_items(
    session: holdfast.AsyncSession,
    blobs: Any,
    after: str | None,
    order: Order,
    limit: int,
    seqs: tuple[int, int] | None = None,
) -> Fields:
    """A page of the items of a session; with `seqs`, of the messages after the first one up to the second one."""
    reader = ItemReader(session, blobs)
    first, last = seqs or (0, (await session.state()).version)
    start: Message | None = None
    if after is not None:
        found = await reader.find(after)
        if found is None:
            raise not_found("Item", after, "after")
        start = found[0]
    if order == "asc":
        walk = walk_messages(session, first if start is None else max(first, start.seq - 1), last)
    else:
        walk = walk_back(session, last + 1 if start is None else min(last, start.seq) + 1, first)
    items: list[Fields] = []
    is_past = after is None
    async for message in walk:
        (shown,) = await reader.show([message])
        for item in shown if order == "asc" else reversed(shown):
            if is_past:
                items.append(item)
            elif item.get("id") == after:
                is_past = True
        if len(items) > limit:
            break
    return build_page(items[:limit], has_more=len(items) > limit)


async def walk_messages(session: holdfast.AsyncSession, after: int, last: int | None = None) -> AsyncIterator[Message]:
    """The messages after a seq, oldest first."""
    last = (await session.state()).version if last is None else last
    while after < last:
        end = min(after + PAGE_SEQS, last)
        for message in await session.messages(before=end + 1, limit=min(end - after, limits.READ_EVENTS)):
            if message.seq > after and is_listed(message):
                yield message
        after = end


async def walk_back(session: holdfast.AsyncSession, before: int, first: int = 0) -> AsyncIterator[Message]:
    """The messages before a seq, newest first."""
    while page := await session.messages(before=before, limit=PAGE_SEQS):
        for message in reversed(page):
            if message.seq <= first:
                return
            if is_listed(message):
                yield message
        before = page[0].seq
