"""A conversation as entries for a summary: statements by speaker, and tool calls with their results.

Laws: an entry has one speaker, or is one kind of call with its result. An entry is always one line. Quotations are literal:
only white space is collapsed, and omissions are marked. Calls share an entry only if they had the same outcome: the same
short result, the same error, or a result too long to quote; of long results, the entry names the handle of the newest. An
earlier summary among the items is parsed back into its entries.

The module also indexes names: paths, ids, codes and proper names. The worth of a name says how likely it is needed again.
The weights were measured on recorded sessions: a name is worth more if the user or the arguments of a call contain it, and
if it was mentioned often and recently; a number or a path that only results contain is worth far less.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from holdfast.model.content import Body, Data, File, Json, Part, Text, ToolCall, ToolResult
from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import READS_BRACKETS
from holdfast.model.history.views import Summary
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.text.client_blocks import split_client_blocks

SPEAKERS = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}
EARLIER_SPEAKER = "Earlier summary"
CLIENT_SPEAKER = "Client"
"""What the client of a user wrote into their message."""
CALL_PREFIX, SUBJECT_MARK, RESULT_MARK = "Called ", " with ", " → "
OMISSION_MARK, LINE_MARK = " … ", " | "
PREAMBLE = "Excerpts, oldest first:"
PREAMBLE_WITH_HANDLES = f"Excerpts, oldest first{READS_BRACKETS}:"
_OTHER_NAMES = "Other names: "
"""The beginning of a line in summaries of earlier versions."""
FRAGMENT_CHARACTERS = 200
"""A longer sentence or line is split into fragments."""
OPENING_CHARACTERS = 280
"""The part of a statement that is chosen first."""
CONCLUSION_CHARACTERS = 160
ARGUMENTS_CHARACTERS = 240
KEY_CHARACTERS = 40
SHORT_ARGUMENT = 200
"""An argument up to this length may name the subject of a call; a longer one is content."""
FAILURE_CHARACTERS = 200
SHORT_RESULT = 120
"""A result up to this length is quoted whole or not at all."""
DETAIL_CHARACTERS = 40
"""An argument up to this length is quoted together with a short result."""
_MARK_CHARACTERS = 8
"""Marks without a word, such as the number of a list item, stay with the next text up to this length."""
_REPEATED_LINES = 3
"""From this many lines of a result that differ only in their numbers, they weigh as much as one line."""
SHORT_REPLY_WORDS = 3
"""A reply of this many words or fewer is shown with the question that it answers."""
_STATEMENT_HEAD, _STATEMENT_TAIL = 6_000, 2_000
_OUTPUT_LINES, _OUTPUT_TAIL_LINES = 300, 100
"""Lines of an output that can be quoted, at its beginning and at its end. Names are counted in all lines."""
_TAIL_CHARACTERS = 1 << 14
_ENTRY_FRAGMENTS = 400
_MAX_ARGUMENTS = 40
"""Arguments of one call that are read."""
_MAX_CALLS = 999_999
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
FAILURE = re.compile(
    r"\W{0,12}(?:(?=\S{0,200}?[/\\.(:])[\w./\\()\[\],:@-]{1,200}+\s\W{0,3})?(?:[\w.-]{1,60}[\s:]\W{0,3}){0,2}?"
    r"(?:[\w.]{0,60}(?:error|exception)(?=[\"'\]]{0,2}\s?:|\[|$|\s[A-Z]{1,9}\d{1,9}:)|"
    r"(?:fatal|panic|traceback|fail(?:ed|ure)?)(?=[:\s(]|$))",
    re.IGNORECASE,
)
"""A line that says that something failed; a path or a position may stand before it."""
_QUESTION = ("?", "？", "؟")
_TOOL = re.compile(r"([^\s,]+)(?: x(\d{1,9}))?( \(failed\))?")
_HANDLE = re.compile(r" \[(h\d{1,19}_\d{1,9})\]$")
_LABEL = re.compile(r"[\w.-]{1,40}: ")


_LETTER = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff]"
"""Letters and digits of the scripts with spaces between words."""
TOKEN = re.compile(rf"(?:(?<!/)(?:~|\.{{1,2}})?/|[.@$#])?{_LETTER}+(?:[./@:+#~$-]{{1,3}}{_LETTER}+)*")
FILE_LINE = re.compile(r"(\S*[^\s/.]\.[A-Za-z]\w{0,9}):\d+(?::.*)?")
_NUMBER = re.compile(r"(?!\d{4}-\d\d-\d\d$)[\d.,:/+#$-]+")  # dates are names
_CODE = re.compile(r"\d|_|[^\W_][./@:#][^\W_]|[a-z][A-Z]|[A-Z]{2}")
_KEY = re.compile(r'"([^\W\d]{3,40})"\s?:')
_OPENING = re.compile(r"(?:\A|[.!?:\n])[^\w\n]{0,8}([A-Z]\w+)")
_INITIALS = re.compile(r"[^\W_](?:\.[^\W_])*")
JOINTS = re.compile(r"[./@:+#~$-]+")
USER, ASSISTANT, ARGUMENT, LONG_ARGUMENT, RESULT = 1, 2, 4, 8, 16
"""The sources of a name, as flags."""
NUMBER, PATH, CODE, CAPITALS, WORD = "number", "path", "code", "capitals", "word"
LONGEST_NAME = 200
_SOURCES = {USER: 3.0, ASSISTANT: 1.5, ARGUMENT: 2.2, LONG_ARGUMENT: 2.0}
"""The factor for each source of a name."""
_KINDS = {NUMBER: (0.6, 0.05), WORD: (0.8, 0.05), CAPITALS: (0.8, 0.3), PATH: (1.5, 0.1), CODE: (1.0, 1.0)}
"""The factors for each kind: of a name with any other source, and of a name that only results contain."""
_REPETITION = 0.3
"""The exponent of the number of mentions."""
_AGE_CHARACTERS = 16_000
"""Characters after which a mention is worth about a third less."""


class _NameRecord(msgspec.Struct):
    kind: str
    times: int = 0
    sources: int = 0
    at: int = 0


class NameIndex:
    """The names in the texts read so far. `at` counts the characters read."""

    def __init__(self) -> None:
        self.at = 0
        self._names: dict[str, _NameRecord] = {}
        self._plain: set[str] = set()
        """Words that are not names."""
        self._keys: set[str] = set()
        """Keys of JSON objects: they are labels, not values."""
        self._known: dict[str, tuple[str, str | None]] = {}

    def add(self, text: str, source: int) -> None:
        """Index a text from a message, a call or a result."""
        self.at += len(text)
        if source == RESULT:
            self._keys.update(_KEY.findall(text))
        opening = Counter(_OPENING.findall(text)) if source != RESULT and " " in text else {}
        for token, times in Counter(TOKEN.findall(text)).items():
            spelling, kind = self._classify(token)
            if kind == WORD and times <= opening.get(token, 0):
                continue  # capitalised only as the first word of a sentence
            if kind is None:
                self._plain.add(spelling)
                continue
            name = self._names.get(spelling)
            if name is None:
                self._names[spelling] = name = _NameRecord(kind)
            name.times += times
            name.sources |= source
            name.at = self.at

    def find(self, text: str) -> frozenset[str]:
        """The known names in a text, and the names that are parts of them."""
        names: set[str] = set()
        for token in TOKEN.findall(text):
            spelling, _ = self._classify(token)
            names.update(name for name in (spelling, *JOINTS.split(token)) if name in self._names)
        return frozenset(names)

    def worth(self, spelling: str) -> float:
        name = self._names[spelling]
        if name.kind in (WORD, CAPITALS) and spelling.lower() in self._plain:
            return 0.0
        kind = WORD if spelling in self._keys else name.kind
        worth = math.pow(name.times, _REPETITION) * self.freshness(name.at) * _KINDS[kind][name.sources == RESULT]
        for source, factor in _SOURCES.items():
            if name.sources & source:
                worth *= factor
        return worth

    def freshness(self, at: int) -> float:
        """The weight of a position: 1 for the newest, less for older ones."""
        return 1 / math.sqrt(1 + max(0, self.at - at) / _AGE_CHARACTERS)

    def _classify(self, token: str) -> tuple[str, str | None]:
        """The name in a token, without the line number behind a file name, and its kind; None for a plain word."""
        known_name = self._known.get(token)
        if known_name is None:
            file_line = FILE_LINE.fullmatch(token)
            spelling = file_line[1] if file_line else token
            self._known[token] = known_name = spelling, kind_of(spelling)
        return known_name


def kind_of(token: str) -> str | None:
    if len(token) < 3 or len(token) > LONGEST_NAME:
        return None
    if _NUMBER.fullmatch(token):
        return NUMBER
    if token.isalpha() and (token.isupper() or not _CODE.search(token)):
        return CAPITALS if token.isupper() else WORD if token[0].isupper() else None
    if "/" in token:
        return PATH
    return CODE if _CODE.search(token) and not _INITIALS.fullmatch(token) else None


class Fragment(msgspec.Struct, frozen=True):
    """A sentence, a line, or a part of one."""

    text: str
    glue: str = " "
    """The separator from the previous fragment, if that is shown too."""
    label: str = ""
    """The name of the argument that contains it."""
    weight: float = 1.0
    """The factor of its worth: less for a line that its result repeats."""


class TranscriptEntry(msgspec.Struct, eq=False):
    """One line of a summary: its head, and the fragments that can be shown, by number."""

    speaker: str
    at: int
    fragments: dict[int, Fragment] = {}
    opening: tuple[int, ...] = ()
    """The fragments that are shown first."""
    question: tuple[TranscriptEntry, int] | None = None
    """The question that a short reply answers: its entry and fragment."""
    concludes: bool = False
    """The assistant's last statement of a turn."""
    decides: tuple[int, ...] = ()
    """The fragments with a decision or a finding of the assistant."""
    comments: bool = False
    """The assistant's comment on its tool calls."""
    subject: str = ""
    tools: dict[str, int] = {}
    failed: frozenset[str] = frozenset()
    fails: bool = False
    """It reports a failure, and no later call of the same kind succeeded."""
    handle: str = ""
    """The handle of the newest result."""
    result: frozenset[int] = frozenset()
    """The fragments of a result that can be quoted whole; empty for a longer one."""

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
        return CALL_PREFIX + ", ".join(counts) + (SUBJECT_MARK + self.subject if self.subject else "")

    def names_handle(self, chosen: Iterable[int]) -> bool:
        """Whether the line names the handle: these fragments are not the whole result."""
        return bool(self.handle) and not (self.result and self.result.issubset(chosen))

    def render(self, chosen: Iterable[int]) -> str:
        """Render the line with these fragments and a mark for each omission."""
        numbers = sorted(chosen)
        text, before, label = self.head, -1, RESULT_MARK if self.is_call else ""
        if self.names_handle(numbers):
            text += f" [{self.handle}]"
        for number in numbers:
            fragment = self.fragments[number]
            if before < 0 and number and not self.is_call:
                text += OMISSION_MARK
            elif before < 0 or (self.is_call and fragment.label != label):
                text += self._introduce(fragment)
            else:
                text += fragment.glue if number == before + 1 else OMISSION_MARK
            text += fragment.text
            before, label = number, fragment.label
        return text

    def _introduce(self, fragment: Fragment) -> str:
        if not self.is_call:
            return " "
        return f"; {fragment.label}: " if fragment.label else RESULT_MARK


