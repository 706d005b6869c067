"""The conversations of clients on sessions: every family of requests is a session with its forks, every sub-agent a frame.

Each message of a client is recorded as one or more messages of the session, whose metadata has the hash of the client's
list up to it. So any process can tell, from the log alone, what of a request is recorded.

Laws: recording a request again changes nothing. What a client revised is withdrawn, never erased. No branch has messages of
another one behind the place where they part.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import holdfast
from holdfast.errors import HoldfastError, InvalidInput, SessionExists, SessionNotFound, TooLarge, VersionConflict
from holdfast.flows.sessions.messages import build_drafts, record_drafts
from holdfast.gateway.dialects import build_drafts as build_client_drafts
from holdfast.gateway.figures import PromptSize, TokenScale
from holdfast.gateway.lineage import Match, Node, count_shared, find_match
from holdfast.gateway.model import BodyEnd, ClientMessage, ClientRequest, Draft, SentView
from holdfast.model import limits
from holdfast.model.sessions.messages import Message, MessageDraft

FAMILIES = 256
"""The families whose messages are known in memory; others are read from the store again."""
FAMILY_BYTES = 3 << 20
"""What all of these take; the families used last stay."""
_NODE_BYTES = 400
"""What a message takes, about."""
_REMOVED_BYTES = 150
"""What a removed piece of a view takes, about."""
_NAME_BYTES = 6
BRANCHES = 1_000
"""The sessions of one family."""
HEADS = 4
"""The heads of a line whose last prompts are known."""
FRAME_BUDGET = 1_000_000_000
"""The tokens of a sub-agent: a client has its own limits."""
TRIES = 50
"""How often a record is tried again when other processes write to the same session."""
OPENING_BYTES = 64_000
"""What stands before the first reply stays in every request, up to so many bytes."""
_PAGE = 1_000
_BATCH = limits.BATCH_MESSAGES // 2
_GOAL_CHARS = 200
_FIRST_PIECE = (0,)
"""The pieces of most messages, once for all of them."""
Conversation: TypeAlias = holdfast.Session | holdfast.Frame


class RecordedPart(NamedTuple):
    """A message of the session, and the pieces of the client's message that it has."""

    seq: int
    pieces: tuple[int, ...]
    tokens: int
    is_lost: bool = False
    """It could not be recorded as it is, so it stays in every request."""


class HeadUse(NamedTuple):
    """The last call of a line with what a request had before its messages: model, tools and system prompt."""

    replied_us: int
    pieces: int
    """Of the client's list."""
    prompt: PromptSize | None
    """None if its size is not known."""


