"""What English says by its turns of phrase: that something changes, ends, is only supposed, or is asked.

Each list is of a kind of phrase, not of subjects: what a sentence is about is told by the keys and values at hand. A
space in a phrase stands for any white space. No phrase repeats without a bound.
"""

from __future__ import annotations

import re

import msgspec

from holdfast.core.detect.words import Sentence, sentences

CUE_WORDS = 2
"""Of the phrase that told something, in a reason: enough to know it by, and no value gets in."""


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace(" ", r"\s"), re.IGNORECASE)


def _any(*phrases: str) -> re.Pattern[str]:
    return _pattern(r"\b(?:" + "|".join(phrases) + r")\b")


def _opening(*phrases: str) -> re.Pattern[str]:
    """At the beginning of a text, behind a word or two that only open it."""
    opener = r"ok(?:ay)?|great|good|hmm?|well|oh|uh|um|hey|so|and|but|then|thanks|thank you|alright|all right|i guess"
    return _pattern(r"^\W{0,20}(?:(?:" + opener + r")\W+){0,2}(?:" + "|".join(phrases) + r")\b")


_TO = r"(?: [\w'$%,-]{1,20}){0,8}? to"
_MOVING = (
    r"(?:chang|switch|mov|updat|revis|reschedul|postpon|push|shift|adjust|amend|replac|bump|delay|extend|rais|lower|"
    r"reduc|cut|reassign|reallocat|relocat|redirect|divert|transfer)(?:e|ed|es|ing|s|t)?"
)

