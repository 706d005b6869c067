"""Parts of a message that are not statements of the speaker: code, mail, pasted threads, dictation, quotations.

They are replaced by spaces, so that no rule reads them and all positions stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.text.expressions import compile_late
from holdfast.text.words import word_set

QUOTED_WORDS = 3
"""From this many words, a quotation is a sentence; a shorter one is a name or a value."""
THREAD_LINES = 2
"""From this many lines that begin with the name of a speaker, a text is a pasted conversation."""
REQUEST_CHARACTERS = 400
"""The characters of a request for a text that are searched for its end."""
_FLAGS = re.IGNORECASE
_FENCE = compile_late(r"```[^`]{0,6000}(?:```|\Z)")
_CODE = compile_late(r"`[^`\n]{1,400}`")
_QUOTED_LINE = compile_late(r"^[ \t]{0,8}>[^\n]{0,2000}", re.MULTILINE)
_HEADER = compile_late(
    r"^[ \t]{0,8}(?:from|subject|sent|cc|betreff|gesendet|von):[ \t]\S[^\n]{0,300}\n|"
    r"^[ \t]{0,8}-{2,8} ?(?:original|forwarded) message[^\n]{0,80}|^[^\n]{0,120}\bwrote:[ \t]{0,8}$|"
    r"^[ \t]{0,8}(?:dear|hi|hello) (?:customer|sir|madam|user|member|valued|guest|passenger|client)\b",
    _FLAGS | re.MULTILINE,
)
"""The beginning of a mail."""
_SPEAKER = compile_late(
    r"^[ \t]{0,8}(?:\[[^\]\n]{1,30}\][ \t]{0,4}|\d{1,2}:\d{2}[ \t]{0,4}(?:[ap]m)?[ \t]{0,4}[-–]?[ \t]{0,4})?"
    r"<?@?(?P<who>[^\W\d_][\w.-]{0,20}(?: [A-Z][\w.-]{0,20})?)>?(?: \([^)\n]{1,30}\))?[ \t]?:[ "
    r"\t](?P<line>[^\n]{1,500})$",
    re.MULTILINE,
)
_FIELDS = word_set(
    "name email mail e-mail phone mobile tel telephone address street city town date time price budget iban url link "
    "website hotel flight gate seat room meeting deadline title status theme language note update correction fyi ps"
)
"""Words before a colon that are no speaker."""
_DOCUMENT = (
    r"(?:e-?mails?|mails?|messages?|texts?|letters?|notes?|reviews?|comments?|posts?|tweets?|articles?|snippets?|logs?|"
    r"outputs?|tutorials?|docs|readme|transcripts?|threads?|tickets?|clauses?|passages?|paragraphs?|lines?|sentences?|"
    r"quotes?|lyrics|excerpts?|chats?|conversations?|stor(?:y|ies)|novels?|poems?|essays?|scripts?|scenes?|dialogues?|"
    r"examples?|templates?|replies|reply|memos?|announcements?|press release|blog|headlines?|captions?|configs?|code|"
    r"functions?|files?|sms|voicemails?|screenshots?|ads?|cards?|speech|toasts?|invitations?|invites?|summar(?:y|ies)|"
    r"letters?|briefs?|mock-?ups?|slides?|subject lines?|auto-?repl(?:y|ies)|out-of-office)"
)
_COMPOSE = compile_late(
    r"(?:(?<=^)|(?<=[.!?;:,\n]\s)|(?<=\n)|\b(?:please|pls|you|u|me|and|to|then|just|also|let's|help|now|can)\s)"
    r"(?:\s{0,4})(?P<verb>(?:re-?)?(?:write|draft|compose|translate|summari[sz]e|paraphrase|proofread|rephrase|reword|"
    r"dictate|type out|mock up|role-?play|simulate|invent|make up|read out|spell-?check|sketch|brainstorm|"
    r"outline)\b(?!\s?:))",
    _FLAGS,
)
"""A request for a text: the words behind it are the content of that text."""
_EXHIBIT = compile_late(
    r"\b(?:explain|debug|analy[sz]e|parse|fix|review|check|look at|read|see|got|received|forwarded|here'?s|here is|"
    r"this is|found|saw|pasted?|says?|reads?|goes|like|called|following|below)\b[^.!?\n:]{0,80}\b"
    + _DOCUMENT
    + r"\b[^.!?\n:]{0,60}:"
    r"|\b(?:that|which|it|sign|screen|mail|email|letter|note|text|message|article|post|voicemail|reply|template|line|"
    r"sentence|one) (?:just )?(?:says?|said|reads?|goes|saying|reading)\s{0,2}[:,]"
    r"|\b(?:send|email|text|message|post|reply|answer|forward)\b[^.!?\n:]{1,40}\b(?:this|that|back|them|him|her|"
    r"everyone)\s?:"
    r"|\b(?:paste|type|enter|copy|print|echo|display|fill in)\b[^.!?\n:]{0,40}:(?=\s)"
    r"|\b(?:the following|as follows|for example|for instance|e\.g\.|something like|along the lines of|such as)\s?[:,]",
    _FLAGS,
)
"""The introduction of somebody else's text, with a colon."""
_FICTION = compile_late(
    r"\b(?:fictitious|fictional|fictive|imaginary|made-up|invented|hypothetical)\s[^\W\d_]"
    r"|\b(?:prepar|writ|creat|mak|design|draft|work|solv|grad|need|want|giv)(?:e|ing|ing on)?(?: \w{1,12}){0,4} "
    r"(?:case stud(?:y|ies)|word problems?|(?:exam|quiz|test|homework|interview|practice) (?:questions?|problems?)|"
    r"thought experiment|role-?play|screenplay|fairy tale|short story)\b",
    _FLAGS,
)
"""The introduction of a fictional text."""
_PROOF = compile_late(
    r"\b(?:grammar|grammatical(?:ly)?|proof-?read(?:ing)?|(?:correct|proper|good|natural) english|punctuation|"
    r"sounds? (?:natural|polite|rude|too formal|professional|friendly|idiomatic))\b",
    _FLAGS,
)
"""A question about wording: nothing in the message is a statement."""
_SAMPLE = compile_late(r"\b(?:examples?|samples?|dummy|placeholder)\b[^.!?\n:]{0,40}:(?=\s)", _FLAGS)
_QUOTATION = compile_late(
    r"\"(?P<a>[^\"\n]{1,400})\"|“(?P<b>[^”\n]{1,400})”|«(?P<c>[^»\n]{1,400})»|(?<![\w])'(?P<d>[^'\n]{1,300})'(?!\w)|"
    r"‘(?P<e>[^’\n]{1,300})’(?!\w)"
)
_SAYING = compile_late(
    r"\b(?:says?|said|saying|reads?|reading|like|wrote|writes?|text|message|line|sentence|subject|titled?|tweeted|"
    r"posted|asked|told|quote|example|phrase|words|string|input|e\.g\.|answer|reply)\s?[:,]?\s{0,3}$",
    _FLAGS,
)
_VERBAL = compile_late(
    r"\b(?:is|are|was|were|has|have|will|should|must|can|changed?|moved?|set|cancel\w*|please|my|our|your|i|we)\b|[:=]",
    _FLAGS,
)
_STOP = compile_late(r"[.!?](?=\s|\Z)|\n")
_COLON = compile_late(r"(?<!\d):(?!/)|:(?=\s)")
_DISOWNMENT = compile_late(
    r",?(?: which)?(?: (?:is|was|are|were|has been|turned out))?(?: [\w-]{1,15}){0,2}? (?:wrong|incorrect|outdated|"
    r"mistaken|invalid|obsolete|false|void|superseded|no longer|not (?:true|right)|based on)\b",
    _FLAGS,
)
"""Behind a quotation that is called wrong: the rules must read it."""


