"""What became of a guard case: what of the conversation a model can still read, and with which notes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

import msgspec

from benchmarks.truth.cases import GuardCase, Step
from benchmarks.truth.world import World

KeptVerdict = Literal["kept", "kept, with a note", "lost"]
"""As it was · readable, but marked as outdated although it is not · gone."""


HiddenVerdict = Literal["hidden", "noted", "told at the end", "exposed"]
"""Gone · marked as outdated where it stands · marked only elsewhere in the pack · neither. In order: the worst is last."""


AnswerVerdict = Literal["noted", "without a note", "lost"]


_HIDINGS: tuple[HiddenVerdict, ...] = ("hidden", "noted", "told at the end", "exposed")


NOTE_WORDS = re.compile(
    r"no longer|superseded|outdated|out of date|holds no more|held|obsolete|stale|replaced|former|previous|earlier|past|"
    r"not current|since changed|changed|\bold\b|\bwas\b|until|not any ?more|corrected"
)
"""What makes words in brackets, or a line that nobody said, a note that something is outdated."""


_BRACKETS = re.compile(r"\[[^\[\]]{3,300}\]")


_SUMMARY_HEADING = "summary of earlier"


_ENDS_PHRASE = " .,;:!?)\n"


NEAR = 25
"""A note counts for a value that ends at most so many characters before it."""


NEAR_KEPT = 3
"""The same, where a note would be a mistake: closer, so that a neighbour's note is not counted."""


_AROUND = 8
"""Characters around a word by which it is looked up in the conversation."""


class GuardOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    case: GuardCase
    keep: dict[str, KeptVerdict] = {}
    hide: dict[str, HiddenVerdict] = {}
    note: dict[str, AnswerVerdict] = {}
    pack: str = ""
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.error and not self.faults

    @property
    def faults(self) -> list[str]:
        return [
            *(f"{state}: {text}" for text, state in self.keep.items() if state != "kept"),
            *(f"{state}: {text}" for text, state in self.hide.items() if state not in ("hidden", "noted")),
            *(f"past {state}: {text}" for text, state in self.note.items() if state != "noted"),
        ]


def canonical(text: str) -> str:
    """A text in which case, quotation marks and the spacing of JSON, YAML and tables make no difference."""
    text = text.replace("\\n", "\n").replace("’", "'").lower()
    text = re.sub(r"[^\S\n]+", " ", re.sub(r"[\"`]", "", text))
    return re.sub(r" ?([:=,|;]) ?", r"\1", text)


def on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


class ShownText:
    """A text that a model is shown. Notes in brackets are taken out of it, and their places are known."""

    def __init__(self, text: str, conversation: str) -> None:
        """`conversation` is all that was said, canonical and on one line: a bracket from there is no note."""
        self._notes: list[tuple[int, str]] = []
        self.text = self._take_notes_out(canonical(text), conversation)
        self.remarks = [line for line in self.text.split("\n") if is_remark(line, conversation)]

    def _take_notes_out(self, text: str, conversation: str) -> str:
        kept, length, last = [], 0, 0
        for found in _BRACKETS.finditer(text):
            note = found.group()
            if on_one_line(note) in conversation or not NOTE_WORDS.search(note):
                continue
            before = text[last : found.start()]
            if text[found.end() : found.end() + 1] in _ENDS_PHRASE:
                before = before.rstrip(" ")
            kept.append(before)
            length, last = length + len(before), found.end()
            self._notes.append((length, note))
        return "".join((*kept, text[last:]))

    def find(self, wanted: str) -> list[tuple[int, int]]:
        """Where a text stands as whole words, across line ends too."""
        words = on_one_line(canonical(wanted))
        pattern = re.escape(words).replace(r"\ ", r"\s+")
        left = r"(?<!\w)" if words[0].isalnum() else ""
        right = r"(?!\w)" if words[-1].isalnum() else ""
        return [found.span() for found in re.finditer(left + pattern + right, self.text)]

    def is_noted(self, span: tuple[int, int], names: Collection[str], near: int = NEAR) -> bool:
        """A note stands in this place or right behind it; or one that has one of the names, later in the paragraph; or
        the line is itself a remark on what changed."""
        start, end = span
        paragraph_end = self._end("\n\n", end)
        for at, note in self._notes:
            if start < at <= end + near:
                return True
            if end < at <= paragraph_end and any(name in note for name in names):
                return True
        line = self.text[self.text.rfind("\n", 0, start) + 1 : self._end("\n", end)]
        return bool(names) and line in self.remarks

    def _end(self, mark: str, start: int) -> int:
        found = self.text.find(mark, start)
        return len(self.text) if found < 0 else found


