"""A conversation as entries that a summary can be made of: who said what, and which tools were called with what. Pure.

Laws: an entry has one speaker, or is one kind of call with what it returned; an entry is one line, whatever was said in it.
An earlier summary among the items is read back into the entries that it was made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from holdfast.context.identifiers import ARGUMENT, ASSISTANT, LONG_ARGUMENT, RESULT, USER, Names
from holdfast.model.content import Body, Data, File, Json, Part, Text, ToolCall, ToolResult
from holdfast.model.messages import Message, Summary, Unit

SPEAKERS = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}
EARLIER = "Earlier summary"
CALLED, WITH, RETURNED = "Called ", " with ", " → "
GAP, NEXT_LINE = " … ", " | "
OTHER_NAMES = "Other names: "
PREAMBLE = "Excerpts, oldest first:"

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

_TAG = re.compile(r"</?[\w:-]{1,60}(?:\s[^<>]{0,200})?>")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？؟])|\n\s*")
_MARK = re.compile(r"^(?:(?:[-*+>#|]+|\d{1,3}[.)])\s+|`{3,}\w{0,20})")
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
_LABEL = re.compile(r"[\w.-]{1,40}: ")


class Piece(msgspec.Struct, frozen=True):
    """A sentence, a line, or a part of one."""

    text: str
    glue: str = " "
    """What stands between it and the piece before, if that is shown too."""
    label: str = ""
    """The argument that it is from."""


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
    subject: str = ""
    tools: dict[str, int] = {}
    failed: frozenset[str] = frozenset()
    failure: int | None = None
    """The piece that tells of a failure, if the last call failed."""

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

    def render(self, chosen: Iterable[int]) -> str:
        """The line with these pieces; what is left out between two of them is marked."""
        text, before, label = self.head, -1, RETURNED if self.is_call else ""
        for number in sorted(chosen):
            piece = self.pieces[number]
            if before < 0 or (self.is_call and piece.label != label):
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
        self._calls: dict[tuple[str, str], Entry] = {}
        for item in items:
            if isinstance(item, Summary):
                self._read_summary(item)
            else:
                self._read_unit(item)
        last = next(reversed(self._statements.values()), None)
        if last is not None and last.speaker == SPEAKERS["assistant"]:
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
        called: dict[str, tuple[str, Entry]] = {}
        for message in unit.messages:
            self._read_message(message)
            for call in message.tool_calls:
                called[call.id] = _tool_name(call.name), self._read_call(call)
            for result in message.tool_results:
                name, entry = called.get(result.tool_call_id) or ("?", self._call_entry("", {"?": 1}))
                self._read_result(result, name, entry)

    def _read_message(self, message: Message) -> None:
        text = ("" if message.role == "assistant" else "\n").join(_texts(message.content))  # a reply comes in pieces
        if not text.strip():
            return
        source = {"assistant": ASSISTANT, "tool": RESULT}.get(message.role or "", USER)
        self.names.add(text, source)
        self._state(SPEAKERS.get(message.role or "", SPEAKERS["user"]), _sentences(text))

    def _state(self, speaker: str, pieces: dict[int, Piece]) -> None:
        if not pieces:
            return
        before = next(reversed(self._statements.values()), None)
        entry = Entry(speaker=speaker, at=self.names.at, pieces=pieces)
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

    def _read_call(self, call: ToolCall) -> Entry:
        for _, value in _arguments(call.args):
            self.names.add(value, ARGUMENT if len(value) <= SHORT_ARGUMENT else LONG_ARGUMENT)
        arguments = list(islice(_arguments(call.args), _ARGUMENTS))
        plain = [(key, value) for key, value in arguments if key in _plain_keys(call.args)]
        file = next(((key, value) for key, value in plain if _is_file(value)), None)
        about = [file] if file else [each for each in plain if len(each[1]) <= SHORT_ARGUMENT]
        subject = file[1].strip() if file else ", ".join(_shown(*each) for each in about)
        entry = self._call_entry(subject, {_tool_name(call.name): 1})
        if not subject:
            entry.pieces = {}  # what it was called with last is what counts
        for key, value in arguments:
            if (key, value) not in about:
                self._add_pieces(entry, _lines(value, key or "value"))
        return entry

    def _call_entry(self, subject: str, tools: dict[str, int]) -> Entry:
        subject = flatten(subject, ARGUMENTS_CHARACTERS).replace("; ", ";").replace(RETURNED, "→")
        key = subject, "" if subject else next(iter(tools))
        entry = self._calls.pop(key, None) or Entry(speaker="", at=0, subject=subject)
        for name, times in tools.items():
            entry.tools = {**entry.tools, name: min(entry.tools.get(name, 0) + times, _MOST_CALLS)}
        entry.failed -= tools.keys()
        entry.at = self.names.at
        self._calls[key] = entry
        return entry

    def _add_pieces(self, entry: Entry, pieces: Sequence[Piece]) -> None:
        """The newest copy of a line is the one that is kept."""
        new = {piece.text for piece in pieces}
        kept = {number: piece for number, piece in entry.pieces.items() if piece.text not in new}
        start = max(entry.pieces, default=-2) + 2
        kept |= {start + place: piece for place, piece in enumerate(pieces)}
        entry.pieces = dict(islice(kept.items(), max(0, len(kept) - _ENTRY_PIECES), None))

    def _read_result(self, result: ToolResult, name: str, entry: Entry) -> None:
        text = "\n".join(_texts(result.content))
        self.names.add(text, RESULT)
        entry.at = self.names.at
        entry.failure = None
        failure = flatten(_TAG.sub(" ", text[:2_000]), FAILURE_CHARACTERS) if result.is_error else _failure_in(text)
        self._add_pieces(entry, _lines(text, ""))
        if result.is_error:
            entry.failed |= {name}
        if failure:
            self._add_pieces(entry, [Piece(failure, NEXT_LINE)])
            entry.failure = max(entry.pieces)

    def _read_summary(self, summary: Summary) -> None:
        for row in summary.text.split("\n"):
            speaker, colon, said = row.partition(": ")
            if row == PREAMBLE or not row.strip():
                continue
            if row.startswith(OTHER_NAMES):
                self.names.add(row.removeprefix(OTHER_NAMES), ARGUMENT)
            elif colon and speaker in (*SPEAKERS.values(), EARLIER):
                self.names.add(said, USER if speaker == SPEAKERS["user"] else ASSISTANT)
                self._state(speaker, _carried(said, sentences=True))
            elif not self._read_call_row(row):
                self.names.add(row, ASSISTANT)
                self._state(EARLIER, _sentences(row))

    def _read_call_row(self, row: str) -> bool:
        """Whether a line of an earlier summary was that of a call."""
        if not row.startswith(CALLED):
            return False
        ends = [at for at in (row.find("; "), row.find(RETURNED)) if at >= 0]
        end = min(ends, default=len(row))
        tools, _, subject = row[len(CALLED) : end].partition(WITH)
        found = [_TOOL.fullmatch(part) for part in tools.split(", ")]
        counts = {each[1]: int(each[2] or 1) for each in found if each}
        if len(counts) != len(found):
            return False
        self.names.add(row[:end], ARGUMENT)
        entry = self._call_entry(subject, counts)
        entry.failed |= {each[1] for each in found if each and each[3]}
        if end < len(row):
            body = row[end:].removeprefix(RETURNED).removeprefix("; ")
            label = _LABEL.match(body) if row.startswith("; ", end) else None
            self.names.add(body, LONG_ARGUMENT)
            pieces = _carried(
                body[label.end() if label else 0 :], sentences=False, label=label[0][:-2] if label else ""
            )
            start = max(entry.pieces, default=-2) + 2
            entry.pieces = entry.pieces | {start + number: piece for number, piece in pieces.items()}
            entry.at = self.names.at
        return True


def _opening(pieces: dict[int, Piece], limit: int) -> tuple[int, ...]:
    """The first pieces, up to so many characters; one at least."""
    taken: list[int] = []
    for number, piece in pieces.items():
        limit -= len(piece.text) + 1
        if taken and (limit < 0 or number != taken[-1] + 1):
            break
        taken.append(number)
    return tuple(taken)


def _sentences(text: str) -> dict[int, Piece]:
    """What a message says, without tags and the marks of lists; of a long one, its beginning and its end."""
    gap = 0
    if len(text) > _STATEMENT_HEAD + _STATEMENT_TAIL:
        gap, text = _STATEMENT_HEAD, text[:_STATEMENT_HEAD] + "\n" + text[-_STATEMENT_TAIL:]
    found: dict[int, Piece] = {}
    number = read = 0
    for raw in _SENTENCE.split(_TAG.sub(" ", text).replace("**", "")):
        if gap and read > gap:
            number, gap = number + 1, 0
        read += len(raw)
        sentence = _BLANK.sub(" ", _MARK.sub("", raw.strip())).strip()
        for piece in _split(sentence, " ") if _WORTH_QUOTING.search(sentence) else ():
            found[number] = piece
            number += 1
    if not found and (whole := flatten(text, PIECE_CHARACTERS)):
        found[0] = Piece(whole)
    return found


def _lines(text: str, label: str) -> list[Piece]:
    """The lines of an output or a long argument that can be quoted."""
    lines = text.split("\n", _OUTPUT_LINES)
    if len(lines) > _OUTPUT_LINES:
        lines[_OUTPUT_LINES:] = lines[_OUTPUT_LINES][-_TAIL_CHARACTERS:].split("\n")[-_OUTPUT_TAIL_LINES:]
    found: list[Piece] = []
    for raw in lines:
        line = _BLANK.sub(" ", _TAG.sub(" ", raw[: PIECE_CHARACTERS * 20])).strip()
        if _WORTH_QUOTING.search(line):
            found += _split(line, NEXT_LINE, label)
    return found


def _split(line: str, glue: str, label: str = "") -> Iterator[Piece]:
    """A line as pieces of at most PIECE_CHARACTERS."""
    while len(line) > PIECE_CHARACTERS:
        cut = line.rfind(" ", PIECE_CHARACTERS // 2, PIECE_CHARACTERS)
        end = cut if cut > 0 else PIECE_CHARACTERS
        yield Piece(line[:end], glue, label)
        line, glue = line[end:].lstrip(), " " if cut > 0 else ""
    if line:
        yield Piece(line, glue, label)


def _carried(text: str, *, sentences: bool, label: str = "") -> dict[int, Piece]:
    """The pieces of a line of an earlier summary."""
    found: dict[int, Piece] = {}
    number = 0
    for run in text.split(GAP):
        for part in _SENTENCE.split(run) if sentences else run.split(NEXT_LINE):
            for piece in _split(part.strip(), " " if sentences else NEXT_LINE, label):
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
    return flatten(_TAG.sub(" ", found), FAILURE_CHARACTERS)
