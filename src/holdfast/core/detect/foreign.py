"""Parts of a message that the speaker does not state themselves: code, mail, pasted threads, dictation, quotations.

They are blanked out with spaces, so all positions stay as they are and no rule can read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.core.detect.words import word_set

QUOTED_WORDS = 3
"""A quotation of fewer words is a name or a value; a longer one is somebody's sentence."""
THREAD_LINES = 2
"""So many lines that begin with a speaker's name are a pasted conversation."""

REQUEST_CHARACTERS = 400
"""Of a request for a text, in which its end is looked for."""

_FLAGS = re.IGNORECASE
_FENCE = re.compile(r"```[^`]{0,6000}(?:```|\Z)")
_CODE = re.compile(r"`[^`\n]{1,400}`")
_QUOTED_LINE = re.compile(r"^[ \t]{0,8}>[^\n]{0,2000}", re.MULTILINE)
_HEADER = re.compile(
    r"^[ \t]{0,8}(?:from|subject|sent|cc|betreff|gesendet|von):[ \t]\S[^\n]{0,300}\n|"
    r"^[ \t]{0,8}-{2,8} ?(?:original|forwarded) message[^\n]{0,80}|^[^\n]{0,120}\bwrote:[ \t]{0,8}$|"
    r"^[ \t]{0,8}(?:dear|hi|hello) (?:customer|sir|madam|user|member|valued|guest|passenger|client)\b",
    _FLAGS | re.MULTILINE,
)
"""Where a mail begins; what follows is its text."""
_SPEAKER = re.compile(
    r"^[ \t]{0,8}(?:\[[^\]\n]{1,30}\][ \t]{0,4}|\d{1,2}:\d{2}[ \t]{0,4}(?:[ap]m)?[ \t]{0,4}[-–]?[ \t]{0,4})?"
    r"<?@?(?P<who>[^\W\d_][\w.-]{0,20}(?: [A-Z][\w.-]{0,20})?)>?(?: \([^)\n]{1,30}\))?[ \t]?:[ "
    r"\t](?P<line>[^\n]{1,500})$",
    re.MULTILINE,
)
_FIELDS = word_set(
    "name email mail e-mail phone mobile tel telephone address street city town date time price budget iban url link "
    "website hotel flight gate seat room meeting deadline title status theme language note update correction fyi ps"
)
"""Words before a colon that name what is told, not who speaks."""
_DOCUMENT = (
    r"(?:e-?mails?|mails?|messages?|texts?|letters?|notes?|reviews?|comments?|posts?|tweets?|articles?|snippets?|logs?|"
    r"outputs?|tutorials?|docs|readme|transcripts?|threads?|tickets?|clauses?|passages?|paragraphs?|lines?|sentences?|"
    r"quotes?|lyrics|excerpts?|chats?|conversations?|stor(?:y|ies)|novels?|poems?|essays?|scripts?|scenes?|dialogues?|"
    r"examples?|templates?|replies|reply|memos?|announcements?|press release|blog|headlines?|captions?|configs?|"
    r"code|functions?|files?|sms|voicemails?|screenshots?|ads?|cards?|speech|toasts?|invitations?|invites?|summar(?:y|"
    r"ies)|"
    r"letters?|briefs?|mock-?ups?|slides?|subject lines?|auto-?repl(?:y|ies)|out-of-office)"
)
_COMPOSE = re.compile(
    r"(?:(?<=^)|(?<=[.!?;:,\n]\s)|(?<=\n)|\b(?:please|pls|you|u|me|and|to|then|just|also|let's|help|now|can)\s)"
    r"(?:\s{0,4})(?P<verb>(?:re-?)?(?:write|draft|compose|translate|summari[sz]e|paraphrase|proofread|rephrase|reword|"
    r"dictate|type out|mock up|role-?play|simulate|invent|make up|read out|spell-?check|sketch|brainstorm|"
    r"outline)\b(?!\s?:))",
    _FLAGS,
)
"""The speaker asks for a text: what is said behind is its content, not theirs."""
_SHOWN = re.compile(
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
"""A text of somebody else is shown: it stands behind the colon."""
_QUOTATION = re.compile(
    r"\"(?P<a>[^\"\n]{1,400})\"|“(?P<b>[^”\n]{1,400})”|«(?P<c>[^»\n]{1,400})»|(?<![\w])'(?P<d>[^'\n]{1,300})'(?!\w)|"
    r"‘(?P<e>[^’\n]{1,300})’(?!\w)"
)
_SAYING = re.compile(
    r"\b(?:says?|said|saying|reads?|reading|like|wrote|writes?|text|message|line|sentence|subject|titled?|tweeted|posted|"
    r"asked|told|quote|example|phrase|words|string|input|e\.g\.|answer|reply)\s?[:,]?\s{0,3}$",
    _FLAGS,
)
_VERBAL = re.compile(
    r"\b(?:is|are|was|were|has|have|will|should|must|can|changed?|moved?|set|cancel\w*|please|my|our|your|i|we)\b|[:=]",
    _FLAGS,
)
_STOP = re.compile(r"[.!?](?=\s|\Z)|\n")
_COLON = re.compile(r"(?<!\d):(?!/)|:(?=\s)")
_DISOWNED = re.compile(
    r",?(?: which)?(?: (?:is|was|are|were|has been|turned out))?(?: [\w-]{1,15}){0,2}? (?:wrong|incorrect|outdated|"
    r"mistaken|invalid|obsolete|false|void|superseded|no longer|not (?:true|right)|based on)\b",
    _FLAGS,
)
"""Behind a quotation: it is taken back, so a rule has to read it."""


def blank_foreign(text: str) -> str:
    """The text with spaces in the place of all that the speaker does not say for themselves. The length stays."""
    for spans in (_code, _mail, _thread, _quotations, _composed):
        text = _blank(text, spans(text))
    return text


def _blank(text: str, spans: Iterator[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if end <= at:
            continue
        start = max(start, at)
        parts.append(text[at:start])
        parts.append("".join(each if each == "\n" else " " for each in text[start:end]))
        at = end
    return "".join(parts) + text[at:]


def _code(text: str) -> Iterator[tuple[int, int]]:
    for found in _FENCE.finditer(text):
        yield found.span()
    for found in _CODE.finditer(text):
        if len(found[0].split()) >= QUOTED_WORDS:
            yield found.span()


def _mail(text: str) -> Iterator[tuple[int, int]]:
    for found in _QUOTED_LINE.finditer(text):
        yield found.span()
    header = _HEADER.search(text)
    if header is not None:
        yield header.start(), len(text)


def _thread(text: str) -> Iterator[tuple[int, int]]:
    lines = [found for found in _SPEAKER.finditer(text) if _names_speaker(found["who"])]
    if len(lines) >= THREAD_LINES and any(_VERBAL.search(each["line"]) for each in lines):
        yield lines[0].start(), lines[-1].end()


def _names_speaker(who: str) -> bool:
    return not any(part.lower() in _FIELDS for part in who.split())


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    for found in _QUOTATION.finditer(text):
        inner = next(each for each in found.groups() if each is not None)
        spoken = _SAYING.search(text, max(0, found.start() - 40), found.start()) is not None
        sentence = len(inner.split()) >= QUOTED_WORDS and _VERBAL.search(inner) is not None
        if (spoken and len(inner.split()) > 1) or (sentence and not _DISOWNED.match(text, found.end())):
            yield found.span()


def _composed(text: str) -> Iterator[tuple[int, int]]:
    """From a request for a text to the end of its sentence; to the end of all if it is introduced by a colon."""
    for found in _COMPOSE.finditer(text):
        start = found.start("verb")
        stop = _STOP.search(text, start, start + REQUEST_CHARACTERS)
        end = stop.end() if stop else min(len(text), start + REQUEST_CHARACTERS)
        yield start, len(text) if _COLON.search(text, start, end) else end
    for found in _SHOWN.finditer(text):
        yield found.end(), len(text)
