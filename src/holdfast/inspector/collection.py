"""The answers of /api that show one session: what a file of it is made of.

Laws: every answer is what the server said, value for value, under the address that the page asks for; pages of a list are
one list. An answer that the key may not have is not there, and nothing says that it could be. Everything is bounded; what
is left out because of a bound is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import httpx2
import msgspec

from holdfast.api.packs import PackDocument, PackFormat, describe_pack, receive_pack
from holdfast.api.problems import read_problem
from holdfast.api.requests import API
from holdfast.errors import HoldfastError, ServerUnreachable
from holdfast.inspector.addresses import build_address, build_read_address, encode_name
from holdfast.inspector.shared_parts import Pool
from holdfast.model.names import DEFAULT_ACTOR

CALLS = 100
"""The newest calls whose packs are in the file: manifest, document, requests and differences."""
ITEMS = 20_000
"""Items of one list: messages, calls, spans."""
KEYS = 300
"""Keys of facts with their history and explanation."""
BODIES = 100
"""Handles whose content is in the file."""
BODY_CHARS = 20_000
"""The characters of the content of one handle."""
ANSWER_BYTES = 4 << 20
"""An answer of more bytes is left out."""
FILE_BYTES = 64 << 20
"""All answers together, each repeated part counted once: what does not fit any more is left out."""
PAGE_ITEMS = 1_000
"""Items that one request asks for."""
FORMATS: tuple[PackFormat, ...] = ("anthropic", "openai", "openai-responses", "gemini", "bedrock", "litellm", "text")
"""The requests of a call that are in the file, if it is one of the newest."""
FORMAT_CALLS = 10
"""The newest calls whose packs are in the file in every format. An older one is there as its provider gets it: seven
requests for each of a hundred calls took most of the time of an export, and nobody compares them."""
OLDEST_FIRST = frozenset({"messages", "evidence", "actions", "attachments"})
"""Lists in the order of time: the next page has what was before."""
_REFUSED = frozenset({400, 403, 404, 405, 409, 410, 422, 501})
"""Answers that say that there is nothing for this key, or not at this server."""


class SessionRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which session: its name, and its actor and thread if they are not the default."""

    session: str
    actor: str = ""
    thread: str = ""

    @property
    def query(self) -> dict[str, str]:
        actor = "" if self.actor == DEFAULT_ACTOR else self.actor
        return {name: text for name, text in (("actor", actor), ("thread", self.thread)) if text}