CORRECTION = _any(
    r"actually|instead|rather|correct(?:ion|ed)|scratch that|on second thoughts?|i mean(?:t)?|meant to say",
    r"changed? (?:of plans?|my mind)|changed? in (?:my |our |the )?plans?|plans? (?:has |have )?changed",
    r"make (?:it|that|them)|change (?:it|that)|(?:no|oh|uh)[, ]+wait|wait[, ]+no|not right|wrong|mistaken?|misspoke",
    r"overrid(?:e|es|ing|den)|overrode|overrul(?:e|ed|ing)|(?:replac|supersed|overwrit)(?:e|es|ed|ing|ten)",
    _MOVING + r"(?=" + _TO + r"\b)",
    r"should (?:now )?be|as of (?:now|today|this|yesterday)|(?:is|are|will) now|now (?:is|are|at|it's|set)|"
    r"rescheduled",
    r"from now on|effective immediately|going forward|no longer|any ?more|go(?:ing)? back to|revert(?:ed|ing)?|"
    r"back to",
    r"forget (?:that|it|about)|never ?mind|that was|used to be|down to|new (?:plan|date|time|number)",
    r"update(?= ?:)|correction(?= ?:)",
)
"""What was said is set right."""
STRONG = _any(
    r"actually|instead|correction|scratch that|on second thoughts?|changed? (?:of plans?|my mind)|make (?:it|that)",
    r"no[, ]+wait|wait[, ]+no|i meant|meant to say|overrid(?:e|ing|den)|overrode|no longer|as of (?:now|today)",
    r"(?:change|switch|move|update|set|push|revise) (?:it|that|this|them)",
    r"(?:moved|changed|switched|rescheduled|updated|postponed|pushed|revised)(?=" + _TO + r"\b)",
    r"(?:is|are) now|(?:is|are|\w{1,4}'(?:m|s|re))(?= (?:[\w-]+ ){1,4}now\b(?! \w))",
)
"""Nothing else can well be meant."""
RETRACTION = _any(
    r"no longer|cancel(?:s|led|ed|ing|lation)?|scratch (?:that|it|the)|forget (?:that|it|about|what)|never ?mind|"
    r"disregard",
    r"ignore (?:that|what|my|the)|(?:not|\w{2,6}n't) (?:true|the case)|call(?:ed|ing)? off|hold(?:ing)? off|"
    r"revok(?:e|ed|es|ing)",
    r"rescind(?:ed|s|ing)?|withdr(?:aw|awn|ew)|retract(?:ed|s)?|invalid(?:ated)?|void(?:ed)?|off the table|take back",
    r"drop(?:ped|ping)? (?:the|that|it)|based on (?:incorrect|wrong|outdated|bad)",
    r"(?:needs?|ha(?:s|ve)|ought) to be re(?:calculated|considered|evaluated|done|made|viewed|vised|worked|drawn|thought)",
    r"(?<![\w'] )(?<!\w)forget (?:the|my|our|your)|(?:please|just|so|and) forget (?:the|my|our|your)",
)
"""What was said is taken back, and nothing need take its place."""
REJECTION = _opening(
    r"no|nope|nah|not (?:quite|exactly|really|right)|wait|sorry|i'?m sorry|apologies|that(?:'s| is) (?:not|wrong|"
    r"incorrect)|wrong|incorrect"
)
ASSENT = _opening(
    r"yes|yeah|yea|yep|yup|sure|ok(?:ay)?|okey|fine|perfect|great|good|sounds \w+|absolutely|definitely|of course|"
    r"correct|works? for",
    r"(?:that|this|it)(?: (?:one|time|date|also|still|all))?(?:'s|'ll| is| will| would| should)? (?:\w+ ){0,2}?"
    r"(?:works?|fine|good|great|perfect|do|ok(?:ay)?|suits?|acceptable|nice|well|awesome|alright|right|correct)",
    r"i(?:'m| am) (?:good|fine|ok(?:ay)?) with|i suppose|go ahead|please do|do (?:it|that)|let'?s do",
    r"i(?:'ll| will| can) (?:take|do|make|go|change)",
)
CLOSING = _any(r"that(?:'s| 's| is| was| will be) (?:all|it|everything)|all set|good ?bye|bye")
MORE = _any(r"else|others?|another|different|alternatives?|more options|again|instead|what about|how about")
"""Something in the place of what there is."""
ALSO = _any(r"also|as well|too|in addition|additionally|besides|both|plus|separately|meanwhile|and then")
"""Something beside what there is."""
KEEP = _any(r"keep|keeping|still|stays?|remains?|unchanged|leave|same")
FAILURE = _any(
    r"sorry|unfortunately|apolog\w+|unable|unsuccessful|unavailable|fail(?:ed|ure)?|went wrong|issue|no luck|cannot",
    r"(?:could|was|were|is|are|do|does|did|ca) ?n[o']t|(?:could|can|was|did) not|there (?:are|is) (?:no|n't|not)",
    r"not (?:available|successful|possible|able|find|found)|no (?:\w+ ){1,6}(?:available|found|match\w*|that)",
)
CONFIRMING = _any(
    r"confirm\w*|verify|correct|right|make sure|double check|to be clear|is this ok|booking|reserving|scheduling"
)
OPEN_QUESTION = _any(r"what|which|when|where|who|how (?:many|much|long)|any particular|do you have an?")
OFFER = _any(
    r"how (?:about|does)|what about|what do you|would you|do you (?:want|wish)|want to|(?:should|shall|may|can|"
    r"could) i|does|try",
    r"instead|alternatively|alternative|another|available|suggest|are you ok|is that ok",
)
ALTERNATIVE = _any(r"(?:how|what) about|instead|alternatively")
"""One thing is offered for another."""
WORKS = _any(
    r"(?:would|does|is|are|will) [^.?!\n]{1,25} (?:work|ok(?:ay)?|fine|good|suit|do)|(?:could|can|shall) we|try|only"
)
"""It is asked whether it will do."""
ONLY = _any(r"only|full|taken|sold out|booked up")
ASKING = _opening(
    r"what(?! (?:about|if|else|other))|when|where|who|whose|which|why|how(?! about)|does|did|was|were|has|am i",
    r"is (?:it|that|this|he|she|the|there (?:a|an|any))|are (?:they|these|those|you|we|the)|do (?:they|we|i|the)",
    r"have (?:we|they|you)|(?:can|could) i|should (?:i|we)",
)
"""It is asked what is so, not said."""
REQUEST = _any(
    r"(?:can|could|would|will) (?:you|we)|(?:how|what) about|(?:is|are) there|do you have|please|anything|"
    r"what (?:else|other)"
)
"""It is asked for, and so said."""
HYPOTHETICAL = _any(
    r"what if|suppos(?:e|ing)|hypothetical(?:ly)?|theoretically|in theory|imagine|let'?s say|say we|assum(?:e|ing)|"
    r"pretend",
    r"if (?:we|they|i|he|she|it|you) (?:were|was|had|did|could|went|bought|chose|moved|changed|wanted|dropped?|"
    r"drops)",
    r"if(?= \w+ (?:drops?|falls?|rises?|fails?)\b)|worst case|best case|would have|scenario",
)
DRAFT = _any(
    r"drafts?|drafting|brainstorm\w*|rough(?:ly)? (?:estimate|idea|guess|number|plan|draft)|ballpark|"
    r"tentative(?:ly)?|spitball\w*|work in progress|wip",
    r"not final|placeholder|exploratory|exploring|could (?:maybe|potentially|possibly)|working assumption|"
    r"thinking out loud",
    r"(?:maybe|might|possibly|potentially|perhaps) (?:we|i|add|could|do|use|go)|just (?:an? )?(?:idea|thought|"
    r"thinking)",
    r"penciled? in|probably",
)
EXPLORING = _any(
    r"just (?:exploratory|brainstorming|exploring|an? exercise|hypothetical)|brainstorming session|"
    r"thought experiment|what-if"
)
EARNEST = _any(
    r"that'?s enough|for real|real commitments?|seriously|officially|final(?:ly)?|decided|decision|done with|back to"
)
SOFT = _any(
    r"tentative(?:ly)?|draft|prefer(?:s|red|ence)?|for now|maybe|thinking|proposed|provisional|estimated?|style"
)
HARD = _any(
    r"must|require[sd]?|requirement|commit(?:ted|ment)|policy|always|never|max(?:imum)?|min(?:imum)?|at least|"
    r"at most|no more than",
    r"limit|cap(?:ped)?|constraint|mandatory|contract",
)
GONE = _pattern(
    r"\b(?:cancel+ed|not|no|none|never|revoked|rescinded|invalid(?:ated)?|void|withdrawn|dropped|closed|superseded|"
    r"off)\b|n't\b"
)
"""A value that says of itself that something is not so: what takes it back says the same."""
NEGATED = _pattern(
    r"(?:(?:\bnot|n't|\binstead of|\brather than|\bnever|\bwithout|\bexcept|\bthan|\bno longer) (?:\w+ )?|\bno )$"
)
"""Right before a value: it is not that one."""
DENIED = _pattern(
    r"\b(?:do|does|did|should|would|wo|is|are|was)(?:n't| not|n not) (?:\w+ ){0,3}?"
    r"(?:chang|mov|switch|updat|set|mak|mean|think|want|need|book|push|go|try|us|happen|work|say)\w*"
    r"|\b(?:never|not going to|no need to)\b"
)
"""In the clause before a value: it is said that it is not to be."""
HEDGE = _any(
    r"might|not sure|unsure|considering|thinking (?:of|about)|(?:may|could) (?:have to|need to|be|move|change)"
)
"""It may come to that, or not."""
WAS = _pattern(
    r"(?:\b(?:was|were|not|no longer|instead of|rather than|replac(?:e|es|ing)|originally|previously|used to be|"
    r"formerly|old|earlier|"
    r"initially|from|previous \w+|your|than)|n't) ?:? ?(?:(?:the|at|on|for|in|be|a) )?[\"'“‘(]?$"
)
"""Right before a value: it was that one."""
ENDED = _pattern(
    r"\b(?:no longer|(?:stop|quit)(?:ped|ting|s)?|g[ao]ve up|giv(?:e|ing) up|g[eo]t(?:ting)? rid of)(?: [\w'-]{1,15}){0,2}"
    r" (?:the )?[\"'“‘]?$"
)
"""Before a name: it is used, wanted or there no longer."""
NOT_BEFORE = _pattern(r"(?:\bnot|n't)(?: [\w'-]{1,15}){1,3} (?:the )?[\"'“‘]?$")
ANY_MORE = _pattern(r"^[\"'”)]?(?: [\w'-]{1,15}){0,3} any ?(?:more|longer)\b")
"""Behind a name, and before it that it is not so."""
FROM = _any(_MOVING + r"(?: [\w'$%,-]{1,20}){0,8}? from|(?:went|gone|goes|going|jump(?:ed|s)|dropp?(?:ed|s)) from")
"""Where `from` is said of what was, and not of where someone sets out."""
WAS_BEHIND = _pattern(
    r"^[\"'”)]? ?(?:(?:is|are|was|were|has been) )?(?:(?:now|no longer|becomes?|became|wrong|incorrect|outdated|"
    r"off the table|based on (?:incorrect|wrong|bad|outdated))\b|→|->|=>)"
)
"""Right behind a value: it was that one."""
_WRONG = (
    r"(?:wrong|incorrect|outdated|mistaken|invalid|obsolete|false|void|superseded|no longer|not (?:true|right)|"
    r"based on (?:incorrect|wrong|bad|outdated))"
)
QUOTED = _pattern(r"[\"“](?P<inner>[^\"”\n]{1,400})[\"”]|(?<!\w)['‘](?P<own>[^\n]{1,400}?)['’](?!\w)")
WRONG_BEFORE = _pattern(
    r"\b(?:previous|earlier|prior|old|original|former|wrong|incorrect|outdated|not|n't|instead of)(?: [\w-]{1,20}){0,3}"
    r" ?[:,]? ?$"
)
WRONG_BEHIND = _pattern(
    r"^,?(?: which)?(?: (?:is|was|are|were|has been|turned out))?(?: [\w-]{1,15}){0,2}? " + _WRONG + r"\b"
)
"""Around a quotation: what it says is not so."""
_KIN = (
    r"(?:mother|father|mom|dad|mum|sister|brother|wife|husband|son|daughter|friend|colleague|boss|parent|coworker|"
    r"neighbou?r|aunt|uncle|cousin|client|customer|kid|roommate|partner|girlfriend|boyfriend)s?"
)
FOR_OTHERS = _pattern(
    r"\bfor (?:(?:my|his|her|their|our|a|another) (?P<kin>" + _KIN + r")|(?P<one>someone|somebody|anyone) else)\b"
    r"|\b(?:my|his|her|their|our) (?P<whose>" + _KIN + r")'s?\b|\b(?P<else>someone|somebody) else's\b"
)
"""It is meant for someone whom the talk was not about."""
OF_ANOTHER = _pattern(
    r"\b(?:for|of|in|at|by) (?:the other|another|a different|some other|other) \w+ (?:is|are|was|were|will|has|have)\b"
)
"""It is said of another thing of the kind."""
TOLD = _any(
    r"had|went|did|ate|met|saw|took|called|visited|watched|stayed|used to|ago|yesterday|last (?:week|month|year|"
    r"night|time)|once",
    r"remember(?:ed)? when|back (?:in|then|when)|(?:was|were) \w+ed",
)
"""Something that happened is told of, which changes no plan."""
_RULING = (
    r"(?:decided|approved|wants?|said|says|asked|directed|ordered|confirmed|overrode|overruled|cut|moved|pushed|set|"
    r"told|rescinded|reduced|requires?|changed)\b"
)
AUTHORITY = _pattern(
    r"^\W{0,20}\[(?P<tag>[^\]\n]{1,60})\]"
    r"|\b(?:per|according to|as (?:directed|instructed|requested|decided) by|on orders? (?:of|from)|approved by|"
    r"by order of) (?:the |our |my )?(?P<per>(?-i:[A-Z][\w'&-]{0,40}(?: (?:of )?[A-Z][\w'&-]{0,40}){0,4})"
    r"|[a-z]{1,40}(?: (?:team|manager|director|lead|decision|department))?)"
    r"|\b(?:the |our )(?P<who>(?-i:C[A-Z]O|VP|SVP|EVP)|board|president|director|manager|boss|management|executives?|"
    r"legal|finance|"
    r"compliance|chair(?:man|woman|person)?|owner|head of \w{1,40}) (?:\w{1,40} ){0,2}?" + _RULING + r""
    r"|\b(?P<rank>(?-i:C[A-Z]O|VP)) (?:\w{1,40} ){0,3}?" + _RULING
)
"""Who is named as the source."""
RATE = _pattern(r"(?:\d[kKmM%]?|\b(?:percent|euro|dollar|pound|usd|eur|gbp)|[^\W\d_]s) $")
"""Before `per`: so much per something, which names nobody."""
SWITCH = _pattern(
    r"^\W{0,20}(?:(?:ok(?:ay)?|so|anyway|alright|great|now|and)\W+){0,3}(?:"
    r"(?P<hold>hold on|one sec(?:ond)?|interruption|urgent|before (?:that|we continue)) ?[-–—:,]{1,3} ?"
    r"|(?P<back>(?:(?:let's|let us|can we|we're|i'm) )?(?:(?:get(?:ting)?|go(?:ing)?|com(?:e|ing)) )?back to|"
    r"return(?:ing)? to|"
    r"resum(?:e|ing)|continu(?:e|ing)(?: with)?|mov(?:e|ing) on(?: to)?|switch(?:ing)? (?:gears|topics?)(?: to)?|"
    r"(?:let's|let us) (?:talk|discuss|turn)(?: (?:about|to))?|on to|next topic ?:?|regarding|speaking of|as for) )"
    r"(?:the |our |my )?(?P<topic>[^.!?\n]{1,80})"
    r"|[,;] ?(?P<later>back to) (?:the |our |my )?(?P<later_topic>[^.!?,\n]{1,60})"
)
"""The talk turns to something else."""


