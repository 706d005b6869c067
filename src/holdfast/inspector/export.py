"""The export of a session: the page and its data in one file, redacted.

Laws: the data are the answers of /api, from the same application or from a server, so that the file shows what the page
shows. Values that need a permission are not in the file, wherever they stand, unless it is asked for. The same store, time
and options give the same bytes. See `redaction` for what it finds, and what not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import msgspec

import holdfast
from holdfast.client.connect import check_address
from holdfast.inspector.addresses import redact_address
from holdfast.inspector.collection import Collection, SessionRef, collect_session, render_pack
from holdfast.inspector.documents import write_file, write_page
from holdfast.inspector.redaction import RedactionMode, Redactor
from holdfast.inspector.shared_parts import Pool


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to export, and to where."""

    ref: SessionRef
    target: str
    made_at: str
    """The time that the file names, in ISO 8601."""
    redaction: RedactionMode = "secrets"
    permissions: tuple[str, ...] = ()
    """Facts that need only these permissions are in the file."""
    replace: bool = False
    """Whether an existing file is replaced."""


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    file: str
    size: int
    answers: int
    left_out: int
    withheld: int
    """Facts that need a permission, and are not in the file."""
    redacted: dict[str, int]
    """How many different values were replaced, by kind."""


async def export_session(client: httpx2.AsyncClient, request: ExportRequest) -> ExportReport:
    """Write a session to a file, from the answers to this client."""
    collection = await collect_session(client, request.ref)
    withheld: dict[str, str] = {}
    seen: set[int] = set()
    for answer in collection.answers.values():
        find_withheld(answer, request.permissions, withheld, seen)
    redactor = Redactor(request.redaction)
    redactor.withhold(withheld.values())
    drop = Drop(request.permissions)
    redactor.learn(_list_values(collection, drop))
    pool = Pool()
    answers = _redact_answers(collection, redactor, drop, pool)
    size = write_file(request.target, _write(collection, request, redactor, (pool, answers)), replace=request.replace)
    return ExportReport(
        file=request.target,
        size=size,
        answers=len(answers),
        left_out=len(collection.omissions),
        withheld=len(withheld),
        redacted=redactor.counts,
    )


def _list_values(collection: Collection, drop: Drop) -> Iterator[Any]:
    yield [collection.ref.session, collection.ref.actor, collection.ref.thread]
    for answer in collection.answers.values():
        yield drop(answer)


def _redact_answers(collection: Collection, redactor: Redactor, drop: Drop, pool: Pool) -> dict[str, Any]:
    """The answers as they leave, and the requests of packs with them.

    Requests are rendered from the redacted pack: they are made of its parts, and so have nothing that it has not. If a
    placeholder stands where a pack cannot have one, the pack itself is rendered, and its requests are redacted.
    """
    _name_session(collection.ref, redactor)  # the first names: [name-1] is the session
    answers: dict[str, Any] = {}
    for address, answer in collection.answers.items():
        redacted = pool.share(redactor.redact(drop(answer)))
        answers[redact_address(redactor, address)] = redacted
        formats = collection.packs.get(address)
        if formats is None:
            continue
        try:
            rendered = render_pack(redacted, formats)
        except ValueError:  # a body that was replaced is no base64
            rendered = {}
        if len(rendered) < len(formats):
            rendered = {to: redactor.redact(each) for to, each in render_pack(drop(answer), formats).items()}
        for to, each in rendered.items():
            answers[redact_address(redactor, formats[to])] = pool.share({"rendered": each})
    return answers


def _name_session(ref: SessionRef, redactor: Redactor) -> dict[str, str]:
    return {name: redactor.redact_name(text) for name, text in (("session", ref.session), *ref.query.items())}


def _write(
    collection: Collection, request: ExportRequest, redactor: Redactor, shared: tuple[Pool, Mapping[str, Any]]
) -> Iterator[str]:
    ref = _name_session(request.ref, redactor)
    omissions = [
        {"path": redact_address(redactor, each.path), "why": each.why, "size": each.size}
        for each in collection.omissions
    ]
    head = {
        "made_at": request.made_at,
        "holdfast": holdfast.__version__,
        "redaction": request.redaction,
        "redacted": redactor.counts,
        "session": ref,
        "left_out": omissions,
    }
    yield from write_page(head, *shared, f"{ref['session']} · Holdfast")


# Facts that need a permission


def needs_permission(value: Mapping[str, Any], permissions: Iterable[str]) -> bool:
    """Whether a JSON object is a fact that needs other permissions than these."""
    requires = value.get("requires")
    return isinstance(requires, list) and "key" in value and bool(set(map(str, requires)) - set(permissions))


def find_withheld(value: Any, permissions: Iterable[str], found: dict[str, str], seen: set[int]) -> None:
    """Collect the values of facts that need a permission, as texts. `seen` has the parts that were looked at."""
    if not isinstance(value, dict | list) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        if needs_permission(value, permissions):
            for number, text in enumerate(_list_texts(value.get("value"))):
                found[f"{value.get('ledger')}/{value.get('id')}/{number}"] = text
            return
        for each in value.values():
            find_withheld(each, permissions, found, seen)
    else:
        for each in value:
            find_withheld(each, permissions, found, seen)


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _list_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _list_texts(each)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


class Drop:
    """Takes facts that need a permission out of JSON: they are gone from lists, and null elsewhere. Each part is looked at
    once, and what has none of them stays the same object."""

    def __init__(self, permissions: Iterable[str]) -> None:
        self._permissions = frozenset(permissions)
        self._done: dict[int, tuple[Any, Any]] = {}  # with the part itself: its id stays taken

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        if id(value) not in self._done:
            self._done[id(value)] = (value, self._drop(value))
        return self._done[id(value)][1]

    def _drop(self, value: Any) -> Any:
        if isinstance(value, dict):
            if needs_permission(value, self._permissions):
                return None
            fields = {name: self(each) for name, each in value.items()}
            return value if all(fields[name] is each for name, each in value.items()) else fields
        kept = [each for each in value if not (isinstance(each, dict) and needs_permission(each, self._permissions))]
        items = [self(each) for each in kept]
        is_same = len(items) == len(value) and all(one is other for one, other in zip(items, value, strict=True))
        return value if is_same else items


# Clients


def open_client(url: str, key: str, timeout_s: float) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
    """A client of a server: the address that `holdfast serve` prints, and a key."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.AsyncClient(base_url=check_address(url), headers=headers, timeout=timeout_s)


@asynccontextmanager
async def open_app_client(app: Any, token: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an application in this process, which runs while the block does."""
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app)
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            yield client


def run_export(
    open_: Callable[[], AbstractAsyncContextManager[httpx2.AsyncClient]], request: ExportRequest
) -> ExportReport:
    """Export with a client that is opened for it."""

    async def run() -> ExportReport:
        async with open_() as client:
            return await export_session(client, request)

    return asyncio.run(run())
