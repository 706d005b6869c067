"""Recalled passages as candidates of a pack, and as the answer of a tool: quoted lines under the date and the session that
they are from.

Laws:
- All that a passage says is on lines that begin with `>`. A line with one space behind it begins with a speaker, whom the
  engine names; a line with three continues the text. So no text can pass for another speaker or for a text of the engine.
- The order is that of time, session by session: what is outdated is told by its date.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from holdfast.core.packs.assembly import PackCandidate
from holdfast.model.memory.recall import RecalledPassage
from holdfast.model.names import StreamId
from holdfast.text.fence import remove_tag
from holdfast.text.lines import one_line, shorten

_NAME_CHARS = 40
"""Longer names of sessions and speakers are cut."""
_CONTINUED = "… "
"""Before a passage that is not the beginning of its text."""
_ROLE_NAMES = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "application"}
_UNKNOWN_DATE = "date unknown"


class ShownPassage(NamedTuple):
    """A passage as it may be shown."""

    passage: RecalledPassage
    text: str
    """Without superseded and withheld values."""
    redacted: tuple[str, ...] = ()
    """The superseded facts in it."""


class PassageView(NamedTuple):
    """Where passages are shown."""

    own: dict[StreamId, int]
    """The streams of the conversation itself, and the last event of each that belongs to it."""
    zone: str = "UTC"
    readable: bool = True
    """A tool that reads handles is offered."""

    def is_own(self, passage: RecalledPassage) -> bool:
        return passage.stream is not None and passage.seq <= self.own.get(passage.stream, 0)


def build_recall_candidates(
    shown: Sequence[ShownPassage], view: PassageView, least_score: float
) -> list[PackCandidate]:
    """The candidates of these passages, which come best first, in the order in which they are read. One without a score
    is never below the least one."""
    ranks = {one.passage.id: rank for rank, one in enumerate(shown)}
    return [
        PackCandidate(
            id=one.passage.id,
            section="recall",
            text=quote_passage(one, view),
            group=_describe_group(one.passage, view),
            priority="background",
            score=(score := one.passage.score),
            recency=-ranks[one.passage.id],
            source=_describe_source(one.passage, view),
            at=one.passage.seq if view.is_own(one.passage) else 0,
            reason=one.passage.reason,
            omission=f"does not fit the question ({score:.2f})" if 0 < score < least_score else "",
            digest_source=" ".join((one.passage.id, *one.redacted)),
        )
        for one in _sort_by_time(shown)
    ]


def write_passages(shown: Sequence[ShownPassage], view: PassageView) -> str:
    """The same as one text."""
    lines: list[str] = []
    last = ""
    for one in _sort_by_time(shown):
        group = _describe_group(one.passage, view)
        lines += (group, quote_passage(one, view)) if group != last else (quote_passage(one, view),)
        last = group
    return "\n".join(lines)


def _sort_by_time(shown: Sequence[ShownPassage]) -> list[ShownPassage]:
    """Session by session, in the order in which they begin; inside one, in the order of its events."""

    def session(passage: RecalledPassage) -> tuple[str, tuple[str, ...]]:
        return passage.session, () if passage.stream is None else passage.stream.key

    begins: dict[object, int] = {}
    for one in shown:
        name, time = session(one.passage), one.passage.time_us or 0
        begins[name] = min(begins.get(name, time), time)
    return sorted(
        shown,
        key=lambda one: (
            begins[session(one.passage)],
            session(one.passage),
            one.passage.time_us or 0,
            one.passage.seq,
            one.passage.part,
        ),
    )


def quote_passage(shown: ShownPassage, view: PassageView) -> str:
    passage = shown.passage
    first, *others = [line.rstrip() for line in remove_tag(shown.text).splitlines() if line.strip()] or [""]
    start = _CONTINUED if passage.start else ""
    return "\n".join(
        [f"> {_name_speaker(passage, view)}: {start}{first.lstrip()}", *(f">   {line}" for line in others)]
    )


def _name_speaker(passage: RecalledPassage, view: PassageView) -> str:
    if passage.kind == "situation":
        return "situation at its end"
    role = _ROLE_NAMES[passage.role]
    name = _clean_name(passage.speaker).strip(":> ")
    if not name or name.lower() in _ROLE_NAMES or name.lower() in _ROLE_NAMES.values():
        name = role
    return f"{name} [{passage.handle}]" if passage.handle and view.readable and view.is_own(passage) else name


def _clean_name(name: str) -> str:
    return shorten(one_line(remove_tag(name)), _NAME_CHARS)


def _describe_group(passage: RecalledPassage, view: PassageView) -> str:
    session = "earlier in this session" if view.is_own(passage) else _describe_session(passage)
    return f"{', '.join(filter(None, (format_date(passage.time_us, view.zone), session)))}:"


def _describe_session(passage: RecalledPassage) -> str:
    return f"session {_clean_name(passage.session)}" if passage.session else ""


def _describe_source(passage: RecalledPassage, view: PassageView) -> str:
    session = "this session" if view.is_own(passage) else _describe_session(passage)
    message = f"m{passage.seq}" if passage.seq else ""
    speaker = _name_speaker(passage, view)
    return ", ".join(filter(None, (session, message, speaker, format_date(passage.time_us, view.zone))))


def format_date(time_us: int | None, zone: str) -> str:
    if time_us is None:
        return _UNKNOWN_DATE
    try:
        place: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)
    except (LookupError, ValueError, OSError):
        place = UTC  # this machine does not know it
    try:
        return f"{datetime.fromtimestamp(time_us / 1e6, place):%a %Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return _UNKNOWN_DATE  # beyond the calendar
