"""A summary without a model: what stands in a conversation, picked and merged, never put into new words.

Laws: the same items give the same text; it never has more tokens than it may; nothing raises; the time is linear in what is
read. An entry is one line, so what was said cannot pose as another section. A summary among the items is taken apart again:
its entries are older than all that follows, and the oldest give way first, so that summaries of summaries neither grow nor
lose everything at once.

What is kept: the user's wishes and decisions, failures, which thing was worked on by which tools, and the names that are
likely to be needed again. How likely was measured on real sessions: a name is worth more if the user or the arguments of a
call had it, if it was said often and lately; and far less if it is a number or a path that only ever stood in results.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from holdfast.model.content import Body, Data, File, Json, Part, Text, ToolCall, ToolResult
from holdfast.model.messages import Message, Summary, Unit

Count: TypeAlias = Callable[[str], int]

ASKED, DECIDED, NOTED, DONE, ERRORS, OPEN, NAMES = "Asked", "Decided", "Noted", "Done", "Errors", "Open", "Names"
SECTIONS = (ASKED, DECIDED, NOTED, DONE, ERRORS, OPEN)
_SHARES = {ASKED: 0.12, DECIDED: 0.08, ERRORS: 0.06, OPEN: 0.04, DONE: 0.3, NOTED: 0.05}
"""How much of the room a section may take before the names have had theirs, in the order of their worth."""
_OPEN_ENTRIES = 3
"""What was announced before that has long been done."""

ENTRY_CHARACTERS = 280
OBJECT_CHARACTERS = 120
_SHORT = 200
"""Characters of an argument that names a thing; a longer one is the thing itself."""
_LEAVES = 40
"""Arguments of one call that are looked at for what it is about."""
_PROSE_HEAD, _PROSE_TAIL = 4_000, 2_000
"""Of a message, what is read as sentences; names are looked for everywhere."""
_LINES = 400
"""Lines of a result that are looked at for a failure, from its beginning and from its end."""
_REPLY, _WHERE, _MESSAGE = 24, 48, 200
"""Characters of a reply that only makes sense behind its question; of a thing, where something failed with it; and of what
the failure said."""
_OFTENEST = 999_999
_SCRAP = 24
"""Characters that are worth having of an entry."""
_TOKEN_CHARACTERS = 16
"""What is longer than this for each token is not counted before it is cut."""
_MISSES = 24
"""Entries that did not fit, after which no more are tried."""

# Letters and digits of the scripts that put blanks between words.
_LETTER = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff]"
_TOKEN = re.compile(rf"(?:(?<!/)(?:~|\.{{1,2}})?/|[.@$#])?{_LETTER}+(?:[./@:+#~$-]{{1,3}}{_LETTER}+)*")
_PLACE = re.compile(r"(\S*[^\s/.]\.[A-Za-z]\w{0,9}):\d+(?::.*)?")
_NUMBER = re.compile(r"(?!\d{4}-\d\d-\d\d$)[\d.,:/+#$-]+")  # but for days, which are named
_CODE = re.compile(r"\d|_|[^\W_][./@:#][^\W_]|[a-z][A-Z]|[A-Z]{2}")
_KEY = re.compile(r'"([^\W\d]{3,40})"\s?:')
_OPENING = re.compile(r"(?:\A|[.!?:\n])[^\w\n]{0,8}([A-Z]\w+)")
_INITIALS = re.compile(r"[^\W_](?:\.[^\W_])*")
_FILE = re.compile(r"[^\s*?]*[^\s/.*?]\.[A-Za-z]\w{0,9}")
_TAG = re.compile(r"</?[\w:-]{1,60}(?:\s[^<>]{0,200})?>")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？؟])|\n\s*")
_LIST = re.compile(r"^(?:[-*+>#|]+|\d{1,3}[.)])\s+")
_QUESTION = ("?", "？", "؟")
_DECISION = re.compile(
    r"\b(?:instead|rather|don['’]?t|do not|never|always|must(?:n['’]t)?|should(?:n['’]t)?|only|let['’]?s|prefer|no longer|"
    r"any ?more|stop|actually|keep|leave|revert|undo|go with|use|make sure|not|decided|agreed|correct(?:ion)?|wrong)\b",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r"\b(?:i['’]ll|i will|we['’]ll|let me|let us|let['’]s|next|going to|to ?do|remain(?:s|ing)|"
    r"still (?:need|have)|then i|now i)\b",
    re.IGNORECASE,
)
_FAILURE = re.compile(
    r"\W{0,12}(?:[\w.-]{1,60}[\s:]\W{0,3}){0,2}?(?:[\w.]{0,60}(?:error|exception)(?=[\"'\]]{0,2}\s?:|\[|$)|"
    r"(?:fatal|panic|traceback|fail(?:ed|ure)?)(?=[:\s(]|$))",
    re.IGNORECASE,
)
_TOOL = re.compile(r"(\S+?)(?: x(\d{1,9}))?( failed)?")

_USER, _ASSISTANT, _ARGS, _LONG_ARGS, _RESULT = 1, 2, 4, 8, 16
_NUMERAL, _PATH, _CODED, _CAPITALS, _WORD = "number", "path", "code", "capitals", "word"
_SOURCES = {_USER: 3.0, _ASSISTANT: 1.5, _ARGS: 2.2, _LONG_ARGS: 2.0}
"""What a name is worth for each who said it."""
_KINDS = {_NUMERAL: (0.6, 0.05), _WORD: (0.8, 0.05), _CAPITALS: (0.8, 0.3), _PATH: (1.5, 0.1), _CODED: (1.0, 1.0)}
"""What a name is worth by its kind: if somebody said it, and if it only ever stood in results."""
_OFTEN = 0.3
"""What saying a thing again is worth: this power of how often it was said."""
_THRIFT = 0.85
"""How much a long name has to be worth more than a short one to come first."""
_CARRIED = 8
"""Mentions that the first name of an earlier summary counts for."""
_AGE = 16_000
"""Characters after which a mention is about a third less worth."""


class _Line(msgspec.Struct):
    """An entry of a section. One that is faded gives way before the others, however new it is."""

    text: str
    faded: bool = False


class _Deed(msgspec.Struct):
    """What was done to one thing: how often by each tool, and which of them failed when it was used last."""

    thing: str
    tools: dict[str, int]
    failed: set[str]
    at: int = 0

    @property
    def times(self) -> int:
        return sum(self.tools.values())

    @property
    def text(self) -> str:
        how = ", ".join(
            tool + (f" x{times}" if times > 1 else "") + (" failed" if tool in self.failed else "")
            for tool, times in self.tools.items()
        )
        return f"{self.thing}: {how}" if self.thing else how


class _Taken(msgspec.Struct):
    """An entry as it is in, in full or its beginning, and its tokens."""

    section: str
    entry: str
    text: str
    cost: int


class _Name(msgspec.Struct):
    kind: str
    times: int = 0
    sources: int = 0
    at: int = 0


def extract(items: Sequence[Unit | Summary], tokens: int, count: Count) -> str:
    """A text of at most so many tokens that stands for these items. Empty only if nothing can be said in them."""
    if len(items) == 1 and isinstance(only := items[0], Summary) and only.text.strip() and count(only.text) <= tokens:
        return only.text  # nothing came since, so nothing has aged
    notes = _Notes()
    for item in items:
        notes.read(item)
    notes.settle()
    return _Page(notes, tokens, count).text()


def _flat(text: str, limit: int) -> str:
    """On one line, cut at a blank if there is one near."""
    text = _BLANK.sub(" ", text.lstrip()[: limit * 4]).strip()
    if len(text) <= limit:
        return text
    cut = text.rfind(" ", limit * 3 // 4, limit)
    return text[: cut if cut > 0 else limit - 1].rstrip() + "…"


def _sentences(text: str) -> list[str]:
    """What a message says, without code, tags and the marks of lists; of a long one, its beginning and its end."""
    if len(text) > _PROSE_HEAD + _PROSE_TAIL:
        text = text[:_PROSE_HEAD] + "\n" + text[-_PROSE_TAIL:]
    found: list[str] = []
    for piece in _SENTENCE.split(_TAG.sub(" ", _FENCE.sub("\n", text))):
        piece = _LIST.sub("", piece.strip()).strip("* ")
        while len(piece) > ENTRY_CHARACTERS:  # it counts as several
            cut = piece.rfind(" ", 1, ENTRY_CHARACTERS)
            found.append(piece[: cut if cut > 0 else ENTRY_CHARACTERS])
            piece = piece[len(found[-1]) :].strip()
        if piece and piece.count("|") < 3:  # else the row of a table
            found.append(piece)
    return found or [text.strip()]


def _leaves(value: Json, *, keys: bool = False) -> Iterator[str]:
    """The texts and numbers in a JSON value, in its order; with `keys`, the names of members too."""
    rest = [value]
    while rest:
        at = rest.pop()
        if isinstance(at, dict):
            members = [each for key, value in at.items() for each in (f'"{key}":', value)] if keys else [*at.values()]
            rest.extend(reversed(members))
        elif isinstance(at, list | tuple):
            rest.extend(reversed(at))
        elif isinstance(at, str):
            yield at
        elif isinstance(at, float) or (isinstance(at, int) and not isinstance(at, bool) and at.bit_length() < 256):
            yield str(at)


def _thing(call: ToolCall) -> str:
    """What a call is about: the file that it names, or its short arguments."""
    short: list[str] = []
    for leaf in islice(_leaves(call.args), _LEAVES):
        line = leaf.strip().partition("\n")[0]
        if len(leaf) <= _SHORT and _FILE.fullmatch(line):
            return _flat(line, _SHORT)
        if line and (len(leaf) <= _SHORT or not short):
            short.append(line[:_SHORT])
    return _flat(" ".join(short), OBJECT_CHARACTERS)


def _tool(call: ToolCall) -> str:
    return _flat(call.name, 64).replace(" ", "_") or "?"


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text):
                yield text
            case Data(value):
                yield " ".join(_leaves(value, keys=True))
            case Body(preview=preview):
                yield preview
            case File(name=str(name)):
                yield name


def _failure(text: str) -> str:
    """The line of a result that tells of a failure; empty if none does."""
    lines = text.split("\n", _LINES)[:_LINES]
    if len(lines) == _LINES:
        lines += text[-(1 << 14) :].rsplit("\n", _LINES)[1:]
    return next((line for line in lines if len(line) < 1_000 and _FAILURE.match(line)), "")


def _kind(token: str) -> str | None:
    if len(token) < 3 or len(token) > _SHORT:
        return None
    if _NUMBER.fullmatch(token):
        return _NUMERAL
    if token.isalpha() and (token.isupper() or not _CODE.search(token)):
        return _CAPITALS if token.isupper() else _WORD if token[0].isupper() else None
    if "/" in token:
        return _PATH
    return _CODED if _CODE.search(token) and not _INITIALS.fullmatch(token) else None


class _Notes:
    """All that a stretch of conversation has to say, by section."""

    def __init__(self) -> None:
        self.at = 0
        self.lines: dict[str, dict[str, _Line]] = {section: {} for section in SECTIONS if section != DONE}
        self.deeds: dict[tuple[str, str], _Deed] = {}
        self.names: dict[str, _Name] = {}
        self.plain: set[str] = set()
        """Words that are no names."""
        self.keys: set[str] = set()
        """Names that members of JSON objects have: what they are called, and not what they are."""
        self.first = ""
        """Something to say where there is nothing else."""
        self.question = ""
        self._failing: dict[str, str] = {}
        self._tokens: dict[str, tuple[str, str | None]] = {}

    def read(self, item: Unit | Summary) -> None:
        if isinstance(item, Summary):
            self._summary(item)
            return
        calls: dict[str, tuple[ToolCall, str]] = {}
        for message in item.messages:
            self._message(message)
            for call in message.tool_calls:
                calls[call.id] = call, self._call(call)
            for result in message.tool_results:
                self._result(result, calls)

    def settle(self) -> None:
        """Nothing comes any more: small talk counts if there is nothing else."""
        if not (any(self.lines.values()) or self.deeds):
            self._note(NOTED, self.first)

    def _message(self, message: Message) -> None:
        text = ("" if message.role == "assistant" else "\n").join(_texts(message.content))  # a reply comes in pieces
        if not text.strip():
            return
        self.first = self.first or _flat(text, ENTRY_CHARACTERS)
        if message.role == "assistant":
            self._told(text)
            self._mention(text, _ASSISTANT)
        elif message.role == "tool":
            self._mention(text, _RESULT)
        else:
            self._asked(text)
            self._mention(text, _USER)

    def _note(self, section: str, text: str, limit: int = ENTRY_CHARACTERS, *, faded: bool = False) -> None:
        text = _flat(text, limit)
        if text:
            self.lines[section].pop(text, None)  # what is said again is said now
            self.lines[section][text] = _Line(text, faded)

    def _asked(self, text: str) -> None:
        said = _sentences(text)
        question, self.question = self.question, ""
        if question:
            self.lines[OPEN].pop(_flat(question, ENTRY_CHARACTERS), None)
            if len(said) == 1 and len(said[0].split()) <= 3 and len(said[0]) <= _REPLY:
                self._note(DECIDED, f"{_flat(question, ENTRY_CHARACTERS - _REPLY - 2)} {said[0]}")
                return
        first, taken = said[0], 1
        while taken < len(said) and len(first) + len(said[taken]) < ENTRY_CHARACTERS:
            first += " " + said[taken]
            taken += 1
        self._note(ASKED, first)
        for place, sentence in enumerate(said[taken:], taken + 1):
            if _DECISION.search(sentence):
                self._note(DECIDED, sentence)
            elif len(sentence) >= _SCRAP and (place == len(said) or sentence.endswith(_QUESTION)):
                self._note(ASKED, sentence)

    def _told(self, text: str) -> None:
        said = _sentences(text)
        self.question = said[-1] if said[-1].endswith(_QUESTION) else ""
        noted = False
        for sentence in said:
            if sentence.endswith(_QUESTION) or _NEXT.search(sentence):
                self._note(OPEN, sentence)
            elif any(self._known(token)[1] in (_PATH, _CODED) for token in _TOKEN.findall(sentence)):
                self._note(NOTED, sentence)
            else:
                continue
            noted = True
        if not noted and len(said[0]) >= _SCRAP:
            self._note(NOTED, said[0], faded=True)

    def _call(self, call: ToolCall) -> str:
        thing = _thing(call)
        for leaf in _leaves(call.args):
            self._mention(leaf, _ARGS if len(leaf) <= _SHORT else _LONG_ARGS)
        self._deed(thing, {_tool(call): 1}, set())
        return thing

    def _deed(self, thing: str, tools: dict[str, int], failed: set[str]) -> None:
        key = (thing, "" if thing else next(iter(tools)))
        deed = self.deeds.pop(key, None) or _Deed(thing, {}, set())
        for tool, times in tools.items():
            deed.tools[tool] = min(deed.tools.get(tool, 0) + times, _OFTENEST)
        deed.failed = (deed.failed - tools.keys()) | failed
        deed.at = self.at
        self.deeds[key] = deed

    def _result(self, result: ToolResult, calls: dict[str, tuple[ToolCall, str]]) -> None:
        text = "\n".join(_texts(result.content))
        self.first = self.first or _flat(text, ENTRY_CHARACTERS)
        call, thing = calls.get(result.tool_call_id, (None, ""))
        tool = _tool(call) if call else "?"
        where = f"{tool} {_flat(thing.rsplit('/', 1)[-1] if _FILE.fullmatch(thing) else thing, _WHERE)}".strip()
        before = self._failing.pop(where, "")
        if result.is_error or (failure := _failure(text)):
            message = _flat(_TAG.sub(" ", text[:2_000] if result.is_error else failure), _MESSAGE)
            self._failing[where] = _flat(f'{where}: "{message}"', ENTRY_CHARACTERS)
            self._note(ERRORS, self._failing[where])
            deed = self.deeds.get((thing, "" if thing else tool))
            if deed is not None and result.is_error:
                deed.failed.add(tool)
        elif before in self.lines[ERRORS]:
            self.lines[ERRORS][before].faded = True  # it works by now
        self._mention(text, _RESULT)

    def _known(self, token: str) -> tuple[str, str | None]:
        """The name in a token, without the place in a file, and its kind."""
        known = self._tokens.get(token)
        if known is None:
            place = _PLACE.fullmatch(token)
            name = place[1] if place else token
            self._tokens[token] = known = name, _kind(name)
        return known

    def _mention(self, text: str, source: int) -> None:
        self.at += len(text)
        if source == _RESULT:
            self.keys.update(_KEY.findall(text))
        opening = Counter(_OPENING.findall(text)) if source != _RESULT and " " in text else {}
        for token, times in Counter(_TOKEN.findall(text)).items():
            spelt, kind = self._known(token)
            if kind == _WORD and times <= opening.get(token, 0):
                continue  # it has its capital from the sentence
            if kind is None:
                self.plain.add(spelt)
                continue
            name = self.names.get(spelt)
            if name is None:
                self.names[spelt] = name = _Name(kind)
            name.times += times
            name.sources |= source
            name.at = self.at

    def _summary(self, summary: Summary) -> None:
        section = ""
        self.first = self.first or _flat(summary.text, ENTRY_CHARACTERS)
        for row in summary.text.split("\n"):
            head, colon, rest = row.partition(":")
            if colon and head == NAMES:
                self._carried_names(rest.split())
                continue
            if colon and head in SECTIONS and not rest.strip():
                section = head
                continue
            if section and row.startswith("- "):
                self._carried(section, row[2:])
            elif row.strip():
                section = ""
                for sentence in _sentences(row):  # somebody else wrote this one
                    self._note(NOTED, sentence)
            self._mention(row, _ASSISTANT)

    def _carried(self, section: str, text: str) -> None:
        """An entry of an earlier summary."""
        if section != DONE:
            self._note(section, text, ENTRY_CHARACTERS * 2)
            return
        thing, _, how = _flat(text, ENTRY_CHARACTERS * 4).rpartition(": ")
        found = [_TOOL.fullmatch(part) for part in how.split(", ")]
        tools = {each[1]: int(each[2] or 1) for each in found if each}
        if len(tools) == len(found):
            self._deed(thing, tools, {each[1] for each in found if each and each[3]})
        else:
            self._note(NOTED, text)

    def _carried_names(self, names: Sequence[str]) -> None:
        """Names of an earlier summary: the first were the likeliest."""
        for place, text in enumerate(names):
            token, kind = self._known(text)
            if kind is not None:
                name = self.names.setdefault(token, _Name(kind))
                name.times += 1 + _CARRIED * (len(names) - place) // len(names)
                name.sources |= _ARGS
                name.at = max(name.at, self.at)


class _Page:
    """What of the notes fits so many tokens."""

    def __init__(self, notes: _Notes, tokens: int, count: Count) -> None:
        self._notes = notes
        self._tokens = tokens
        self._count = count
        self._taken: list[_Taken] = []
        """What is in, the dearest to keep first."""
        self._heads: set[str] = set()
        self._room = tokens

    def text(self) -> str:
        ranked = {section: self._ranked(section) for section in _SHARES}
        names = self._ranked_names()
        all_of_it = self._all(ranked, names)
        if all_of_it:
            return all_of_it
        rest = {
            section: self._take(section, entries, int(self._tokens * _SHARES[section]))
            for section, entries in ranked.items()
        }
        self._take_names(names)
        for section, entries in rest.items():
            self._take(section, entries, self._room)
        return self._fitted() or self._scrap(ranked, names)

    def _all(self, ranked: dict[str, list[str]], names: Sequence[str]) -> str:
        """Everything, if there is room for it."""
        taken = [_Taken(section, entry, entry, 0) for section, entries in ranked.items() for entry in entries]
        shown = {part for each in taken for part in _parts(each.text)}
        text = self._shown([*taken, *(_Taken(NAMES, name, name, 0) for name in names if name not in shown)])
        return text if len(text) <= self._tokens * _TOKEN_CHARACTERS and self._count(text) <= self._tokens else ""

    def _age(self, at: int) -> float:
        return 1 / math.sqrt(1 + max(0, self._notes.at - at) / _AGE)

    def _ranked(self, section: str) -> list[str]:
        """The entries of a section, the best first."""
        if section == DONE:
            deeds = sorted(
                self._notes.deeds.values(), key=lambda deed: -math.pow(deed.times, _OFTEN) * self._age(deed.at)
            )
            return [deed.text for deed in deeds]
        lines = list(reversed(self._notes.lines[section].values()))
        lines.sort(key=lambda line: line.faded)
        if section == ASKED and len(lines) > 2:
            lines.insert(1, lines.pop())  # what it all began with
        if section == OPEN:
            del lines[_OPEN_ENTRIES:]
        return [line.text for line in lines]

    def _ranked_names(self) -> list[str]:
        plain = self._notes.plain
        worth = {
            text: self._worth(text, name)
            for text, name in self._notes.names.items()
            if name.kind not in (_WORD, _CAPITALS) or text.lower() not in plain
        }
        return sorted(worth, key=lambda text: (-worth[text], text))

    def _worth(self, text: str, name: _Name) -> float:
        worth = math.pow(name.times, _OFTEN) * self._age(name.at)
        for source, factor in _SOURCES.items():
            if name.sources & source:
                worth *= factor
        kind = _WORD if text in self._notes.keys else name.kind
        worth *= _KINDS[kind][name.sources == _RESULT]
        return worth / math.pow(1 + len(text) / 4, _THRIFT)

    def _take(self, section: str, entries: Sequence[str], share: int) -> list[str]:
        """Take what fits into a share of the room, and the beginning of what does not. The rest is returned."""
        left: list[str] = []
        room = min(share, self._room)
        for place, entry in enumerate(entries):
            if len(left) > _MISSES:
                return left + list(entries[place:])
            head = 0 if section in self._heads else self._count(f"{section}:\n")
            text, cost = entry, self._count(f"- {entry}\n") + head
            while cost > room and len(text) > 2 * _SCRAP and section != DONE:
                text = _flat(text, len(text) * 2 // 3)
                cost = self._count(f"- {text}\n") + head
            if cost > room:
                left.append(entry)
                continue
            room -= cost
            self._room -= cost
            self._heads.add(section)
            self._taken.append(_Taken(section, entry, text, cost))
            if text != entry:
                return left + list(entries[place + 1 :])
        return left

    def _take_names(self, names: Sequence[str]) -> None:
        shown = {part for each in self._taken for part in _parts(each.text)}
        room = self._room - self._count(f"{NAMES}:\n")
        misses = 0
        for name in names:
            if name in shown or misses > _MISSES:
                continue
            cost = self._count(f" {name}")
            if cost > room:
                misses += 1
                continue
            room -= cost
            self._taken.append(_Taken(NAMES, name, name, cost))
            shown.update(_parts(name))
        self._room = max(0, room)

    def _shown(self, taken: Sequence[_Taken]) -> str:
        """In the fixed order; what was said first comes first, but of names the likeliest."""
        kept: dict[str, dict[str, str]] = {}
        for each in taken:
            kept.setdefault(each.section, {})[each.entry] = each.text
        rows = []
        for section in SECTIONS:
            if section in kept:
                rows.append(f"{section}:")
                lines = self._notes.deeds if section == DONE else self._notes.lines[section]
                rows += [f"- {kept[section][line.text]}" for line in lines.values() if line.text in kept[section]]
        if NAMES in kept:
            rows.append(f"{NAMES}: {' '.join(kept[NAMES])}")
        return "\n".join(rows)

    def _fitted(self) -> str:
        """What is in, as text, without the last of it as long as that is too much."""
        taken = self._taken
        while taken:
            text = self._shown(taken)
            over = self._count(text) - self._tokens
            if over <= 0:
                return text
            while taken and over > 0:
                over -= max(1, taken.pop().cost)
        return ""

    def _scrap(self, ranked: dict[str, list[str]], names: Sequence[str]) -> str:
        """The beginning of the best entry, where there is no room for one."""
        best = [entry for entries in ranked.values() for entry in entries[:1]]
        for text in (*best, *names[:8]):
            while text:
                if self._count(text) <= self._tokens:
                    return text
                text = text[: len(text) // 2].rstrip()
        return ""


def _parts(text: str) -> Iterator[str]:
    """The names in a text, and the names within those."""
    for token in _TOKEN.findall(text):
        yield token
        yield from re.split(r"[./@:+#~$-]+", token)