class _PendingCall(msgspec.Struct, frozen=True):
    """A call without its result."""

    tool: str
    subject: str
    details: Sequence[Fragment] = ()
    """The arguments except its subject."""


class _CallOutcome(msgspec.Struct, frozen=True):
    """The result of a call."""

    fragments: Sequence[Fragment] = ()
    opening: Sequence[Fragment] = ()
    """The fragments that are shown first."""
    handle: str = ""
    kind: str = ""
    """`failed`, `short`, `long`, or empty if there is no result."""
    is_whole: bool = False
    """The result is short, and the fragments are all of it."""
    fails: bool = False
    """It reports a failure, although it is not marked as an error."""

    @property
    def key(self) -> str:
        """The key of equal outcomes. All long results have the same key."""
        match self.kind:
            case "failed":
                return self.fragments[0].text if self.fragments else ""
            case "short":
                return LINE_MARK.join(fragment.text for fragment in self.fragments)
        return ""


def flatten(text: str, limit: int) -> str:
    """Put a text on one line and cut it to a limit, at a space if one is near."""
    text = _BLANK.sub(" ", text.lstrip()[: limit * 4]).strip()
    if len(text) <= limit:
        return text
    cut = text.rfind(" ", limit * 3 // 4, limit)
    return text[: cut if cut > 0 else limit - 1].rstrip() + "…"


class Transcript:
    """The entries of a part of the conversation, oldest first, and its names."""

    def __init__(self, items: Iterable[MessageGroup | Summary]) -> None:
        self.names = NameIndex()
        self._statements: dict[tuple[str, str, str], TranscriptEntry] = {}
        self._calls: dict[tuple[str, ...], TranscriptEntry] = {}
        self._failing: dict[tuple[str, str], list[TranscriptEntry]] = {}
        """Failures without a later success, by subject and tool."""
        for item in items:
            if isinstance(item, Summary):
                self._read_summary(item)
            else:
                self._read_group(item)
        last = next(reversed(self._statements.values()), None)
        if last is not None and last.speaker == SPEAKERS["assistant"] and not last.comments:
            self._mark_conclusion(last)

    @property
    def statements(self) -> list[TranscriptEntry]:
        return list(self._statements.values())

    @property
    def calls(self) -> list[TranscriptEntry]:
        return list(self._calls.values())

    @property
    def entries(self) -> list[TranscriptEntry]:
        """All entries, oldest first. Repeated calls are placed at the last of them."""
        return sorted((*self._statements.values(), *self._calls.values()), key=lambda entry: entry.at)

    def _read_group(self, group: MessageGroup) -> None:
        pending: dict[str, _PendingCall] = {}
        for message in group.messages:
            self._read_message(message)
            for call in message.tool_calls:
                if call.id in pending:
                    self._add_call(pending.pop(call.id), _CallOutcome())
                pending[call.id] = self._read_call(call)
            for number, result in enumerate(message.tool_results):
                pending_call = pending.pop(result.tool_call_id, None) or _PendingCall("?", "")
                self._add_call(pending_call, self._read_result(result, piece_id(message.seq, number)))
        for pending_call in pending.values():
            self._add_call(pending_call, _CallOutcome())

    def _read_message(self, message: Message) -> None:
        # the content of a reply is one text in several parts
        text = ("" if message.role == "assistant" else "\n").join(_iter_texts(message.content))
        if not text.strip():
            return
        source = {"assistant": ASSISTANT, "tool": RESULT}.get(message.role or "", USER)
        speaker = SPEAKERS.get(message.role or "", SPEAKERS["user"])
        own, written = split_client_blocks(text) if speaker == SPEAKERS["user"] else ((text,), ())
        for part in own:
            self.names.add(part, source)
        stated = self._add_statement(speaker, _split_sentences(*own), comments=bool(message.tool_calls))
        if stated is not None and message.role == "assistant" and not message.tool_calls:
            self._mark_conclusion(stated)  # what the user says next may be shown elsewhere
        for block in written:
            self.names.add(block, RESULT)
            self._add_statement(CLIENT_SPEAKER, _split_sentences(block))

    def _add_statement(
        self, speaker: str, fragments: dict[int, Fragment], *, comments: bool = False
    ) -> TranscriptEntry | None:
        if not fragments:
            return None
        before = next(reversed(self._statements.values()), None)
        entry = TranscriptEntry(speaker=speaker, at=self.names.at, fragments=fragments, comments=comments)
        if speaker == SPEAKERS["assistant"]:
            entry.decides = tuple(number for number, fragment in fragments.items() if _DECISION.search(fragment.text))
        entry.opening = _leading_numbers(fragments, OPENING_CHARACTERS)
        if speaker == SPEAKERS["user"] and before is not None and before.speaker == SPEAKERS["assistant"]:
            self._mark_conclusion(before)
            last = max(before.fragments)
            words = sum(len(fragment.text.split()) for fragment in fragments.values())
            if before.fragments[last].text.endswith(_QUESTION) and words <= SHORT_REPLY_WORDS:
                entry.question = before, last
        question = entry.question[0].fragments[entry.question[1]].text if entry.question else ""
        key = speaker, entry.render(fragments), question
        self._statements.pop(key, None)  # a repeated statement moves to the end
        self._statements[key] = entry
        return entry

    def _mark_conclusion(self, entry: TranscriptEntry) -> None:
        entry.concludes = True
        last = max(entry.fragments)
        entry.opening = tuple(dict.fromkeys((*_leading_numbers(entry.fragments, CONCLUSION_CHARACTERS), last)))

    def _read_call(self, call: ToolCall) -> _PendingCall:
        for _, value in iter_arguments(call.args):
            self.names.add(value, ARGUMENT if len(value) <= SHORT_ARGUMENT else LONG_ARGUMENT)
        arguments = list(islice(iter_arguments(call.args), _MAX_ARGUMENTS))
        plain = [(key, value) for key, value in arguments if key in _scalar_keys(call.args)]
        file = next(((key, value) for key, value in plain if _is_file(value)), None)
        about = [file] if file else [argument for argument in plain if len(argument[1]) <= SHORT_ARGUMENT]
        subject = file[1].strip() if file else ", ".join(_show_argument(*argument) for argument in about)
        details = [
            fragment
            for argument in arguments
            if argument not in about
            for fragment in _split_output(argument[1], argument[0] or "value")
        ]
        return _PendingCall(_clean_tool_name(call.name), _clean_subject(subject), details)

    def _read_result(self, result: ToolResult, handle: str) -> _CallOutcome:
        text = "\n".join(_iter_texts(result.content))
        self.names.add(text, RESULT)
        fragments = _split_output(text, "")
        failure = _find_failure(text)
        if result.is_error:
            opening = _leading_fragments(fragments, FAILURE_CHARACTERS)
            if failure and all(fragment.text != failure for fragment in opening):
                found = next((fragment for fragment in fragments if fragment.text == failure), None)
                fragments = fragments if found else [*fragments, Fragment(failure, LINE_MARK)]
                opening = [*fragments[:1], found or fragments[-1]]
            return _CallOutcome(fragments, opening, handle, "failed", _is_whole(result, text))
        if _is_whole(result, text):
            return _CallOutcome(fragments, fragments, handle, "short", is_whole=True, fails=bool(failure))
        opening = [Fragment(failure, LINE_MARK)] if failure else []
        others = [fragment for fragment in fragments if fragment.text != failure]
        return _CallOutcome([*others, *opening], opening, handle, "long", fails=bool(failure))

    def _add_call(self, call: _PendingCall, outcome: _CallOutcome) -> None:
        """Add a call to the entry of the calls with the same outcome."""
        failed = outcome.kind == "failed"
        entry = self._call_entry(call.subject, {call.tool: 1}, outcome)
        if not call.subject:
            entry.fragments = {}  # only the arguments of the last call are shown
        entry.failed = frozenset({call.tool}) if failed else frozenset()
        self._add_fragments(entry, call.details)
        self._add_fragments(entry, outcome.fragments)
        texts = {fragment.text for fragment in outcome.opening}
        result_numbers = [
            number for number, fragment in entry.fragments.items() if not fragment.label and fragment.text in texts
        ]
        entry.result = frozenset(result_numbers) if outcome.is_whole else frozenset()
        details = {
            fragment.text for fragment in call.details if outcome.is_whole and len(fragment.text) <= DETAIL_CHARACTERS
        }
        entry.opening = tuple(
            number
            for number, fragment in entry.fragments.items()
            if number in result_numbers or (fragment.label and fragment.text in details)
        )
        self._note_failure(entry, call.subject, call.tool, fails=failed or outcome.fails)

    def _note_failure(self, entry: TranscriptEntry, subject: str, tool: str, *, fails: bool) -> None:
        """Mark a failure until a call of the same kind succeeds."""
        failing = self._failing.setdefault((subject, tool), [])
        if not fails:
            for earlier in failing:
                earlier.fails = False
            failing.clear()
        elif not entry.fails:
            failing.append(entry)
        entry.fails = fails

    def _call_entry(self, subject: str, tools: dict[str, int], outcome: _CallOutcome) -> TranscriptEntry:
        key = subject, *tools, outcome.kind, outcome.key
        entry = self._calls.pop(key, None) or TranscriptEntry(speaker="", at=0, subject=subject)
        for name, times in tools.items():
            entry.tools = {**entry.tools, name: min(entry.tools.get(name, 0) + times, _MAX_CALLS)}
        entry.at = self.names.at
        entry.handle = outcome.handle
        self._calls[key] = entry
        return entry

    def _add_fragments(self, entry: TranscriptEntry, fragments: Sequence[Fragment]) -> None:
        """Append fragments. Of equal lines, the newest stays."""
        new = {fragment.text for fragment in fragments}
        merged = {number: fragment for number, fragment in entry.fragments.items() if fragment.text not in new}
        start = max(entry.fragments, default=-2) + 2
        merged |= {start + offset: fragment for offset, fragment in enumerate(fragments)}
        entry.fragments = dict(islice(merged.items(), max(0, len(merged) - _ENTRY_FRAGMENTS), None))

    def _read_summary(self, summary: Summary) -> None:
        for row in summary.text.split("\n"):
            speaker, colon, statement = row.partition(": ")
            if row in (PREAMBLE, PREAMBLE_WITH_HANDLES) or not row.strip():
                continue
            if row.startswith(_OTHER_NAMES):
                self.names.add(row.removeprefix(_OTHER_NAMES), ARGUMENT)
            elif colon and speaker in (*SPEAKERS.values(), EARLIER_SPEAKER, CLIENT_SPEAKER):
                source = RESULT if speaker == CLIENT_SPEAKER else ASSISTANT
                self.names.add(statement, USER if speaker == SPEAKERS["user"] else source)
                self._add_statement(speaker, _parse_statement(statement))
            elif not self._read_call_row(row):
                self.names.add(row, ASSISTANT)
                self._add_statement(EARLIER_SPEAKER, _split_sentences(row))

    def _read_call_row(self, row: str) -> bool:
        """Parse a line of an earlier summary as a call; False if it is none."""
        if not row.startswith(CALL_PREFIX):
            return False
        ends = [at for at in (row.find("; "), row.find(RESULT_MARK)) if at >= 0]
        end = min(ends, default=len(row))
        handle = _HANDLE.search(row[:end])
        tools, _, subject = row[len(CALL_PREFIX) : handle.start() if handle else end].partition(SUBJECT_MARK)
        tool_parts = [_TOOL.fullmatch(part) for part in tools.split(", ")]
        counts = {tool[1]: int(tool[2] or 1) for tool in tool_parts if tool}
        if len(counts) != len(tool_parts):
            return False
        self.names.add(row[:end], ARGUMENT)
        arguments, returned, result = row[end:].partition(RESULT_MARK)
        self.names.add(arguments + result, LONG_ARGUMENT)
        label = _LABEL.match(arguments, 2)
        fragments = _parse_call_text(arguments[label.end() if label else 2 :], label[0][:-2] if label else "value")
        result_fragments = _parse_call_text(result, "") if returned else {}
        failed = frozenset(tool[1] for tool in tool_parts if tool and tool[3])
        outcome = _CallOutcome(
            [*result_fragments.values()],
            handle=handle[1] if handle else "",
            kind="failed" if failed else "long" if handle else "short" if result_fragments else "",
        )
        entry = self._call_entry(subject, counts, outcome)
        for added in (fragments, result_fragments):
            start = max(entry.fragments, default=-2) + 2
            entry.fragments = entry.fragments | {start + number: fragment for number, fragment in added.items()}
        entry.failed = failed
        if result_fragments and outcome.kind != "long":
            last = tuple(entry.fragments)[-len(result_fragments) :]
            entry.opening = (
                tuple(entry.fragments) if outcome.kind == "short" else _choose_failure(entry.fragments, last)
            )
            entry.result = frozenset(last if outcome.kind == "short" else ())
            self._note_failure(entry, subject, next(iter(counts)), fails=bool(failed))
        return True


def _leading_numbers(fragments: dict[int, Fragment], limit: int) -> tuple[int, ...]:
    """The numbers of the first fragments, up to a limit or the first repetition; at least one."""
    numbers: list[int] = []
    texts: set[str] = set()
    for number, fragment in fragments.items():
        limit -= len(fragment.text) + 1
        if numbers and (limit < 0 or number != numbers[-1] + 1 or fragment.text in texts):
            break
        texts.add(fragment.text)
        numbers.append(number)
    return tuple(numbers)


def _split_sentences(*parts: str) -> dict[int, Fragment]:
    """Split the parts of a message into sentences; of a long one, only its beginning and its end."""
    runs: list[str] = []
    for text in parts:
        is_short = len(text) <= _STATEMENT_HEAD + _STATEMENT_TAIL
        runs += [text] if is_short else [text[:_STATEMENT_HEAD], text[-_STATEMENT_TAIL:]]
    return _split_runs(runs)


def _split_runs(runs: Iterable[str], number: int = 0) -> dict[int, Fragment]:
    """Split texts into sentences, with a gap in the numbers between two texts."""
    fragments: dict[int, Fragment] = {}
    for run in runs:
        text = _BLANK.sub(_collapse_blank, run).strip()
        for fragment, gap in _split_run(text):
            number += gap and bool(fragments)
            fragments[number] = fragment
            number += 1
        number += 1
    return fragments


def _collapse_blank(run: re.Match[str]) -> str:
    return "\n" if "\n" in run[0] else " "


def _split_run(text: str) -> Iterator[tuple[Fragment, bool]]:
    """Split a text into fragments, each with whether text is omitted before it. Marks without a word stay with the next
    text."""
    start, glue, gap, at = 0, " ", False, 0
    has_text = False
    for end, after in (*((mark.start(), mark.end()) for mark in _SENTENCE.finditer(text)), (len(text), len(text))):
        last = end == len(text)
        is_mark = _MARK.fullmatch(text, at, end) is not None
        is_number = (not at or text[at - 1] == "\n") and _LISTED.fullmatch(text, at, end) is not None
        if (is_mark or is_number) and not last and end - start <= _MARK_CHARACTERS:
            at = after
            continue
        if is_mark and (has_text or not last):
            gap = True
        elif start < end:
            for fragment in _split_line(text[start:end].replace("\n", " "), glue):
                yield fragment, gap
                gap, has_text = False, True
        glue = " " if after > end else ""
        start = at = after


def _split_output(text: str, label: str) -> list[Fragment]:
    """Split an output or a long argument into the lines that can be quoted."""
    lines = text.split("\n", _OUTPUT_LINES)
    if len(lines) > _OUTPUT_LINES:
        lines[_OUTPUT_LINES:] = lines[_OUTPUT_LINES][-_TAIL_CHARACTERS:].split("\n")[-_OUTPUT_TAIL_LINES:]
    lines = [_BLANK.sub(" ", raw[: FRAGMENT_CHARACTERS * 20]).strip() for raw in lines]
    shapes = [_DIGITS.sub("0", line) for line in lines]
    times = Counter(shapes)
    fragments: list[Fragment] = []
    for line, shape in zip(lines, shapes, strict=True):
        if _WORTH_QUOTING.search(line):
            weight = 1.0 if times[shape] < _REPEATED_LINES else 1 / times[shape]
            fragments += _split_line(line, LINE_MARK, label, weight)
    return fragments


def _split_line(line: str, glue: str, label: str = "", weight: float = 1.0) -> Iterator[Fragment]:
    """Split a line into fragments of at most FRAGMENT_CHARACTERS."""
    while len(line) > FRAGMENT_CHARACTERS:
        cut = line.rfind(" ", FRAGMENT_CHARACTERS // 2, FRAGMENT_CHARACTERS)
        end = cut if cut > 0 else FRAGMENT_CHARACTERS
        yield Fragment(line[:end], glue, label, weight)
        glue = " " if line[end] == " " else ""
        line = line[end:].lstrip()
    if line:
        yield Fragment(line, glue, label, weight)


def _leading_fragments(fragments: Sequence[Fragment], limit: int) -> list[Fragment]:
    """The first fragments, up to a limit; at least one."""
    return [fragments[number] for number in _leading_numbers(dict(enumerate(fragments)), limit)]


def _choose_failure(fragments: dict[int, Fragment], numbers: tuple[int, ...]) -> tuple[int, ...]:
    """What comes first of a failure that an earlier summary quotes: all of it if it is short, else its first line, often an
    exit code, and the line that says what went wrong."""
    if sum(len(fragments[number].text) + 1 for number in numbers) <= FAILURE_CHARACTERS:
        return numbers
    found = (number for number in numbers[1:] if FAILURE.match(fragments[number].text))
    return (*numbers[:1], *islice(found, 1))


def _parse_statement(statement: str) -> dict[int, Fragment]:
    """The fragments of a statement in an earlier summary."""
    inside = statement.removeprefix(OMISSION_MARK.lstrip())
    return _split_runs(inside.split(OMISSION_MARK), 1 if inside != statement else 0)


def _parse_call_text(text: str, label: str) -> dict[int, Fragment]:
    """The fragments of the arguments or the result of a call in an earlier summary."""
    fragments: dict[int, Fragment] = {}
    number = 0
    for run in text.split(OMISSION_MARK):
        for part in run.split(LINE_MARK):
            for fragment in _split_line(part.strip(), LINE_MARK, label):
                fragments[number] = fragment
                number += 1
        number += 1
    return fragments


def iter_arguments(value: Json) -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers in the arguments of a call, each with its key."""
    stack: list[tuple[str, Json]] = [("", value)]
    while stack:
        key, at = stack.pop()
        if isinstance(at, dict):
            stack.extend(reversed([(_clean_label(name), item) for name, item in at.items()]))
        elif isinstance(at, list | tuple):
            stack.extend((key, item) for item in reversed(at))
        elif isinstance(at, str):
            yield key, at
        elif isinstance(at, float) or (isinstance(at, int) and not isinstance(at, bool) and at.bit_length() < 256):
            yield key, str(at)


def _scalar_keys(args: Json) -> Iterable[str]:
    """The keys of arguments that are texts or numbers. Lists and objects are never the subject of a call."""
    if not isinstance(args, dict):
        return ("",)
    return {_clean_label(key) for key, value in args.items() if isinstance(value, str | int | float)}


def _clean_label(key: object) -> str:
    return _NOT_LABEL.sub("_", str(key)[:KEY_CHARACTERS])


def _show_argument(key: str, value: str) -> str:
    text = flatten(value, SHORT_ARGUMENT)
    return f"{key}={text}" if key else text


def _clean_subject(text: str) -> str:
    return flatten(text, ARGUMENTS_CHARACTERS).replace("; ", ";").replace(RESULT_MARK, "→")


def _is_whole(result: ToolResult, text: str) -> bool:
    """Whether a result is short and consists of text only."""
    return len(text) <= SHORT_RESULT and all(isinstance(part, Text | Data) for part in result.content)


def _is_file(value: str) -> bool:
    return len(value) <= SHORT_ARGUMENT and _FILE.fullmatch(value.strip()) is not None


def _clean_tool_name(name: str) -> str:
    return _NOT_TOOL.sub("_", flatten(name, 64)) or "?"


def _iter_texts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text):
                yield text
            case Data(value):
                yield ", ".join(_show_argument(*argument) for argument in iter_arguments(value))
            case Body(preview=preview):
                yield preview
            case File(name=str(name)):
                yield name


def _find_failure(text: str) -> str:
    """The line of a result that reports a failure, or an empty text."""
    lines = text.split("\n", _OUTPUT_LINES)[:_OUTPUT_LINES]
    if len(lines) == _OUTPUT_LINES:
        lines += text[-_TAIL_CHARACTERS:].rsplit("\n", _OUTPUT_LINES)[1:]
    failure = next((line for line in lines if len(line) < 1_000 and FAILURE.match(line)), "")
    return flatten(failure, FAILURE_CHARACTERS)
