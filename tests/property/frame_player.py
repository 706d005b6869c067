"""The model's commands about frames given to engines, and what the engines then show compared with what the model says."""

from __future__ import annotations

import copy
import datetime
from typing import Any

from hypothesis import strategies as st

import holdfast
from holdfast import errors
from holdfast.core import invariants, upcast
from holdfast.core.fold import fold_session
from holdfast.model.content import text_of
from holdfast.model.frames.events import BudgetCommitted, BudgetUsed, FramePopped
from holdfast.model.frames.frames import FrameState, TokenWeights
from holdfast.model.state import SessionState
from tests.property import frame_commands as asked
from tests.property.frame_commands import FORGED, STRANGE, Command, resolve_pick
from tests.property.frame_model import World
from tests.property.frame_tree import Frame, FrameRefusal, Session
from tests.property.session_model import ManualClock
from tests.property.store_tools import Fault, Faulty
from tests.property.transcript_player import check_pairs

NAMES = ("a", "b")


PAGE = 20


FEW = 4
"""A pick below this asks for something live."""


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


WEIGHTS = TokenWeights(input=1_000, cache_read=100, cache_write=1_250, output=5_000)


FrameOrder = tuple[str, Command | asked.Sweep, str]
"""To a session, a command, from a principal."""


orders = st.tuples(st.sampled_from([*NAMES, "a", "a"]), asked.commands, st.sampled_from(asked.WHO))


steps = st.sampled_from([0, 0, 0, 1, 1, 1, 3 * asked.SECOND, 20 * asked.SECOND, -5 * asked.SECOND])