class Mood(msgspec.Struct, frozen=True):
    """What a sentence does, whatever it is about."""

    sentence: Sentence
    correction: str
    """The phrase that says so; empty if none does."""
    strong: bool
    retraction: str
    asking: bool
    hypothetical: str
    draft: str
    also: bool
    keep: bool
    hedged: bool
    aside: bool
    """Whether it tells of what happened, or of another thing."""
    whom: str
    """For whom else it is meant."""


def moods(text: str) -> list[Mood]:
    return [_mood(text[each.start : each.end], each) for each in sentences(text)]


def _mood(text: str, sentence: Sentence) -> Mood:
    others = FOR_OTHERS.search(text)
    return Mood(
        sentence,
        correction=phrase_of(CORRECTION, text) or phrase_of(STRONG, text),
        strong=STRONG.search(text) is not None,
        retraction=phrase_of(RETRACTION, text),
        asking=ASKING.match(text) is not None and REQUEST.search(text) is None,
        hypothetical=phrase_of(HYPOTHETICAL, text),
        draft=phrase_of(DRAFT, text),
        also=ALSO.search(text) is not None,
        keep=KEEP.search(text) is not None,
        hedged=HEDGE.search(text) is not None,
        aside=(TOLD.search(text) or OF_ANOTHER.search(text)) is not None,
        whom=next((word.lower() for word in others.groups() if word), "") if others else "",
    )


def phrase_of(cue: re.Pattern[str], text: str) -> str:
    """The beginning of what a cue was told by."""
    found = cue.search(text)
    return " ".join(found[0].lower().split()[:CUE_WORDS]) if found else ""


def authority_in(text: str) -> str:
    """Whom a text names as its source, as it names them."""
    found = next(
        (each for each in AUTHORITY.finditer(text) if not (each["per"] and RATE.search(text, 0, each.start()))), None
    )
    if found is None:
        return ""
    named: str = found["tag"] or found["per"] or found["who"] or found["rank"] or ""
    inner = re.search(r"\(([^)]{1,40})\)", named)
    return (inner[1] if inner else named).strip()