class Omission(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not in the file, because of a bound."""

    path: str
    why: str
    size: int = 0
    """Bytes or items, as `why` says."""


class Collection:
    """The answers of a server that were asked for, by their addresses."""

    def __init__(self, client: httpx2.AsyncClient, ref: SessionRef) -> None:
        self._client = client
        self.ref = ref
        self.answers: dict[str, Any] = {}
        self.packs: dict[str, dict[PackFormat, str]] = {}
        """The addresses of the requests of each pack, by the address of the pack."""
        self.omissions: list[Omission] = []
        self.pool = Pool()
        """What the answers are made of: each part is in memory once, however many packs show it."""

    async def get(self, path: str, **query: str) -> Any:
        """Ask for an answer and keep it. None if there is none for this key."""
        address = build_address(path, query)
        content = await self._ask("GET", address)
        return None if content is None else self._keep(address, content)

    async def get_of(self, path: str, **query: str) -> Any:
        """The same, for a path below the session."""
        return await self.get(self.locate(path), **self.ref.query, **query)

    async def list_of(self, path: str, *, most: int = ITEMS, **query: str) -> list[Any]:
        """Ask for a list below the session, page by page, and keep it as one."""
        return await self.list(self.locate(path), most=most, **self.ref.query, **query)

    async def list(self, path: str, *, most: int = ITEMS, **query: str) -> list[Any]:
        """Ask for a list, page by page, and keep it as one. Empty if there is none for this key."""
        address = build_address(path, query)
        is_reversed = path.rpartition("/")[2] in OLDEST_FIRST
        items: list[Any] = []
        page = ""
        while True:
            paging = {"page": page} if page else {}
            content = await self._ask("GET", build_address(path, query), paging)
            if content is None:
                return items
            answer = msgspec.json.decode(content)
            items = answer["items"] + items if is_reversed else items + answer["items"]
            page = answer.get("next", "")
            if not page or len(items) >= most:
                break
        if page:
            self.omissions.append(Omission(path=address, why=f"the file has {most} items of a list", size=len(items)))
        self._keep(address, msgspec.json.encode({"items": items}))
        return items

    def put(self, address: str, value: Any) -> None:
        """Keep this answer at an address."""
        self.answers[address] = self.pool.share(value)

    async def read(self, path: str, body: dict[str, Any]) -> Any:
        """Ask by POST for an answer below the session that changes nothing, and keep it."""
        address = build_address(self.locate(path), self.ref.query)
        content = await self._ask("POST", address, body=body)
        return None if content is None else self._keep(build_read_address(address, body), content)

    async def get_pack(self, pack: str, formats: Iterable[PackFormat] = FORMATS) -> None:
        """Keep a pack. Its requests to providers, in these formats, are rendered when the file is written."""
        path = self.locate(f"/packs/{encode_name(pack)}")
        address = build_address(path, self.ref.query)
        content = await self._ask("GET", address)
        if content is not None:
            self._keep(address, content)
            if address in self.answers:
                self.packs[address] = {to: build_address(path, {**self.ref.query, "to": to}) for to in formats}

    def locate(self, path: str) -> str:
        return f"/sessions/{encode_name(self.ref.session)}{path}"

    def leave_out(self, path: str, why: str, size: int = 0) -> None:
        """Name something that is not in the file."""
        self.omissions.append(Omission(path=path, why=why, size=size))

    def _keep(self, address: str, content: bytes) -> Any:
        value = msgspec.json.decode(content)
        if len(content) > ANSWER_BYTES:
            self.leave_out(address, f"it has more than {ANSWER_BYTES} bytes", len(content))
        elif self.pool.size > FILE_BYTES:
            self.leave_out(address, f"the file has {FILE_BYTES} bytes already", len(content))
        else:
            self.put(address, value)
        return value

    async def _ask(
        self, verb: str, address: str, paging: dict[str, str] | None = None, body: dict[str, Any] | None = None
    ) -> bytes | None:
        url = f"{API}{address}"
        for name, text in (paging or {}).items():
            url += f"{'&' if '?' in url else '?'}{name}={encode_name(text)}"
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            answer = await self._client.request(verb, url, content=content, headers=headers)
        except httpx2.HTTPError as error:
            server = str(self._client.base_url)
            raise ServerUnreachable(server=server, reason=str(error) or type(error).__name__) from error
        if answer.status_code == 200:
            return answer.content
        if answer.status_code in _REFUSED:
            return None
        raise _read_error(answer)


def render_pack(document: Any, formats: Iterable[PackFormat]) -> dict[PackFormat, Any]:
    """The requests of a pack in these formats; none from a server of another version, whose packs are unlike ours."""
    try:
        pack = receive_pack(msgspec.convert(document, PackDocument))
    except (HoldfastError, msgspec.MsgspecError):
        return {}
    rendered: dict[PackFormat, Any] = {}
    for to in formats:
        with suppress(HoldfastError):  # not every provider can be sent everything
            rendered[to] = msgspec.to_builtins(describe_pack(pack, to).rendered)
    return rendered


def _read_error(answer: httpx2.Response) -> Exception:
    try:
        return read_problem(answer.json(), str(answer.url.host))
    except ValueError:
        return read_problem({"status": answer.status_code}, str(answer.url.host))


async def collect_session(client: httpx2.AsyncClient, ref: SessionRef) -> Collection:
    """Ask for everything that the page shows of a session. Raises what the server says if there is no such session."""
    collection = Collection(client, ref)
    await _check_session(client, collection)
    await collection.get("/caller")
    state = await collection.get_of("") or {}
    rows = await collection.list("/sessions", most=ITEMS, order="recent")
    _keep_own_row(collection, rows)
    await collection.list_of("/messages")
    await _collect_facts(collection, state)
    await _collect_work(collection)
    user = (state.get("identity") or {}).get("user_id", "")
    if user:
        await collection.get("/memory/known", user=user)
        await collection.get("/memory/totals", user=user)
    await collection.get("/admin/totals")
    await _collect_calls(collection)  # the last: if something does not fit, it is an old pack
    return collection


async def _check_session(client: httpx2.AsyncClient, collection: Collection) -> None:
    address = build_address(collection.locate(""), collection.ref.query)
    try:
        answer = await client.get(f"{API}{address}")
    except httpx2.HTTPError as error:
        raise ServerUnreachable(server=str(client.base_url), reason=str(error) or type(error).__name__) from error
    if answer.status_code != 200:
        raise _read_error(answer)


def _keep_own_row(collection: Collection, rows: list[Any]) -> None:
    """The list of sessions in the file has this one only: nothing says which others there are."""
    ref = collection.ref
    wanted = (ref.session, ref.actor or DEFAULT_ACTOR, ref.thread)
    own = [row for row in rows if (row.get("session"), row.get("actor"), row.get("thread", "")) == wanted]
    for address in ("/sessions", "/sessions?order=recent"):
        collection.put(address, {"items": own})
    collection.omissions = [each for each in collection.omissions if not each.path.startswith("/sessions?")]


async def _collect_calls(collection: Collection) -> None:
    """The model calls, and the newest packs as a whole."""
    calls = await collection.list_of("/model-calls")
    packs = await collection.list_of("/packs")
    bases = _find_bases(calls)
    providers = {call["pack"]["id"]: call.get("provider", "") for call in calls if call.get("pack")}
    for number, pack in enumerate(packs[:CALLS]):
        name = pack["id"]
        formats = FORMATS if number < FORMAT_CALLS else (choose_format(providers.get(name, "")),)
        path = f"/packs/{encode_name(name)}"
        await collection.get_of(f"{path}/manifest")
        await collection.get_pack(name, formats)
        await collection.list_of(f"{path}/redactions")
        if name in bases:
            await collection.read("/packs/diff", {"first": bases[name], "second": name})
    if len(packs) > CALLS:
        why = f"the file has the newest {CALLS} packs; older calls are in the list without their packs"
        collection.leave_out(collection.locate("/packs"), why, len(packs) - CALLS)


def choose_format(provider: str) -> PackFormat:
    """The format in which a provider was most likely called: the one that the page shows first."""
    name = provider.lower()
    if "openai" in name:
        return "openai"
    if "google" in name or "gemini" in name:
        return "gemini"
    return "bedrock" if "bedrock" in name or "aws" in name else "anthropic"


def _find_bases(calls: list[Any]) -> dict[str, str]:
    """The pack that each pack is compared with, as the page chooses it: that of the call before in its conversation."""
    by_id = {call["id"]: call for call in calls}
    later: dict[Any, list[Any]] = {}
    bases: dict[str, str] = {}

    def set_base(call: Any, before: Any) -> None:
        if before is not None and call.get("pack") and before.get("pack"):
            bases[call["pack"]["id"]] = before["pack"]["id"]

    for call in calls:
        frame = call.get("frame")
        for each in later.pop(frame, []):
            set_base(each, call)
        previous = (call.get("cache") or {}).get("previous")
        if previous:
            set_base(call, by_id.get(previous))
        else:
            later.setdefault(frame, []).append(call)
    return bases


async def _collect_facts(collection: Collection, state: Mapping[str, Any]) -> None:
    """What is known in the session and in the ledgers that it reads, as its identity sees them."""
    ledgers = ["", *(f"/ledgers/{encode_name(kind)}/{encode_name(name)}" for kind, name in _list_ledgers(state))]
    for ledger in ledgers:
        await collection.list_of(f"{ledger}/facts")
        await collection.list_of(f"{ledger}/facts", status="dead")
        facts = await collection.list_of(f"{ledger}/facts", within="any")
        facts += await collection.list_of(f"{ledger}/facts", status="dead", within="any")
        await collection.list_of(f"{ledger}/facts/constraints")
        await collection.list_of(f"{ledger}/review")
        keys = list(dict.fromkeys((fact["key"], *_find_place(fact)) for fact in facts))
        for key, scope, scope_id in keys[:KEYS]:
            await collection.list_of(f"{ledger}/facts/history", name=key)
            await collection.get_of(f"{ledger}/facts/why", name=key, scope=scope, scope_id=scope_id)
        if len(keys) > KEYS:
            why = f"the file has the history of {KEYS} keys"
            collection.leave_out(collection.locate(f"{ledger}/facts/history"), why, len(keys) - KEYS)
    await collection.list_of("/facts/proposals")


def _find_place(fact: Mapping[str, Any]) -> tuple[str, str]:
    """Where a fact holds, as the page asks for its explanation; empty: everywhere."""
    scope = fact.get("scope") or "global"
    return ("", "") if scope == "global" else (scope, fact.get("scope_id") or "")


def _list_ledgers(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for ledger in state.get("ledgers") or ():
        kind, *names = ledger if isinstance(ledger, list) else (ledger.get("kind"), *ledger.get("names", ()))
        if len(names) == 1:
            yield str(kind), str(names[0])


async def _collect_work(collection: Collection) -> None:
    """Turns, frames, handles, boundaries and what else a session has."""
    for path in ("/activity", "/frames", "/calls", "/forks", "/context/summaries", "/situation/actions"):
        await collection.list_of(path)
    for path in ("/situation", "/working", "/context/view", "/context/occupancy", "/entries/report"):
        await collection.get_of(path)
    await collection.list_of("/entries", bodies="false")
    handles = await collection.list_of("/handles")
    for handle in handles[:BODIES]:
        await collection.get_of(f"/handles/{encode_name(handle['id'])}/text", start="0", stop=str(BODY_CHARS))
    if len(handles) > BODIES:
        why = f"the file has the content of {BODIES} handles"
        collection.leave_out(collection.locate("/handles"), why, len(handles) - BODIES)
