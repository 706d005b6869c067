"""Statements in which the key is not directly before its verb, or not named.

With a key: `Ines is captain again`, `for the contact take Ben`, `the venue, which was …, is …`, `volume 25%, light 50%`.
Without a key: `I live in York now`, `we'll stay at the Mira`, `call me Ana`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from holdfast.text.detect.corrections import MATCHES, find_recent_targets, read_value_before
from holdfast.text.detect.key_phrases import KeyPhrase
from holdfast.text.detect.scene import MessageText, Scene, TargetFact, is_current
from holdfast.text.detect.shapes import ValueMatch, read_value
from holdfast.text.detect.statements import (
    FILL,
    FactStatement,
    build_statement,
    compile_phrases,
    read_after_verb,
    sentence_at,
    text_ahead,
    value_at,
)
from holdfast.text.expressions import compile_late
from holdfast.text.words import Sentence, word_set

SETTINGS = 12
"""The most settings in one message."""
LIST_ITEMS = 2
"""From this many items with commas between them, a value is a list."""
CONTEXT_CHARACTERS = 120
"""The characters before an instruction to note a value that are searched for it."""
_MODIFIER = compile_phrases(
    r"(?:, [^,.;!?\n]{1,90},|(?: that| which)? (?:we|i|you)(?:'ve|'re|'m| have| are| am)?(?: now| all)? [a-z]{2,12}"
    r"(?: [a-z]{1,12}){0,4}?)(?= (?:is|are|has|have|will|should|was|moved|changed|became|becomes)\b)"
)
"""Between a key and its verb."""
_SUCCEEDS = compile_phrases(
    r"(?P<link>(?:'s| is| are| becomes| became| has become| will be)(?P<firm>(?: now| again| officially| back|"
    r" once more| going to be| the new| as){0,3})|(?P<over>(?: has| have| is| just| now| will| was| got|"
    r" been){0,3} (?:tak(?:es?|en|ing)|took) over(?: from [^,.;!?\n]{1,30}?)? as|(?: has| have| just| now| will|"
    r" was){0,3} (?:replaced|replaces|replacing|succeeded|succeeds) [^,.;!?\n]{1,30}? as|(?: steps| stepped| comes|"
    r" came| is| was) (?:up|in|back|on board) as| returns as| returned as|(?: was| is| has been| got| has just been|"
    r" is now)(?: made| named| appointed| elected| chosen as| voted| confirmed as)))(?: the| our| my)? $"
)
"""Between a new value and the key."""
_AGAIN_BEHIND = compile_phrases(
    r"(?:,? (?:again|now|these days|once more|instead|from now on|as of now))+(?=[\s,.;!?]|$)"
)
_WHEN_BEHIND = compile_phrases(
    r" (?:yesterday|today|this (?:morning|week|month)|last (?:night|week|month)|on (?:mon|tues|wednes|thurs|fri|"
    r"satur|sun)day|in the end)\b"
)
_CLAUSE_END = compile_late(r"\s*(?:[,.;!?]|$)")
_FOR_AHEAD = compile_phrases(r"(?:^|[,;.] ?|\b(?:but|and|so|then|please) )(?P<link>as |for )(?:the |our |my )?$")
_TAKE_BEHIND = compile_phrases(
    r",?(?: please| let's| we'll| i'll| we| i| you can| now){0,2} (?:take|use|put|pick|choose|go with|make it|set|"
    r"enter|have|it's|it is|say|write|note|took|chose|picked|went with)" + FILL
)
_VALUE_AHEAD = compile_phrases(
    r"(?:^|[,;:.!] )(?P<opener>(?:(?:oh|ah|ok|okay|no|nope|sorry|wait|actually|correction|scratch that|oops|whoops|"
    r"rather|i mean|i meant|my mistake|instead|make it|make that|let's do|let's say|put|use|take|(?:we|i|they)(?:'ve|"
    r"'ll| have| will)?(?: just| finally){0,2} (?:went with|gone with|go with|chose|chosen|picked|took|take|"
    r"switched to|moved to|settled on))[\s,:–—-]{1,3}){1,3})(?P<value>[^,;!?\n]{1,40}?)(?: in the end| after all|"
    r" finally| now)? (?:for|as|on) (?:the |our |my )?$"
)
_QUESTION_BEHIND = compile_late(r"\?{1,2}\s+(?=\S)")
_ON_AHEAD = compile_phrases(
    r"\b(?:we|i)(?:'re|'m|'ve| are| am| have)?(?: now| all| just| recently| finally| since){0,2} (?:on|run|running|use|"
    r"using|at|upgraded to|updated to|moved to|switched to|migrated to|bumped to|went to) $"
)
_NOTE_AHEAD = compile_phrases(
    r"(?P<link>[,.;!–—-]{0,2} ?(?:so |and |please |pls |then |just |could you |can you |would you ){0,4}(?:(?:put|note|"
    r"save|record|enter|use|set|store|register|list|write) (?:that|it|this)(?: down)? as|that's|thats|that is|(?:chang|"
    r"updat|fix|adjust|correct|amend|edit)e?)) (?:my |our |the )$"
)
_NOTE_BEHIND = compile_phrases(
    r"(?: (?:accordingly|too|now|please|then|as well|to match|on [^,.;!?\n]{1,40}|in "
    r"[^,.;!?\n]{1,40})){0,3}\s*(?:[.!]|$)"
)
_OWN = compile_phrases(r"(?:^|[\s,;(])(?:i|we|i'm|i've|i'd|we're|we've|im|ive|my|our)\b")
_PAST = compile_phrases(r"\b(?:yesterday|ago|once|used to|was|were|paid|earned|had)\b")
_INTRODUCES = compile_phrases(r"\b(?:at|to|with|in|for|an?|called|joined|is|by) (?:the )?(?=[^\W_])")
_TAKE_OFF = compile_phrases(
    r"\b(?:take|remove|drop|delete|strike|cross|scratch|leave) (?:the )?(?P<item>[^,;.!?\n]{1,40}?) (?P<off>off|"
    r"from|out of)(?: of)? $"
)
_ADD_TO = compile_phrases(r"\b(?:add|put|include) (?:an? |some |the )?(?P<item>[^,;.!?\n]{1,40}?) (?:to|on|onto) $")
_DISPOSAL = compile_phrases(
    r"\b(?:i|we)(?:'ve| have)?(?: just| already| finally){0,2} (?:sold|returned|gave|given|scrapped|got rid of|sent|"
    r"cancell?ed|deleted|ditched|binned|no longer have|don't have|don't own) (?:it|that|them|that one)(?: (?:away|back|"
    r"any ?more|off))?\b"
)
_SEPARATES = compile_late(r"\s+(?=[\w.]{1,40}\s?=)|\s*(?:[,;\n]|\band\b|&)\s*(?:and\s)?", re.IGNORECASE)
_LEADS = compile_phrases(
    r"\W{0,4}(?:(?:please|pls|ok|okay|hi|hey|so|set|make|now|new settings|settings|update|fyi)[\s,:]{1,2}){0,3}"
)
_CLOSES = compile_phrases(r"(?: (?:please|pls|plz|thanks|thx|now|from now on|instead|ta)){0,2}\s{0,9}[.!]{0,3}\s{0,9}$")


def read_patterns(scene: Scene) -> Iterator[FactStatement]:
    """Read the statements of the observed message with one of these patterns."""
    message = scene.message
    yield from _read_settings(scene)
    yield from _read_disposal(scene)
    for phrase in scene.key_phrases(message):
        sentence = sentence_at(message, phrase.start)
        if sentence is None or phrase.is_foreign or not is_current(scene, phrase.target):
            continue
        for read in (
            _read_with_modifier,
            _read_successor,
            _read_for_key,
            _read_value_for,
            _read_question_answer,
            _read_version,
            _read_note,
            _read_list_change,
        ):
            yield from islice(read(message, phrase, sentence), 1)


def _read_with_modifier(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`the venue, which was …, is …`, `the password we use now is …`."""
    modifier = _MODIFIER.match(message.text, phrase.end, sentence.end)
    if modifier is None:
        return
    statement = read_after_verb(message, phrase, modifier.end(), sentence)
    if statement is not None:
        yield msgspec.structs.replace(statement, aside=modifier.span())


