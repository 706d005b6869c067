"""Values in a text: their kind, their normal form, and whether two of them are equal.

The detector, the guard and the periods of validity use this one normaliser. Every pattern is one pass over the text with
bounded repetitions: no text makes it slow. All days are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from holdfast import codec
from holdfast.model.content import Json
from holdfast.text.words import strip_plural, word_set


def value_text(value: Json) -> str:
    """Show a value as text: JSON for all but strings."""
    return value if isinstance(value, str) else codec.encode(value).decode()


# fmt: off
ValueKind: TypeAlias = Literal[
    "email", "url", "phone", "iban", "money", "percent", "time", "date", "duration", "number", "ordinal", "code", "name",
    "flag", "text", "moment",
]
# fmt: on
Norm: TypeAlias = tuple[str | float | None, ...]


class ValueMention(msgspec.Struct, frozen=True):
    """A value in a text: the characters from `start` to `end`."""

    kind: ValueKind
    start: int
    end: int
    norm: Norm
    """The normal form, comparable within its kind."""
    noun: str = ""
    """The stem of the word behind a number; `street` for a name that is an address."""
    parts: tuple[ValueMention, ...] = ()
    """The days and times of a moment."""


_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_TENS = {"thirty": 30.0, "forty": 40.0, "fifty": 50.0, "sixty": 60.0, "seventy": 70.0, "eighty": 80.0, "ninety": 90.0}
_TENS |= {"hundred": 100.0, "couple": 2.0, "dozen": 12.0}
_WORTH = {word: float(at) for at, word in enumerate(_NUMBERS.split())} | _TENS
_SCALE = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "b": 1e9, "bn": 1e9, "billion": 1e9}
_MONTH_NAMES = "january february march april may june july august september october november december"
_DAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday"
_ORDINAL_NAMES = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
)
MONTHS, _DAYS, _ORDINALS = _MONTH_NAMES.split(), _DAY_NAMES.split(), _ORDINAL_NAMES.split()
_N = r"(?:" + "|".join(sorted(_WORTH, key=len, reverse=True)) + r")"
_SPELLED = r"(?:(?:an? )?" + _N + r"(?:(?:-| and | )(?:" + _N + r"|thousand|million|billion)\b){0,5})"
"""A number in words: `twenty-five`, `three hundred and fifty`, `two thousand`."""
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)\b"
_HALF = r"(?:[ap]\.m\.|[ap]\.?m\b|(?:in the |at )?(?:morning|afternoon|evening|night)\b)"
_ROAD = r"(?:street|st|road|rd|avenue|ave|lane|drive|boulevard|blvd|highway|way|court|square|suite|apt)\b"
_CLOCK = r" ?o ?['’\"]? ?clock\b"
_TH = r"(?:st|nd|rd|th)"
_NTH = r"(?:" + "|".join(_ORDINALS) + r")\b"
_ON = r"(?:,? " + _MONTH + r" \d{1,2}" + _TH + r"?\b)?"
_YEAR = r"(?:,? (?:19|20)\d\d\b)?"
_LARGE = r"(?: ?(?:k|mn?|bn?|thousand|million|billion)\b)?"
_UNIT = r"(?:second|minute|hour|day|night|week|month|year|quarter)s?\b"
_AMOUNT = r"\d[\d,]{0,14}(?:\.\d{1,4})?"
_GROUPED = r"\d{1,3}(?:\.\d{3}){1,4}(?:,\d{2})?(?![.,]?\d)"
"""A sum of money in continental European notation: 1.200,00."""
_SUM = r"(?:" + _GROUPED + r"|" + _AMOUNT + r")"
_KINDS: dict[str, tuple[str, ...]] = {
    "code": (r"(?-i:\b[A-Z][A-Z0-9]{1,9}-\d{1,9}\b|#\d{1,9}\b)",),
    "money": (
        r"(?:\bus)?[$€£] ?" + _SUM + _LARGE,
        r"\b(?:usd|eur|gbp) ?" + _SUM + _LARGE,
        r"\b" + _SUM + _LARGE + r" (?:dollars?|bucks|euros?|pounds?|usd|eur|gbp)\b",
        r"\b" + _SUM + r"(?:k|mn?|bn?) (?:dollars?|bucks|euros?|pounds?|usd|eur|gbp)\b",
        r"\b" + _SPELLED + r" (?:dollars?|bucks|euros?|pounds?|usd|eur|gbp)\b",
        r"\b" + _SUM + r" ?[€£]",
    ),
    "percent": (r"\b" + _AMOUNT + r" ?(?:%|percent\b|per cent\b)", r"\b" + _SPELLED + r" (?:percent|per cent)\b"),
    "date": (
        r"\b\d{4}-\d{2}-\d{2}(?!\d)",
        r"\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b",
        r"\b" + _MONTH + r" (?:the )?\d{1,2}" + _TH + r"?\b(?!:)" + _YEAR,
        r"\b(?:the )?\d{1,2}" + _TH + r"? (?:of )?(?:" + _MONTH + r"|this month|next month)" + _YEAR,
        r"\b" + _NTH + r" of " + _MONTH + _YEAR,
        r"\b(?-i:" + "|".join(map(str.title, MONTHS)) + r") (?:the )?" + _NTH + _YEAR,
        r"\bthe \d{1,2}" + _TH + r"\b",
        r"\b(?:(?:next|this|last|coming) )?" + _DAY + r"(?: (?:this|next) week\b)?" + _ON,
        r"\b(?:the )?day after tomorrow\b|\b(?:later )?(?:today|tonight)\b|\btomorrow\b|\byesterday\b",
        r"\b(?:this|next|last|end of(?: the| this| next)?) (?:day|weekend|week|month|quarter|year)\b",
        r"\b(?-i:EOD|EOW)\b",
        r"\b(?-i:Q[1-4])\b" + _YEAR,
        r"\b(?-i:January|February|March|April|June|July|August|September|October|November|December)\b" + _YEAR,
    ),
    "time": (
        r"\b(?:half past|quarter past|quarter to) (?:\d{1,2}|" + _N + r")\b(?: " + _HALF + r")?",
        r"\b(?:five|ten|twenty|twenty-five) (?:past|to) (?:\d{1,2}|" + _N + r")\b(?: " + _HALF + r")?",
        r"\b\d{1,2}\.\d{2} ?(?:[ap]\.m\.|[ap]\.?m\b)",
        r"\b(?:morning|afternoon|evening) \d{1,2}(?::\d{2})?\b(?! ?(?:people|persons?|tickets?))",
        r"\b\d{1,2}:\d{2}(?: ?" + _HALF + r")?",
        r"\b(?:\d{1,2}|" + _N + r")" + _CLOCK + r"(?: " + _HALF + r")?",
        r"\b(?:\d{1,2}|" + _N + r") ?" + _HALF,
        r"\b(?:noon|midday|midnight)\b",
    ),
    "duration": (r"\b(?:\d{1,6}(?:\.\d{1,2})?|an?|" + _N + r")[ -]" + _UNIT,),
    "ordinal": (r"\b\d{1,6}" + _TH + r"\b", r"\b" + _NTH),
    "place": (
        r"(?-i:\b\d{1,6}(?:,? (?:[A-Z][\w'’]{0,30}(?:\.\w{1,9})?|\d{1,3}" + _TH + r"|" + _ROAD + r")){1,6}"
        r"(?: (?<=\w )\d{1,5})?(?:,? # ?\w{1,6}|,? #\w{1,6})?)",
    ),
    "number": (
        r"(?<![\w.])\d[\d,]{0,14}(?:\.\d{1,6})? (?:thousand|million|billion)\b",
        r"(?<![\w.])\d[\d,]{0,14}(?:\.\d{1,6})?k\b",
        r"(?<![\w.])\d[\d,]{0,14}(?:\.\d{1,6})?\b(?![-/.]\d)",
        r"\b" + _SPELLED + r"\b",
    ),
}
"""The patterns of each kind; the first match counts. A space matches any white space."""
_NAMED = re.compile(
    r"\b[A-Z][\w'’&-]{0,40}(?:\s(?:(?:of|the|de|la|&|'n'|vs\.?|Vs\.?)\s){0,2}[A-Z0-9][\w'’&-]{0,40}|,\s[A-Z]{2}\b){0,8}"
)
_VALUE = re.compile(
    "|".join(f"(?P<{kind}>{'|'.join(patterns)})" for kind, patterns in _KINDS.items()).replace(" ", r"\s"),
    re.IGNORECASE,
)
_EXACT = {
    "email": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}",
    "url": r"\b(?i:https?://|www\.)[^\s<>\"'`\])}]{3,300}",
    "iban": r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){3,7}(?:\s?[A-Z0-9]{1,3})?\b",
    "phone": r"(?<![\w.,:/$€£#-])(?:\+\d{1,3}[\s.-]?)?(?:\(\d{1,5}\)[\s.-]?)?\d{2,5}(?:[\s.-]\d{2,7}){1,4}"
    r"(?![\w%€£$]|[.,:/-]\d)|(?<![\w.])\+\d{7,15}\b|(?<![\w.,:/$€£#-])0\d{8,13}\b",
}
"""Values that are compared character by character. They are found first, so that no other kind matches part of one."""
PHONE_DIGITS = range(7, 16)
COUNTRY_DIGITS = 3
_WEB, _DIGIT = re.compile(r"www\.", re.IGNORECASE), re.compile(r"\d")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}[.-]\d{1,2}[.-]\d{2,4}")
_START = re.compile(r"[$€£#]?[^\W_]+")
_OPENERS = word_set(
    f"{_NUMBERS} {' '.join(_TENS)} {_MONTH_NAMES} {_DAY_NAMES} {_ORDINAL_NAMES} sept tues thur thurs next this last "
    "coming day later today tonight tomorrow yesterday end eod eow q1 q2 q3 q4 half quarter morning afternoon evening "
    "noon midday midnight a an us usd eur gbp"
) | {name[:3] for name in (*MONTHS, *_DAYS)}
"""The first words of values that do not begin with a digit or a sign. Matches are tried nowhere else."""
_BEHIND = re.compile(r"\s?(?:more\s|full\s|bed\s)?([^\W\d_]+)")
_NO_NOUN = r"(?:in|on|at|of|with|that|which|for|is|instead|please|from|to|and|or|as|then|by|near)\b"
_COUNTS_ONE = re.compile(r"\s(?!" + _NO_NOUN + r")[^\W\d_]", re.IGNORECASE)
"""The text behind `one` where it is a number and not a pronoun."""
_FOR_ONE = re.compile(r"\bfor one(?=\W{0,3}\Z|[,.?!;]|\s(?:on|at|in|please|today|tonight|tomorrow)\b)", re.IGNORECASE)
"""`A table for one`: a number without a noun."""
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
FLAGS = {"true": True, "yes": True, "false": False, "no": False}
OPPOSITE = {"true": "false", "yes": "no", "false": "true", "no": "yes"}
MENTIONS = 48
"""The number of values, and of names, that are read in a text."""


@lru_cache
def _compile_exact(kinds: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{_EXACT[kind]})" for kind in kinds))


def _exact_kinds(text: str) -> Iterator[str]:
    """The exact kinds that a text may contain. Most texts have none and are not searched."""
    if "@" in text:
        yield "email"
    if "://" in text or _WEB.search(text):
        yield "url"
    if _DIGIT.search(text):
        yield from ("iban", "phone")


def find_exact_values(text: str) -> list[ValueMention]:
    """Find e-mail addresses, URLs, telephone numbers and account numbers."""
    mentions: list[ValueMention] = []
    kinds = tuple(_exact_kinds(text))
    for match in _compile_exact(kinds).finditer(text) if kinds else ():
        kind, value = match.lastgroup or "", match[0]
        if kind in {"email", "url"}:
            value = value.rstrip(".,;:!?'\"*-") if kind == "url" else value.rstrip(".-")
            norm = re.sub(r"^https?://(?:www\.)?|^www\.", "", value.lower()).rstrip("/")
        else:
            norm = re.sub(r"[^0-9A-Z]", "", value.replace("(0)", "") if value[0] == "+" else value)
            if kind == "phone" and (len(norm) not in PHONE_DIGITS or _ISO_DATE.fullmatch(value)):
                continue
        mentions.append(ValueMention(kind, match.start(), match.start() + len(value), (norm,)))  # type: ignore[arg-type]
    return mentions


def find_mentions(text: str, limit: int = MENTIONS) -> list[ValueMention]:
    """Find the values of every kind except names and free text, in order and without overlaps."""
    mentions: list[ValueMention] = []
    ahead = find_exact_values(text)[::-1]
    end_of_last = 0
    for opening in _START.finditer(text):
        at = opening.start()
        if len(mentions) >= limit:
            break
        while ahead and ahead[-1].start <= at + (text[at] == "#"):
            mentions.append(ahead.pop())
            end_of_last = max(end_of_last, mentions[-1].end)
        if at < end_of_last or not _may_begin(text, opening[0], opening.end()):
            continue
        match = _VALUE.match(text, at)
        if match is None or (ahead and match.end() > ahead[-1].start):
            continue
        end_of_last = match.end()
        group = match.lastgroup or ""
        start, end = match.start(), match.end()
        value = text[start:end].rstrip(" ,.?!" if group in {"place", "date"} else " ,")
        end = start + len(value)
        if group == "place":
            mentions.append(ValueMention("name", start, end, normalise_name(value), "street"))
            continue
        norm = _normalise(group, value.lower())
        if norm is None:
            continue
        if value.lower() == "one" and not _COUNTS_ONE.match(text, end) and not _FOR_ONE.match(text, max(0, start - 4)):
            continue
        behind = _BEHIND.match(text, end) if group in {"number", "ordinal", "percent"} else None
        mentions.append(ValueMention(group, start, end, norm, strip_plural(behind[1]) if behind else ""))  # type: ignore[arg-type]
    return mentions


def _may_begin(text: str, word: str, end: int) -> bool:
    if word[0].isdigit() or word[0] in "$€£#":
        return True
    lower = word.lower()
    if lower == "the":
        return text[end + 1 : end + 2].isdigit() or text[end + 1 : end + 4].lower() == "day"
    return lower in _OPENERS or (text[end : end + 1] == "-" and text[end + 1 : end + 2].isdigit())


def find_names(text: str) -> list[ValueMention]:
    """Find runs of capitalised words. The first word of a sentence is included, although it may be no name."""
    return [
        ValueMention("name", match.start(), match.start() + len(name), normalise_name(name))
        for match in islice(_NAMED.finditer(text), MENTIONS)
        if (name := match[0].rstrip(" .,'’-&"))
    ]


def normalise_name(name: str) -> Norm:
    """The words of a name, without articles and punctuation."""
    parts = re.findall(r"[^\W_]+", name.lower().replace("’s", "").replace("'s", ""))
    return tuple(strip_plural(part) for part in parts if part not in {"the", "a", "an", "my", "our"})


def _normalise(kind: str, value: str) -> Norm | None:
    match kind:
        case "money" | "percent":
            if kind == "money" and (grouped := re.search(_GROUPED, value)):
                plain = grouped[0].replace(".", "").replace(",", ".")
                value = value.replace(grouped[0], plain)
            return (_read_amount(value),) if re.search(r"\d", value) else (_read_number(value),)
        case "number":
            return (_read_number(value),)
        case "duration":
            count, _, unit = value.replace("-", " ").partition(" ")
            unit = strip_plural(unit.strip())
            return (1.0 if count in {"a", "an"} else _read_number(count), "day" if unit == "night" else unit)
        case "ordinal":
            return (float(_ORDINALS.index(value) + 1 if value in _ORDINALS else int(value[:-2])),)
        case "time":
            return _read_time(value)
        case "date":
            return _read_date(value)
    return (value,)


def _read_amount(text: str) -> float:
    digits = _DIGITS.search(text)
    assert digits is not None
    scale = re.match(r"\s?([a-z]+)", text[digits.end() :])
    return float(digits[0].replace(",", "")) * (_SCALE.get(scale[1], 1.0) if scale else 1.0)


def _read_number(text: str) -> float:
    if text[0].isdigit():
        return _read_amount(text)
    total = part = 0.0
    for word in re.findall(r"[a-z]+", text):
        worth = _WORTH.get(word, 0.0)
        if word in _SCALE:
            total, part = total + (part or 1.0) * _SCALE[word], 0.0
        elif word in {"hundred", "dozen"}:
            part = (part or 1.0) * worth
        else:
            part += worth
    return total + part


_PAST_OR_TO = re.compile(r"(five|ten|twenty|twenty-five) (past|to) (.+)")


def _read_time(text: str) -> Norm | None:
    """Minutes since midnight, and `either` if the time may also be twelve hours later."""
    text = " ".join(text.split())
    if relative := _PAST_OR_TO.fullmatch(text):
        hour_time = _read_time(relative[3] if "m" in relative[3] else f"{relative[3]} o'clock")
        minutes = _read_number(relative[1]) * (1 if relative[2] == "past" else -1)
        return None if hour_time is None else ((float(hour_time[0] or 0) + minutes) % 1440, hour_time[1])
    if text in {"noon", "midday"}:
        return (720.0, None)
    if text == "midnight":
        return (0.0, None)
    hour = re.search(r"\d{1,2}|\b" + _N + r"\b", text)
    if hour is None:
        return None
    at = _read_number(hour[0]) * 60
    minute = re.search(r"[:.](\d{2})", text)
    at += float(minute[1]) if minute else 0.0
    if text.startswith(("half", "quarter")):
        at += 30 if text.startswith("half") else 15 if "past" in text[:14] else -15
    late = re.search(r"p\.?m|afternoon|evening|night", text)
    early = re.search(r"a\.?m\b|a\.m\.|morning", text)
    if at >= 1440:
        return None
    if late and at < 720:
        at += 720
    elif early and at >= 720:
        at -= 720
    return (at, None if late or early or at >= 780 else "either")


def _read_date(text: str) -> Norm:
    """The day of the month, the day of the week, or a word such as `tomorrow`. Nothing is added to the text."""
    iso = re.match(r"(\d{4})-(\d{2})-(\d{2})", text)
    if iso:
        return ("day", float(iso[2]), float(iso[3]), float(iso[1]))
    slashed = re.match(r"(\d{1,2})/(\d{1,2})", text)
    if slashed:
        return ("day", float(slashed[1]), float(slashed[2]), None)
    month = re.search(_MONTH, text)
    year = re.search(r"\b(?:19|20)\d\d\b", text)
    day = re.search(r"\b(\d{1,2})(?:st|nd|rd|th)?\b", text)
    if day and (month or "month" in text or re.search(r"\d(?:st|nd|rd|th)", text)):
        at = next((n for n, name in enumerate(MONTHS, 1) if name.startswith(month[0][:3])), None) if month else None
        return ("day", None if at is None else float(at), float(day[1]), float(year[0]) if year else None)
    spelled = re.search(r"\b" + _NTH, text)
    if spelled and month:
        of = next(float(n) for n, name in enumerate(MONTHS, 1) if name.startswith(month[0][:3]))
        return ("day", of, float(_ORDINALS.index(spelled[0]) + 1), float(year[0]) if year else None)
    week = re.search(_DAY, text)
    if week:
        which = "next" if "next" in text else ""
        return ("week", next(float(n) for n, name in enumerate(_DAYS) if name.startswith(week[0][:3])), which)
    return ("word", re.sub(r"\bthe |later ", "", text))


def is_same_mention(one: ValueMention, other: ValueMention) -> bool:
    """Whether two mentions have the same value. Different forms, such as a weekday and a date, count as different."""
    if one.kind != other.kind:
        return False
    a, b = one.norm, other.norm
    if one.kind == "time" and "either" in (a[1], b[1]):
        return (float(a[0] or 0) - float(b[0] or 0)) % 720 == 0
    if one.kind == "date" and a[0] == b[0] == "day":
        return a[2] == b[2] and (a[1] == b[1] or None in (a[1], b[1])) and (a[3] == b[3] or None in (a[3], b[3]))
    if one.kind == "date" and a[0] == b[0] == "week":
        return a[1] == b[1]
    if one.kind == "phone":
        return is_same_phone(str(a[0]), str(b[0]))
    if one.kind == "name":
        return bool(a) and bool(b) and (set(a) <= set(b) or set(b) <= set(a))
    return a == b


def is_same_phone(one: str, other: str) -> bool:
    """Whether two telephone numbers are the same, with or without country code and leading zero."""
    short, long = sorted((one.lstrip("0"), other.lstrip("0")), key=len)
    return len(short) >= PHONE_DIGITS.start and long.endswith(short) and len(long) - len(short) <= COUNTRY_DIGITS


def read_whole_value(text: str) -> ValueMention | None:
    """Read a text that is one value and nothing else."""
    value = text.strip()
    if value.lower() in FLAGS:
        return ValueMention("flag", 0, len(text), (float(FLAGS[value.lower()]),))
    for mention in find_mentions(value):
        remainder = value[: mention.start] + value[mention.end :]
        if not re.search(r"\w", re.sub(r"\b(?:the|at|on|in|by|of|for|about|around)\b", "", remainder.lower())):
            return mention
    return None


LATEST_US = 253_370_764_800_000_000
"""The year 9999, the last one that a date can have."""
DAY_US = 86_400_000_000
EPOCH = date(1970, 1, 1)
_DAYS_AHEAD = {"today": 0, "tonight": 0, "tomorrow": 1, "day after tomorrow": 2, "yesterday": -1}


def day_of(mention: ValueMention, time_us: int) -> date | None:
    """The calendar day of a date. Without a year, it is the first such day from the given time on."""
    kind, *parts = mention.norm
    has_year = kind == "day" and isinstance(parts[2], float)
    if mention.kind != "date" or not (has_year or 0 < time_us < LATEST_US):
        return None
    today = datetime.fromtimestamp(time_us // 1_000_000, UTC).date() if 0 < time_us < LATEST_US else EPOCH
    if kind == "day":
        return _calendar_day(today, *parts)
    if kind == "week" and isinstance(parts[0], float):
        ahead = (int(parts[0]) - today.weekday()) % 7
        return today + timedelta(days=ahead + (7 if parts[1] == "next" and ahead < 2 else 0))
    if parts and parts[0] in _DAYS_AHEAD:
        return today + timedelta(days=_DAYS_AHEAD[str(parts[0])])
    return None


def _calendar_day(today: date, month: object, day: object, year: object) -> date | None:
    if not isinstance(day, float) or (month is not None and not isinstance(month, float)):
        return None
    try:
        if isinstance(year, float):
            return date(int(year), today.month if month is None else int(month), int(day))
        day_this_year = date(today.year, today.month if month is None else int(month), int(day))
        if day_this_year >= today:
            return day_this_year
        if month is not None:
            return date(today.year + 1, int(month), int(day))
        return date(today.year + today.month // 12, today.month % 12 + 1, int(day))
    except ValueError:
        return None
