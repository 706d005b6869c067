"""What the tests of the stores on PostgreSQL do behind their backs: roles, raw sessions, operations driven by hand."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

import psycopg
import pytest
from psycopg import conninfo, sql

import holdfast
from holdfast import errors
from holdfast.model.log import Append, AppendResult
from holdfast.model.memory.passages import (
    IndexMark,
    PassageBatch,
    PassageFilter,
    PassageQuery,
    StreamSpan,
    VectorQuery,
)
from holdfast.runtime.engine import Engine
from holdfast.storage.postgres import log
from holdfast.storage.postgres.connect import parse_address
from holdfast.storage.postgres.log import SQL, Operation
from holdfast.testing.contract_passages import passage_of
from tests.postgres import base_url, fresh_url

T = TypeVar("T")
RawConnection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

APPLICATION_GRANTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}",
)
"""What a role needs that does a tenant's work and no more."""


class AppendRefused(Exception):
    """The function `append` would not have it."""


def connect_raw(url: str, *, autocommit: bool = True) -> RawConnection:
    """A session on a store's schema that is not the store's."""
    return psycopg.connect(parse_address(url).info, autocommit=autocommit)


def drive_by_hand(operation: Operation[T], connection: RawConnection) -> T:
    """Drive an operation on a session of ours, in whatever transaction it is in."""
    try:
        ask = next(operation)
        while True:
            if not ask.sets_tenant:
                connection.execute(SQL["act_for"], (ask.tenant,))
            cursor = connection.execute(ask.statement, ask.values, binary=True)
            found = cursor.fetchall() if cursor.description else []
            if ask.statement == SQL["append"] and found:
                raise AppendRefused(found)
            ask = operation.send(found)
    except StopIteration as stop:
        result: T = stop.value
        return result


def append_by_hand(connection: RawConnection, append: Append) -> AppendResult:
    return drive_by_hand(log.append_alone(append, lost=False), connection)[1]


def schema_of(url: str) -> sql.Identifier:
    return sql.Identifier(parse_address(url).schema)


class Roles(NamedTuple):
    """Neither is a superuser, and neither bypasses row-level security."""

    owner: str
    application: str

    def url(self) -> str:
        """A store that is not there yet, for the owner to make."""
        return fresh_url(_url_as(self.owner))

    def let_in(self, url: str) -> str:
        """The store of this owner, as the application opens it."""
        with connect_raw(url) as connection:
            for right in APPLICATION_GRANTS:
                words = sql.SQL(right).format(schema=schema_of(url), role=sql.Identifier(self.application))
                connection.execute(words)
        return f"{_url_as(self.application)}&schema={parse_address(url).schema}"


def _url_as(role: str) -> str:
    """The tests' server as this role reaches it: every word in the query, where libpq takes all of them."""
    words = conninfo.conninfo_to_dict(base_url()) | {"user": role, "password": role}
    return "postgresql:///?" + "&".join(f"{name}={value}" for name, value in words.items())


@contextmanager
def create_roles() -> Iterator[Roles]:
    roles = Roles(*(f"{kind}_{uuid.uuid4().hex[:12]}" for kind in ("owner", "application")))
    with psycopg.connect(base_url(), autocommit=True) as connection:
        database = sql.Identifier(connection.info.dbname)
        for role in roles:
            name = sql.Identifier(role)
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, sql.Literal(role)))
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, sql.Identifier(roles.owner)))
        yield roles
        for role in roles:
            connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def wait_for_transactions(connection: RawConnection) -> None:
    """Wait until every transaction that is under way now has ended: what it did shows in the feed from then on."""
    ((last,),) = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchall()
    while connection.execute(
        "SELECT 1 WHERE pg_snapshot_xmin(pg_current_snapshot()) < (%s::text)::xid8", (last,)
    ).fetchone():
        pass


_BLOCKED = """
WITH RECURSIVE blocked (pid) AS (
    SELECT %s::integer
    UNION SELECT a.pid FROM pg_stat_activity a, blocked b WHERE b.pid = ANY (pg_blocking_pids(a.pid))
)
SELECT count(*) - 1 FROM blocked
"""


def wait_until_blocked(connection: RawConnection, others: int = 1) -> None:
    """Until so many sessions wait for a lock that this one holds, or for one of those."""
    with connect_twin(connection) as observer:
        while observer.execute(_BLOCKED, (connection.info.backend_pid,)).fetchone() != (others,):
            pass


def connect_twin(connection: RawConnection) -> RawConnection:
    return psycopg.connect(connection.info.dsn, password=connection.info.password, autocommit=True)


