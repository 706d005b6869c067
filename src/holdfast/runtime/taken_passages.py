"""What long-term memory has taken, on its way to another store.

Laws: the words of a destroyed session are in its passages alone, so they are carried over with the log. Their terms are
made again on arrival, and their vectors by the embedder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from holdfast.errors import ImportRefused, InvalidName
from holdfast.model import limits
from holdfast.model.memory.passages import IndexedPassage, NeighbourSpan, Passage, PassageFilter, StreamSpan
from holdfast.model.names import Scope, StreamId
from holdfast.ports import PassageIndex
from holdfast.text.recall.terms import passage_terms

_PAGE = 500


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


def put_taken(index: PassageIndex, passages: Iterable[Passage]) -> int:
    """Store taken passages of another store. Returns how many there were."""
    count = 0
    rest = iter(passages)
    while page := list(islice(rest, _PAGE)):
        index.adopt_passages([IndexedPassage(each, passage_terms(each.text)) for each in page])
        count += len(page)
    return count


def copy_taken(source: PassageIndex, target: PassageIndex, streams: Iterable[StreamId]) -> int:
    """Copy the taken passages of these streams. Those that the target has are replaced by the same."""
    return sum(put_taken(target, read_taken(source, stream)) for stream in streams if stream.kind == "session")


def check_passage(passage: Passage, versions: dict[StreamId, int], line: int) -> None:
    """Check a passage of an import, which may come from anyone: its event must be in the file or in the store."""
    scope = passage.scope
    try:
        Scope.check(scope.tenant, scope.actor, scope.session, scope.thread)
    except InvalidName as error:
        raise ImportRefused(line=line, reason=str(error)) from error
    numbers: Sequence[int] = (passage.seq, passage.part, passage.place, passage.start, passage.time_us)
    if not all(0 <= number <= limits.WHOLE_NUMBER for number in numbers):
        raise ImportRefused(line=line, reason="a number of this passage is out of range")
    if not 1 <= passage.seq <= versions.get(scope.stream, 0):
        raise ImportRefused(
            line=line, reason=f"a passage of event {passage.seq} of {scope.stream}, which does not exist"
        )
