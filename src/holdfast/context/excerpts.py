"""A conversation as entries that a summary can be made of: who said what, and which tools were called with what. Pure.

Laws: an entry has one speaker, or is one kind of call with what it returned; an entry is one line, whatever was said in it.
What is quoted is quoted as it was written: only blanks are collapsed, and what is left out is marked. Calls share an entry
only if they came to the same: the same short result, the same error, or a result too long to be quoted whole, of which the
newest is named by its handle. An earlier summary among the items is read back into the entries that it was made of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from holdfast.context.identifiers import ARGUMENT, ASSISTANT, LONG_ARGUMENT, RESULT, USER, Names
from holdfast.core.shown import READS_BRACKETS
from holdfast.model.content import Body, Data, File, Json, Part, Text, ToolCall, ToolResult
from holdfast.model.handles import piece_id
from holdfast.model.messages import Message, Summary, Unit

SPEAKERS = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}
EARLIER = "Earlier summary"
CALLED, WITH, RETURNED = "Called ", " with ", " → "
GAP, NEXT_LINE = " … ", " | "
PREAMBLE = "Excerpts, oldest first:"
PREAMBLE_WITH_HANDLES = f"Excerpts, oldest first{READS_BRACKETS}:"
_OTHER_NAMES = "Other names: "
"""Begins a line of summaries that earlier versions made."""

PIECE_CHARACTERS = 200
"""A longer sentence or line is several pieces."""
OPENING_CHARACTERS = 280
"""Of a statement, what is taken before anything else is chosen by its worth."""
CONCLUSION_CHARACTERS = 160
ARGUMENTS_CHARACTERS = 240
KEY_CHARACTERS = 40
SHORT_ARGUMENT = 200
"""Characters of an argument that names something; a longer one is the thing itself."""
FAILURE_CHARACTERS = 200
SHORT_RESULT = 200
"""Characters of a result that is quoted whole, or not at all."""
DETAIL_CHARACTERS = 40
"""Characters of an argument that is told together with a short result."""
_MARK_CHARACTERS = 8
"""Signs without a word, such as the number of a list, that stay with what follows; longer ones are left out."""
_REPEATED = 3
"""So many lines of a result that differ in their numbers alone are worth no more than one."""
SHORT_REPLY_WORDS = 3
"""A reply of so few words needs the question that it answers."""
_STATEMENT_HEAD, _STATEMENT_TAIL = 6_000, 2_000
_OUTPUT_LINES, _OUTPUT_TAIL_LINES = 300, 100
"""Lines of an output that can be quoted, from its beginning and from its end; names are counted in all of it."""
_TAIL_CHARACTERS = 1 << 14
_ENTRY_PIECES = 400
_ARGUMENTS = 40
"""Arguments of one call that are looked at."""
_MOST_CALLS = 999_999

_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SENTENCE = re.compile(r"(?<=[.!?])[ \n]|(?<=[。！？؟])[ \n]?|\n")
_MARK, _LISTED = re.compile(r"[\W_]*"), re.compile(r"\d{1,3}[.)]")
_DIGITS = re.compile(r"\d+")
_DECISION = re.compile(
    r"\b(?:root cause|decid(?:e|ed|ing)|decisions?|conclu(?:de|ded|sion)|turn(?:s|ed) out|caused by|because|agreed|"
    r"confirmed|(?:problem|cause|bug|issue|fix|reason|culprit|solution|answer) (?:is|was)|(?:will|must|should) not|"
    r"won't)\b",
    re.IGNORECASE,
)
_FILE = re.compile(r"[^\s*?]*[^\s/.*?]\.[A-Za-z]\w{0,9}")
_WORTH_QUOTING = re.compile(r"\w")
_NOT_LABEL = re.compile(r"[^\w.-]+")
_NOT_TOOL = re.compile(r"[\s,;→]+")
_FAILURE = re.compile(
    r"\W{0,12}(?:[\w.-]{1,60}[\s:]\W{0,3}){0,2}?(?:[\w.]{0,60}(?:error|exception)(?=[\"'\]]{0,2}\s?:|\[|$)|"
    r"(?:fatal|panic|traceback|fail(?:ed|ure)?)(?=[:\s(]|$))",
    re.IGNORECASE,
)
_QUESTION = ("?", "？", "؟")
_TOOL = re.compile(r"([^\s,]+)(?: x(\d{1,9}))?( \(failed\))?")
_HANDLE = re.compile(r" \[(h\d{1,19}_\d{1,9})\]$")
_LABEL = re.compile(r"[\w.-]{1,40}: ")


class Piece(msgspec.Struct, frozen=True):
    """A sentence, a line, or a part of one."""

    text: str
    glue: str = " "
    """What stands between it and the piece before, if that is shown too."""
    label: str = ""
    """The argument that it is from."""
    weight: float = 1.0
    """The part of its worth that counts: less for a line that the same result has many of."""


class Entry(msgspec.Struct, eq=False):
    """One line of a summary: what it is about, and the pieces that can be shown of it, by their numbers."""

    speaker: str
    at: int
    pieces: dict[int, Piece] = {}
    opening: tuple[int, ...] = ()
    """The pieces that are shown before others."""
    question: tuple[Entry, int] | None = None
    """The piece of another entry without which this one says nothing."""
    concludes: bool = False
    """The assistant's last statement of a turn."""
    decides: tuple[int, ...] = ()
    """The pieces that tell what the assistant decided or found."""
    comments: bool = False
    """The assistant said it along with calls, and they tell what was done."""
    subject: str = ""
    tools: dict[str, int] = {}
    failed: frozenset[str] = frozenset()
    fails: bool = False
    """It tells of a failure that no later call of the same kind has mended."""
    handle: str = ""
    """Where the newest result can be read."""
    whole: frozenset[int] = frozenset()
    """The pieces that are all of the result; empty if it is too long to be quoted whole."""

    @property
    def is_call(self) -> bool:
        return not self.speaker

    @property
    def calls(self) -> int:
        return sum(self.tools.values())

    @property
    def head(self) -> str:
        if self.speaker:
            return f"{self.speaker}:"
        counts = (
            name + (f" x{times}" if times > 1 else "") + (" (failed)" if name in self.failed else "")
            for name, times in self.tools.items()
        )
        return CALLED + ", ".join(counts) + (WITH + self.subject if self.subject else "")

    def names_handle(self, chosen: Iterable[int]) -> bool:
        """Whether the line names the handle of the result: with these pieces it is not quoted whole."""
        return bool(self.handle) and not (self.whole and self.whole.issubset(chosen))

    def render(self, chosen: Iterable[int]) -> str:
        """The line with these pieces; what is left out before and between them is marked."""
        numbers = sorted(chosen)
        text, before, label = self.head, -1, RETURNED if self.is_call else ""
        if self.names_handle(numbers):
            text += f" [{self.handle}]"
        for number in numbers:
            piece = self.pieces[number]
            if before < 0 and number and not self.is_call:
                text += GAP
            elif before < 0 or (self.is_call and piece.label != label):
                text += self._introduce(piece)
            else:
                text += piece.glue if number == before + 1 else GAP
            text += piece.text
            before, label = number, piece.label
        return text

    def _introduce(self, piece: Piece) -> str:
        if not self.is_call:
            return " "
        return f"; {piece.label}: " if piece.label else RETURNED