def exercise_tenant(engine: Engine) -> None:
    """Everything that one tenant can ask for, and the answers looked at."""
    session = engine.create_session("trip", actor="ada", metadata={"to": "Rome"}, idle_timeout_s=3_600, key="create")
    asked = session.record("user", "Where to?", key="ask")
    assert session.record("user", "Where to?", key="ask") == asked
    answer = session.record("assistant", "Let me look.", tool_calls=[{"name": "look", "args": {}}])
    found = session.result(answer.tool_calls[0], io.BytesIO(b"\0\xff" * 200_000))
    session.record("assistant", "A secret.", key="secret")
    assert session.context.window(tokens=8_000).messages[0] == asked
    assert [each.text for each in session.messages(limit=1)] == ["A secret."]
    session.erase([session.state().version], "private")
    assert session.messages(limit=1)[0].erased
    (body,) = [part.ref for part in found.tool_results[0].content if isinstance(part, holdfast.types.Body)]
    assert engine.blobs.read(body) == b"\0\xff" * 200_000
    assert [row.session for row in engine.sessions(actor="ada", order="recent")] == ["trip"]
    many = engine.create_session("many", actor="ada")
    for number in range(101):
        many.record("user", f"{number}")
    assert engine.session("many", actor="ada").state().messages == 101
    long = many.record("user", "A long text. " * 500)
    page = many.handles.page_out(f"h{long.seq}_0")
    assert many.handles.page_in(page).residency == "resident"
    assert many.handles.page_out(page).residency == "paged_out"
    many.entries.append("checkpoint", "1", {"messages": [f"message {each} " * 50 for each in range(9)]})
    many.entries.append("checkpoint", "2", b"bytes", parent="1")
    assert [entry.key for entry in many.entries.list(kind="checkpoint")] == ["2", "1"]
    assert [entry.body for entry in many.entries.list(parent="1")] == [b"bytes"]
    idle = engine.create_session("idle", actor="ada", idle_timeout_s=0.000_001)
    idle.record("user", "Anyone?")
    session.reset("anew")
    assert [scope.session for scope in engine.admin.sweep().sessions] == ["idle"]
    entries = engine.admin.outbox()
    assert {entry.scope.session for entry in entries} == {"trip", "idle"}
    for entry in entries:
        engine.admin.acknowledge(entry)
    idle.destroy("over")
    with pytest.raises(errors.SessionDestroyedError):
        idle.record("user", "Still there?")
    exercise_frames(engine)
    exercise_facts(engine)
    exercise_passages(engine, many.scope)
    assert {row.session for row in engine.sessions()} == {"trip", "many", "frames", "facts"}


def exercise_passages(engine: Engine, scope: holdfast.types.Scope) -> None:
    """Passages of a session are stored, taken, found, given a vector; and an entry of the outbox is claimed."""
    store: Any = engine.store
    words, others = passage_of(scope.stream, 2, "lion"), passage_of(scope.stream, 3, "lion")
    batch = PassageBatch(stream=scope.stream, before=None, mark=IndexMark(version=3), passages=(words, others))
    assert store.index_passages(batch)
    assert store.take_passages(StreamSpan(scope.stream, 1, 2)) == 1
    store.put_vectors("e", [(words.passage.key, (1.0, 0.0))])
    visible = PassageFilter(tenant=scope.tenant, user="ada")
    found = store.match_passages(PassageQuery(visible=visible, terms=("lion",), limit=9))
    ((nearest, _),) = store.match_vectors(VectorQuery(visible=visible, embedder="e", vector=(1.0, 0.0), limit=9))
    assert found.passages == (nearest,) == store.recent_passages(visible, 9)
    again = engine.create_session("claimed", actor="ada")
    again.record("user", "Remember this.")
    again.reset("anew")
    again.destroy("over", offload=False)
    (claimed,) = store.claim_offloads(scope.tenant, owner="w", now_us=1, lease_us=1, limit=9)
    assert claimed.offload.scope.session == "claimed"


def exercise_frames(engine: Engine) -> None:
    session = engine.create_session("frames", actor="ada")
    root = session.frame("Compare them", budget=1_000, timeout_s=3_600)
    page = root.handles.add("document", "What is on the page.", source="page")
    assert root.handles.add("document", "What is on the page.", source="page") == page
    with root.frame("Read the other", budget=100) as child:
        child.budget.use(10)
    late = root.frame("Too long", budget=100, timeout_s=0.000_001)
    assert [name for _, name in engine.admin.sweep().frames] == [late.id]
    assert [frame.id for frame in session.frames.list(status="live")] == [root.id]
    assert [frame.id for frame in session.frames.list(parent=root.id)] == [child.id, late.id]
    assert [frame.id for frame in session.frames.list(status="completed")] == [child.id]
    assert [handle.source for handle in root.handles.attachments()] == ["page", child.id, late.id]
    token = root.suspend("a question")
    assert [rest.frame for rest in engine.suspended(actor="ada")] == [root.id]
    assert engine.resume(token).state().context_handles[0] == page
    assert (engine.suspended(), root.state().status) == ([], "active")


def exercise_facts(engine: Engine) -> None:
    ledger = engine.ledger(user="ada")
    city = ledger.set("home.city", "Rome", ref="city")
    assert ledger.set("home.city", "Rome") == city
    plan = ledger.set("plan", "meetings in Rome", depends_on=[city.id], ttl_s=3_600)
    moved = ledger.set("home.city", "Paris", supersedes=["city"])
    assert [fact.id for fact in ledger.history("home.city")] == [city.id, moved.id]
    assert [fact.id for fact in ledger.review.list()] == [plan.id]
    assert [known.fact.id for known in ledger.search("a meeting in Paris")] in (
        [plan.id, moved.id],
        [moved.id, plan.id],
    )
    rule = ledger.set("rule", "never by train", is_constraint=True, requires=["plan"])
    assert [fact.id for fact in ledger.constraints()] == [rule.id]
    ledger.set("snack", "a sandwich", ttl_s=0.000_001)
    secret = ledger.set("secret", "swordfish")
    assert engine.admin.sweep().facts == 1
    ledger.erase(secret, "private")
    assert ledger.search("swordfish") == ()
    meeting = ledger.set("meeting.day", "Tuesday")
    session = engine.create_session("facts", actor="ada", ledgers=[ledger.id])
    (judged,) = session.observe("Actually, the meeting was moved from Tuesday to Wednesday.").proposals
    assert judged.outcome == "applied"
    current = ledger.get("meeting.day")
    assert current is not None
    assert (current.value, current.supersedes) == ("Wednesday", (meeting.id,))
    assert [row.kind for row in engine.ledgers()] == ["user"]
