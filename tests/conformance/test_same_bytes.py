"""The same history gives the same bytes on every store, and the same answers on the way: events and their order, heads and
hashes, rows, snapshots, keys, bodies and exports; in memory, on SQLite and on PostgreSQL, blocking and awaited."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import BlobRef, File, Frame, HoldfastError, Image, Session, Text, Usage
from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.model.rows import TABLES, BlobRow
from holdfast.testing.appends import all_heads
from holdfast.types import Body, Opaque, Part
from tests.edges.engines import KINDS, BlockingProxy, EngineDesk, ManualClock, blobs_of, log_of, rows_of, store_of
from tests.postgres import base_url
from tests.property import session_model, transcript_model, transcript_player
from tests.property.store_tools import fast_folder
from tests.support import CountingIds, figure

EXAMPLES = figure(8, 1_000)
BLOCKING = ("memory", "sqlite", "postgres")

ODD = (
    "plain",
    "e\u0301",
    "é",
    "Ünïcode ",
    " lead",
    "👨\u200d👩\u200d👧",
    "😀",
    "\uffff",
    "\ue000",
    "\U0010ffff",
    "a/b",
    "a",
    "A",
    "back\\slash",
    "q\"uo'te",
    "%s %(x)b",
    "$1 {} ?",
    ":name --;",
    "null",
    "01",
    "1",
    "\u202eevil",
    "\u200b",
    "\ufeff",
    "ẞ",
    "ß",
    "İ",
    "ı",
    "ﬀ",
    "n" * limits.NAME_BYTES,
    "é" * (limits.NAME_BYTES // 2),
)
"""Names that some collation, encoding or quoting takes for each other, or for something else."""

TOOLS = [{"name": "search", "args": {"for": ["x", 1.5, None, "é"]}, "id": "p"}, {"name": "read", "args": {}, "id": "q"}]
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "/é"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3},
}


class Story:
    """A long history with a bit of everything, told to one engine. What it answered, errors too, is kept."""

    def __init__(self, engine: holdfast.Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock
        self.answers: list[object] = []

    def ask(self, action: Callable[..., object], *args: Any, **options: Any) -> Any:
        self.clock.now_s += 1
        try:
            answer = action(*args, **options)
        except HoldfastError as error:
            self.answers.append(f"{type(error).__name__}: {error}")
            return None
        held = isinstance(answer, Session | Frame | BlockingProxy)  # its engine's own
        self.answers.append(None if held else answer)
        return answer

    def tell(self) -> list[object]:
        for chapter in (self.names, self.messages, self.tools, self.bodies, self.summaries, self.keys, self.frames):
            chapter()
        self.views()
        self.facts()
        for offload in (True, False):
            self.ends(offload)
        self.timeouts()
        self.lists()
        return self.answers

    def names(self) -> None:
        """Every odd name as every kind of name."""
        others = (*ODD[7:], *ODD[:7])
        for number, (name, other) in enumerate(zip(ODD, others, strict=True)):
            engine = self.engine.acting_as(tenant=ODD[number % 8] if number % 4 else None, principal=name)
            thread = ODD[-number] if number % 3 else None
            options: dict[str, Any] = {"actor": other, "thread": thread, "metadata": {name: [other]}}
            self.ask(engine.create_session, name, **options, cause=name)
            session = self.ask(engine.session, name, actor=other, thread=thread)
            self.ask(session.record, "user", name, key=name, cause=other)
            self.ask(engine.create_session, name, **options)
            self.ask(engine.session, other, actor=name)

    def messages(self) -> None:
        session = self.engine.create_session("messages", metadata={"z": 1, "a": {"b": [True, None, -0.0, 1e300]}})
        ref = self.engine.blobs.put(b"%PDF" * 9, media_type="application/pdf")
        parts: list[Part] = [
            Text("text"),
            Body(ref, "preview"),
            Image(ref=ref),
            Image(url="data:,x"),
            File(ref, "report é.pdf"),
        ]
        self.ask(session.record, "system", "You are helpful. \0 \u2028")
        self.ask(session.record, "user", [*parts, Opaque("openai", '{"a": "\\u0000"}'), Opaque("anthropic", ref)])
        self.ask(session.record, "user", "x" * (limits.SPOOL_BYTES + 1), metadata={"n": [1, {"é": "😀"}]})
        self.ask(session.record, "assistant", "hi", usage=Usage(limits.WHOLE_NUMBER, 2, 3))
        self.ask(session.record, "assistant", "hi", usage=Usage(limits.WHOLE_NUMBER, limits.WHOLE_NUMBER, 1))
        self.ask(session.record_all, [("user", "one"), {"role": "assistant", "content": "two"}, ("user", "3")])
        self.ask(session.record_all, [("user", "one"), ("nobody", "two")])
        self.ask(session.record, ANTHROPIC)
        self.ask(session.result, "toolu_1", {"found": [1, 2.5, "é"]})
        for budget in (1, 40, 8_000):
            self.ask(session.context.window, budget)
        for expect in (0, session.state().version, 10**6):
            self.ask(session.record, "user", "hello", expect=expect)
        self.ask(session.erase, [2, 4], "asked to")
        self.ask(session.erase, [99], "asked to")
        self.ask(session.messages, limit=3)
        self.ask(session.events, after=1, limit=4)

    def tools(self) -> None:
        session = self.engine.create_session("tools")
        calls = self.ask(session.record, "assistant", "I look", tool_calls=TOOLS).tool_calls
        self.ask(session.record, "assistant", "and then?")
        self.ask(session.result, calls[1], ["a", {"b": None}], is_error=True)
        self.ask(session.result, "q", "again")
        self.ask(session.record, "user", "hurry up")
        self.ask(session.close_calls, "interrupted")
        self.ask(session.result, "p", "late", metadata={"how": "late"})
        self.ask(session.result, "nowhere", "x")
        self.ask(session.record, "assistant", None, tool_calls=TOOLS)
        self.ask(session.result, "p", io.BytesIO(bytes(range(256)) * 999))
        self.ask(session.result, "q", iter([b"words ", b"and more words"]))
        self.ask(session.evidence)
        self.ask(session.context.window)
        self.ask(session.erase, [2], "asked to")
        self.ask(session.context.window)

    def bodies(self) -> None:
        other = self.engine.acting_as(tenant=ODD[5])
        for engine in (self.engine, other):
            ref = self.ask(engine.blobs.put, [b"a", b"", b"b" * 3_000_000], media_type="text/plain")
            self.ask(engine.session("bodies", create=True).record, "user", File(ref, ODD[7]))
            self.ask(engine.blobs.read, ref)
            self.ask(engine.blobs.read, BlobRef(ref.digest, 7))
        self.ask(self.engine.acting_as(tenant="none").blobs.read, ref)
        self.ask(other.session("bodies").record, "user", Body(BlobRef("0" * 64, 1)))

    def summaries(self) -> None:
        session = self.engine.create_session("summaries")
        for number in range(6):
            self.ask(session.record_all, [("user", f"{number} word" * 30), ("assistant", "word " * 30)])
        for keep in (3, 1):
            draft = self.ask(session.context.draft_summary, keep)
            self.ask(session.context.summarize, draft, f"they spoke of {ODD[5]}")
            self.ask(session.context.summarize, draft, "again")
        self.ask(session.context.window)
        self.ask(session.erase, [3], "asked to")
        self.ask(session.context.window)

    def keys(self) -> None:
        session = self.engine.create_session("keys", key="creation")
        for text in ("said", "said", "said otherwise"):
            self.ask(session.record, "user", text, key="k")
        batch: list[Any] = [("user", "one"), ("assistant", "two")]
        for _ in range(2):
            self.ask(session.record_all, batch, key="batch")
        self.ask(self.engine.create_session, "others", key="creation")
        self.ask(session.erase, [2], "asked to", key="erasure")
        self.ask(session.record, "user", "said", key="k")
        self.ask(session.end, "done", key="batch")
        self.ask(session.end, "done", key="end")
        self.ask(session.end, "done", key="end")

    def frames(self) -> None:
        session = self.engine.create_session("frames")
        root = self.ask(session.frame, f"compare {ODD[5]}", budget=1_000, inputs={"é": [1, None]}, timeout_s=3_600)
        self.ask(root.frame, "too much", budget=5_000)
        for content in ("text \0", {"a": [1.5, "é"]}, b"\0\xff" * 99, "x" * (limits.SPOOL_BYTES + 1)):
            self.ask(root.handles.add, "document", content, title=ODD[7], metadata={"é": ODD[8]})
        for content in ("the same", "the same", "not the same"):
            self.ask(root.handles.add, "url", content, source=ODD[9], priority="high")
        child = self.ask(root.frame, "read", budget=300)
        reservation = self.ask(child.budget.reserve, "model call", 100)
        self.ask(child.record, "assistant", "hi", usage=Usage(10, 2, 3), reservation=reservation)
        self.ask(child.record, "assistant", None, tool_calls=TOOLS)
        self.ask(child.start_call, "p")
        token = self.ask(child.suspend, "a question", resumable_by=ODD[:3])
        self.ask(self.engine.suspended)
        for _ in range(2):
            self.ask(self.engine.resume, token)
        self.ask(session.recover)
        self.ask(child.pop, "completed", "read", result={"é": ["found"]})
        self.ask(root.frame, "slow", budget=1, timeout_s=1)
        self.clock.now_s += 4
        self.ask(self.engine.admin.sweep)
        self.ask(root.suspend, "the next day")
        for status in (None, "live", "suspended", "completed"):
            self.ask(session.frames.list, status=status)
        self.ask(session.frames.list, parent=root.id, limit=1)
        self.ask(root.handles.attachments, limit=2)
        self.ask(session.erase, [3, 7], "asked to")
        other = self.ask(session.frame, "go on", budget=10)
        self.ask(other.handles.add, "artifact", ["kept"], source=ODD[9])
        self.ask(other.suspend, "until then")
        self.ask(root.pop, "cancelled", "over")
        self.ask(session.erase, [3, 7], "asked to")
        self.ask(root.state)
        self.ask(other.state)

    def views(self) -> None:
        """What is shown of two conversations, folded, reduced, paged out and in, and rendered."""
        session = self.engine.create_session("views")
        frame = self.ask(session.frame, "look around", budget=10**6)
        for place in (session, frame):
            self.ask(place.record, "system", f"Be brief, {ODD[5]}")
            for number in range(4):
                self.ask(place.record, "user", f"{number} {ODD[7]} " + "word " * 200)
                self.ask(place.record, "assistant", None, tool_calls=[{"name": "read", "id": f"p{number}"}])
                self.ask(place.result, f"p{number}", "found " * 3_000)
            self.ask(place.record, "assistant", "all of it")
            for window in (1, 500, 20_000, 10**9):
                self.ask(place.context.plan, window=window, policy="classic")
            self.ask(place.context.plan)
            self.ask(
                place.handles.page_out, self.ask(place.handles.list)[-1], key=f"out {place.scope} {frame is place}"
            )
            self.ask(place.handles.page_in, self.ask(place.handles.list)[-1])
            self.ask(place.handles.page_out, "h2_0")
            plan = self.ask(place.context.plan, window=14_000, policy="classic", before=7)
            for _ in range(2):
                self.ask(place.context.compact, plan)
            self.ask(place.handles.page_out, self.ask(place.handles.list)[-1], tier="semantic")
            self.ask(place.context.compact, strategy=holdfast.types.SummarizeOldest(keep_recent=4), window=9_000)
            self.ask(place.context.compact, window=700)
            for dialect in ("text", "anthropic", "openai", "openai-responses", "gemini", "bedrock", "litellm"):
                self.ask(place.context.render, dialect)
            self.ask(place.context.occupancy)
            self.ask(place.context.view)
        for number in range(4):
            body = {"é": [f"{each} {ODD[7]} " * 30 for each in range(9 + number)], "large": ODD[8] * 30_000}
            self.ask(session.entries.append, "checkpoint", f"{ODD[9]} {number}", body, parent=ODD[9])
        self.ask(session.entries.append, "checkpoint", f"{ODD[9]} 0", "another body")
        self.ask(session.entries.append, "write", "long " * 100, bytes(range(256)), parent=f"{ODD[9]} 1")
        self.ask(session.entries.delete, [f"{ODD[9]} 1"])
        self.ask(session.entries.get, f"{ODD[9]} 3")
        self.ask(session.entries.list)
        handle = self.ask(frame.handles.add, "document", "what is on the page", source=ODD[9])
        self.ask(frame.handles.page_out, handle)
        self.ask(frame.handles.replace, handle, {"é": ODD[8]}, title=ODD[7])
        self.ask(session.handles.read, handle, search="E")
        self.ask(session.erase, [5], "asked to")
        self.ask(session.context.view)

    def facts(self) -> None:
        ledger = self.engine.ledger(user=ODD[5])
        for number, name in enumerate(ODD):
            project = self.engine.ledger(project=name)
            self.ask(project.set, name, {name: [number]}, scope_id=name, scope="task", ref=name)
            self.ask(ledger.set, name, f"value {name}", ref=ODD[number // 2])
        city = self.ask(ledger.set, "home.city", "Rome", ref="city", key="city")
        self.ask(ledger.set, "home.city", "Rome", ref="city", key="city")
        plan = self.ask(ledger.set, "plan", ["by train", 1.5, None], depends_on=["city"], requires=["read", ODD[7]])
        for value in ("Paris", "Rome", {"é": "\0"}, "Paris"):
            self.ask(ledger.set, "home.city", value, authority="manager" if value == "Paris" else "guest")
        for order in (
            ledger.retract,
            ledger.review.confirm,
            ledger.review.endorse,
            ledger.review.reinstate,
            ledger.review.expire,
            ledger.review.promote,
        ):
            self.ask(order, city)
            self.ask(order, plan)
        self.ask(ledger.set, "rule", "never at night", is_constraint=True, valid_from_us=7)
        self.ask(ledger.set, "snack", "a sandwich", ttl_s=1)
        self.clock.now_s += 4
        self.ask(self.engine.admin.sweep)
        self.ask(ledger.set, "meeting.day", "Tuesday")
        session = self.engine.create_session("facts", ledgers=[ledger.id])
        self.ask(session.observe, "Actually, the meeting was moved from Tuesday to Wednesday.")
        self.ask(ledger.erase, ["k1", "k3"], "asked to")
        for status in ("live", "dead"):
            self.ask(ledger.items, status=status, limit=50)
        for name in ("home.city", "city", *ODD):
            self.ask(ledger.why, name)
            self.ask(ledger.history, name)
        for query in ("Paris", "the meetings on wednesdays", "value", *ODD):
            self.ask(lambda query=query: sorted(known.fact.id for known in ledger.search(query, limit=100)))

    def ends(self, offload: bool) -> None:
        session = self.engine.create_session(f"ends {offload}")
        ref = self.engine.blobs.put(b"a body of its own")
        self.ask(session.record_all, [("system", "be kind"), ("user", "hello")])
        self.ask(session.reset, "again", keep_system=offload)
        self.ask(session.record, "user", File(ref))
        self.ask(session.context.window)
        self.ask(session.record, "assistant", None, tool_calls=TOOLS)
        self.ask(session.end, "enough")
        self.ask(session.record, "user", "too late")
        self.ask(session.result, "p", "late")
        self.ask(session.destroy, "no more", offload=offload)
        self.ask(session.messages)
        for entry in self.ask(self.engine.admin.outbox):
            self.ask(self.engine.admin.offloaded, entry, limit=3)
            self.ask(self.engine.admin.acknowledge, entry, key=f"{entry.scope.session} {entry.entry}")
            self.ask(self.engine.admin.acknowledge, entry)

    def timeouts(self) -> None:
        for number, name in enumerate(ODD[:6]):
            self.engine.create_session(name, actor="timed", idle_timeout_s=number + 1).record("user", "hello")
        self.clock.now_s += 4
        self.ask(self.engine.admin.sweep)
        self.ask(self.engine.admin.outbox)

    def lists(self) -> None:
        for order in ("name", "recent"):
            rows: list[Any] = []
            while page := self.ask(self.engine.sessions, order=order, after=rows[-1] if rows else None, limit=7):
                rows += page
        for status in ("open", "closed", "destroyed"):
            self.ask(self.engine.sessions, status=status, idle_since_us=self.clock.now_us() - 4_000_000)
        for actor in ODD:
            self.ask(self.engine.sessions, actor=actor)
        self.ask(self.engine.admin.verify)


def everything(engine: holdfast.Engine, folder: Path) -> dict[str, Any]:
    """All that a store keeps, in the order in which it tells it."""
    store = store_of(engine)
    events, rows, heads = log_of(engine), rows_of(engine), list(all_heads(store))
    engine.admin.export(folder / "export.jsonl")
    totals = store.totals()
    return {
        "events": events,
        "rows": rows,
        "heads": heads,
        "streams": [list(_read(engine, head.stream)) for head in heads],
        "backwards": [store.read_back(head.stream, limit=5, types=("message.recorded",)) for head in heads],
        "snapshots": [store.snapshot(head.stream) for head in heads],
        "keys": [store.find(event.stream.tenant, event.key) for event in events if event.key is not None],
        "bodies": [_body(engine, row) for row in rows if isinstance(row, BlobRow)],
        "names of bodies": blobs_of(engine),
        "export": (folder / "export.jsonl").read_bytes().splitlines(),
        "totals": (totals.streams, totals.events, totals.keys),
    }


def _read(engine: holdfast.Engine, stream: StreamId) -> Iterator[holdfast.types.StoredEvent]:
    after = 0
    while page := store_of(engine).read(stream, after=after, limit=7):
        yield from page
        after = page[-1].seq


def _body(engine: holdfast.Engine, row: BlobRow) -> bytes:
    return b"".join(engine._blob_store.chunks(row.tenant, BlobRef(row.digest, row.size)))


def assert_same(kept: dict[str, Any], other: dict[str, Any], kind: str) -> None:
    """Equal in kind as well: as they are written. Named by what differs, since all of it would fill many screens."""
    for what, here in kept.items():
        pairs = zip_longest(here, other[what])
        assert [at for at, (one, two) in enumerate(pairs) if repr(one) != repr(two)] == [], f"{what} on {kind}"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with fast_folder() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def desk(folder: Path) -> Iterator[EngineDesk]:
    with closing(EngineDesk(folder)) as desk:
        yield desk


@pytest.fixture(scope="module", autouse=True)
def many_snapshots() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SNAPSHOT_EVERY", 5)
        yield


def told(desk: EngineDesk, kind: str) -> tuple[holdfast.Engine, dict[str, Any]]:
    clock = ManualClock()
    engine = desk.open(kind, clock=clock)
    answers = Story(engine, clock).tell()
    return engine, {"answers": answers, **everything(engine, desk.folder)}


@pytest.fixture(scope="module")
def in_memory(desk: EngineDesk) -> dict[str, Any]:
    return told(desk, "memory")[1]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_one_long_history_is_the_same_to_the_byte(kind: str, desk: EngineDesk, in_memory: dict[str, Any]) -> None:
    engine, kept = told(desk, kind)
    assert_same(in_memory, kept, kind)
    engine.admin.rebuild()
    assert_same({"answers": in_memory["answers"], **everything(engine, desk.folder)}, in_memory, f"{kind}, rebuilt")


def test_the_long_history_has_something_of_everything(in_memory: dict[str, Any]) -> None:
    types = {event.type for event in in_memory["events"]}
    assert types >= {"session.created", "message.recorded", "evidence.kept", "summary.recorded", "payloads.erased"}
    assert types >= {"frame.pushed", "frame.handle_added", "frame.result_added", "frame.suspended", "actor.resumed"}
    assert types >= {"frame.compacted", "handle.moved", "handle.replaced"}
    assert types >= {"entry.appended", "entry.chunks_stored"}
    assert types >= {"fact.asserted", "fact.superseded", "fact.retracted", "fact.expired", "fact.reinstated"}
    assert {type(row) for row in in_memory["rows"]} == set(TABLES)
    assert len([each for each in in_memory["snapshots"] if each]) > 5
    refusals = {said.partition(":")[0] for said in in_memory["answers"] if isinstance(said, str)}
    assert len(refusals) > 10, refusals


def alike(tell: Callable[[holdfast.Engine, session_model.ManualClock], list[object]], kinds: Sequence[str]) -> None:
    """The same is told to engines of these kinds, and they answer and keep the same."""
    with fast_folder() as folder, closing(EngineDesk(Path(folder))) as desk:
        first: dict[str, Any] = {}
        for kind in kinds:
            clock = session_model.ManualClock()
            engine = desk.open(kind, clock=clock, ids=CountingIds(), counter=session_model.CharCounter())
            kept = {"answers": tell(engine, clock), **everything(engine, desk.folder)}
            first = first or kept
            assert_same(first, kept, kind)


_kinds = st.sampled_from([BLOCKING, BLOCKING, ("memory", "postgres awaited")])


@settings(max_examples=EXAMPLES)
@given(orders=st.lists(session_model.commands, min_size=5, max_size=30), kinds=_kinds)
def test_random_histories_are_the_same_to_the_byte(orders: list[session_model.Command], kinds: Sequence[str]) -> None:
    alike(lambda engine, clock: session_model.collect_answers(engine, clock, orders), kinds)


_orders = st.tuples(st.sampled_from(("a", "b")), transcript_model.commands, st.integers(1, 300))


@settings(max_examples=EXAMPLES)
@given(orders=st.lists(_orders, min_size=5, max_size=20), kinds=_kinds)
def test_random_conversations_are_the_same_to_the_byte(
    orders: list[transcript_player.SessionOrder], kinds: Sequence[str]
) -> None:
    alike(lambda engine, clock: transcript_player.collect_answers(engine, clock, orders), kinds)


def test_an_export_has_all_that_was_acknowledged_whatever_others_have_not_ended(desk: EngineDesk) -> None:
    """A feed stops before a transaction that has not ended, in whichever database of the server it is: what is behind it
    would be missing from a file that says it is whole."""
    engine, copy = desk.open("postgres", name="held back"), desk.open("memory")
    with psycopg.connect(base_url()) as other:
        other.execute("SELECT pg_current_xact_id()")
        engine.create_session("s").record("user", "acknowledged")
        engine.admin.export(desk.folder / "held-back.jsonl")
    copy.admin.import_(desk.folder / "held-back.jsonl")
    assert [message.text for message in copy.session("s").messages()] == ["acknowledged"]
