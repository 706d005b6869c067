"""Frames in plain Python: what any sequence of commands must come to, said without the engine's own words."""

from __future__ import annotations

from tests.property.frame_commands import (
    Abandon,
    Answer,
    Cancel,
    Close,
    Command,
    Commit,
    Erase,
    Grant,
    Keep,
    Pop,
    Push,
    Reissue,
    Reserve,
    Reset,
    Resume,
    Revoke,
    Say,
    Spent,
    Start,
    Suspend,
    Take,
    Update,
    Use,
)
from tests.property.frame_tree import Call, Frame, FrameRefusal, Rest, Session, add_usage, spend

TENANT = "default"
DEPTH = 3
OUT_OF_TIME = "The frame was out of time."
VOID = {
    "replaced": "another was issued in its place",
    "revoked": "it was taken back",
    "ended": "the frame has ended",
}


class World:
    """All sessions of a tenant, and the tokens that were handed out."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.tokens: dict[str, tuple[str, str, str]] = {}
        """By our name for it: session, frame, and live, consumed, replaced, revoked, ended, or lost with its frame."""

    def apply(self, name: str, command: Command, who: str, now: int) -> None:
        """What the command makes of everything. Raises Refused, with nothing changed."""
        session = self.sessions[name]
        match command:
            case Resume():
                self._resume(command, who, now)
            case Suspend() | Reissue() | Revoke():
                self._rest(session, command, who, now)
            case Push() | Pop() | Update() | Keep():
                self._frame(session, command, now)
            case Reserve() | Commit() | Cancel() | Use() | Grant():
                _spend(session, command, now)
            case Say() | Answer() | Start() | Abandon():
                _talk(session, command, now)
            case Take():
                session.check_open()
                session.next()
            case Reset() | Close():
                self._end_all(session, command, now)
            case Erase(frame):
                self._erase(session, str(frame))

    # Frames

    def _frame(self, session: Session, command: Push | Pop | Update | Keep, now: int) -> None:
        if isinstance(command, Push):
            session.check_open()
            _push(session, command, now)
        elif isinstance(command, Pop):
            self._pop(session, command, now)
        elif isinstance(command, Update):
            frame = session.living(str(command.frame))
            changed = command.inputs is not None
            changed |= command.goal not in (None, frame.goal) or command.context not in (None, frame.context)
            if changed:
                frame.goal, frame.context = command.goal or frame.goal, command.context or frame.context
                frame.inputs = frame.inputs if command.inputs is None else command.inputs
                frame.touched = session.next()
        else:
            frame = session.living(str(command.frame))
            for handle, kind, source, text in frame.kept:
                if command.source is not None and source == command.source and kind != "sub_agent_join":
                    if (kind, text) != (command.kind, command.text):
                        raise FrameRefusal("HandleExists", frame=frame.id, source=source, handle=handle)
                    return
            frame.touched = session.next()
            frame.kept.append((f"h{frame.touched}", command.kind, command.source, command.text))

    def _pop(self, session: Session, command: Pop, now: int) -> None:
        found = session.frames.get(str(command.frame))
        said = (command.summary, command.result)
        if found is not None and found.status == command.status and (found.said or ("", None)) == said:
            return
        frame = session.living(str(command.frame))
        children = session.live_children(frame)
        if children and not command.cascade:
            raise FrameRefusal("ChildrenActive", frame=frame.id, children=len(children))
        self.end(session, frame, command.status, said, now)

    def end(self, session: Session, frame: Frame, status: str, said: tuple[str, str | None], now: int) -> None:
        inner = list(session.below(frame))
        ending = {frame.id, *(each.id for each in inner)}
        _close_calls(session, [call for call in session.calls if call.frame in ending and not call.attempts])
        seq = session.next()
        for each in inner:
            self._ended(each, "cancelled", None, seq, now)
        self._ended(frame, status, said, seq, now)
        session.settled[seq] = session.used(frame)
        if frame.parent is not None:
            parent = session.frames[frame.parent]
            parent.touched = session.next()
            if status == "failed":
                parent.errors.append(frame.id)
            handle = f"h{parent.touched}"
            text = "".join(filter(None, said))
            parent.kept.append((handle, "sub_agent_join", frame.id, text))
            parent.results.append((frame.id, status, handle))

    def _ended(self, frame: Frame, status: str, said: tuple[str, str | None] | None, seq: int, now: int) -> None:
        if frame.rest is not None and frame.rest.token is not None:
            self._void(frame.rest, "ended")
        frame.status, frame.said, frame.completed, frame.touched = status, said, now, seq
        frame.rest, frame.deadline, frame.reserved = None, None, {}

    def _void(self, rest: Rest, status: str) -> None:
        assert rest.token is not None
        session, frame, _ = self.tokens[rest.token]
        self.tokens[rest.token] = (session, frame, "revoked" if rest.revoked else status)

    def sweep(self, now: int, limit: int) -> list[tuple[str, str]]:
        """The frames that are out of time end, the youngest first."""
        due = sorted(
            (frame.deadline, name, frame.seq)
            for name, session in self.sessions.items()
            for frame in session.frames.values()
            if frame.deadline is not None and frame.deadline <= now
        )
        swept: list[tuple[str, str]] = []
        for _, name, seq in sorted(due[:limit], key=lambda each: -each[2]):
            session = self.sessions[name]
            frame = session.frames[f"f{seq}"]
            if frame.live:
                self.end(session, frame, "failed", (OUT_OF_TIME, None), now)
                swept.append((name, frame.id))
        return swept

    def _end_all(self, session: Session, command: Reset | Close, now: int) -> None:
        if session.closed and isinstance(command, Close):
            return
        session.check_open()
        _close_calls(session, session.calls)
        seq = session.next()
        for frame in [each for each in session.frames.values() if each.live]:
            self._ended(frame, "cancelled", None, seq, now)
        session.asks, session.errors = False, []
        if isinstance(command, Close):
            session.closed = "done"

    def _erase(self, session: Session, named: str) -> None:
        """What a tree was is gone from everywhere; what was said in it is still there."""
        root = session.ancestry(session.frames[named])[0]
        if root.live:
            raise FrameRefusal("InvalidArgument")
        tree = {each.id for each in session.frames.values() if session.ancestry(each)[0] is root}
        gone = {seq for seq in session.settled if seq in {session.frames[each].touched for each in tree}}
        session.settled = {seq: used for seq, used in session.settled.items() if seq not in gone}
        session.frames = {each: frame for each, frame in session.frames.items() if each not in tree}
        session.reserved = {each: frame for each, frame in session.reserved.items() if frame not in tree}
        for token, (name, frame, _) in self.tokens.items():
            if name == session.name and frame in tree:
                self.tokens[token] = (name, frame, "lost")
        session.next()

    # Suspension

    def _rest(self, session: Session, command: Suspend | Reissue | Revoke, who: str, now: int) -> None:
        frame = session.living(str(command.frame))
        rest = frame.rest
        expires = None if isinstance(command, Revoke) or command.expires is None else now + command.expires
        if isinstance(command, Suspend):
            if rest is not None:
                raise FrameRefusal("AlreadySuspended", frame=frame.id, reason=rest.reason)
        else:
            if rest is None or rest.holder != frame.id:
                raise FrameRefusal("NotSuspended", frame=frame.id, status=session.status(frame))
            if isinstance(command, Reissue) and who != rest.by and who not in rest.resumable_by:
                raise FrameRefusal("TokenForbidden", frame=frame.id, principal=who)
        if expires is not None and expires <= now:
            raise FrameRefusal("InvalidArgument")
        if isinstance(command, Suspend):
            self._suspend(session, frame, command, who, now)
        elif rest is not None and isinstance(command, Revoke):
            if not rest.revoked:
                rest.revoked = True
                session.next()
                self._void(rest, "revoked")
        elif rest is not None:
            self._void(rest, "replaced")
            if expires is None and rest.expires is not None and rest.expires > now:
                expires = rest.expires
            rest.token, rest.revoked, rest.expires = self.new_token(session, frame), False, expires
            session.next()

    def new_token(self, session: Session, frame: Frame) -> str:
        name = f"token {len(self.tokens)}"
        self.tokens[name] = (session.name, frame.id, "live")
        return name

    def _suspend(self, session: Session, frame: Frame, command: Suspend, who: str, now: int) -> None:
        seq = session.next()
        inner = [each for each in session.below(frame) if each.rest is None] if command.cascade else []
        for each in (frame, *inner):
            own = each is frame
            each.rest = Rest("wait", who, now, frame.id, self.new_token(session, frame) if own else None)
            if own:
                each.rest.expires = None if command.expires is None else now + command.expires
                each.rest.resumable_by = command.resumable_by
            if each.deadline is not None:
                each.rest.remaining = max(0, each.deadline - now)
            each.touched, each.deadline = seq, None

    def _resume(self, command: Resume, who: str, now: int) -> None:
        name, at, status = self.tokens.get(str(command.token), ("", "", "lost"))
        if status == "lost" or command.elsewhere:
            raise FrameRefusal("TokenInvalid", tenant="other" if command.elsewhere else TENANT)
        session = self.sessions[name]
        if status == "consumed":
            raise FrameRefusal("TokenConsumed", frame=at)
        if status != "live":
            raise FrameRefusal("TokenRevokedError", frame=at, reason=VOID[status])
        frame = session.frames[at]
        rest = frame.rest
        assert rest is not None, "what has a live token rests"
        if who != rest.by and who not in rest.resumable_by:
            raise FrameRefusal("TokenForbidden", frame=at, principal=who)
        if rest.expires is not None and now >= rest.expires:
            raise FrameRefusal("TokenExpired", frame=at, late_us=now - rest.expires)
        self._void(rest, "consumed")
        seq = session.next()
        for each in (frame, *reversed(list(session.below(frame)))):
            if each.rest is not None and each.rest.holder == at:
                each.deadline = None if each.rest.remaining is None else now + each.rest.remaining
                each.rest, each.touched = None, seq
            parent = None if each.parent is None else session.frames[each.parent]
            if each.rest is None and parent is not None and parent.deadline is not None:
                each.deadline = parent.deadline if each.deadline is None else min(each.deadline, parent.deadline)


def _push(session: Session, command: Push, now: int) -> None:
    parent: Frame | None = None
    if command.frame is not None:
        if str(command.frame) not in session.frames:
            raise FrameRefusal("ParentFrameNotFound", session=session.name, frame=command.frame)
        parent = session.living(str(command.frame))
        session.check_working(parent, now)
        if parent.depth >= parent.limits[0]:
            raise FrameRefusal("MaxDepthExceeded", frame=parent.id, depth=parent.depth + 1, limit=parent.limits[0])
        session.check_available(parent, command.budget)
    outer = (None, None, None) if parent is None else parent.limits
    depth, tools, timeout = (
        min((each for each in pair if each is not None), default=None)
        for pair in zip((command.depth, command.tools, command.timeout), outer, strict=True)
    )
    ends = [now + timeout] if timeout is not None else []
    if parent is not None and parent.deadline is not None:
        ends.append(parent.deadline)
    frame = Frame(
        seq=session.next(),
        parent=None if parent is None else parent.id,
        goal=command.goal,
        inputs=command.inputs,
        total=command.budget,
        depth=0 if parent is None else parent.depth + 1,
        limits=(DEPTH if depth is None else depth, tools, timeout),
        created=now,
        deadline=min(ends, default=None),
        touched=session.version,
    )
    session.frames[frame.id] = frame
    if parent is not None:
        parent.errors = []


def _spend(session: Session, command: Reserve | Commit | Cancel | Use | Grant, now: int) -> None:
    frame = session.living(str(command.frame))
    match command:
        case Reserve(amount=amount):
            session.check_working(frame, now)
            session.check_available(frame, amount)
            frame.touched = session.next()
            frame.reserved[f"r{frame.touched}"] = ("call", amount)
            session.reserved[f"r{frame.touched}"] = frame.id
            return
        case Commit(reservation=reservation, spent=spent):
            session.check_reserved(frame, str(reservation))
            del frame.reserved[str(reservation)]
            _charge(frame, spent)
        case Cancel(reservation=reservation):
            session.check_reserved(frame, str(reservation))
            del frame.reserved[str(reservation)]
        case Use(spent=spent):
            _charge(frame, spent)
        case Grant(amount=amount):
            if frame.parent is not None:
                session.check_working(session.frames[frame.parent], now)
                session.check_available(session.frames[frame.parent], amount)
            if not amount:
                return
            frame.total += amount
    frame.touched = session.next()


def _charge(frame: Frame, spent: Spent) -> None:
    if isinstance(spent, int):
        frame.spent += spent
    else:
        frame.spent += spend(spent)
        frame.usage = add_usage(frame.usage, spent)


# What is said, and the tools that are called


def _talk(session: Session, command: Say | Answer | Start | Abandon, now: int) -> None:
    match command:
        case Say():
            _say(session, command)
        case Answer(call=call, wrong=wrong):
            _answer(session, str(call), wrong)
        case Start():
            session.check_open()
            _start(session, command, now)
        case Abandon(frame):
            _close_calls(session, [call for call in session.calls if frame in (None, call.frame)])


def _say(session: Session, command: Say) -> None:
    frame = None if command.frame is None else session.living(str(command.frame))
    waiting = [call for call in session.calls if call.frame == (None if frame is None else frame.id)]
    if command.role == "assistant" and waiting:
        raise FrameRefusal("CallsOpen", session=session.name, count=len(waiting))
    session.check_open()
    reservation = command.reservation
    if frame is not None and reservation is not None:
        session.check_reserved(frame, str(reservation))
    seq = session.next()
    asks = command.role == "assistant" and not command.calls and command.text.endswith("?")
    holder = session if frame is None else frame
    holder.asks = asks
    holder.errors = [] if command.role == "assistant" else holder.errors
    session.calls += [Call(f"c{seq}_{each}", None if frame is None else frame.id) for each in range(command.calls)]
    if frame is None:
        return
    frame.touched = seq
    if command.usage is not None or reservation is not None:
        amount = frame.reserved.pop(str(reservation), ("", 0))[1]
        _charge(frame, amount if command.usage is None else command.usage)
        frame.touched = session.next()


def _answer(session: Session, name: str, wrong: bool) -> None:
    call = next((each for each in session.calls if each.id == name), None)
    if call is None:
        if session.fates.get(name) == "closed":
            session.next()  # kept as evidence, which touches nothing
            return
        kind = "CallAnswered" if name in session.fates else "CallNotFound"
        raise FrameRefusal(kind, session=session.name, call=name)
    _record_answers(session, [call], "answered", wrong=wrong)


def _record_answers(session: Session, calls: list[Call], fate: str, *, wrong: bool) -> None:
    seq = session.next()
    where = session.frames.get(calls[0].frame or "")
    holder = where if where is not None and where.live else session
    if isinstance(holder, Frame):
        holder.touched = seq
    holder.asks = False
    holder.errors = [*holder.errors, *(call.id for call in calls if wrong)]
    session.calls = [each for each in session.calls if each not in calls]
    session.fates |= {call.id: fate for call in calls}


def _close_calls(session: Session, calls: list[Call]) -> None:
    """Those of one message stay together."""
    groups: dict[str, list[Call]] = {}
    for call in calls:
        groups.setdefault(call.id.split("_")[0], []).append(call)
    for group in groups.values():
        _record_answers(session, group, "closed", wrong=True)


def _start(session: Session, command: Start, now: int) -> None:
    call = next((each for each in session.calls if each.id == command.call), None)
    if call is None:
        kind = "CallAnswered" if command.call in session.fates else "CallNotFound"
        raise FrameRefusal(kind, session=session.name, call=command.call)
    if call.attempts and not command.again:
        raise FrameRefusal("OutcomeUnknown", call=call.id, key=call.key, attempts=call.attempts)
    where = call.frame or (None if command.frame is None else str(command.frame))
    frame = None if where is None else session.living(where)
    if frame is not None:
        session.check_working(frame, now)
        if frame.limits[1] is not None and frame.tool_calls >= frame.limits[1]:
            raise FrameRefusal("ToolCallsExceeded", frame=frame.id, used=frame.tool_calls, limit=frame.limits[1])
    seq = session.next()
    call.attempts, call.key = call.attempts + 1, call.key or command.key
    if frame is not None:
        frame.touched, frame.tool_calls = seq, frame.tool_calls + 1
