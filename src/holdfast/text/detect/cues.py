"""English phrases that say that something changes, ends, is hypothetical or is a question.

The phrases have no subject: keys and values say what a sentence is about. A space in a phrase matches any white space.
Every repetition is bounded.
"""

from __future__ import annotations

import functools
import re

from holdfast.text.expressions import compile_late
from holdfast.text.words import Sentence, split_sentences

CUE_WORDS = 2
"""The number of words of a cue in a reason, so that a reason never contains a value."""


def _compile(text: str) -> re.Pattern[str]:
    return compile_late(text.replace(" ", r"\s"), re.IGNORECASE)


def _compile_any(*phrases: str) -> re.Pattern[str]:
    return _compile(r"\b(?:" + "|".join(phrases) + r")\b")


def _compile_opening(*phrases: str) -> re.Pattern[str]:
    """Phrases at the beginning of a text, behind at most two opening words."""
    opener = r"ok(?:ay)?|great|good|hmm?|well|oh|uh|um|hey|so|and|but|then|thanks|thank you|alright|all right|i guess"
    return _compile(r"^\W{0,20}(?:(?:" + opener + r")\W+){0,2}(?:" + "|".join(phrases) + r")\b")


_TO = r"(?: [\w'$%,-]{1,20}){0,8}? to"
_CHANGE_VERB = (
    r"(?:chang|switch|mov|updat|revis|reschedul|postpon|push|shift|adjust|amend|replac|bump|delay|extend|rais|lower|"
    r"reduc|cut|reassign|reallocat|relocat|redirect|divert|transfer)(?:e|ed|es|ing|s|t)?"
)
CORRECTION = _compile_any(
    r"actually|instead|rather|correct(?:ion|ed)|scratch that|on second thoughts?|i mean(?:t)?|meant to say",
    r"changed? (?:of plans?|my mind)|changed? in (?:my |our |the )?plans?|plans? (?:has |have )?changed",
    r"make (?:it|that|them)|change (?:it|that)|(?:no|oh|uh)[, ]+wait|wait[, ]+no|not right|wrong|mistaken?|misspoke",
    r"overrid(?:e|es|ing|den)|overrode|overrul(?:e|ed|ing)|(?:replac|supersed|overwrit)(?:e|es|ed|ing|ten)",
    _CHANGE_VERB + r"(?=" + _TO + r"\b)",
    r"should (?:now )?be|as of (?:now|today|this|yesterday)|(?:is|are|will) now|now (?:is|are|at|it's|set)|rescheduled",
    r"from now on|effective immediately|going forward|no longer|any ?more|go(?:ing)? back to|revert(?:ed|ing)?|back to",
    r"forget (?:that|it|about)|never ?mind|that was|used to be|down to|new (?:plan|date|time|number)",
    r"update(?= ?:)|correction(?= ?:)",
)
"""A correction."""
STRONG = _compile_any(
    r"actually|instead|correction|scratch that|on second thoughts?|changed? (?:of plans?|my mind)|make (?:it|that)",
    r"no[, ]+wait|wait[, ]+no|i meant|meant to say|overrid(?:e|ing|den)|overrode|no longer|as of (?:now|today)",
    r"(?:change|switch|move|update|set|push|revise) (?:it|that|this|them)",
    r"(?:moved|changed|switched|rescheduled|updated|postponed|pushed|revised)(?=" + _TO + r"\b)",
    r"(?:is|are) now|(?:is|are|\w{1,4}'(?:m|s|re))(?= (?:[\w-]+ ){1,4}now\b(?! \w))",
)
"""A correction that has no other meaning."""
RETRACTION = _compile_any(
    r"no longer|cancel(?:s|led|ed|ing|lation)?|scratch (?:that|it|the)|forget (?:that|it|about|what)|never ?mind|"
    r"disregard",
    r"ignore (?:that|what|my|the)|(?:not|\w{2,6}n't) (?:true|the case)|call(?:ed|ing)? off|hold(?:ing)? off|"
    r"revok(?:e|ed|es|ing)",
    r"rescind(?:ed|s|ing)?|withdr(?:aw|awn|ew)|retract(?:ed|s)?|invalid(?:ated)?|void(?:ed)?|off the table|take back",
    r"drop(?:ped|ping)? (?:the|that|it)|based on (?:incorrect|wrong|outdated|bad)",
    r"(?:needs?|ha(?:s|ve)|ought) to be re(?:calculated|considered|evaluated|done|made|viewed|vised|worked|drawn|thought)",
    r"(?<![\w'] )(?<!\w)forget (?:the|my|our|your)|(?:please|just|so|and) forget (?:the|my|our|your)",
)
"""A retraction, without a new value."""
REJECTION = _compile_opening(
    r"no|nope|nah|not (?:quite|exactly|really|right)|wait|sorry|i'?m sorry|apologies|that(?:'s| is) (?:not|wrong|"
    r"incorrect)|wrong|incorrect"
)
ASSENT = _compile_opening(
    r"yes|yeah|yea|yep|yup|sure|ok(?:ay)?|okey|fine|perfect|great|good|sounds \w+|absolutely|definitely|of course|"
    r"correct|works? for",
    r"(?:that|this|it)(?: (?:one|time|date|also|still|all))?(?:'s|'ll| is| will| would| should)? (?:\w+ ){0,2}?"
    r"(?:works?|fine|good|great|perfect|do|ok(?:ay)?|suits?|acceptable|nice|well|awesome|alright|right|correct)",
    r"i(?:'m| am) (?:good|fine|ok(?:ay)?) with|i suppose|go ahead|please do|do (?:it|that)|let'?s do",
    r"i(?:'ll| will| can) (?:take|do|make|go|change)",
)
CLOSING = _compile_any(r"that(?:'s| 's| is| was| will be) (?:all|it|everything)|all set|good ?bye|bye")
MORE = _compile_any(r"else|others?|another|different|alternatives?|more options|again|instead|what about|how about")
"""A request for something else."""
ALSO = _compile_any(r"also|as well|too|in addition|additionally|besides|both|plus|separately|meanwhile|and then")
"""A request for something in addition."""
KEEP = _compile_any(r"keep|keeping|still|stays?|remains?|unchanged|leave|same")
FAILURE = _compile_any(
    r"sorry|unfortunately|apolog\w+|unable|unsuccessful|unavailable|fail(?:ed|ure)?|went wrong|issue|no luck|cannot",
    r"(?:could|was|were|is|are|do|does|did|ca) ?n[o']t|(?:could|can|was|did) not|there (?:are|is) (?:no|n't|not)",
    r"not (?:available|successful|possible|able|find|found)|no (?:\w+ ){1,6}(?:available|found|match\w*|that)",
)
CONFIRMATION = _compile_any(
    r"confirm\w*|verify|correct|right|make sure|double check|to be clear|is this ok|booking|reserving|scheduling"
)
OPEN_QUESTION = _compile_any(r"what|which|when|where|who|how (?:many|much|long)|any particular|do you have an?")
OFFER = _compile_any(
    r"how (?:about|does)|what about|what do you|would you|do you (?:want|wish)|want to|(?:should|shall|may|can|"
    r"could) i|does|try",
    r"instead|alternatively|alternative|another|available|suggest|are you ok|is that ok",
)
ALTERNATIVE = _compile_any(r"(?:how|what) about|instead|alternatively")
"""An offer of an alternative."""
WORKS = _compile_any(
    r"(?:would|does|is|are|will) [^.?!\n]{1,25} (?:work|ok(?:ay)?|fine|good|suit|do)|(?:could|can|shall) we|try|only"
)
"""A question whether an offer is acceptable."""
ONLY = _compile_any(r"only|full|taken|sold out|booked up")
QUESTION = _compile_opening(
    r"what(?! (?:about|if|else|other))|when|where|who|whose|which|why|how(?! about)|does|did|was|were|has|am i",
    r"is (?:it|that|this|he|she|the|there (?:a|an|any))|are (?:they|these|those|you|we|the)|do (?:they|we|i|the)",
    r"have (?:we|they|you)|(?:can|could) i|should (?:i|we)",
)
"""A question for a fact."""
REQUEST = _compile_any(
    r"(?:can|could|would|will) (?:you|we)|(?:how|what) about|(?:is|are) there|do you have|please|anything|"
    r"what (?:else|other)"
)
"""A request in the form of a question."""
HYPOTHETICAL = _compile_any(
    r"what if|suppos(?:e|ing)|hypothetical(?:ly)?|theoretically|in theory|imagine|let'?s say|say we|assum(?:e|ing)|"
    r"pretend",
    r"if (?:we|they|i|he|she|it|you) (?:were|was|had|did|could|went|bought|chose|moved|changed|wanted|dropped?|drops)",
    r"if(?= \w+ (?:drops?|falls?|rises?|fails?)\b)|worst case|best case|would have|scenario",
)
DRAFT = _compile_any(
    r"drafts?|drafting|brainstorm\w*|rough(?:ly)? (?:estimate|idea|guess|number|plan|draft)|ballpark|"
    r"tentative(?:ly)?|spitball\w*|work in progress|wip",
    r"not final|placeholder|exploratory|exploring|could (?:maybe|potentially|possibly)|working assumption|"
    r"thinking out loud",
    r"(?:maybe|might|possibly|potentially|perhaps) (?:we|i|add|could|do|use|go)|just (?:an? )?(?:idea|thought|thinking)",
    r"penciled? in|probably",
)
EXPLORATION = _compile_any(
    r"just (?:exploratory|brainstorming|exploring|an? exercise|hypothetical)|brainstorming session|"
    r"thought experiment|what-if"
)
EARNEST = _compile_any(
    r"that'?s enough|for real|real commitments?|seriously|officially|final(?:ly)?|decided|decision|done with|back to"
)
SOFT = _compile_any(
    r"tentative(?:ly)?|draft|prefer(?:s|red|ence)?|for now|maybe|thinking|proposed|provisional|estimated?|style"
)
HARD = _compile_any(
    r"must|require[sd]?|requirement|commit(?:ted|ment)|policy|always|never|max(?:imum)?|min(?:imum)?|at least|"
    r"at most|no more than",
    r"limit|cap(?:ped)?|constraint|mandatory|contract",
)
NEGATIVE_VALUE = _compile(
    r"\b(?:cancel+ed|not|no|none|never|revoked|rescinded|invalid(?:ated)?|void|withdrawn|dropped|closed|superseded|"
    r"off)\b|n't\b"
)
"""A negative value: a retraction of it says the same."""
NEGATION = _compile(
    r"(?:(?:\bnot|n't|\binstead of|\brather than|\bnever|\bwithout|\bexcept|\bthan|\bno longer) (?:\w+ )?|\bno )$"
)
"""A negation directly before a value."""
DENIAL = _compile(
    r"\b(?:do|does|did|should|would|wo|is|are|was)(?:n't| not|n not) (?:\w+ ){0,3}?(?:chang|mov|switch|updat|set|mak|"
    r"mean|think|want|need|book|push|go|try|us|happen|work|say)\w*|\b(?:never|not going to|no need to)\b"
)
"""A denial in the clause before a value."""
HEDGE = _compile_any(
    r"might|not sure|unsure|considering|thinking (?:of|about)|(?:may|could) (?:have to|need to|be|move|change)"
)
"""A possibility."""
WAS = _compile(
    r"(?:\b(?:was|were|not|no longer|instead of|rather than|replac(?:e|es|ing)|originally|previously|used to be|"
    r"formerly|old|earlier|initially|from|previous \w+|your|than)|n't) ?:? ?(?:(?:the|at|on|for|in|be|a) )?[\"'“‘(]?$"
)
"""Directly before an old value."""
ENDING = _compile(
    r"\b(?:no longer|(?:stop|quit)(?:ped|ting|s)?|g[ao]ve up|giv(?:e|ing) up|g[eo]t(?:ting)? rid of)(?: [\w'-]{1,15}){0,2}"
    r" (?:the )?[\"'“‘]?$"
)
"""Before a name that is no longer used or wanted."""
NOT_BEFORE = _compile(r"(?:\bnot|n't)(?: [\w'-]{1,15}){1,3} (?:the )?[\"'“‘]?$")
ANY_MORE = _compile(r"^[\"'”)]?(?: [\w'-]{1,15}){0,3} any ?(?:more|longer)\b")
"""Behind a name, with a negation before it."""
FROM = _compile_any(
    _CHANGE_VERB + r"(?: [\w'$%,-]{1,20}){0,8}? from|(?:went|gone|goes|going|jump(?:ed|s)|dropp?(?:ed|s)) from"
)
"""`from` before an old value, not before a place of departure."""
WAS_BEHIND = _compile(
    r"^[\"'”)]? ?(?:(?:is|are|was|were|has been) )?(?:(?:now|no longer|becomes?|became|wrong|incorrect|outdated|"
    r"off the table|based on (?:incorrect|wrong|bad|outdated))\b|→|->|=>)"
)
"""Directly behind an old value."""
_WRONG = (
    r"(?:wrong|incorrect|outdated|mistaken|invalid|obsolete|false|void|superseded|no longer|not (?:true|right)|"
    r"based on (?:incorrect|wrong|bad|outdated))"
)
QUOTATION = _compile(r"[\"“](?P<inner>[^\"”\n]{1,400})[\"”]|(?<!\w)['‘](?P<own>[^\n]{1,400}?)['’](?!\w)")
WRONG_BEFORE = _compile(
    r"\b(?:previous|earlier|prior|old|original|former|wrong|incorrect|outdated|not|n't|instead of)(?: [\w-]{1,20}){0,3}"
    r" ?[:,]? ?$"
)
WRONG_BEHIND = _compile(
    r"^,?(?: which)?(?: (?:is|was|are|were|has been|turned out))?(?: [\w-]{1,15}){0,2}? " + _WRONG + r"\b"
)
"""Around a wrong quotation."""
_RELATIVE = (
    r"(?:mother|father|mom|dad|mum|sister|brother|wife|husband|son|daughter|friend|colleague|boss|parent|coworker|"
    r"neighbou?r|aunt|uncle|cousin|client|customer|kid|roommate|partner|girlfriend|boyfriend)s?"
)
FOR_OTHERS = _compile(
    r"\bfor (?:(?:my|his|her|their|our|a|another) (?P<kin>" + _RELATIVE + r")|(?P<one>someone|somebody|anyone) else)\b"
    r"|\b(?:my|his|her|their|our) (?P<whose>" + _RELATIVE + r")'s?\b|\b(?P<else>someone|somebody) else's\b"
)
"""About somebody else."""
OF_ANOTHER = _compile(
    r"\b(?:for|of|in|at|by) (?:the other|another|a different|some other|other) \w+ (?:is|are|was|were|will|has|have)\b"
)
"""About another thing of the kind."""
NARRATIVE = _compile_any(
    r"had|went|did|ate|met|saw|took|called|visited|watched|stayed|used to|ago|yesterday|last (?:week|month|year|"
    r"night|time)|once",
    r"remember(?:ed)? when|back (?:in|then|when)|(?:was|were) \w+ed",
)
"""A narrative: it changes no plan."""
_RULING = (
    r"(?:decided|approved|wants?|said|says|asked|directed|ordered|confirmed|overrode|overruled|cut|moved|pushed|set|"
    r"told|rescinded|reduced|requires?|changed)\b"
)
AUTHORITY = _compile(
    r"^\W{0,20}\[(?P<tag>[^\]\n]{1,60})\]|\b(?:per|according to|as (?:directed|instructed|requested|decided) by|"
    r"on orders? (?:of|from)|approved by|by order of) (?:the |our |my )?(?P<per>(?-i:[A-Z][\w'&-]{0,40}(?: (?:of "
    r")?[A-Z][\w'&-]{0,40}){0,4})|[a-z]{1,40}(?: (?:team|manager|director|lead|decision|department))?)|\b(?:the |"
    r"our )(?P<who>(?-i:C[A-Z]O|VP|SVP|EVP)|board|president|director|manager|boss|management|executives?|legal|finance|"
    r"compliance|chair(?:man|woman|person)?|owner|head of \w{1,40}) (?:\w{1,40} ){0,2}?" + _RULING + r""
    r"|\b(?P<rank>(?-i:C[A-Z]O|VP)) (?:\w{1,40} ){0,3}?" + _RULING
)
"""The source that a text names."""
RATE = _compile(r"(?:\d[kKmM%]?|\b(?:percent|euro|dollar|pound|usd|eur|gbp)|[^\W\d_]s) $")
"""A rate before `per`, which names no source."""
SWITCH = _compile(
    r"^\W{0,20}(?:(?:ok(?:ay)?|so|anyway|alright|great|now|and)\W+){0,3}(?:(?P<hold>hold on|one sec(?:ond)?|"
    r"interruption|urgent|before (?:that|we continue)) ?[-–—:,]{1,3} ?|(?P<back>(?:(?:let's|let us|can we|we're|"
    r"i'm) )?(?:(?:get(?:ting)?|go(?:ing)?|com(?:e|ing)) )?back to|return(?:ing)? to|resum(?:e|ing)|continu(?:e|"
    r"ing)(?: with)?|mov(?:e|ing) on(?: to)?|switch(?:ing)? (?:gears|topics?)(?: to)?|(?:let's|let us) (?:talk|discuss|"
    r"turn)(?: (?:about|to))?|on to|next topic ?:?|regarding|speaking of|as for) )(?:the |our |"
    r"my )?(?P<topic>[^.!?\n]{1,80})|[,;] ?(?P<later>back to) (?:the |our |my )?(?P<later_topic>[^.!?,\n]{1,60})"
)
"""A change of the topic."""
SWITCH_CHARACTERS = 200
"""Read from the beginning of a sentence, because a dash that ends it may belong to the cue."""