def blank_quotations(text: str) -> str:
    """Replace everything that is no statement of the speaker by spaces. The length stays the same."""
    for spans in (_find_code, _find_mail, _find_thread, _find_quotations, _find_requested_texts, _find_fiction):
        text = _blank_spans(text, spans(text))
    return text


def _blank_spans(text: str, spans: Iterator[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if end <= at:
            continue
        start = max(start, at)
        parts.append(text[at:start])
        parts.append("".join(char if char == "\n" else " " for char in text[start:end]))
        at = end
    return "".join(parts) + text[at:]


def _find_code(text: str) -> Iterator[tuple[int, int]]:
    for match in _FENCE.finditer(text):
        yield match.span()
    for match in _CODE.finditer(text):
        if len(match[0].split()) >= QUOTED_WORDS:
            yield match.span()


def _find_mail(text: str) -> Iterator[tuple[int, int]]:
    for match in _QUOTED_LINE.finditer(text):
        yield match.span()
    header = _HEADER.search(text)
    if header is not None:
        yield header.start(), len(text)


def _find_thread(text: str) -> Iterator[tuple[int, int]]:
    lines = [match for match in _SPEAKER.finditer(text) if _is_speaker(match["who"])]
    if len(lines) >= THREAD_LINES and any(_VERBAL.search(line["line"]) for line in lines):
        yield lines[0].start(), lines[-1].end()


def _is_speaker(name: str) -> bool:
    return not any(part.lower() in _FIELDS for part in name.split())


def _find_quotations(text: str) -> Iterator[tuple[int, int]]:
    for match in _QUOTATION.finditer(text):
        inner = next(group for group in match.groups() if group is not None)
        is_speech = _SAYING.search(text, max(0, match.start() - 40), match.start()) is not None
        sentence = len(inner.split()) >= QUOTED_WORDS and _VERBAL.search(inner) is not None
        if (is_speech and len(inner.split()) > 1) or (sentence and not _DISOWNMENT.match(text, match.end())):
            yield match.span()


def _find_requested_texts(text: str) -> Iterator[tuple[int, int]]:
    """From a request for a text to the end of its sentence, or to the end of the message if it has a colon."""
    for match in _COMPOSE.finditer(text):
        start = match.start("verb")
        stop = _STOP.search(text, start, start + REQUEST_CHARACTERS)
        end = stop.end() if stop else min(len(text), start + REQUEST_CHARACTERS)
        yield start, len(text) if _COLON.search(text, start, end) else end
    for match in _EXHIBIT.finditer(text):
        yield match.end(), len(text)


def _find_fiction(text: str) -> Iterator[tuple[int, int]]:
    """Fictional texts, and texts that are shown for their wording."""
    if _PROOF.search(text):
        yield 0, len(text)
        return
    for pattern in (_FICTION, _SAMPLE):
        match = pattern.search(text)
        if match is not None:
            yield match.start(), len(text)