class _Call(msgspec.Struct, frozen=True):
    """A call, until its result is known."""

    tool: str
    subject: str
    details: Sequence[Piece] = ()
    """The arguments that are not its subject."""


class _Outcome(msgspec.Struct, frozen=True):
    """What a call came to."""

    pieces: Sequence[Piece] = ()
    telling: Sequence[Piece] = ()
    """Those that are shown before others."""
    handle: str = ""
    kind: str = ""
    """`failed`, `short`, `long`, or empty if there is no result."""
    whole: bool = False
    """All of the result is among the pieces, and short."""
    fails: bool = False
    """It tells of a failure, though nobody marked it as one."""

    @property
    def key(self) -> str:
        """What calls have in common that came to the same. Long results differ, and the newest stands for all."""
        match self.kind:
            case "failed":
                return self.pieces[0].text if self.pieces else ""
            case "short":
                return NEXT_LINE.join(piece.text for piece in self.pieces)
        return ""


def flatten(text: str, limit: int) -> str:
    """On one line; a longer text is cut, at a blank if there is one near."""
    text = _BLANK.sub(" ", text.lstrip()[: limit * 4]).strip()
    if len(text) <= limit:
        return text
    cut = text.rfind(" ", limit * 3 // 4, limit)
    return text[: cut if cut > 0 else limit - 1].rstrip() + "…"


class Transcript:
    """The entries of a stretch of conversation, oldest first, and its names."""

    def __init__(self, items: Iterable[Unit | Summary]) -> None:
        self.names = Names()
        self._statements: dict[tuple[str, str, str], Entry] = {}
        self._calls: dict[tuple[str, ...], Entry] = {}
        self._failing: dict[tuple[str, str], list[Entry]] = {}
        """By subject and tool: what a later call may mend."""
        for item in items:
            if isinstance(item, Summary):
                self._read_summary(item)
            else:
                self._read_unit(item)
        last = next(reversed(self._statements.values()), None)
        if last is not None and last.speaker == SPEAKERS["assistant"] and not last.comments:
            self._conclude(last)

    @property
    def statements(self) -> list[Entry]:
        return list(self._statements.values())

    @property
    def calls(self) -> list[Entry]:
        return list(self._calls.values())

    @property
    def entries(self) -> list[Entry]:
        """In the order in which they came; repeated calls stand where the last of them was made."""
        return sorted((*self._statements.values(), *self._calls.values()), key=lambda entry: entry.at)

    def _read_unit(self, unit: Unit) -> None:
        waiting: dict[str, _Call] = {}
        for message in unit.messages:
            self._read_message(message)
            for call in message.tool_calls:
                if call.id in waiting:
                    self._tell_call(waiting.pop(call.id), _Outcome())
                waiting[call.id] = self._read_call(call)
            for number, result in enumerate(message.tool_results):
                made = waiting.pop(result.tool_call_id, None) or _Call("?", "")
                self._tell_call(made, self._read_result(result, piece_id(message.seq, number)))
        for made in waiting.values():
            self._tell_call(made, _Outcome())

    def _read_message(self, message: Message) -> None:
        text = ("" if message.role == "assistant" else "\n").join(_texts(message.content))  # a reply comes in pieces
        if not text.strip():
            return
        source = {"assistant": ASSISTANT, "tool": RESULT}.get(message.role or "", USER)
        self.names.add(text, source)
        speaker = SPEAKERS.get(message.role or "", SPEAKERS["user"])
        self._state(speaker, _sentences(text), comments=bool(message.tool_calls))

    def _state(self, speaker: str, pieces: dict[int, Piece], *, comments: bool = False) -> None:
        if not pieces:
            return
        before = next(reversed(self._statements.values()), None)
        entry = Entry(speaker=speaker, at=self.names.at, pieces=pieces, comments=comments)
        if speaker == SPEAKERS["assistant"]:
            entry.decides = tuple(number for number, piece in pieces.items() if _DECISION.search(piece.text))
        entry.opening = _opening(pieces, OPENING_CHARACTERS)
        if speaker == SPEAKERS["user"] and before is not None and before.speaker == SPEAKERS["assistant"]:
            self._conclude(before)
            last = max(before.pieces)
            words = sum(len(piece.text.split()) for piece in pieces.values())
            if before.pieces[last].text.endswith(_QUESTION) and words <= SHORT_REPLY_WORDS:
                entry.question = before, last
        question = entry.question[0].pieces[entry.question[1]].text if entry.question else ""
        key = speaker, entry.render(pieces), question
        self._statements.pop(key, None)  # what is said again is said now
        self._statements[key] = entry

    def _conclude(self, entry: Entry) -> None:
        entry.concludes = True
        last = max(entry.pieces)
        entry.opening = tuple(dict.fromkeys((*_opening(entry.pieces, CONCLUSION_CHARACTERS), last)))

    def _read_call(self, call: ToolCall) -> _Call:
        for _, value in _arguments(call.args):
            self.names.add(value, ARGUMENT if len(value) <= SHORT_ARGUMENT else LONG_ARGUMENT)
        arguments = list(islice(_arguments(call.args), _ARGUMENTS))
        plain = [(key, value) for key, value in arguments if key in _plain_keys(call.args)]
        file = next(((key, value) for key, value in plain if _is_file(value)), None)
        about = [file] if file else [each for each in plain if len(each[1]) <= SHORT_ARGUMENT]
        subject = file[1].strip() if file else ", ".join(_shown(*each) for each in about)
        details = [piece for each in arguments if each not in about for piece in _lines(each[1], each[0] or "value")]
        return _Call(_tool_name(call.name), _subject(subject), details)

    def _read_result(self, result: ToolResult, handle: str) -> _Outcome:
        text = "\n".join(_texts(result.content))
        self.names.add(text, RESULT)
        pieces = _lines(text, "")
        if result.is_error:
            return _Outcome(pieces, _leading(pieces, FAILURE_CHARACTERS), handle, "failed", _is_whole(result, text))
        failure = _failure_in(text)
        if _is_whole(result, text):
            return _Outcome(pieces, pieces, handle, "short", whole=True, fails=bool(failure))
        telling = [Piece(failure, NEXT_LINE)] if failure else []
        others = [piece for piece in pieces if piece.text != failure]
        return _Outcome([*others, *telling], telling, handle, "long", fails=bool(failure))

    def _tell_call(self, call: _Call, outcome: _Outcome) -> None:
        """One more call, in the entry of those that came to the same."""
        failed = outcome.kind == "failed"
        entry = self._call_entry(call.subject, {call.tool: 1}, outcome)
        if not call.subject:
            entry.pieces = {}  # what it was called with last is what counts
        entry.failed = frozenset({call.tool}) if failed else frozenset()
        self._add_pieces(entry, call.details)
        self._add_pieces(entry, outcome.pieces)
        texts = {piece.text for piece in outcome.telling}
        own = [number for number, piece in entry.pieces.items() if not piece.label and piece.text in texts]
        entry.whole = frozenset(own) if outcome.whole else frozenset()
        details = {piece.text for piece in call.details if outcome.whole and len(piece.text) <= DETAIL_CHARACTERS}
        entry.opening = tuple(
            number for number, piece in entry.pieces.items() if number in own or (piece.label and piece.text in details)
        )
        self._note_failure(entry, call.subject, call.tool, fails=failed or outcome.fails)

    def _note_failure(self, entry: Entry, subject: str, tool: str, *, fails: bool) -> None:
        """What fails is told early, until a call of the same kind succeeds."""
        failing = self._failing.setdefault((subject, tool), [])
        if not fails:
            for each in failing:
                each.fails = False
            failing.clear()
        elif not entry.fails:
            failing.append(entry)
        entry.fails = fails

    def _call_entry(self, subject: str, tools: dict[str, int], outcome: _Outcome) -> Entry:
        key = subject, *tools, outcome.kind, outcome.key
        entry = self._calls.pop(key, None) or Entry(speaker="", at=0, subject=subject)
        for name, times in tools.items():
            entry.tools = {**entry.tools, name: min(entry.tools.get(name, 0) + times, _MOST_CALLS)}
        entry.at = self.names.at
        entry.handle = outcome.handle
        self._calls[key] = entry
        return entry

    def _add_pieces(self, entry: Entry, pieces: Sequence[Piece]) -> None:
        """The newest copy of a line is the one that is kept."""
        new = {piece.text for piece in pieces}
        kept = {number: piece for number, piece in entry.pieces.items() if piece.text not in new}
        start = max(entry.pieces, default=-2) + 2
        kept |= {start + place: piece for place, piece in enumerate(pieces)}
        entry.pieces = dict(islice(kept.items(), max(0, len(kept) - _ENTRY_PIECES), None))

    def _read_summary(self, summary: Summary) -> None:
        for row in summary.text.split("\n"):
            speaker, colon, said = row.partition(": ")
            if row in (PREAMBLE, PREAMBLE_WITH_HANDLES) or not row.strip():
                continue
            if row.startswith(_OTHER_NAMES):
                self.names.add(row.removeprefix(_OTHER_NAMES), ARGUMENT)
            elif colon and speaker in (*SPEAKERS.values(), EARLIER):
                self.names.add(said, USER if speaker == SPEAKERS["user"] else ASSISTANT)
                self._state(speaker, _carried(said))
            elif not self._read_call_row(row):
                self.names.add(row, ASSISTANT)
                self._state(EARLIER, _sentences(row))

    def _read_call_row(self, row: str) -> bool:
        """Whether a line of an earlier summary was that of a call."""
        if not row.startswith(CALLED):
            return False
        ends = [at for at in (row.find("; "), row.find(RETURNED)) if at >= 0]
        end = min(ends, default=len(row))
        named = _HANDLE.search(row[:end])
        tools, _, subject = row[len(CALLED) : named.start() if named else end].partition(WITH)
        found = [_TOOL.fullmatch(part) for part in tools.split(", ")]
        counts = {each[1]: int(each[2] or 1) for each in found if each}
        if len(counts) != len(found):
            return False
        self.names.add(row[:end], ARGUMENT)
        arguments, returned, result = row[end:].partition(RETURNED)
        self.names.add(arguments + result, LONG_ARGUMENT)
        label = _LABEL.match(arguments, 2)
        pieces = _carried_lines(arguments[label.end() if label else 2 :], label[0][:-2] if label else "value")
        quoted = _carried_lines(result, "") if returned else {}
        failed = frozenset(each[1] for each in found if each and each[3])
        outcome = _Outcome(
            [*quoted.values()],
            handle=named[1] if named else "",
            kind="failed" if failed else "long" if named else "short" if quoted else "",
        )
        entry = self._call_entry(subject, counts, outcome)
        for each in (pieces, quoted):
            start = max(entry.pieces, default=-2) + 2
            entry.pieces = entry.pieces | {start + number: piece for number, piece in each.items()}
        entry.failed = failed
        if quoted and outcome.kind != "long":
            entry.opening = tuple(entry.pieces) if outcome.kind == "short" else tuple(entry.pieces)[-len(quoted) :][:1]
            entry.whole = frozenset(tuple(entry.pieces)[-len(quoted) :] if outcome.kind == "short" else ())
            self._note_failure(entry, subject, next(iter(counts)), fails=bool(failed))
        return True


def _opening(pieces: dict[int, Piece], limit: int) -> tuple[int, ...]:
    """The first pieces, up to so many characters, or until they repeat themselves; one at least."""
    taken: list[int] = []
    seen: set[str] = set()
    for number, piece in pieces.items():
        limit -= len(piece.text) + 1
        if taken and (limit < 0 or number != taken[-1] + 1 or piece.text in seen):
            break
        seen.add(piece.text)
        taken.append(number)
    return tuple(taken)


def _sentences(text: str) -> dict[int, Piece]:
    """What a message says, as it was written but for blanks; of a long one, its beginning and its end."""
    if len(text) <= _STATEMENT_HEAD + _STATEMENT_TAIL:
        return _quotes([text])
    return _quotes([text[:_STATEMENT_HEAD], text[-_STATEMENT_TAIL:]])


def _quotes(runs: Iterable[str], number: int = 0) -> dict[int, Piece]:
    """The sentences of texts between which something is missing."""
    found: dict[int, Piece] = {}
    for run in runs:
        text = _BLANK.sub(_blank, run).strip()
        for piece, gap in _run_pieces(text):
            number += gap and bool(found)
            found[number] = piece
            number += 1
        number += 1
    return found


def _blank(run: re.Match[str]) -> str:
    return "\n" if "\n" in run[0] else " "


def _run_pieces(text: str) -> Iterator[tuple[Piece, bool]]:
    """The pieces of a text without double blanks, each with whether something is left out before it. Signs without a word
    stay with what follows."""
    start, glue, gap, at = 0, " ", False, 0
    said = False
    for end, after in (*((each.start(), each.end()) for each in _SENTENCE.finditer(text)), (len(text), len(text))):
        last = end == len(text)
        is_mark = _MARK.fullmatch(text, at, end) is not None
        listed = (not at or text[at - 1] == "\n") and _LISTED.fullmatch(text, at, end) is not None
        if (is_mark or listed) and not last and end - start <= _MARK_CHARACTERS:
            at = after
            continue
        if is_mark and (said or not last):
            gap = True
        elif start < end:
            for piece in _split(text[start:end].replace("\n", " "), glue):
                yield piece, gap
                gap, said = False, True
        glue = " " if after > end else ""
        start = at = after


def _lines(text: str, label: str) -> list[Piece]:
    """The lines of an output or a long argument that can be quoted."""
    lines = text.split("\n", _OUTPUT_LINES)
    if len(lines) > _OUTPUT_LINES:
        lines[_OUTPUT_LINES:] = lines[_OUTPUT_LINES][-_TAIL_CHARACTERS:].split("\n")[-_OUTPUT_TAIL_LINES:]
    lines = [_BLANK.sub(" ", raw[: PIECE_CHARACTERS * 20]).strip() for raw in lines]
    shapes = [_DIGITS.sub("0", line) for line in lines]
    times = Counter(shapes)
    found: list[Piece] = []
    for line, shape in zip(lines, shapes, strict=True):
        if _WORTH_QUOTING.search(line):
            weight = 1.0 if times[shape] < _REPEATED else 1 / times[shape]
            found += _split(line, NEXT_LINE, label, weight)
    return found


def _split(line: str, glue: str, label: str = "", weight: float = 1.0) -> Iterator[Piece]:
    """A line as pieces of at most PIECE_CHARACTERS."""
    while len(line) > PIECE_CHARACTERS:
        cut = line.rfind(" ", PIECE_CHARACTERS // 2, PIECE_CHARACTERS)
        end = cut if cut > 0 else PIECE_CHARACTERS
        yield Piece(line[:end], glue, label, weight)
        glue = " " if line[end] == " " else ""
        line = line[end:].lstrip()
    if line:
        yield Piece(line, glue, label, weight)


def _leading(pieces: Sequence[Piece], limit: int) -> list[Piece]:
    """The first pieces, up to so many characters; one at least."""
    return [pieces[number] for number in _opening(dict(enumerate(pieces)), limit)]


def _carried(said: str) -> dict[int, Piece]:
    """The pieces of a statement in an earlier summary."""
    inside = said.removeprefix(GAP.lstrip())
    return _quotes(inside.split(GAP), 1 if inside != said else 0)


def _carried_lines(text: str, label: str) -> dict[int, Piece]:
    """The pieces of what a call of an earlier summary had or returned."""
    found: dict[int, Piece] = {}
    number = 0
    for run in text.split(GAP):
        for part in run.split(NEXT_LINE):
            for piece in _split(part.strip(), NEXT_LINE, label):
                found[number] = piece
                number += 1
        number += 1
    return found


def _arguments(value: Json) -> Iterator[tuple[str, str]]:
    """The texts and numbers in a call's arguments, each with the key that it stands under."""
    rest: list[tuple[str, Json]] = [("", value)]
    while rest:
        key, at = rest.pop()
        if isinstance(at, dict):
            rest.extend(reversed([(_label(name), each) for name, each in at.items()]))
        elif isinstance(at, list | tuple):
            rest.extend((key, each) for each in reversed(at))
        elif isinstance(at, str):
            yield key, at
        elif isinstance(at, float) or (isinstance(at, int) and not isinstance(at, bool) and at.bit_length() < 256):
            yield key, str(at)


def _plain_keys(args: Json) -> Iterable[str]:
    """The keys of the arguments that are texts or numbers; a list or an object is no subject of a call."""
    if not isinstance(args, dict):
        return ("",)
    return {_label(key) for key, value in args.items() if isinstance(value, str | int | float)}


def _label(key: object) -> str:
    return _NOT_LABEL.sub("_", str(key)[:KEY_CHARACTERS])


def _shown(key: str, value: str) -> str:
    shown = flatten(value, SHORT_ARGUMENT)
    return f"{key}={shown}" if key else shown


def _subject(text: str) -> str:
    return flatten(text, ARGUMENTS_CHARACTERS).replace("; ", ";").replace(RETURNED, "→")


def _is_whole(result: ToolResult, text: str) -> bool:
    """Whether a result is short, and its lines are all of it."""
    return len(text) <= SHORT_RESULT and all(isinstance(part, Text | Data) for part in result.content)


def _is_file(value: str) -> bool:
    return len(value) <= SHORT_ARGUMENT and _FILE.fullmatch(value.strip()) is not None


def _tool_name(name: str) -> str:
    return _NOT_TOOL.sub("_", flatten(name, 64)) or "?"


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text):
                yield text
            case Data(value):
                yield ", ".join(_shown(key, each) for key, each in _arguments(value))
            case Body(preview=preview):
                yield preview
            case File(name=str(name)):
                yield name


def _failure_in(text: str) -> str:
    """The line of a result that tells of a failure; empty if none does."""
    lines = text.split("\n", _OUTPUT_LINES)[:_OUTPUT_LINES]
    if len(lines) == _OUTPUT_LINES:
        lines += text[-_TAIL_CHARACTERS:].rsplit("\n", _OUTPUT_LINES)[1:]
    found = next((line for line in lines if len(line) < 1_000 and _FAILURE.match(line)), "")
    return flatten(found, FAILURE_CHARACTERS)