class FramePlayer:
    """Engines on one store, one more that only looks, and the model of what they are told."""

    def __init__(self, engines: list[Any], observer: Any, clock: ManualClock) -> None:
        self.engines = engines
        self.observer = observer
        self.clock = clock
        self.world = World()
        self.tokens: dict[str, str] = {}
        """The real ones, by the model's names for them."""
        self.lived: dict[str, dict[int, SessionState]] = {}
        """For every session, the states that were seen, by their versions."""
        self.held: dict[tuple[object, ...], Any] = {}
        for name in NAMES:
            engines[0].create_session(name)
            self.world.sessions[name] = Session(name)
            self.lived[name] = {}

    # Giving commands

    def resolved(self, name: str, command: Command) -> Command:
        """The command with names for its picks, what is live before what is over. What has nothing to pick from becomes a
        command that makes something."""
        session = self.world.sessions[name]
        known: dict[str, Any] = command._asdict()
        frames = sorted(session.frames.values(), key=lambda each: (each.live, each.seq))
        pick = known.get("frame")
        if pick is not None and not isinstance(command, asked.Erase) and pick < FEW:
            frames = [each for each in frames if each.live]
        if pick is not None and not frames:
            return asked.ROOT
        frame = resolve_pick(pick, [each.id for each in frames], "")
        reserved = sorted(
            session.reserved, key=lambda each: frame in session.frames and each in session.frames[frame].reserved
        )
        calls = [*session.fates, *(call.id for call in session.calls)]
        tokens = sorted(self.tokens, key=lambda each: self.world.tokens[each][2] == "live")
        if not reserved and isinstance(command, asked.Commit | asked.Cancel):
            return asked.Reserve(str(frame), 10)
        if not calls and isinstance(command, asked.Start | asked.Answer):
            return asked.Say(frame, "assistant", "", 2, None, None)
        if not tokens and isinstance(command, asked.Resume) and frames:
            return asked.Suspend(frames[-1].id, None, (), command.elsewhere)
        fields: dict[str, Any] = {"frame": frame} if "frame" in known else {}
        for field, of, otherwise in (
            ("reservation", reserved, "r999"),
            ("call", calls, "c999_0"),
            ("token", tokens, STRANGE),
        ):
            if field in known:
                fields[field] = resolve_pick(known[field], of, otherwise)
        if isinstance(command, asked.Say) and frame is None:
            fields["reservation"] = None
        return command._replace(**fields)

    def give(self, order: FrameOrder, which: int = 0, fault: Fault | None = None) -> None:
        name, command, who = order
        if isinstance(command, asked.Sweep):
            self.sweep(which)
            return
        found = self.resolved(name, command)
        before = {each: session.version for each, session in self.world.sessions.items()}
        after, refused = copy.deepcopy(self.world), None
        try:
            after.apply(name, found, who, self.clock.us)
        except FrameRefusal as error:
            refused = error
        moves = any(session.version > before[each] for each, session in after.sessions.items())
        answer, met, struck = self._attempt(name, found, who, which, fault)
        if struck:
            assert isinstance(met, errors.StorageUnavailable)
            assert moves or fault == "before"
        elif refused is None:
            assert met is None, repr(met)
        else:
            check_refusal(met, refused)
        if refused is None and not (struck and fault == "before"):
            self._taken(name, found, after, answer)
        self.check(name)

    def _attempt(
        self, name: str, command: Command, who: str, which: int, fault: Fault | None
    ) -> tuple[Any, errors.HoldfastError | None, bool]:
        """The answer or the error, and whether the fault struck: a command may end without an append."""
        faulty: Faulty | None = self.engines[which].store if fault is not None else None
        if faulty is not None:
            faulty.fault = fault
        answer: Any = None
        met: errors.HoldfastError | None = None
        try:
            answer = self.carry_out(name, command, who, which)
        except errors.HoldfastError as error:
            met = error
        struck = faulty is not None and faulty.fault is not fault
        if faulty is not None:
            faulty.fault = None
        return answer, met, struck

    def _taken(self, name: str, command: Command, after: World, answer: Any) -> None:
        """The command was carried out: so it is in the model, and the answer tells of it."""
        new = [token for token in after.tokens if token not in self.world.tokens]
        self.world = after
        if isinstance(command, asked.Erase):
            self.lived[name] = {}  # an erasure reaches back
            self.held.clear()
        if answer is None:
            return  # it was lost
        session = after.sessions[name]
        match command:
            case asked.Push():
                assert answer.id == f"f{session.version}"
            case asked.Reserve(frame, amount):
                assert (answer.id, answer.amount) == (f"r{session.version}", amount)
                assert session.frames[str(frame)].reserved[answer.id] == (answer.purpose, amount)
            case asked.Keep(frame, kind, source, text):
                assert (answer.id, kind, source, text) in session.frames[str(frame)].kept
            case asked.Start(call=call):
                (open_call,) = (each for each in session.calls if each.id == call)
                assert (answer.call, answer.key, answer.attempt) == (call, open_call.key, open_call.attempts)
            case asked.Suspend() | asked.Reissue():
                self.tokens[new[0]] = answer
            case asked.Resume(token):
                assert answer.id == after.tokens[str(token)][1]
            case asked.Take():
                assert answer.last_event_seq == session.version
                assert [each.id for each in answer.frame_stack] == [each.id for each in session.stack()]
                assert answer.frames_recovered == len(answer.frame_stack)
                found = [(each.kind, each.frame, each.call, each.key) for each in answer.pending_work]
                assert found == session.pending()

    def carry_out(self, name: str, command: Command, who: str, which: int) -> Any:
        """Give a command, its picks resolved, to an engine."""
        match command:
            case asked.Resume(token, elsewhere):
                engine = self.engines[which].acting_as(principal=who, tenant="other" if elsewhere else None)
                return engine.resume(self.tokens.get(str(token), FORGED))
            case asked.Take():
                return self.handle(name, None, who, which).recover()
            case asked.Reset():
                return self.handle(name, None, who, which).reset()
            case asked.Close():
                return self.handle(name, None, who, which).end("done")
            case asked.Erase(frame):
                return self.handle(name, None, who, which).erase([int(str(frame)[1:])], "asked to")
        place = self.handle(name, command.frame, who, which)
        match command:
            case asked.Say() | asked.Answer() | asked.Start() | asked.Abandon():
                return talk(place, command)
            case asked.Suspend() | asked.Reissue() | asked.Revoke():
                return rest(place, command, self.clock.us)
            case asked.Reserve() | asked.Commit() | asked.Cancel() | asked.Use() | asked.Grant():
                return spend(place, command)
        return work(place, command)

    def handle(self, name: str, frame: object, who: str, which: int) -> Any:
        """What is held of a session or a frame. It is asked for once: asking again would read the log anew."""
        key = (which, who, name, frame)
        if key not in self.held:
            session = self.engines[which].acting_as(principal=who).session(name)
            self.held[key] = session if frame is None else session.frames.get(frame)
        return self.held[key]

    def sweep(self, which: int = 0) -> None:
        due = self.world.sweep(self.clock.us, PAGE)
        swept = self.engines[which].admin.sweep(limit=PAGE)
        assert [(scope.session, frame) for scope, frame in swept.frames] == due
        assert swept.sessions == ()
        for name in NAMES:
            self.check(name)

    # What is shown

    def check(self, name: str) -> None:
        session = self.world.sessions[name]
        shown = self.observer.session(name)
        state = shown.state()
        assert invariants.find_violations(state) == []
        assert (state.version, state.status) == (session.version, "closed" if session.closed else "open")
        self.lived[name][state.version] = state
        assert (state.asks, list(state.errors)) == (session.asks, session.errors)
        assert [(each.id, each.frame, each.key or None, each.attempts) for each in state.open_calls] == [
            (each.id, each.frame, each.key, each.attempts) for each in session.calls
        ]
        live = {each.id: expect_frame(session, each) for each in session.frames.values() if each.live}
        assert {each: describe_frame(frame) for each, frame in state.frames.items()} == live
        listed: list[FrameState] = []
        while page := shown.frames.list(after=listed[-1].id if listed else None, limit=7):
            listed += page
        assert [describe_frame(frame) for frame in listed] == [
            expect_frame(session, each) for each in session.frames.values()
        ]
        assert [each.id for each in shown.frames.stack()] == [each.id for each in session.stack()]
        check_pairs(shown.context.window(10_000))
        self._check_times(session)
        self._check_suspended()
        if session.frames:
            self._check_frame(shown, session, max(session.frames.values(), key=lambda each: each.touched))

    def _check_times(self, session: Session) -> None:
        """Nobody has more time than who waits for him."""
        for frame in session.frames.values():
            parent = session.frames[frame.parent] if frame.live and frame.parent is not None else frame
            if parent.deadline is not None and frame.rest is None:
                assert frame.deadline is not None
                assert frame.deadline <= parent.deadline

    def _check_suspended(self) -> None:
        waiting = [
            (name, frame.id, token_status(frame, self.clock.us))
            for name, session in sorted(self.world.sessions.items())
            for frame in session.frames.values()
            if frame.rest is not None and frame.rest.token is not None
        ]
        found: list[Any] = []
        while page := self.observer.suspended(after=found[-1] if found else None, limit=2):
            found += page
        assert [(each.scope.session, each.frame, each.status) for each in found] == waiting

    def _check_frame(self, shown: Any, session: Session, frame: Frame) -> None:
        """One frame with all that the log has of it."""
        held = shown.frames.get(frame.id)
        record = held.state()
        assert describe_frame(record) == expect_frame(session, frame)
        assert record.inputs == frame.inputs
        summary, result = frame.said or ("", None)
        assert (record.summary, text_of(record.result)) == (summary, result or "")
        handles = [(each.id, each.kind, each.source) for each in record.context_handles]
        assert handles == [kept[:3] for kept in frame.kept[-PAGE:]]
        assert [(each.frame, each.status, each.handle) for each in record.result_refs] == frame.results
        assert [each.id for each in held.ancestry()] == [each.id for each in session.ancestry(frame)]
        children = shown.frames.list(parent=frame.id, limit=PAGE)
        assert [each.id for each in children] == [each.id for each in session.children(frame)]
        for each in held.handles.attachments(limit=1):
            (text,) = (kept[3] for kept in frame.kept if kept[0] == each.id)
            assert text_of(shown.handles.parts(each), "") == text

    def check_log(self) -> None:
        """Any prefix of the log leads to the state that was live then, and each tree has used what its events say."""
        for name, session in self.world.sessions.items():
            state = SessionState()
            spent: dict[str, int] = {}
            after, shown = 0, self.observer.session(name)
            while page := shown.events(after=after, limit=PAGE):
                for recorded in page:
                    event = upcast.decode_event(recorded)
                    state = fold_session(state, event, recorded.type, recorded.time_us)
                    assert self.lived[name].get(state.version, state) == state
                    if isinstance(event, BudgetUsed | BudgetCommitted):
                        root = session.ancestry(session.frames[event.frame])[0].id
                        spent[root] = spent.get(root, 0) + event.tokens
                    if isinstance(event, FramePopped):
                        assert event.used == session.settled[recorded.seq]
                after = page[-1].seq
            for frame in shown.frames.list(limit=PAGE):
                if frame.parent is None and not frame.is_live:
                    assert frame.budget.used == spent.get(frame.id, 0)


