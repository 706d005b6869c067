"""Sessions in plain Python: what any sequence of commands must come to, said without the engine's own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from hypothesis import strategies as st

import holdfast
from holdfast import BlobRef, Identity, errors
from holdfast.core.history import previews
from holdfast.model.frames.frames import MessagePositions
from holdfast.model.situation.situations import SituationState
from holdfast.types import Body, SessionState

NAMES = ("a", "b", "c")


BODIES = (b"one", b"two" * 1_000)


class Create(NamedTuple):
    name: str
    metadata: tuple[tuple[str, int], ...]
    key: str | None


class Record(NamedTuple):
    name: str
    role: str
    text: str
    body: int | None
    key: str | None
    off: int | None
    """How far from the truth the expected version is; None to expect nothing."""


class Close(NamedTuple):
    name: str
    reason: str
    key: str | None
    off: int | None


class Erase(NamedTuple):
    name: str
    seqs: tuple[int, ...]
    key: str | None


Command: TypeAlias = Create | Record | Close | Erase


_names = st.sampled_from([*NAMES, "a", "a"])


_keys = st.none() | st.sampled_from(["k1", "k2", "k3"])


_offs = st.sampled_from([None, None, None, 0, 0, -1, 1, 5])


_texts = st.sampled_from(["hello", "hello ", "wörld", "x" * 40])


creates = st.builds(
    Create, _names, st.sampled_from([(), (("a", 1),), (("a", 1), ("b", 2))]), st.none() | st.sampled_from(["k1", "k4"])
)


records = st.builds(
    Record,
    _names,
    st.sampled_from(["user", "assistant", "system"]),
    _texts,
    st.sampled_from([None, None, None, 0, 1]),
    _keys,
    _offs,
)


closes = st.builds(Close, _names, st.sampled_from(["done", "late"]), _keys, _offs)


erases = st.builds(Erase, _names, st.lists(st.integers(1, 9), max_size=3).map(tuple), _keys)


commands = creates | records | records | records | records | closes | erases | erases


class CharCounter:
    """A token counter that a plain model can follow."""

    name = "characters"

    def count(self, text: str) -> int:
        return len(text)


class ManualClock:
    """A clock that stands still until it is moved on."""

    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000

    def now_us(self) -> int:
        return self.us


class Entry:
    """An event as the model remembers it."""

    def __init__(self, command: Command, time_us: int) -> None:
        self.command = command
        self.time_us = time_us
        self.erased = False


def state_of(entries: Sequence[Entry]) -> SessionState:
    """What is left of the entries of a session, erased ones counted but not read."""
    times = [entry.time_us for entry in entries] or [0]
    state = SessionState(len(entries), updated_us=times[-1], active_us=max(times))
    for seq, entry in enumerate(entries, 1):
        state = msgspec.structs.replace(state, **_changes(state, entry, seq))
    return state


def _preview_chars(body: bytes) -> int:
    """The characters by which a model is shown a body."""
    return len(previews.show_body(Body(BlobRef("", len(body))), previews.SAMPLE_HANDLE))


def _changes(state: SessionState, entry: Entry, seq: int) -> dict[str, Any]:
    kept = int(not entry.erased)
    match entry.command:
        case Create(metadata=given):
            changes: dict[str, Any] = {"status": "open", "created_us": entry.time_us, "residue": kept}
            unknown = {} if kept else {"identity": Identity(authority="")}  # nobody rises by an erasure
            return changes | unknown | {"metadata": dict(given) if kept else {}}
        case Record(role=role, text=text, body=body):
            changes = {"messages": state.messages + 1, "waiting": state.waiting + 1}
            if not kept:
                return changes
            tokens = state.tokens + len(text) + (0 if body is None else _preview_chars(BODIES[body]))
            changes |= {"tokens": tokens, "live_tokens": tokens}
            changes |= {"residue": state.residue + 1, "turns": state.turns + (role == "user")}
            if role == "system":
                return changes | {"pinned": (*state.pinned, seq)}
            if role == "assistant":
                changes["standings"] = {"": SituationState(replies=state.standing(None).replies + 1)}
            return changes | {
                "live": state.live + 1,
                "spoken": MessagePositions(seq, state.spoken.gaps, state.spoken.first or seq),
            }
        case Close(reason=reason):
            changes = {"status": "closed", "close_reason": reason if kept else "erased"}
            return changes | {"waiting": 0, "offered": seq, "residue": state.residue + kept, "standings": {}}
        case Erase():
            return {"changed": seq}


class Model:
    """The sessions and the keys that were used."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[Entry]] = {}
        self.keys: dict[str, tuple[Command, Entry, int]] = {}

    def version(self, name: str) -> int:
        return len(self.sessions.get(name, ()))

    def expected(self, command: Command) -> type[holdfast.HoldfastError] | int | None:
        """The error that the command must meet, the seq of the event that answers it, or None if it changes nothing."""
        if command.key in self.keys:
            first, entry, seq = self.keys[command.key]
            return errors.KeyConflict if entry.erased or _order(command) != _order(first) else seq
        state = state_of(self.sessions.get(command.name, ()))
        match command:
            case Create():
                return 1 if state.status == "absent" else errors.SessionExists
            case Record(off=off) | Close(off=off) if off:
                return errors.VersionConflict
            case Record():
                return errors.SessionClosedError if state.status == "closed" else state.version + 1
            case Close():
                return None if state.status == "closed" else state.version + 1
            case Erase(seqs=seqs):
                if any(seq > state.version for seq in seqs):
                    return errors.InvalidArgument
                return state.version + 1 if seqs else None

    def repeats(self, command: Command) -> bool:
        return command.key in self.keys

    def apply(self, command: Command, time_us: int) -> None:
        entries = self.sessions.setdefault(command.name, [])
        if isinstance(command, Erase):
            for seq in command.seqs:
                entries[seq - 1].erased = True
        entries.append(Entry(command, time_us))
        if command.key is not None:
            self.keys[command.key] = (command, entries[-1], len(entries))


def _order(command: Command) -> tuple[object, ...]:
    """What a key is bound to: everything but the expected version."""
    return (type(command), *(command._replace(off=None) if isinstance(command, Record | Close) else command))


def run(
    engine: holdfast.Engine, handles: dict[str, holdfast.Session], command: Command, version: int
) -> holdfast.Message | None:
    """Give the command to an engine. A handle is asked for once: asking again would read the log anew."""
    if isinstance(command, Create):
        handles[command.name] = engine.create_session(command.name, metadata=dict(command.metadata), key=command.key)
        return None
    session = handles.get(command.name) or handles.setdefault(command.name, engine.session(command.name))
    match command:
        case Record(_, role, text, body, key, off):
            content: list[str | holdfast.types.Part] = [text]
            if body is not None:
                content.append(Body(engine.blobs.put(BODIES[body])))
            return session.record(role, content, key=key, expect=None if off is None else version + off)
        case Close(_, reason, key, off):
            session.end(reason, key=key, expect=None if off is None else version + off)
        case Erase(_, seqs, key):
            session.erase(seqs, "asked to", key=key)
    return None


def collect_answers(engine: holdfast.Engine, clock: ManualClock, orders: Sequence[Command]) -> list[object]:
    """What an engine answers to these commands."""
    answers, handles = list[object](), dict[str, holdfast.Session]()
    for command in orders:
        clock.us += 1
        try:
            answers.append(run(engine, handles, command, 2))
        except holdfast.HoldfastError as error:
            answers.append(str(error))
    return answers