class Line:
    """A recorded conversation: that of a session, or of a frame in it."""

    def __init__(
        self, session: holdfast.Session, frame: str | None, agent: str, epoch: int, *, begun_at: int = 0
    ) -> None:
        self.session, self.frame, self.agent, self.epoch = session, frame, agent, epoch
        self.begun_at = begun_at
        """The version of the session when this process began the epoch; 0 if another one did."""
        self.is_past = False
        """It cannot go on: the client began a new epoch, or the frame has ended."""
        self.nodes: list[Node] = []
        self.places: list[tuple[RecordedPart, ...]] = []
        """For each node, the messages that it was recorded as."""
        self.view: SentView | None = None
        """What is changed in its requests; None if it is not known yet."""
        self.view_at = -1
        """The boundary of that view."""
        self.view_name = 0
        """The name of what it changes: an edited reply moves the boundary, and changes nothing that is sent."""
        self.saved = 0
        """The tokens that the view takes out, in the engine's count."""
        self.asked = 0
        """The messages of its last request in this process."""
        self.head = b""
        """Of its last request."""
        self.heads: dict[bytes, HeadUse] = {}
        """The heads of its last calls, the newest last: a provider keeps a prompt for each."""
        self.head_tokens = 0
        """Before the messages, in the provider's count; 0 if not known yet."""
        self.scale = TokenScale()
        self.is_measured = False
        """Whether the scale and the head are those of the last call that the store knows."""
        self.settled_view = 0
        """The name of the view of the last call that was recorded."""
        self.last_prompt: PromptSize | None = None
        """Of the last request whose usage is known; None if it is not known yet."""
        self.sent_us = 0
        """When the last request left whose reply was recorded."""
        self.replied_us = 0
        """When the last reply ended."""
        self.tokens = 0
        """Of all its messages, in the engine's count."""
        self.planned_tokens = 0
        """The same, when a boundary was last looked for."""
        self.has_boundary = False
        """The next request is the first one after a boundary."""
        self.is_left_alone: bool | None = None
        self.is_fork = False
        """The client has just gone back to its end: no request of it was answered yet."""

    @property
    def name(self) -> str:
        return f"{self.session.scope.session}#{self.frame or ''}@{self.epoch}"

    @property
    def conversation(self) -> Conversation:
        return self.session if self.frame is None else self.session.frames.get(self.frame)

    @property
    def size(self) -> int:
        """The memory that it takes, about."""
        return _NODE_BYTES * len(self.nodes) + (0 if self.view is None else weigh_view(self.view))

    def count_tokens(self, messages: int) -> int:
        """The tokens of its first messages, as they are recorded."""
        if messages >= len(self.places):
            return self.tokens
        return self.tokens - sum(place.tokens for places in self.places[messages:] for place in places)

    def note_head(self, head: bytes, use: HeadUse) -> None:
        """Note a call with this head."""
        self.heads.pop(head, None)
        self.heads[head] = use
        while len(self.heads) > HEADS:
            del self.heads[next(iter(self.heads))]

    def add(self, message: Message) -> None:
        """Note a recorded message."""
        mark = message.metadata["gateway"]
        assert isinstance(mark, dict), "is_marked() says so"
        name = bytes.fromhex(str(mark["hash"]))
        if not self.nodes or self.nodes[-1].hash != name:
            role = sys.intern(str(mark["role"]))  # a few words, for many messages
            node = Node(name, role, _read_texts(mark.get("calls")), bool(mark.get("reply")))
            self.nodes.append(node)
            self.places.append(())
        if mark.get("reply"):
            self.replied_us = max(self.replied_us, message.time_us)
        place = RecordedPart(message.seq, _read_numbers(mark.get("pieces")), message.tokens, bool(mark.get("lost")))
        self.places[-1] = (*self.places[-1], place)
        self.tokens += place.tokens


def weigh_view(view: SentView) -> int:
    """The memory that a view takes, about: most of it are the texts of shortened pieces."""
    pieces = len(view.removed) + 2 * len(view.replaced)  # which have a text each
    return len(view.summary) + _REMOVED_BYTES * pieces + sum(map(len, view.replaced.values()))


def name_view(view: SentView) -> int:
    """A name for what a view changes; 0 for nothing."""
    if view.is_empty:
        return 0
    digest = hashlib.blake2b(view.summary, digest_size=_NAME_BYTES)
    for index, piece in sorted(view.removed):
        digest.update(b"-%d.%d" % (index, piece))
    for (index, piece), text in sorted(view.replaced.items()):
        digest.update(b"=%d.%d:" % (index, piece) + text)
    return int.from_bytes(digest.digest()) or 1


def _read_texts(value: object) -> tuple[str, ...]:
    return tuple(sys.intern(str(each)) for each in value) if isinstance(value, list) else ()


def _read_numbers(value: object) -> tuple[int, ...]:
    if value == [0]:
        return _FIRST_PIECE
    return tuple(each for each in value if type(each) is int) if isinstance(value, list) else ()


def is_marked(message: Message) -> bool:
    """Whether a message was recorded by a gateway, and is in the conversation."""
    return not message.withdrawn and not message.erased and isinstance(message.metadata.get("gateway"), dict)


class _Extent(NamedTuple):
    """How far a session was read."""

    version: int
    messages: int
    evidence: int
    withdrawn: int