def check_refusal(met: errors.HoldfastError | None, refused: FrameRefusal) -> None:
    assert met is not None, refused
    assert type(met).__name__ == refused.error, (met, refused)
    assert {name: getattr(met, name) for name in refused.data} == refused.data


def token_status(frame: Frame, now: int) -> str:
    rest = frame.rest
    assert rest is not None
    if rest.revoked:
        return "revoked"
    return "expired" if rest.expires is not None and now >= rest.expires else "live"


def talk(place: Any, command: asked.Say | asked.Answer | asked.Start | asked.Abandon) -> Any:
    match command:
        case asked.Say(_, role, text, calls, usage, reservation):
            more = {} if reservation is None else {"reservation": reservation}
            made = [{"name": "look", "args": {"n": n}} for n in range(calls)]
            used = None if usage is None else holdfast.Usage(*usage)
            return place.record(role, text, tool_calls=made, usage=used, **more)
        case asked.Answer(_, call, wrong):
            return place.result(call, "seen", is_error=wrong)
        case asked.Start(_, call, again, key):
            return place.start_call(call, again=again, call_key=key)
        case asked.Abandon():
            return place.close_calls("over")


def rest(frame: Any, command: asked.Suspend | asked.Reissue | asked.Revoke, now: int) -> Any:
    expires = None
    if not isinstance(command, asked.Revoke) and command.expires is not None:
        expires = EPOCH + datetime.timedelta(microseconds=now + command.expires)
    match command:
        case asked.Suspend(_, _, resumable_by, cascade):
            return frame.suspend("wait", expires_at=expires, resumable_by=list(resumable_by), cascade=cascade)
        case asked.Reissue():
            return frame.reissue(expires_at=expires)
        case asked.Revoke():
            return frame.revoke()


