"""Random steps that can be played in a session and in its forks alike, and all that can be read of a session.

A step is drawn before it is played: the same step means the same in every session that has the same content. Whatever is
written has a mark of its own, so that a test finds out where the text still is."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import holdfast
from holdfast import codec, errors
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from holdfast.types import Classic, Frugal, Spooling, SummarizeOldest, TruncateAt
from tests.property.session_model import CharCounter, ManualClock
from tests.support import CountingIds

KEYS = ("city", "courier", "colour")
LENGTHS = (10, 10, 60, 400, 3_500)
POLICIES: tuple[dict[str, Any], ...] = (
    {"policy": Frugal(least=0, large=100, excerpt=20, preserve_turns=1)},
    {"policy": Classic(large=200, excerpt=30)},
    {"strategy": SummarizeOldest(2)},
    {"strategy": TruncateAt(3)},
)
WEIGHTS = {
    "say": 4,
    "reply": 2,
    "work": 4,
    "call": 2,
    "answer": 3,
    "withdraw": 2,
    "restore": 1,
    "compact": 3,
    "summarize": 1,
    "page": 2,
    "know": 4,
    "retract": 1,
    "state": 2,
    "note": 2,
    "act": 2,
    "enter": 3,
    "delete": 1,
    "frame": 2,
    "leave": 2,
    "pack": 3,
    "wait": 1,
    "recover": 1,
    "reset": 0.3,
}
"""How often each step comes, by the others."""


class Step(NamedTuple):
    name: str
    mark: str
    pick: int
    length: int

    @property
    def note(self) -> str:
        """What is written elsewhere than in messages."""
        return f"note{self.mark[4:]}"

    def text(self, about: str = "") -> str:
        """About this long, with the mark at both ends."""
        return f"{self.mark} {about}{'lorem ipsum ' * (self.length // 12)}{self.mark}"


def draw_steps(chance: Random, count: int, weights: dict[str, float] | None = None) -> list[Step]:
    names = [*(weights or WEIGHTS)]
    kinds = chance.choices(names, [*(weights or WEIGHTS).values()], k=count)
    return [
        Step(kind, f"mark{chance.getrandbits(40):010x}", chance.randrange(1_000), chance.choice(LENGTHS))
        for kind in kinds
    ]


class World:
    """A store, engines on it, and a clock that only the test moves."""

    def __init__(self, store: Any = None) -> None:
        self.store = store or MemoryStore()
        self.blobs = MemoryBlobs()
        self.clock = ManualClock()
        self.ids = CountingIds()
        self.engine = self.open()

    def open(self, store: Any = None, blobs: Any = None, **options: Any) -> holdfast.Engine:
        """Another engine, with nothing in its cache; on the same store, unless another one is given."""
        return holdfast.open(
            store or self.store,
            blobs=blobs or self.blobs,
            clock=self.clock,
            ids=self.ids,
            counter=CharCounter(),
            spooling=Spooling(3_000, 200),
            **options,
        )

    def create(self, name: str) -> holdfast.Session:
        identity = holdfast.Identity(user_name="Ada", user_id="ada")
        return self.engine.create_session(name, identity=identity, ledgers=[self.engine.ledger(user="ada").id])

    def play(self, session: holdfast.Session, step: Step) -> str:
        """Play a step; the answer says how it went."""
        try:
            return str(PLAYS[step.name](self, session, step) or "")
        except errors.HoldfastError as error:
            return type(error).__name__

    def settle(self, session: holdfast.Session) -> None:
        """End everything that a fork does not take over."""
        session.close_calls()
        for frame in session.state().frames.values():
            if frame.parent is None:
                session.frames.get(frame.id).pop("cancelled", cascade=True)


def _place(session: holdfast.Session, step: Step) -> Any:
    frames = [*session.state().frames.values()]
    places = [session, session, *(session.frames.get(frame.id) for frame in frames)]
    return places[step.pick % len(places)]


def _reply(place: Any, step: Step, calls: int) -> Any:
    calls_ = [{"name": "look", "args": {"at": f"{step.mark} {number}"}} for number in range(calls)]
    return place.record("assistant", step.text(), tool_calls=calls_)


def _work(_: World, session: holdfast.Session, step: Step) -> None:
    place = _place(session, step)
    for call in _reply(place, step, 1 + step.pick % 2).tool_calls:
        place.result(call, step.text("found "), is_error=step.pick % 7 == 0)


def _call(_: World, session: holdfast.Session, step: Step) -> None:
    place = _place(session, step)
    for call in _reply(place, step, 1 + step.pick % 2).tool_calls[1:]:
        place.start_call(call, call_key=step.note)


def _answer(_: World, session: holdfast.Session, step: Step) -> None:
    calls = session.state().open_calls
    if calls:
        session.result(calls[step.pick % len(calls)].id, step.text("found "))


def _withdraw(_: World, session: holdfast.Session, step: Step) -> str:
    after = None if step.pick % 3 else step.pick % (session.state().version + 1)
    withdrawal = session.withdraw(after)
    return "" if withdrawal is None else f"{withdrawal.grown} {[each.seq for each in withdrawal.messages]}"


def _restore(_: World, session: holdfast.Session, step: Step) -> str:
    withdrawals = session.state().withdrawals
    if not withdrawals:
        return ""
    return str([each.seq for each in session.restore(withdrawals[step.pick % len(withdrawals)].seq).messages])


def _compact(_: World, session: holdfast.Session, step: Step) -> str:
    place = _place(session, step)
    window = max(1, place.context.view().tokens * (1 + step.pick % 4) // 3)
    return str(place.context.compact(window=window, **POLICIES[step.pick % len(POLICIES)]).explain())


def _summarize(_: World, session: holdfast.Session, step: Step) -> None:
    draft = session.context.draft_summary(1)
    if draft is not None and draft.tokens > 20:
        session.context.summarize(draft, f"In short: {step.note}.")


def _page(_: World, session: holdfast.Session, step: Step) -> str:
    handles = session.handles.list()
    if not handles:
        return ""
    handle = handles[step.pick % len(handles)]
    move = session.handles.page_in if handle.residency != "resident" else session.handles.page_out
    return str(move(handle).residency)


def _value(step: Step) -> str:
    return f"{step.note} street"


def _know(_: World, session: holdfast.Session, step: Step) -> None:
    key, value = KEYS[step.pick % len(KEYS)], _value(step)
    if step.pick % 3:
        session.record("user", f"{step.mark}: the {key} is {value}.")
    session.ledger().set(key, value, ttl_s=50 if step.pick % 5 == 0 else None)


def _retract(_: World, session: holdfast.Session, step: Step) -> None:
    session.ledger().retract(KEYS[step.pick % len(KEYS)])


def _state(_: World, session: holdfast.Session, step: Step) -> str:
    """A statement that the detector reads."""
    outcome = session.observe(f"{step.mark}. My address is {step.pick} {step.note} Street now.")
    return str([each.outcome for each in outcome.proposals])


def _note(_: World, session: holdfast.Session, step: Step) -> None:
    session.working.set(f"w{step.pick % 3}", step.note)
    session.environment.set(f"e{step.pick % 3}", step.note, ttl_s=60 if step.pick % 2 else None)


def _act(_: World, session: holdfast.Session, step: Step) -> None:
    session.situation.update({"goal": f"find {step.note}", "progress": "some"})
    session.situation.act("fast", thinking=f"think {step.note}")


def _enter(_: World, session: holdfast.Session, step: Step) -> None:
    """A list that grows: its chunks are shared by the entries."""
    newest: list[Any] = session.entries.list(limit=1)
    before = newest[0].body["rows"] if newest else []
    body = {"rows": [*before, {"text": step.note, "more": "word " * 300}]}
    session.entries.append("checkpoint", f"k{step.note}", body, parent=newest[0].key if newest else None)


def _delete(_: World, session: holdfast.Session, step: Step) -> None:
    entries = session.entries.list(limit=100, bodies=False)
    if entries:
        session.entries.delete([entries[step.pick % len(entries)].key])


def _frame(_: World, session: holdfast.Session, step: Step) -> None:
    place = _place(session, step)
    if len(session.state().frames) < 3:
        frame = place.frame(f"look into {step.note}", budget=10_000)
        frame.handles.add("document", step.note * 400, title=step.note)
        frame.record("user", step.text())


def _leave(_: World, session: holdfast.Session, step: Step) -> None:
    place = _place(session, step)
    if place is not session:
        place.pop("completed", f"found {step.note}")


def _pack(world: World, session: holdfast.Session, step: Step) -> str:
    pack = session.pack(budget=(700, 1_500, 4_000)[step.pick % 3])
    if step.pick % 4:
        session.record("assistant", step.text(), usage=holdfast.Usage(input_tokens=pack.tokens.used, output_tokens=9))
    return str(len(session.packs.list()))


def _wait(world: World, _: holdfast.Session, step: Step) -> None:
    world.clock.us += (1, 100, 4_000)[step.pick % 3] * 1_000_000


def _recover(_: World, session: holdfast.Session, step: Step) -> str:
    return hide_names(codec.encode(session.recover())).decode()


PLAYS: dict[str, Callable[[World, Any, Step], object]] = {
    "say": lambda _, session, step: _place(session, step).record("user", step.text()).seq,
    "reply": lambda _, session, step: _place(session, step).record("assistant", step.text()).seq,
    "work": _work,
    "call": _call,
    "answer": _answer,
    "withdraw": _withdraw,
    "restore": _restore,
    "compact": _compact,
    "summarize": _summarize,
    "page": _page,
    "know": _know,
    "retract": _retract,
    "state": _state,
    "note": _note,
    "act": _act,
    "enter": _enter,
    "delete": _delete,
    "frame": _frame,
    "leave": _leave,
    "pack": _pack,
    "wait": _wait,
    "recover": _recover,
    "reset": lambda _, session, step: session.reset(f"again {step.note}", keep_system=step.pick % 2 == 0),
}

OWN_STATE = {"created_us", "active_us", "close_reason", "waiting", "offered", "residue", "usage", "leases", "origin"}
"""What a fork has of its own from the start."""


def read_all(session: holdfast.Session) -> dict[str, bytes]:
    """All that can be read of a session, by its kind. The names of sessions and the ids of messages are
    replaced: forks have others."""
    return {name: hide_names(codec.encode(value)) for name, value in _reads(session).items()}


def hide_names(text: bytes) -> bytes:
    return re.sub(rb"talk-\d+|\b0{20}[0-9a-f]{12}\.\d+", b"name", text)


def _reads(session: holdfast.Session) -> dict[str, Any]:
    state = session.state()
    ledger = session.ledger()
    view = session.context.view()
    return {
        "state": {name: getattr(state, name) for name in state.__struct_fields__ if name not in OWN_STATE},
        "messages": session.messages(limit=1_000),
        "evidence": session.evidence(limit=1_000),
        "view": view,
        "renderings": [
            session.context.render(to) for to in ("text", "openai", "anthropic", "openai-responses", "gemini")
        ],
        "window": session.context.window(2_000),
        "occupancy": session.context.occupancy(),
        "summaries": session.context.summaries(),
        "pack": _read_pack(session),
        "facts": [session.facts.items(), session.facts.constraints(), session.facts.proposals()],
        "ledger": [ledger.items(), ledger.review.list(), *(ledger.history(key) for key in (*KEYS, "address"))],
        "search": [session.facts.search(word) for word in ("street", "city")],
        "handles": [(each, session.handles.parts(each)) for each in session.handles.list()],
        "entries": session.entries.list(limit=1_000),
        "situation": [session.situation.get(), session.situation.actions(limit=100), session.situation.reasoning()],
        "layers": [session.working.items(), session.environment.get()],
        "frames": session.frames.list(),
        "packs": [(each.seq, each.context_hash) for each in session.packs.list(limit=1_000)],
    }


def _read_pack(session: holdfast.Session) -> Any:
    try:
        pack = session.pack("Where is the city?", budget=3_000, settle=False)
    except errors.HoldfastError as error:
        return type(error).__name__
    return [str(pack), pack.anthropic(), pack.openai(), pack.openai_responses(), pack.context_hash, pack.manifest]


def find_marks(text: bytes | str) -> set[str]:
    return {*re.findall(r"mark[0-9a-f]{10}", text if isinstance(text, str) else text.decode(errors="replace"))}