class Family:
    """The lines of one conversation of a client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.RLock()
        self.sessions: dict[str, holdfast.Session] = {}
        self.lines: dict[str, Line] = {}
        self.current: holdfast.Session | None = None
        """The session whose main line was used last: sub-agents are frames of it."""
        self._extents: dict[str, _Extent] = {}

    @property
    def size(self) -> int:
        """The memory that it takes, about."""
        return sum(line.size for line in list(self.lines.values()))

    def lines_of(self, agent: str) -> dict[str, Line]:
        """The lines of an agent, those that can go on first."""
        found = [(name, line) for name, line in list(self.lines.items()) if line.agent == agent]
        return dict(sorted(found, key=lambda each: each[1].is_past))

    def branches_of(self, agent: str) -> dict[str, list[Node]]:
        return {name: line.nodes for name, line in self.lines_of(agent).items()}

    def version_of(self, line: Line) -> int:
        """The version of a line's session up to which it was read."""
        return self._extents[line.session.scope.session].version

    def was_overtaken(self, line: Line) -> bool:
        """Whether another line went on in its session since this epoch began: its messages are in the history view, where
        a summary would quote them."""
        others = (each for each in self.lines.values() if each.session is line.session and each.frame is None)
        return (
            bool(line.begun_at)
            and not line.nodes
            and any(places[-1].seq > line.begun_at for each in others for places in each.places[-1:])
        )

    def drop(self, line: Line) -> None:
        """Forget a line that was begun and has no messages."""
        del self.lines[line.name]
        self._mark_past(line.session, line.session.state().frames)

    def load(self, engine: holdfast.Engine) -> None:
        """Read what the store has of this family, as far as it is new."""
        for number in range(1, BRANCHES + 1):
            name = self.name if number == 1 else f"{self.name}.{number}"
            if name not in self.sessions:
                try:
                    self.sessions[name] = engine.session(name)
                except SessionNotFound:
                    break
            self.read(self.sessions[name])
        if self.current is None:
            self.current = max(self.sessions.values(), key=lambda each: each.state().updated_us, default=None)

    def read(self, session: holdfast.Session) -> None:
        """Read what is new in a session; all of it, if something was withdrawn, restored or erased."""
        name, state = session.scope.session, session.state()
        extent = _Extent(state.version, state.messages, state.late, state.withdrawn)
        before = self._extents.get(name)
        if before == extent:
            return
        is_longer = before is not None and before.withdrawn == extent.withdrawn
        if before is None or not is_longer or extent.messages < before.messages or extent.evidence < before.evidence:
            before = _Extent(0, 0, 0, 0)
            gone = self._drop_lines(session)
        else:
            gone = {}
        new = _read_back(session.messages, extent.version, extent.messages - before.messages)
        new += _read_back(session.evidence, extent.version, extent.evidence - before.evidence)
        for message in sorted(filter(is_marked, new), key=lambda message: message.seq):
            self._line_of(session, message, gone).add(message)
        self._extents[name] = extent
        self._mark_past(session, state.frames)

    def _drop_lines(self, session: holdfast.Session) -> dict[str, Line]:
        """Forget the lines of a session; those that were begun, and have no message yet, are in no log."""
        dropped = {name: line for name, line in self.lines.items() if line.session is session and line.nodes}
        for name in dropped:
            del self.lines[name]
        return dropped

    def _line_of(self, session: holdfast.Session, message: Message, gone: dict[str, Line]) -> Line:
        mark: Any = message.metadata["gateway"]
        line = Line(session, message.frame, str(mark.get("agent", "")), int(mark.get("epoch", 0)))
        if line.name not in self.lines:
            if line.name in gone:
                _carry_over(gone[line.name], line)
            self.lines[line.name] = line
        return self.lines[line.name]

    def _mark_past(self, session: holdfast.Session, frames: Container[str]) -> None:
        lines = [line for line in self.lines.values() if line.session is session]
        newest = max((line.epoch for line in lines if line.frame is None), default=0)
        for line in lines:
            line.is_past = line.epoch < newest if line.frame is None else line.frame not in frames
            if line.is_past:  # the session's view is that of its newest epoch
                line.view = None


