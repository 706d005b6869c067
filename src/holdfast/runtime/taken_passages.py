"""What long-term memory has taken, on its way to another store.

Laws: the words of a destroyed session are in its passages alone, so they are carried over with the log. Their terms are
made again on arrival, and their vectors by the embedder. What was erased in the store that they come to stays erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from holdfast.core import upcast
from holdfast.core.sessions.layers import check_identity
from holdfast.errors import ImportRefused, InvalidInput
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.memory.passages import IndexedPassage, NeighbourSpan, Passage, PassageFilter, StreamSpan
from holdfast.model.names import Scope, StreamId
from holdfast.model.sessions.events import PayloadsErased, SessionDestroyed
from holdfast.model.sessions.layers import Identity
from holdfast.ports import PassageIndex
from holdfast.runtime.base import Driver
from holdfast.text.recall.terms import passage_terms

_PAGE = 500
_LAST_PLACE = 2**31 - 1
"""No message has more parts or characters, and no session more messages."""


def read_taken(index: PassageIndex, stream: StreamId) -> Iterator[Passage]:
    """Yield the passages of a stream that long-term memory has taken, by their places."""
    visible = PassageFilter(tenant=stream.tenant, spans=(StreamSpan(stream, 0, limits.WHOLE_NUMBER),))
    first, seen = 0, set[tuple[int, int]]()
    while True:
        page = index.passages_at(visible, [NeighbourSpan(stream, first, limits.WHOLE_NUMBER)], limits.READ_EVENTS)
        new = [each for each in page if (each.seq, each.part) not in seen]
        yield from (each for each in new if each.is_taken)
        if len(page) < limits.READ_EVENTS:
            return
        last = page[-1].place
        seen = {(each.seq, each.part) for each in page if each.place == last}
        first = last if new and page[0].place != last else last + 1  # one message with more parts than a page


def find_erased(stream: StreamId) -> Flow[frozenset[int]]:
    """The events of a session that were erased one by one. Those that went with their session are not among them: long-term
    memory keeps what it has of these."""
    erased: set[int] = set()
    before: int | None = None
    types = (PayloadsErased.name, SessionDestroyed.name)
    while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, types)):
        before = page[-1].seq
        for recorded in page:
            event = upcast.decode_event(recorded)
            if recorded.type == SessionDestroyed.name:
                erased.clear()
            elif isinstance(event, PayloadsErased):
                erased.update(event.seqs)
    return frozenset(erased)


def put_taken(drive: Driver, index: PassageIndex, passages: Iterable[Passage]) -> int:
    """Store taken passages of another store. Returns how many there were."""
    count = 0
    erased: dict[StreamId, frozenset[int]] = {}
    rest = iter(passages)
    while page := list(islice(rest, _PAGE)):
        for stream in {each.scope.stream for each in page} - erased.keys():
            erased[stream] = drive(find_erased(stream))
        page = [each for each in page if each.seq not in erased[each.scope.stream]]
        index.adopt_passages([IndexedPassage(each, passage_terms(each.text)) for each in page])
        count += len(page)
    return count


def copy_taken(drive: Driver, source: PassageIndex, target: PassageIndex, streams: Iterable[StreamId]) -> int:
    """Copy the taken passages of these streams to the target, which `drive` reads. Those that it has are replaced by the
    same."""
    return sum(put_taken(drive, target, read_taken(source, stream)) for stream in streams if stream.kind == "session")


def check_passage(passage: Passage, versions: dict[StreamId, int], line: int) -> None:
    """Check a passage of an import, which may come from anyone: its event must be in the file or in the store."""
    scope = passage.scope
    try:
        Scope.check(scope.tenant, scope.actor, scope.session, scope.thread)
        check_identity(Identity(user_id=passage.user, permissions=passage.requires))
    except InvalidInput as error:
        raise ImportRefused(line=line, reason=str(error)) from error
    places: Sequence[int] = (passage.part, passage.place, passage.start)
    is_whole = all(0 <= number <= limits.WHOLE_NUMBER for number in (passage.seq, passage.time_us))
    if not is_whole or not all(0 <= number <= _LAST_PLACE for number in places):
        raise ImportRefused(line=line, reason="a number of this passage is out of range")
    if not 1 <= passage.seq <= versions.get(scope.stream, 0):
        raise ImportRefused(
            line=line, reason=f"a passage of event {passage.seq} of {scope.stream}, which does not exist"
        )