class Mood:
    """The cues in a sentence, independent of its subject. Each is read when it is first asked for: most messages need
    few."""

    def __init__(self, text: str, sentence: Sentence) -> None:
        self._text = text
        self.sentence = sentence

    @functools.cached_property
    def correction(self) -> str:
        """The phrase of the correction, or an empty text."""
        return phrase_of(CORRECTION, self._text) or phrase_of(STRONG, self._text)

    @functools.cached_property
    def strong(self) -> bool:
        return STRONG.search(self._text) is not None

    @functools.cached_property
    def retraction(self) -> str:
        return phrase_of(RETRACTION, self._text)

    @functools.cached_property
    def asks(self) -> bool:
        return QUESTION.match(self._text) is not None and REQUEST.search(self._text) is None

    @functools.cached_property
    def hypothetical(self) -> str:
        return phrase_of(HYPOTHETICAL, self._text)

    @functools.cached_property
    def draft(self) -> str:
        return phrase_of(DRAFT, self._text)

    @functools.cached_property
    def also(self) -> bool:
        return ALSO.search(self._text) is not None

    @functools.cached_property
    def keep(self) -> bool:
        return KEEP.search(self._text) is not None

    @functools.cached_property
    def hedged(self) -> bool:
        return HEDGE.search(self._text) is not None

    @functools.cached_property
    def aside(self) -> bool:
        """A narrative, or about another thing."""
        return (NARRATIVE.search(self._text) or OF_ANOTHER.search(self._text)) is not None

    @functools.cached_property
    def whom(self) -> str:
        """The other person that it is about."""
        others = FOR_OTHERS.search(self._text)
        return next((word.lower() for word in others.groups() if word), "") if others else ""


def read_moods(text: str) -> list[Mood]:
    return [Mood(text[sentence.start : sentence.end], sentence) for sentence in split_sentences(text)]


def phrase_of(cue: re.Pattern[str], text: str) -> str:
    """The first words of a cue in a text, or an empty text."""
    match = cue.search(text)
    return " ".join(match[0].lower().split()[:CUE_WORDS]) if match else ""


def find_switch(text: str, sentence: Sentence) -> re.Match[str] | None:
    return SWITCH.search(text[sentence.start : sentence.start + SWITCH_CHARACTERS])


def find_authority(text: str) -> str:
    """The source that a text names, as it is written."""
    sources = (
        match for match in AUTHORITY.finditer(text) if not (match["per"] and RATE.search(text, 0, match.start()))
    )
    source = next(sources, None)
    if source is None:
        return ""
    name: str = source["tag"] or source["per"] or source["who"] or source["rank"] or ""
    inner = re.search(r"\(([^)]{1,40})\)", name)
    return (inner[1] if inner else name).strip()