def _read_back(read: Callable[..., list[Message]], version: int, count: int) -> list[Message]:
    """The last messages up to a version."""
    messages: list[Message] = []
    before = version + 1
    while count > 0 and (page := read(before=before, limit=min(_PAGE, count))):
        messages += page
        before, count = page[0].seq, count - len(page)
    return messages


def _carry_over(before: Line, line: Line) -> None:
    """What is known of a line in memory beside its messages."""
    line.asked, line.head, line.head_tokens, line.scale = before.asked, before.head, before.head_tokens, before.scale
    line.heads = before.heads
    line.is_measured, line.planned_tokens = before.is_measured, before.planned_tokens
    line.settled_view = before.settled_view
    line.last_prompt, line.is_left_alone = before.last_prompt, before.is_left_alone
    line.is_fork, line.sent_us, line.has_boundary = before.is_fork, before.sent_us, before.has_boundary
    line.replied_us = before.replied_us  # a reply that its client edited was one


class Lines:
    """The families that this process knows."""

    def __init__(self, engine: holdfast.Engine, *, user: str | None = None) -> None:
        self.engine = engine
        self._user = user
        self._families: OrderedDict[str, Family] = OrderedDict()
        self._lock = threading.Lock()

    def family(self, name: str) -> Family:
        with self._lock:
            family = self._families.setdefault(name, Family(name))
            self._families.move_to_end(name)
            size = sum(each.size for each in self._families.values())
            while len(self._families) > 1 and (len(self._families) > FAMILIES or size > FAMILY_BYTES):
                _, oldest = self._families.popitem(last=False)
                size -= oldest.size
            return family

    def find_known(self, name: str, request: ClientRequest) -> Line | None:
        """The line that a request continues, from memory alone."""
        family = self._families.get(name)
        if family is None:
            return None
        match = find_match(request.chain, request.messages, family.branches_of(request.agent))
        return family.lines.get(match.branch)

    def follow(self, family: Family, request: ClientRequest, body: bytes) -> tuple[Line, int]:
        """Record what is new in a request. Returns its line, and how many messages of it were known. The caller has the
        family's lock."""
        whole = BodyEnd(0, 0, body)
        chain = request.chain
        for attempt in range(TRIES):
            match = self._match(family, request, chain)
            try:
                line = self._find_line(family, request, match)
                known = self._record(family, line, request, whole, chain)
            except (VersionConflict, SessionExists):  # another process was first
                if attempt == TRIES - 1:
                    raise
                continue
            if line.frame is None:
                family.current = line.session
            return family.lines[line.name], known
        raise AssertionError("the last try returns or raises")

    def _match(self, family: Family, request: ClientRequest, chain: Sequence[bytes]) -> Match:
        """Where a request belongs: usually in the session that was used last; only else, all of them are looked at."""
        if family.current is not None:
            family.read(family.current)
            match = find_match(chain, request.messages, family.branches_of(request.agent))
            line = family.lines.get(match.branch)
            is_usual = match.relation in ("continue", "retry") and line is not None and not line.is_past
            if is_usual and line is not None and line.session is family.current:
                return match
        family.load(self.engine)
        return find_match(chain, request.messages, family.branches_of(request.agent))

    def _find_line(self, family: Family, request: ClientRequest, match: Match) -> Line:
        line = family.lines.get(match.branch)
        if line is None:
            return self._begin_line(family, request)
        can_go_on = not line.is_past
        match match.relation:
            case "continue" if can_go_on:
                return line
            case "retry" | "revise" if can_go_on:  # who asks again has no use for the first reply
                return self._revise(family, line, match.shared) if match.shared < len(line.nodes) else line
            case "epoch":
                return self._begin_epoch(family, line, request)
        return self._fork(family, line, request, match.shared)

    def _begin_line(self, family: Family, request: ClientRequest) -> Line:
        """A first session, or the frame of a sub-agent in the session that is in use."""
        session = family.current or self._create(family)
        if not request.agent:
            line = Line(session, None, "", 0)
        else:
            line = Line(session, self._push_frame(family, session, request), request.agent, 0)
        family.lines[line.name] = line
        return line

    def _create(self, family: Family) -> holdfast.Session:
        name = self._next_name(family)
        session = self.engine.session(name, user=self._user, create=True)
        family.sessions[name] = session
        return session

    def _next_name(self, family: Family) -> str:
        number = len(family.sessions) + 1
        if number > BRANCHES:
            advice = "Its requests leave as they come."
            raise TooLarge(
                what="the family", size=number, unit="sessions", limit=BRANCHES, limit_name="BRANCHES", advice=advice
            )
        return family.name if number == 1 else f"{family.name}.{number}"

    def _push_frame(self, family: Family, session: holdfast.Session, request: ClientRequest) -> str:
        parent = next(
            (
                line.frame
                for line in family.lines_of(request.parent_agent).values()
                if request.parent_agent and line.session is session and not line.is_past
            ),
            None,
        )
        budget = FRAME_BUDGET if parent is None else session.frames.get(parent).state().budget.available // 2
        frame = session.frame(
            f"sub-agent {request.agent}"[:_GOAL_CHARS],
            budget=max(1, budget),
            inputs={"agent": request.agent, "model": request.model},
            parent=parent,
            max_subframe_depth=limits.FRAME_DEPTH if parent is None else None,
        )
        return frame.frame_id

    def _begin_epoch(self, family: Family, line: Line, request: ClientRequest) -> Line:
        """The client shortened its list: the conversation starts again in the same session, or in a new frame."""
        if line.frame is not None:
            return self._begin_line(family, request)
        latest = max(
            (each for each in family.lines_of("").values() if each.session is line.session), key=lambda each: each.epoch
        )
        version = family.version_of(latest)
        latest.session.reset("the client shortened its conversation", expect=version)
        latest.is_past = True
        begun = Line(latest.session, None, "", latest.epoch + 1, begun_at=version)
        family.lines[begun.name] = begun
        return begun

    def _revise(self, family: Family, line: Line, shared: int) -> Line:
        """Withdraw what the client has in another version."""
        after = line.places[shared - 1][-1].seq if shared else line.places[0][0].seq - 1
        expect = family.version_of(line)
        line.conversation.withdraw(after=after, reason="the client asked again, or sent another version", expect=expect)
        family.read(line.session)
        left = family.lines.get(line.name)
        if left is None:
            left = Line(line.session, line.frame, line.agent, line.epoch)
            family.lines[left.name] = left
        return left

    def _fork(self, family: Family, line: Line, request: ClientRequest, shared: int) -> Line:
        """Begin a session that shares the first messages of a line; for a sub-agent, a frame of its own."""
        if line.frame is not None:
            return self._begin_line(family, request)
        while shared and line.nodes[shared - 1].role == "assistant" and line.nodes[shared - 1].calls:
            shared -= 1  # a fork closes open calls
        if not shared:
            return self._begin_root(family)
        name = self._next_name(family)
        session = line.session.fork(at=line.places[shared - 1][-1].seq, as_=name)
        family.sessions[name] = session
        family.read(session)
        lines = (each for each in family.lines.values() if each.session is session and each.frame is None)
        forked = next(each for each in lines if not each.is_past)
        forked.is_fork = True
        return forked

    def _begin_root(self, family: Family) -> Line:
        session = self._create(family)
        line = Line(session, None, "", 0)
        family.lines[line.name] = line
        return line

    def record_late(self, family: Family, line: Line, request: ClientRequest, part: BodyEnd) -> int:
        """Record the end of a request that has left already. Returns how many of its messages were known; if the line went
        on in another way meanwhile, nothing is recorded."""
        chain = request.chain
        for _ in range(TRIES):
            line = family.lines.get(line.name, line)
            known = count_shared(chain, line.nodes)
            if known == len(chain) or known < len(line.nodes) or known < part.first or line.is_past:
                break
            try:
                return self._record(family, line, request, part, chain)
            except VersionConflict:  # another process was first
                family.read(line.session)
        return len(chain)

    def _record(self, family: Family, line: Line, request: ClientRequest, part: BodyEnd, chain: Sequence[bytes]) -> int:
        """Record the messages of a request that its line does not have. Returns how many it had."""
        family.read(line.session)
        line = family.lines.get(line.name, line)
        if family.was_overtaken(line):
            family.drop(line)
            raise VersionConflict(stream=line.name, expected=line.begun_at, actual=family.version_of(line))
        known = count_shared(chain, line.nodes)
        if line.is_past or known < min(len(line.nodes), len(request.messages)) or known < part.first:
            # another process went on with it, or withdrew some of it
            raise VersionConflict(stream=line.name, expected=known, actual=len(line.nodes))
        drafts: list[MessageDraft] = []
        opening = count_opening(request.messages)
        for index in range(known, len(request.messages)):
            drafts += self._build_drafts(line, request, part, index, chain[index], opening)
        for start in range(0, len(drafts), _BATCH):
            record_as_found(line.conversation, drafts[start : start + _BATCH], expect=family.version_of(line))
            family.read(line.session)
        return known

    def _build_drafts(
        self, line: Line, request: ClientRequest, part: BodyEnd, index: int, name: bytes, opening: int
    ) -> Iterable[MessageDraft]:
        message = request.messages[index]
        calls = [piece.call for piece in message.pieces if piece.call]
        is_critical = message.stays or index < opening
        for draft in build_client_drafts(request, part, index):
            mark = build_mark(line, name, message.role, calls, draft.pieces)
            yield _read_draft(draft, mark, is_critical=is_critical)