def spend(
    frame: Any, command: asked.Reserve | asked.Commit | asked.Cancel | asked.Use | asked.Grant
) -> holdfast.types.Reservation | None:
    match command:
        case asked.Reserve(_, amount):
            return frame.budget.reserve("call", amount)  # type: ignore[no-any-return]
        case asked.Commit(_, reservation, spent):
            frame.budget.commit(reservation, spent if isinstance(spent, int) else holdfast.Usage(*spent))
        case asked.Cancel(_, reservation):
            frame.budget.cancel(reservation)
        case asked.Use(_, spent):
            frame.budget.use(spent if isinstance(spent, int) else holdfast.Usage(*spent))
        case asked.Grant(_, amount):
            frame.budget.grant(amount)
    return None


def work(place: Any, command: asked.Push | asked.Pop | asked.Update | asked.Keep) -> Any:
    match command:
        case asked.Push(_, goal, budget, depth, tools, timeout, inputs):
            seconds = None if timeout is None else timeout / asked.SECOND
            limits = {"max_subframe_depth": depth, "max_tool_calls": tools, "timeout_s": seconds}
            return place.frame(goal, budget=budget, inputs=inputs, **limits)
        case asked.Pop(_, status, summary, result, cascade):
            return place.pop(status, summary, result=result, cascade=cascade)
        case asked.Update(_, goal, inputs, context):
            return place.update(goal=goal, inputs=inputs, context_hash=context)
        case asked.Keep(_, kind, source, text):
            return place.handles.add(kind, text, source=source)


def describe_frame(frame: FrameState) -> dict[str, object]:
    """What an engine shows of a frame, in plain values."""
    budget, limits, rest = frame.budget, frame.limits, frame.suspension
    assert budget.available == max(0, budget.total - budget.used - budget.reserved - budget.delegated)
    return {
        **{name: getattr(frame, name) for name in ("id", "parent", "root", "goal", "status", "depth", "touched")},
        "budget": (budget.total, budget.used, budget.reserved, budget.delegated),
        "limits": (limits.max_subframe_depth, limits.max_tool_calls, limits.timeout_us),
        "usage": [getattr(frame.usage, name) for name in frame.usage.__struct_fields__],
        "below": [getattr(frame.below, name) for name in frame.below.__struct_fields__],
        "reservations": {each.id: (each.purpose, each.amount) for each in frame.reservations},
        "counts": (frame.children, frame.tool_calls, frame.handles, frame.results),
        "times": (frame.created_us, frame.completed_us, frame.deadline_us),
        "live": frame.is_live,
        "context": frame.context_hash,
        "rest": None
        if rest is None
        else (
            (rest.reason, rest.by, rest.at_us, rest.holder, bool(rest.digest), rest.revoked),
            (rest.expires_us, rest.resumable_by, rest.remaining_us),
        ),
        "asks": frame.asks,
        "errors": list(frame.errors),
    }


def expect_frame(session: Session, frame: Frame) -> dict[str, object]:
    """What the model says of a frame, in the same words."""
    rest = frame.rest
    return {
        **{name: getattr(frame, name) for name in ("id", "parent", "goal", "depth", "touched", "live", "context")},
        "root": session.ancestry(frame)[0].id,
        "status": session.status(frame),
        "budget": session.budget(frame),
        "limits": frame.limits,
        "usage": list(frame.usage),
        "below": list(session.usage_below(frame)),
        "reservations": frame.reserved,
        "counts": (len(session.live_children(frame)), frame.tool_calls, len(frame.kept), len(frame.results)),
        "times": (frame.created, frame.completed, frame.deadline),
        "rest": None
        if rest is None
        else (
            (rest.reason, rest.by, rest.at, rest.holder, rest.token is not None, rest.revoked),
            (rest.expires, rest.resumable_by, rest.remaining),
        ),
        "asks": frame.asks,
        "errors": frame.errors,
    }