def is_remark(line: str, conversation: str) -> bool:
    """The line speaks of what is outdated, in words that nobody in the conversation used."""
    for found in NOTE_WORDS.finditer(line):
        around = on_one_line(line[max(0, found.start() - _AROUND) : found.end() + _AROUND]).strip()
        if around not in conversation and not line[: found.end()].startswith(_SUMMARY_HEADING):
            return True
    return False


def run_guard(case: GuardCase, guard: str | None = None) -> GuardOutcome:
    """Play one case. Any error is part of the outcome."""
    try:
        with World(guard) as world:
            for fact in case.facts_before:
                world.assert_fact(fact, fact.value)
            for step in case.conversation:
                world.play(step)
            pack, history = world.read_pack(), world.read_history()
    except Exception as error:  # noqa: BLE001 - one case that fails takes no other with it
        return GuardOutcome(case, error=f"{type(error).__name__}: {error}")
    said = on_one_line(canonical("\n".join(text for step in case.conversation for text in spoken_texts(step))))
    shown, rendered = ShownText(pack, said), ShownText(history, said)
    changes = [step.change for step in case.conversation if step.change is not None]
    names = {canonical(str(each)) for change in changes for each in (change.key, change.value)}
    values = {canonical(str(fact.value)) for fact in case.facts_before}
    return GuardOutcome(
        case,
        keep={text: judge_kept(text, shown, values) for text in case.must_keep},
        hide={text: judge_hidden(text, (shown, rendered), names) for text in case.must_hide},
        note={text: judge_answered(text, shown, names) for text in case.must_note},
        pack=pack,
    )


def spoken_texts(step: Step) -> Iterator[str]:
    """The texts of a step that are part of the conversation."""
    if step.role == "tool":
        if isinstance(step.result, str):
            yield step.result
        else:
            yield to_json_text(step.result, sort_keys=False)
            yield to_json_text(step.result, sort_keys=True)
        yield to_json_text(step.args, sort_keys=True)
    elif step.environment is not None:
        yield f"{step.environment.name}: {step.environment.value}"
    elif step.change is None:
        yield step.summary or step.frame or step.text


def to_json_text(value: Any, *, sort_keys: bool) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=sort_keys)


def judge_kept(text: str, shown: ShownText, values: Collection[str]) -> KeptVerdict:
    spans = shown.find(text)
    if not spans:
        return "lost"
    words = on_one_line(canonical(text))
    has_value = any(has_word(words, value) for value in values)
    marked = has_value and all(shown.is_noted(span, (), NEAR_KEPT) for span in spans)
    return "kept, with a note" if marked else "kept"


def judge_hidden(text: str, views: Sequence[ShownText], names: Collection[str]) -> HiddenVerdict:
    """The worst of all places."""
    states: list[HiddenVerdict] = ["hidden"]
    for view in views:
        elsewhere: HiddenVerdict = (
            "told at the end" if any(name in line for line in view.remarks for name in names) else "exposed"
        )
        states += ["noted" if view.is_noted(span, names) else elsewhere for span in view.find(text)]
    return max(states, key=_HIDINGS.index)


def judge_answered(text: str, shown: ShownText, names: Collection[str]) -> AnswerVerdict:
    spans = shown.find(text)
    if not spans:
        return "lost"
    return "noted" if any(shown.is_noted(span, names) for span in spans) else "without a note"