def count_opening(messages: Sequence[ClientMessage]) -> int:
    """How many messages are the opening of a conversation, which stays: those before the first reply, with the task and
    what the client tells the model about it, as far as they are not too long."""
    size = 0
    for index, message in enumerate(messages):
        size += 0 if message.role == "system" else message.at.end - message.at.start
        if message.role == "assistant" or size > OPENING_BYTES:
            return index
    return len(messages)


def build_mark(
    line: Line, name: bytes, role: str, calls: Sequence[str], pieces: Sequence[int], *, is_reply: bool = False
) -> dict[str, Any]:
    """The metadata by which a recorded message is found again."""
    mark: dict[str, Any] = {"hash": name.hex(), "role": role, "pieces": [*pieces]}
    if calls:
        mark["calls"] = [*calls]
    if is_reply:
        mark["reply"] = True
    if line.agent:
        mark["agent"] = line.agent
    if line.epoch:
        mark["epoch"] = line.epoch
    return mark


def _read_draft(draft: Draft, mark: dict[str, Any], *, is_critical: bool) -> MessageDraft:
    """The message to record; what no session can hold is replaced by a line that says so."""
    metadata = {"gateway": mark}
    priority: Any = "critical" if is_critical else None
    try:
        (built,) = build_drafts(draft.message, metadata=metadata, priority=priority)
    except (HoldfastError, ValueError):
        return _build_substitute(str(mark["role"]), {"gateway": {**mark, "lost": True}})
    return built


def _build_substitute(role: str, metadata: dict[str, Any]) -> MessageDraft:
    text = "[a message of the client that cannot be recorded; it stays in every request]"
    spoken = role if role in ("user", "assistant") else "user"  # a session takes so many system messages
    return MessageDraft(role=spoken, content=text, metadata=metadata)


def record_as_found(conversation: Conversation, drafts: Sequence[MessageDraft], *, expect: int | None = None) -> None:
    """Record messages whatever their order. If one of them is refused, each is recorded alone, and that one as a line that
    says so."""
    try:
        conversation._drive(record_drafts(conversation._context, drafts, as_found=True, expect=expect))
        return
    except InvalidInput:
        if len(drafts) > 1:
            for draft in drafts:
                record_as_found(conversation, [draft])
            return
    (draft,) = drafts
    mark = draft.metadata["gateway"] if isinstance(draft.metadata, dict) else {}
    substitute = _build_substitute(str(draft.role), {"gateway": {**mark, "lost": True}})
    conversation._drive(record_drafts(conversation._context, [substitute], as_found=True))