def _read_successor(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`Ines is captain again`, `Farid has replaced Beth as lead`."""
    ahead, low = text_ahead(message, phrase, sentence)
    successor = _SUCCEEDS.search(
        ahead if phrase.is_bare else ahead + message.text[phrase.start : phrase.start + 4].split(" ")[0] + " "
    )
    if successor is None or not phrase.has_head:
        return
    again = _AGAIN_BEHIND.match(message.text, phrase.end)
    new = re.search(r"\bnew\b", message.text[phrase.start : phrase.end], re.IGNORECASE)
    firm = bool(successor["over"] or (successor["firm"] or "").strip() or again or new)
    if successor["over"] and again is None:
        again = _WHEN_BEHIND.match(message.text, phrase.end)
    if not firm or not _CLAUSE_END.match(message.text, again.end() if again else phrase.end):
        return
    value = read_value_before(message, phrase.target, sentence.start, low + successor.start("link"))
    if value is not None and (value.certain or not phrase.is_bare):
        yield build_statement(phrase, value, value.start, "", "succeeds", changes=True)


def _read_for_key(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`for billing contact take Sunniva`."""
    ahead, low = text_ahead(message, phrase, sentence)
    start = _FOR_AHEAD.search(ahead + ("" if phrase.is_bare else "the "))
    verb = _TAKE_BEHIND.match(message.text, phrase.end, sentence.end) if start else None
    if start is None or verb is None:
        return
    value = value_at(message, phrase, verb.end(), sentence.end, is_request=True)
    if value is not None and (value.certain or value.end == len(message.text.rstrip(" .!"))):
        yield build_statement(
            phrase, value, min(low + start.start("link"), phrase.start), verb["fill"], "for", changes=True
        )


def _read_value_for(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`sorry, 10:30 for the yoga class`."""
    ahead, low = text_ahead(message, phrase, sentence)
    link = _VALUE_AHEAD.search(ahead + ("" if phrase.is_bare else "the "))
    if link is None or not _CLAUSE_END.match(message.text, phrase.end):
        return
    value = value_at(message, phrase, low + link.start("value"), low + link.end("value"), is_request=True)
    if value is not None and value.end == low + link.end("value"):
        yield build_statement(phrase, value, value.start, "", "for", changes=True)


def _read_question_answer(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`The new treasurer? Beth.`"""
    question = _QUESTION_BEHIND.match(message.text, phrase.end)
    new = re.search(r"\bnew\b", message.text[phrase.start : phrase.end], re.IGNORECASE)
    answer_sentence = sentence_at(message, question.end()) if question else None
    if (
        question is None
        or new is None
        or answer_sentence is None
        or message.text[sentence.start : phrase.start].strip(" \n")
    ):
        return
    value = value_at(message, phrase, question.end(), answer_sentence.end)
    if value is None or not value.certain or message.text[value.end : answer_sentence.end].strip(" .!\n"):
        return
    if len(message.text[value.start : value.end].split()) <= len(phrase.target.text.split()):
        yield build_statement(phrase, value, value.start, "", "told", changes=True)


def _read_version(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`we're on postgres 16.2`: a word of the key, and the value directly behind it."""
    ahead, low = text_ahead(message, phrase, sentence)
    verb = _ON_AHEAD.search(ahead)
    if verb is None or phrase.target.shape not in {"typed", "code", "quantity", "token"}:
        return
    gap = re.match(r"\s(?:v(?=\d)|version\s)?", message.text[phrase.end : phrase.end + 9])
    value = read_value(phrase.target, message, phrase.end + gap.end(), sentence.end) if gap else None
    if value is not None and value.certain and phrase.rivals == 0:
        yield FactStatement(phrase.target, value, low + verb.start(), value.end, "on", certain=True, changes=True)


def _read_note(message: MessageText, phrase: KeyPhrase, _: Sentence) -> Iterator[FactStatement]:
    """`I'm at the Larch Clinic now, so put that down as my workplace`."""
    low = max(0, phrase.start - CONTEXT_CHARACTERS)
    ahead = message.text[low : phrase.start] + ("" if phrase.is_bare else "the ")
    link = _NOTE_AHEAD.search(ahead)
    if link is None or phrase.is_bare or not _NOTE_BEHIND.match(message.text, phrase.end):
        return
    stop = low + link.start("link")
    value_sentence = sentence_at(message, max(0, stop - 1))
    if (
        value_sentence is None
        or not _OWN.search(message.text, value_sentence.start, stop)
        or _PAST.search(message.text, value_sentence.start, stop)
    ):
        return
    values = [*_find_values_within(message, phrase, value_sentence.start, stop)]
    if len(values) == 1:
        value = values[0]
        statement = build_statement(phrase, value, value.start, "", "noted", changes=True)
        yield msgspec.structs.replace(statement, stop=value.end)


def _find_values_within(message: MessageText, phrase: KeyPhrase, low: int, stop: int) -> Iterator[ValueMatch]:
    """The values in a clause that fit a fact."""
    target = phrase.target
    if target.shape == "typed":
        candidates = {match.start for match in message.by_kind.get(target.kind, ()) if low <= match.start < stop}
    elif target.shape in {"name", "label", "code", "token", "address"}:
        candidates = {match.end() for match in _INTRODUCES.finditer(message.text, low, stop)}
    else:
        return
    starts: set[int] = set()
    for at in sorted(candidates):
        value = read_value(target, message, at, stop)
        if (
            value is None
            or value.start in starts
            or value.doubted
            or (target.shape == "name" and not value.certain and not message.text.islower())
        ):
            continue
        starts.add(value.start)
        yield value


def _read_list_change(message: MessageText, phrase: KeyPhrase, sentence: Sentence) -> Iterator[FactStatement]:
    """`take the stove off the packing list`: one item of a list is removed or added."""
    ahead, low = text_ahead(message, phrase, sentence)
    verb = _TAKE_OFF.search(ahead) or _ADD_TO.search(ahead)
    items = [part.strip() for part in phrase.target.text.split(",")]
    if verb is None or len(items) < LIST_ITEMS or phrase.rivals or phrase.share < 1:
        return
    item = verb["item"].strip()
    remaining = [part for part in items if part.lower() != item.lower()]
    if "off" in verb.groupdict():
        if len(remaining) != len(items) - 1:
            return
    elif len(remaining) == len(items) and not re.search(r"\s(?:and|or)\s", item):
        remaining.append(item)
    else:
        return
    start = low + verb.start("item")
    value = ValueMatch(start, start + len(item), full_text=", ".join(remaining))
    yield FactStatement(phrase.target, value, low + verb.start(), phrase.end, "list", certain=True, changes=True)


def _read_disposal(scene: Scene) -> Iterator[FactStatement]:
    """`I sold it last week`: a retraction of the only fact that the conversation was about."""
    message = scene.message
    disposal = _DISPOSAL.search(message.text)
    recent = [target for target in find_recent_targets(scene) if not target.domain and target.kind != "flag"]
    if disposal is None or len(recent) != 1 or scene.last_reply is None or scene.key_phrases(message):
        return
    yield FactStatement(
        recent[0], None, disposal.start(), disposal.end(), "parted", certain=True, changes=True, change="retract"
    )


def _read_settings(scene: Scene) -> Iterator[FactStatement]:
    """`volume 25%, brightness 50%`: only keys with their values."""
    message = scene.message
    subjects = {
        phrase_at.start: phrase_at
        for phrase_at in reversed(scene.key_phrases(message))
        if phrase_at.share == 1 and (phrase_at.is_joined or not phrase_at.is_foreign)
    }
    at = _LEADS.match(message.text).end()  # type: ignore[union-attr]
    statements: list[FactStatement] = []
    for _ in range(SETTINGS):
        phrase = subjects.get(at)
        if phrase is None or phrase.rivals or not is_current(scene, phrase.target):
            return
        value_start = phrase.end + len(re.match(r"\s?[:=]?\s?", message.text[phrase.end :])[0])  # type: ignore[index]
        value = value_at(message, phrase, value_start, len(message.text), is_request=True)
        if value is None or value.doubted:
            return
        statements.append(build_statement(phrase, value, phrase.start, "", "setting", changes=True))
        closes = _CLOSES.match(message.text, value.end)
        if closes is not None:
            if len(statements) > 1 or closes[0].strip(" .!"):
                yield from statements
            return
        separates = _SEPARATES.match(message.text, value.end)
        if separates is None:
            return
        at = separates.end()


# Statements of people about themselves, without the key

_SELF = (
    r"(?:^|(?<=[\s,.;:!?(]))(?:i|we)(?:'m|'re|'ve|'ll|'d| am| are| have| will)?(?: (?:now|just|recently|finally|"
    r"currently|both|already|also|actually|officially|since|then|all|be|been)){0,2} "
)
_PREDICATES = (
    (
        r"(?:live|living|moved|moving|relocated|relocating|settled|based) (?:in|to|at|over to|back to|back in)",
        "address home city town residence location country street",
        "move",
    ),
    (r"(?:at|over at)", "address", "at"),
    (
        r"(?:work|working|started|starting|joined|employed)(?: (?:for|at|with|by|over at))?",
        "employer company workplace job",
        "work",
    ),
    (
        r"(?:stay|staying|stayed|booked into|checked into|checking into|booked) (?:at|in|into)?",
        "hotel accommodation lodging stay",
        "stay",
    ),
    (r"(?:drive|driving|switched to)", "car vehicle", "drive"),
    (r"(?:report|reporting|answer) to", "manager boss supervisor lead", "report"),
    (r"(?:weigh|weighing)", "weight", "weigh"),
    (r"(?:earn|earning|make|making|paid|on)", "salary income pay wage", "earn"),
    (r"(?:turned|turning|became|aged)", "age", "turn"),
    (
        r"(?:fly|flying|leave|leaving|depart|departing|set off|setting off)(?: (?:out|off))?(?: (?:on|at))?",
        "departure outbound",
        "leave",
    ),
    (r"(?:return|returning|(?:fly|flying|come|coming|get|getting) (?:back|home))(?: (?:on|at))?", "return", "return"),
    (r"(?:arrive|arriving|land|landing|get in|getting in)(?: (?:on|at))?", "arrival", "arrive"),
    (r"(?:got|get|been|are|am|getting)?", "marital relationship", "be"),
    (
        r"(?:switched|changed|moved|migrated|upgraded|downgraded|gone|going|went)(?: over)? to",
        "plan provider bank browser editor database framework tool stack subscription diet phone laptop",
        "switch",
    ),
    (
        r"(?:use|using|on|have|running|speak|speaking|eat|eating)",
        "browser editor database framework tool os laptop language",
        "use",
    ),
    (r"(?:(?:got|was|been|am|get) )?promoted to", "job title role position rank", "promote"),
    (r"(?:go by|called|named)", "name nickname", "call"),
    (r"(?:'m|am|are)?", "diet", "be"),
)
"""The verb, the words of keys that it implies, and the cue."""
_PREDICATE_FRAMES = [(compile_phrases(_SELF + verb + FILL), word_set(keys), cue) for verb, keys, cue in _PREDICATES]
_IMPERATIVE = r"(?:^|[,.;!?\n] |\b(?:please|just|can|could|you|so|and|to|now|hi|hello) )"
_REQUEST_FRAMES = (
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
_NOW = compile_late(r"\s(?:now|instead|these days|from now on|nowadays)\b|,\s(?:not|no longer)\b", re.IGNORECASE)


def read_predicates(scene: Scene) -> Iterator[FactStatement]:
    """Read statements that imply the key by their verb: `I live in York now`."""
    text = scene.message.text
    yield from _read_status(scene)
    for frame, keys, cue in (*_PREDICATE_FRAMES, *_REQUEST_FRAMES):
        holders = [target for target in scene.targets if keys & {*target.key.words} and not target.domain]
        if not holders:
            continue
        for match in islice(frame.finditer(text), MATCHES):
            sentence = sentence_at(scene.message, match.start())
            if sentence is None:
                continue
            fitting = [
                (target, value)
                for target in holders
                if (value := read_value(target, scene.message, match.end(), sentence.end)) is not None
                and _is_fitting(target, scene, value, cue)
            ]
            if not fitting:
                continue
            target, value = fitting[0]
            now = _NOW.match(text, value.end) is not None or re.search(
                r"\b(?:now|just|moved|joined|switched)\b", match[0], re.IGNORECASE
            )
            certain = (
                len(fitting) == 1
                and value.certain
                and (now is not None or cue in {"call", "reach", "promote"} or _was_asked(scene, target))
            )
            yield FactStatement(target, value, match.start(), value.end, cue, bool(certain), changes=True)
            break


def _is_fitting(target: TargetFact, scene: Scene, value: ValueMatch, cue: str) -> bool:
    """Whether a value fits the verb. A name must be capitalised here, because activities are in lower case."""
    if cue == "at":
        return target.shape == "address"
    if target.shape not in {"name", "label"}:
        return True
    return scene.message.text[value.start : value.start + 1].isupper() or bool(
        {"diet", "language"} & {*target.key.words}
    )


def _was_asked(scene: Scene, target: TargetFact) -> bool:
    """Whether the assistant has just asked for a fact."""
    if scene.last_reply is None or "?" not in scene.last_reply.text:
        return False
    return any(phrase.target is target and not phrase.is_foreign for phrase in scene.key_phrases(scene.last_reply))


def _read_status(scene: Scene) -> Iterator[FactStatement]:
    holders = [target for target in scene.targets if {"marital", "relationship"} & {*target.key.words}]
    match = _STATUS.search(scene.message.text) if len(holders) == 1 else None
    if match is None or match["status"].lower() == holders[0].text.lower():
        return
    value = ValueMatch(match.start("status"), match.end("status"))
    yield FactStatement(holders[0], value, match.start(), value.end, "be", certain=True, changes=True)
