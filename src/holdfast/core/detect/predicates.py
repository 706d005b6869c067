"""What people say of themselves without naming the key: `I live in York now`, `we'll stay at the Mira`, `call me Ana`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from holdfast.core.detect.reading import Held, Scene
from holdfast.core.detect.shapes import Value, whole_value
from holdfast.core.detect.statements import FILL, Statement, compile_phrases, sentence_at
from holdfast.core.detect.words import word_set

MATCHES = 6
"""Places where a verb is looked at, the first ones."""
_SELF = (
    r"(?:^|(?<=[\s,.;:!?(]))(?:i|we)(?:'m|'re|'ve|'ll|'d| am| are| have| will)?(?: (?:now|just|recently|finally|"
    r"currently|both|already|also|"
    r"actually|officially|since|then|all|be|been)){0,2} "
)
_TABLE: tuple[tuple[str, frozenset[str], str], ...] = (
    (
        r"(?:live|living|moved|moving|relocated|relocating|settled|based) (?:in|to|at|over to|back to|back in)",
        word_set("address home city town residence location country street"),
        "move",
    ),
    (
        r"(?:work|working|started|starting|joined|employed)(?: (?:for|at|with|by|over at))?",
        word_set("employer company workplace job"),
        "work",
    ),
    (
        r"(?:stay|staying|stayed|booked into|checked into|checking into|booked) (?:at|in|into)?",
        word_set("hotel accommodation lodging stay"),
        "stay",
    ),
    (r"(?:drive|driving|switched to)", word_set("car vehicle"), "drive"),
    (r"(?:report|reporting|answer) to", word_set("manager boss supervisor lead"), "report"),
    (r"(?:weigh|weighing)", word_set("weight"), "weigh"),
    (r"(?:earn|earning|make|making|paid|on)", word_set("salary income pay wage"), "earn"),
    (r"(?:turned|turning|became|aged)", word_set("age"), "turn"),
    (
        r"(?:fly|flying|leave|leaving|depart|departing|set off|setting off)(?: (?:out|off))?(?: (?:on|at))?",
        word_set("departure outbound"),
        "leave",
    ),
    (
        r"(?:return|returning|(?:fly|flying|come|coming|get|getting) (?:back|home))(?: (?:on|at))?",
        word_set("return"),
        "return",
    ),
    (r"(?:arrive|arriving|land|landing|get in|getting in)(?: (?:on|at))?", word_set("arrival"), "arrive"),
    (r"(?:got|get|been|are|am|getting)?", word_set("marital relationship"), "be"),
    (
        r"(?:switched|changed|moved|migrated|upgraded|downgraded|gone|going|went)(?: over)? to",
        word_set("plan provider bank browser editor database framework tool stack subscription diet phone laptop"),
        "switch",
    ),
    (
        r"(?:use|using|on|have|running|speak|speaking|eat|eating)",
        word_set("browser editor database framework tool os laptop language"),
        "use",
    ),
    (r"(?:go by|called|named)", word_set("name nickname"), "call"),
    (r"(?:'m|am|are)?", word_set("diet"), "be"),
)
_FRAMES = [(compile_phrases(_SELF + verb + FILL), keys, cue) for verb, keys, cue in _TABLE]
_IMPERATIVE = r"(?:^|[,.;!?\n] |\b(?:please|just|can|could|you|so|and|to|now|hi|hello) )"
_ME = (
    (compile_phrases(_IMPERATIVE + r"(?:call|address) me" + FILL), word_set("name nickname"), "call"),
    (
        compile_phrases(
            _IMPERATIVE
            + r"(?:reach|call|text|ring|contact|phone|email|mail|message|write to) me (?:at|on|under|via)"
            + FILL
        ),
        word_set("phone mobile cell email mail contact"),
        "reach",
    ),
)
_STATUS = compile_phrases(
    r"\b(?:i|we)(?:'m|'re|'ve| am| are| have)?(?: (?:just|finally|now|recently|officially|been|got|gotten|get)){0,3} "
    r"(?P<status>married|divorced|engaged|widowed|separated|single)\b"
)
_NOW = re.compile(r"\s(?:now|instead|these days|from now on|nowadays)\b|,\s(?:not|no longer)\b", re.IGNORECASE)


def read_predicates(scene: Scene) -> Iterator[Statement]:
    text = scene.said.text
    yield from _status(scene)
    for frame, keys, cue in (*_FRAMES, *_ME):
        holders = [held for held in scene.held if keys & {*held.key.own} and not held.domain]
        if not holders:
            continue
        for found in islice(frame.finditer(text), MATCHES):
            sentence = sentence_at(scene.said, found.start())
            if sentence is None:
                continue
            fitting = [
                (held, value)
                for held in holders
                if (value := whole_value(held, scene.said, found.end(), sentence.end)) is not None
                and _fits(held, scene, value)
            ]
            if not fitting:
                continue
            held, value = fitting[0]
            now = _NOW.match(text, value.end) is not None or re.search(
                r"\b(?:now|just|moved|joined|switched)\b", found[0], re.IGNORECASE
            )
            certain = (
                len(fitting) == 1
                and value.certain
                and (now is not None or cue in {"call", "reach"} or _was_asked(scene, held))
            )
            yield Statement(held, value, found.start(), value.end, cue, bool(certain), changes=True)
            break


def _fits(held: Held, scene: Scene, value: Value) -> bool:
    """A name has a capital here, whatever the rest is written in: what people do is told in small letters."""
    if held.shape not in {"name", "label"}:
        return True
    return scene.said.text[value.start : value.start + 1].isupper() or bool({"diet", "language"} & {*held.key.own})


def _was_asked(scene: Scene, held: Held) -> bool:
    """Whether the other side has just asked for it."""
    if scene.last is None or "?" not in scene.last.text:
        return False
    return any(each.held is held and not each.foreign for each in scene.subjects(scene.last))


def _status(scene: Scene) -> Iterator[Statement]:
    holders = [held for held in scene.held if {"marital", "relationship"} & {*held.key.own}]
    found = _STATUS.search(scene.said.text) if len(holders) == 1 else None
    if found is None or found["status"].lower() == holders[0].text.lower():
        return
    value = Value(found.start("status"), found.end("status"))
    yield Statement(holders[0], value, found.start(), value.end, "be", certain=True, changes=True)
