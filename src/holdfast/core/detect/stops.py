"""Full stops that end no sentence: `Dr. Reyes`, `St. Mary's`, `Müller & Co. KG`, `A. J. Vandenberg`."""

from __future__ import annotations

import re

_TOKEN_CHARACTERS = 12
"""Before a full stop: no abbreviation is longer."""

_BEFORE_NAME = re.compile(
    r"dr|mr|mrs|ms|mx|prof|st|ste|mt|ft|rev|hon|capt|cpt|lt|col|gen|sgt|sr|sra|fr|br|ing|dipl|mag|vs|dept|univ|mme|mlle"
)
"""What they shorten is followed by a name."""
_BEFORE_NUMBER = re.compile(r"no|nr|tel|ext|approx|fig|vol|ca|pp?")
_BEHIND_NAME = re.compile(
    r"inc|ltd|co|corp|bros|jr|sr|rd|ave|blvd|ln|sq|hwy|pl|str|est|etc|p\.m|a\.m|ph\.d|m\.d|u\.s|u\.k|u\.s\.a|e\.g|i\.e|b\.sc|"
    r"m\.sc|b\.a|m\.a|s\.a|s\.p\.a|a\.g|e\.v|d\.c|hrs|hr|mon|tues?|wed|thur?s?|fri|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
"""They close a name or an amount: behind them a sentence may begin."""
_TOKEN = re.compile(r"(?<![\w.])[^\W\d_]+(?:\.[^\W\d_]+)*$")
_LEGAL_FORM = re.compile(r"\s(?:KG|KGaA|OHG|Ltd|Inc|LLC|LLP|PLC|plc|Pty|SA|AG|GmbH)\b")
_INITIAL_BEFORE = re.compile(
    r"(?:^|[\s.(])(?:(?:[A-Z]|[Dd]r|[Mm]rs?|[Mm]s|[Pp]rof)\.|[A-Z][a-z]+|is|are|be|by|to|with|called|now|as)\s?$"
)
_NAME_BEHIND = re.compile(r"\s?[A-Z](?:\.|[\w'-]+)")
_OPENER = re.compile(
    r"\s(?:Please|Can|Could|The|My|Our|It|This|That|I|We|You|Thanks|And|But|So|If|What|When|Then|Also|No|Not|Yes|Is|"
    r"Are|They|He|She|There|Just|Let)\b"
)


def ends_sentence(text: str, at: int) -> bool:
    """Whether the full stop at a place ends a sentence, and does not belong to an abbreviation."""
    found = _TOKEN.search(text[max(0, at - _TOKEN_CHARACTERS) : at])
    if found is None:
        return True
    word = found[0].lower()
    if re.match(r"\s*$", text[at + 1 : at + 3]) and at + 3 >= len(text):
        return True
    behind = text[at + 1 : at + 1 + 2 * _TOKEN_CHARACTERS]
    if _BEFORE_NUMBER.fullmatch(word):
        return re.match(r"\s?#?\d", behind) is None
    if _BEFORE_NAME.fullmatch(word):
        return re.match(r"\s[\w\"'(]", behind) is None or _OPENER.match(behind) is not None
    if _BEHIND_NAME.fullmatch(word):
        return (
            re.match(r"\s+[^\W\d_]", behind) is not None
            and behind.lstrip()[:1].isupper()
            and (_LEGAL_FORM.match(behind) is None)
        )
    if len(word) == 1 and found[0].isupper():
        ahead = text[max(0, at - 1 - 2 * _TOKEN_CHARACTERS) : at - 1]
        if re.match(r"\s?[A-Z]\.", behind):
            return False
        named = _NAME_BEHIND.match(behind) is not None and _OPENER.match(behind) is None
        return not (named and _INITIAL_BEFORE.search(ahead))
    return True


def is_abbreviated(text: str, at: int) -> bool:
    """Whether the full stop at a place belongs to the word before it, even if it ends a sentence too."""
    found = _TOKEN.search(text[max(0, at - _TOKEN_CHARACTERS) : at])
    word = found[0].lower() if found else ""
    return word != "st" and (_BEHIND_NAME.fullmatch(word) or _BEFORE_NAME.fullmatch(word)) is not None
