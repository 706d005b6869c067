"""How a statement is meant: in earnest, with doubt, or not as a statement of what is so now.

It is read from the words around the statement, in its clause first and then in the rest of its sentence. Whether the
speaker says it of their own thing is told by `subjects`; whether the value is one, by `shapes`.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.detect.words import KIN_WORDS as KIN
from holdfast.core.detect.words import Sentence

Stance: TypeAlias = Literal["earnest", "doubtful", "none"]

FOLLOWING_CHARACTERS = 160
"""Behind a sentence, in which it may be taken back or called a joke."""


def _any(*phrases: str) -> re.Pattern[str]:
    return re.compile((r"(?<![\w'])(?:" + "|".join(phrases) + r")(?![\w'])").replace(" ", r"\s+"), re.IGNORECASE)


def _first(*phrases: str) -> re.Pattern[str]:
    """At the beginning of a clause, behind words that only open it."""
    opener = (
        r"(?:(?:ok(?:ay)?|great|good|hmm?|well|oh|uh|um|ugh|hey|hi|hello|so|and|but|then|thanks|thank you|alright|wait|"
        r"sorry|also|please|quick question|one more thing|btw|by the way|anyway|honestly|seriously|no|yes|yeah|now|"
        r"just checking|just wondering|remind me|morning|excuse me)\W{1,4}){0,3}"
    )
    return re.compile(
        (r"\W{0,10}" + opener + r"(?:" + "|".join(phrases) + r")(?![\w'])").replace(" ", r"\s+"), re.IGNORECASE
    )


_SEPARATOR = re.compile(
    r"[,;:–—]\s+|(?<![\w'])any\s?more\s(?=it)|\s-{1,2}\s|(?<![\w'])(?:but|so|because|and|though|although|however|"
    r"plus|cause|cos|cuz)\s",
    re.IGNORECASE,
)
"""Between clauses."""
_POLITE = _first(
    r"(?:can|could|would|will|can't|cannot|may|might) (?:you|u|we)(?: (?:please|pls|kindly|just|maybe|perhaps|also|"
    r"then|"
    r"guys|quickly|go ahead and|ask you to|have you|get you to))* (?!(?:remind|tell|explain|confirm|verify|check|see|"
    r"remember|"
    r"believe|say|know|show|find out|afford|still|imagine|help me understand)\b)\w+",
    r"(?:would|do) you mind|is it (?:possible|ok(?:ay)?|too late) to|any chance (?:you|we) (?:can|could)|why don't "
    r"(?:you|we)",
    r"please|pls|plz|mind (?:chang|mov|updat|sett|switch)ing|how about (?:we|you)|i was wondering if you (?:could|can)",
)
"""A question in form, an instruction in meaning."""
_MAY_I = _first(r"(?:can|could|may) i (?!still)\w+")
_ASKING = _first(
    r"what(?:'s|s|'re)?|when(?:'s)?|where(?:'s)?|who(?:'s|se)?|which|why|how(?:'s)?|does|did|do|is|are|was|were|has|"
    r"have|had|am|"
    r"will|would|could|can|should|shall|may|might|must",
    r"(?:is|are|was|were|do|does|did|should|would|could|can|has|have|wo|ai)n'?t",
    r"any (?:idea|chance|news)|(?:do|did) you know|i(?:'m| am)? wonder(?:ing)?|"
    r"(?:tell|remind|ask|show|explain to) (?:me|us|them|him|her)(?! (?:that|at|on|by|via)\b)|guess(?! what\b)",
)
_STATEMENT_OPENING = _first(
    r"(?<=now.)is|(?:should|must) (?:be|read|say)",
    r"(?:is|was|has|does|did|will|would|can|may|should) (?=called|now\b|the one)",
)
_EMBEDDED = _any(
    r"if|whether|why|how|what|where|who|whose|which|what's",
    r"(?:confirm|verify|double-?check|check|prove|pretend|make sure|ensure|assume|assumes|assuming|notice|"
    r"wonder\w*)(?: "
    r"that)?",
    r"remind (?:me|us|him|her|them)|asked (?:me|you|him|her|them)|forgot|forget|remember when|surprised|glad|happy|sad|"
    r"shame",
)
"""Before a statement in its clause: it is asked about, checked or remarked on."""
_TAG = re.compile(
    r",?\s+(?:right|correct|yes|no|yeah|innit|huh|eh|true|or not|or what|or is it|or was it|am i right|"
    r"(?:is|are|was|were|do|does|did|has|have|wo|would|could|ca|should)n'?t (?:it|he|she|they|we|i|you|that)|"
    r"(?:is|are|was|does|did) (?:it|that|this) (?:right|correct|so|true|ok|not)?)\s*[?.!]*\s*$",
    re.IGNORECASE,
)
_CONDITION = _any(
    r"if(?! (?:possible|you (?:can|could|don't mind|please|would|wouldn't mind|like|have (?:a|the) (?:moment|minute|"
    r"sec))|"
    r"that'?s (?:ok|okay|fine|alright|possible)|it'?s (?:ok|okay|possible|not too late)|need be|so|not already))",
    r"unless|in case|whenever|provided|providing|assuming|as soon as|as long as|on condition|depending on|"
    r"suppos(?:e|ing|edly)|imagine|pretend(?:ing)?|what if|hypothetical(?:ly)?|theoretical(?:ly)?|in theory|let's say|"
    r"lets say|"
    r"say (?:we|i|you|the|my|our)|were to|in a world where|should (?:it|he|she|they|you|anything)|thought experiment|"
    r"scenario|had (?:i|we|you)",
)
_LEADING = _any(
    r"when(?! (?:will|can|is|are)\b)|(?<!this\s)once(?! (?:again|more)\b)|until|till|after (?:i|we|you|he|she|they|it|"
    r"the)"
)
"""Before a statement, and not yet come to pass."""
_ONLY_IF = re.compile(
    r"\W{0,4}(?:but |and |though |only |just |that is,? |i\.e\. )*(?:if|unless|provided|once|as long as|assuming|"
    r"in case|only (?:if|then|when)|depending)\b(?! (?:possible|you can|you could|that's ok|again|more)\b)",
    re.IGNORECASE,
)
_IF_BEHIND = _any(
    r"if(?! (?:possible|you (?:can|could|don't mind|please)|that'?s (?:ok|okay|fine)|it'?s (?:ok|okay)))|unless|"
    r"provided|"
    r"assuming|as long as|in case|once (?:i|we|you|he|she|they|it|the|my|our)|when (?:i|we|you|he|she|they|it|the|my|"
    r"our)|"
    r"after (?:i|we|you|he|she|they)|as soon as"
)
_NEGATION = _any(
    r"(?:do|does|did|wo|ca|should|would|could|is|was|were|are|has|have|had|must|need)n'?t(?! (?:you|we|forget|mind)\b)",
    r"(?:do|does|did|will|can|should|would|could|is|was|are|has|have|must|may) not|cannot|never|nobody|no ?one|nothing|"
    r"no need|no way|not going to|not (?:to )?(?:chang|mov|updat|switch|set)\w*|not like|not as if|rather than|instead "
    r"of|"
    r"without|stop|avoid|nearly|almost|refuse\w*|hardly|no reason|neither|dont|please not|not yet|not that|it'?s not|"
    r"isnt|wasnt|no longer",
)
_NOT_LAST = re.compile(r"\bnot(?:\s+to)?\s*$", re.IGNORECASE)
_KEPT = _any(
    r"keep|keeps|keeping|kept|leave(?=\s*$)|"
    r"leave (?:it|that|this|them|the|my|our|everything|things)|still|"
    r"stays?|staying|remains?|unchanged|the same|as is|as it is|"
    r"already|as planned|like before"
)
_SAYING = (
    r"(?:said|says|say|saying|tells|told|thinks?|thought|claims?|claimed|claiming|insists?|insisted|reckons?|reckoned|"
    r"believes?|"
    r"believed|mentioned|mentions|wrote|writes|heard|hears|hear|asked|asks|asking|suggest(?:s|ed|ing)?|propos(?:es|ed|"
    r"ing)|agreed|"
    r"agrees|assumes?|assumed|announced|texted|emailed|messaged|pinged|swears|swore|joked|jokes|wants?|wanted|hopes?|"
    r"hoped|wishes|promised|promises|posted|tweeted|guessed|argues|argued|complained|complains|shows?|showed|reads?|"
    r"stated|"
    r"states|informed|notified|confirmed|confirms|decided|recommended|recommends|advised|advises|requested|requests|"
    r"expects?|expected|prefers?|preferred)"
)
_REPORT = re.compile(
    r"(?P<who>(?:[\w'-]{1,20}\s+){1,5}?)(?:(?:just|also|even|always|keeps?|still|already|has|have|had|once|only|"
    r"now)\s+){0,2}"
    r"(?P<verb>(?<!second\s)(?<!first\s)(?<!my\s)"
    + _SAYING
    + r")(?:\s+(?:me|us|you|him|her|them|everyone|everybody|people|to me))?(?:\s+(?:yesterday|today|earlier|"
    r"this morning|in the|on the|at the|that|already|know))?(?=\s|[:,]|$)",
    re.IGNORECASE,
)
_OWN_REPORT = re.compile(r"(?:^|\s)(?:i|we)(?:'ve|'d)?\s*$", re.IGNORECASE)
_OWN_SAYING = _any(
    r"said|say|told|mentioned|wrote|confirmed|decided|asked|emailed|texted|agreed|requested|signed|confirm|let"
)
_AUTHORITIES = _any(
    r"airline|bank|hr|hotel|landlord|landlady|doctor'?s? (?:office|surgery)|clinic|hospital|insurer|insurance|provider|"
    r"carrier|"
    r"courier|board|council|university|college|school|dentist|garage|court|embassy|it|payroll|registrar|company|"
    r"railway|"
    r"operator|organi[sz]ers?|doctor|nurse|surgeon|physio|pharmacist|consultant|pilot|captain|conductor|crew|station|"
    r"tower|agency|travel agent|restaurant|venue|shop|store|vet|surgery|consulate|ministry|tax office|utility|"
    r"employer|firm|gym|library|post office|delivery company|it department|finance|accounts|reception|event team|gp|"
    r"practice|"
    r"dvla|dmv|lufthansa|ryanair|easyjet|ba|registry|conference|studio|salon|workshop|dealer|dealership|supplier|vendor"
)
"""Who has the say about the thing itself: what they tell of it is so."""
_RELAYED = re.compile(
    r"\b(?:tell|inform|notify|remind|warn|email|text|message|let)\s+(?!me\b|us\b|you\b|it\b|"
    r"go\b)(?:[\w'-]{1,20}\s+){1,3}(?:know|that)\b|"
    r"\b(?:tell|inform|notify|warn|assure)\s+(?!me\b|us\b|you\b)[\w'-]{1,20}\s*[:,]?\s*$",
    re.IGNORECASE,
)
"""Somebody else is to be told: it may be so, or only be said to be."""
_PER = re.compile(
    r"\b(?:according to|rumou?r has it|word is|allegedly|supposedly|i (?:was|'ve been|have been) told)\b", re.IGNORECASE
)
_PAST = _any(
    r"in (?:19|20)\d\d|back (?:when|then|in)|used to(?: be)?|(?:years?|months?|weeks?|days?) ago|previously|formerly|"
    r"originally|"
    r"at (?:the|that) time|as a (?:kid|child|student|teenager)|when i was|in those days|in the past|once upon|before "
    r"(?:that|the|we|i)|"
    r"last (?:year|month|week|summer|winter|spring|autumn|fall|time|night|quarter)|yesterday|earlier|initially|first "
    r"thought|"
    r"had (?:been|thought)|at first",
)
_FUTURE = _any(
    r"next (?:week|month|quarter|year|semester|season|term|spring|summer|autumn|fall|winter|sprint|release|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october|"
    r"november|"
    r"december|time)",
    r"tomorrow|soon|eventually|in (?:the )?(?:new year|future|spring|summer|autumn|fall|winter|coming|next)|(?:by|at|"
    r"towards) the end "
    r"of|later (?:this|on|in)|in (?:a|an|two|three|four|five|six|\d{1,2}) (?:days?|weeks?|months?|years?|hours?)(?: "
    r"time)?|"
    r"after the (?:move|summer|holidays?|break|merger|weekend|launch)|shortly|down the road|before long|going to|gonna|"
    r"about to|planning to|plan to|due to|set to (?:be|become|move|change)|upcoming|in (?:january|february|march|april|"
    r"june|july|"
    r"august|september|october|november|december)",
)
_FROM_THEN = _any(
    r"(?:from|starting|beginning|effective|as of|as from|with effect from|come)(?! (?:now|today|immediately|this "
    r"(?:morning|moment|"
    r"minute)|yesterday|here|scratch|the (?:start|top)|with))(?: (?:on|in|from))?(?: the)? "
    r"(?:next|tomorrow|later|\d|q[1-4]|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|"
    r"summer|"
    r"winter|spring|autumn|fall|first|new year|end)\w*",
    r"next (?:week|month|quarter|year|semester|season|term|spring|summer|autumn|winter)",
)
_SOMEDAY = _any(r"someday|some day|one day|in my dreams|ever|when i grow up|in a perfect world|in another life")
_ONCE = _any(
    r"(?:just|only) (?:for )?this (?:once|time|one)|this once|this time only|this one time|(?:just|only) once|as a "
    r"one-?off|one-?off|"
    r"for (?:this|that|the) (?:\w+ ){0,2}(?:only|alone)|only for (?:this|that|the)|for (?:this|that) (?:one|order|task|"
    r"request|"
    r"message|email|reply|question|answer|example|exercise|test|run|calculation|comparison|chart|report|slide|demo|"
    r"simulation|"
    r"purpose)|locally|on my (?:machine|laptop|local)|ran it|tried it|tested it|for the sake of|in (?:this|the) "
    r"(?:example|"
    r"exercise|test|simulation|game|story|demo|mock-?up|sandbox|fixture|sample)|in (?:the|this|that|a|my|our) "
    r"(?:tutorial|docs|documentation|book|movie|film|novel|video|article|guide|course|lecture|paper|slides?|screenshot|"
    r"template|readme|script|play|song|quiz|puzzle|riddle|worksheet|case study)|dummy|placeholder|fictional|made-up|"
    r"fake|"
    r"as an example|for (?:testing|test purposes|illustration|fun)|as a (?:test|placeholder|joke)|in the (?:unit "
    r")?tests?",
)
_SCOPE = _any(
    r"for now|for (?:today|tonight|the moment|the time being|the rest of|the duration|a (?:while|bit|week|few|couple))|"
    r"temporar\w+|"
    r"today only|only today|just (?:for )?(?:today|tonight|the|tomorrow)|until(?! now)|till|"
    r"while (?:i'm|i|we're|we|he|she|they|"
    r"the|my|our)|while \w{1,20}(?:'s| is| are)|during|"
    r"this (?:week|weekend|month|year|quarter|sprint|semester|term|summer|winter|season|trip)(?! (?:is|was))|on "
    r"weekends?|"
    r"(?:on|in|for) (?:the )?(?:staging|dev|development|test|testing|qa|sandbox|preview|demo|ci|local|localhost|"
    r"pre-?prod|beta)"
    r"(?: (?:environment|env|server|branch|build|system))?|working title|drafts?|tentative\w*|not final|provisional\w*|"
    r"in (?:version|release) \w+|at home|on the (?:website|site|page|form|label)|pencil(?:led|ed)? in|interim|"
    r"stand-?in|as "
    r"a stopgap|trial|in the meantime|meanwhile|over (?:easter|christmas|the)|"
    r"for the (?:weekend|week|holidays?|trip|conference|demo|test|summer|draft|pilot|experiment)",
)
_FOR_ONE = re.compile(
    r"\W{0,4}(?:(?:and|but|so|also|ok|okay|btw)\W{1,2})?(?:[Oo]nly\s|[Jj]ust\s)?[Ff]or\s(?:(?:Mon|Tues|Wednes|Thurs|"
    r"Fri|Satur|Sun)day,|the|my|our|this|that|his|her|their|a|an|[A-Z][\w'-]{1,20})"
    r"\s?(?!(?:record|sake|avoidance|most|first|next|last|best)\b)(?:[\w'-]{1,20}\s?){0,4}(?:,\s|$)",
)
"""`For the Tokyo trip, …`: it holds for that alone."""
_DRAFT_LABEL = re.compile(
    r"\s{0,9}(?:[\[(]\s?(?:draft|work in progress|wip)\b[^\])\n]{0,60}[\])]"
    r"|(?:(?:rough|first|early)\s)?(?:draft|work in progress|wip)\s?[:–—-])",
    re.IGNORECASE,
)
"""A line that says first that it is a draft: a fact of that scope, and none of any other."""
_IN_DRAFT = re.compile(
    r"\s{0,9}(?:in|for)\s(?:the|this|my|our|a)\s(?:(?:rough|first|early)\s)?draft\b(?!\s(?:of|for)\b)", re.IGNORECASE
)
"""The same of a sentence."""
_FOR_SOME = re.compile(
    r"\sfor\s(?!(?:everyone|everybody|all|good|sure|real|certain|now|me|us|you|free|the\s(?:whole|entire|record)|"
    r"both|any|each|"
    r"every|a\schange|once|ever|your|anyone|life|my|our)\b)\w",
    re.IGNORECASE,
)
"""Behind a value: it is so for some, and not at large."""
_ELSEWHERE = _any(
    r"(?:in|on|at) (?:their|his|her|your|its|someone's|somebody's) \w+|the (?:docs?|documentation|tutorials?|manual|"
    r"readme|"
    r"examples?|article|guide|spec|template|book|course|video|internet|website|wiki) (?:says?|has|have|uses?|shows?|"
    r"recommends?|"
    r"suggests?|lists?|is on|runs?)"
)
"""It is so there, and not here."""
_TODAY = re.compile(
    r"(?<!of)(?<!from)(?<!since)(?<!until)\s(?:today|tonight|this (?:morning|afternoon|evening))\b", re.IGNORECASE
)
_PRESENT = re.compile(r"\b(?:is|are)\b|'s\b", re.IGNORECASE)
_LONG_PAST = _any(
    r"last time|back then|(?:years|months|decades) ago|at the time|in (?:19|20)\d\d|in those days|once upon"
)
_AS_BEFORE = re.compile(r"[\s,]{0,3}(?:just )?(?:as|like|same as) (?:before|ever|it was|always)\b", re.IGNORECASE)
_HEDGE = _any(
    r"i (?:kind of |sort of )?(?:think|thnik|guess|believe|suppose|reckon|assume|imagine|suspect|feel like)|maybe|mayb|"
    r"perhaps|"
    r"probably|prob|possibly|potentially|not (?:entirely |100% |quite |totally |too |so |completely )?(?:sure|certain|"
    r"final|"
    r"decided|confirmed|set in stone)|unsure|might|may (?:be|have|need|move|change|become)|could (?:be|become|move|"
    r"change|also)|"
    r"presumably|apparently|supposedly|allegedly|(?:it )?(?:looks|seems|sounds|appears) (?:like|as if|that|to be)|"
    r"seems?|"
    r"leaning (?:towards?|to)|thinking (?:of|about)|consider(?:ing|ed)?|discuss(?:ed|ing)|debat(?:ed|ing)|talk(?:ed|"
    r"ing) about|thought about|tempted|toying with|or so|something like|"
    r"(?:got to|gotta|have to|need to|must|will|i'll|let me|should) (?:first )?(?:ask|check|confirm|double-?check|"
    r"verify|"
    r"talk to|think about|sleep on|discuss|run it|clear it)|sleep on it|can't remember|don't remember|if i remember|"
    r"iirc|afaik|"
    r"as far as i (?:know|remember)|tbc|tbd|to be confirmed|rough(?:ly)?|estimated?|ballpark|guess(?:ing)?|more or "
    r"less|"
    r"ish|or maybe|ideally|hopefully|"
    r"(?:would|'d) (?:prefer|rather|like|suggest|propose)(?! to (?:chang|mov|updat|set|switch|correct|cancel|mak|"
    r"reschedul|"
    r"us|go|book|hav))|in principle|on paper|don't quote me|rumou?r\w*|i heard|we heard|heard (?:from|that)|no idea|"
    r"who "
    r"knows|"
    r"(?:pretty|fairly|quite|almost|reasonably|nearly|rather|90%|95%|99%) (?:sure|certain|confident|positive)|"
    r"if memory serves|(?:just |still )?checking (?:the|with|on|that|it|now|again)|(?:i'll|let me|will) (?:look|"
    r"find out)|"
    r"up in the air|still (?:open|deciding|discussing|negotiating|waiting)|waiting (?:for|on|to hear)|pending|"
    r"subject to|"
    r"shouldn't it|unless|depends",
)
_IDLE = _any(
    r"brainstorm\w*|don't (?:save|store|record|remember|note|write|change|update|do|touch) (?:it|that|any|this|them|"
    r"anything)|"
    r"nothing to change|no changes?|off the record|"
    r"just (?:an? )?(?:idea|thought|thinking|brainstorming|exploring|example|test|question)|thinking (?:out )?loud|in "
    r"my head|spitball\w*|"
    r"don't act on",
)
"""It is said not to count."""
_TAKEN_BACK = _any(r"ignore (?:that|this|it)|never ?mind|forget (?:it|that|what i)|scratch that")
_RETHOUGHT = re.compile(
    r"\W{0,4}(?:(?:hm+|oh|uh|um|ah)\W{1,3})?(?:wait|no,? wait|hold on|hang on|scratch that|oops|correction|i mean|"
    r"make that|or rather|"
    r"actually,? (?:no|wait|make|not|it's|it is|leave|scratch)|sorry,? (?:no|not|i mean|make|wait|it's|wrong)|no,? "
    r"(?:not|make|it's|"
    r"sorry|actually))\b",
    re.IGNORECASE,
)
"""What was said is set right at once."""
_IRONY = _any(
    r"yeah,? right|as if|sure,? and|basically|practically|lol|lmao|rofl|haha+|ha ha|hehe|just kidding|jk|kidding|"
    r"joking|"
    r"in your dreams|pigs (?:can |might )?fly|santa(?: claus)?|the queen of|queen of england|batman|the pope|elvis|"
    r"my (?:new )?best friend|as always|as usual|surprise,? surprise|what a surprise|shocker|/s|who'?s counting|"
    r"apparently (?:my|the) new|might as well|for all i care|oh (?:great|joy|wonderful|sure|fantastic|perfect|lovely)|"
    r"how (?:nice|lovely|wonderful)|of course it is|yay|at this rate|by the look of it|feels like",
)
_EMOJI = re.compile("[\U0001f602\U0001f923\U0001f643\U0001f609\U0001f61c]|[;:]-?[pPD)](?!\\w)")
_WISH = _any(
    r"wish(?:es|ed)?|hope|(?:about|high) time|hoping|dream(?:s|ing|ed)?|(?:would|'d) (?:really |so |absolutely "
    r")?love|if only|would be "
    r"(?:nice|great|"
    r"cool|lovely|good|better|perfect|ideal)|fantasi[sz]e|longing|can't wait|looking forward|deserve|ought to have|"
    r"(?:would|'d) kill for|my dream|goal is to|hopefully one day",
)
_WOULD = _any(r"would|wouldn't|'d be|would've|might have|could have|should have been|should've been")
_MAY = _any(r"might|may|could")
_MAY_LEAD = _any(
    r"(?:i|we|they|he|she|you|someone) (?:could|might|may|should|ought to|shall|would)(?: (?:probably|really|maybe|"
    r"just))?"
)
_BY_OTHERS = _any(r"(?:my|our|his|her|their) " + KIN + r"s?|he|she|somebody|someone|anybody|everybody|everyone")
"""Who has no say in the speaker's things, before a verb."""


class Meaning(msgspec.Struct, frozen=True):
    """How a statement is meant, and the word for why it is not in earnest."""

    stance: Stance
    why: str = ""


EARNEST = Meaning("earnest")
_APART = " | "
"""Between parts of a sentence that are looked at together: no phrase goes across the statement itself."""


class Surroundings(msgspec.Struct, frozen=True):
    """The text around a statement, cut up by clauses."""

    before: str
    """The clauses of its sentence before its own."""
    lead: str
    """Its own clause, up to the statement."""
    inside: str
    """Between its subject and its value."""
    tail: str
    """Its own clause, from the value on."""
    after: str
    """The rest of its sentence."""
    following: str
    """What is said next."""
    question: bool
    dated: bool = False
    """Its value is a day or a time, which lies ahead by nature."""
    changes: bool = False
    """It tells of a change that was made, so a word for the past says when."""
    draft: bool = False
    """Its line or its sentence says first that it is a draft."""


def surround(text: str, sentence: Sentence, start: int, value: tuple[int, int] | None, stop: int) -> Surroundings:
    """Cut up a sentence around a statement that begins at `start`, with a value and an end."""
    cuts = [found.span() for found in _SEPARATOR.finditer(text, sentence.start, sentence.end)]
    low = max((end for _, end in cuts if end <= start), default=sentence.start)
    high = min((begin for begin, _ in cuts if begin >= stop), default=sentence.end)
    middle = text[start : value[0]] if value else ""
    line = text.rfind("\n", 0, start) + 1
    draft = _DRAFT_LABEL.match(text, line, start) or _IN_DRAFT.match(text, sentence.start, start)
    return Surroundings(
        before=text[sentence.start : low],
        lead=text[low:start],
        inside=middle,
        tail=text[stop:high],
        after=text[high : sentence.end],
        following=text[sentence.end : sentence.end + FOLLOWING_CHARACTERS],
        question=sentence.question,
        draft=draft is not None,
    )


def judge(around: Surroundings) -> Meaning:
    """How a statement is meant."""
    for look in (_asked, _supposed, _denied, _reported, _joked, _timed, _scoped):
        meaning = look(around)
        if meaning.stance != "earnest":
            return meaning
    return _hedged(around)


def _asked(around: Surroundings) -> Meaning:
    own = around.lead + (around.inside or "go")
    polite = _POLITE.match(own) or _POLITE.match(around.before) or (_POLITE.match(around.before + own))
    if _MAY_I.match(own):
        return Meaning("doubtful", "question")
    if not polite and (_ASKING.match(own) and not _STATEMENT_OPENING.match(own)):
        return Meaning("none", "question")
    if _EMBEDDED.search(around.lead):
        return Meaning("none", "embedded question")
    if not around.question:
        return (
            Meaning("none", "question")
            if _TAG.search(around.tail + around.after) and "n't" in around.after
            else EARNEST
        )
    rest = around.tail + around.after
    if _TAG.search(rest):
        return Meaning("none", "question")
    if polite or any(_ASKING.match(each) or _POLITE.match(each) for each in _clauses(around.after)):
        return EARNEST
    hedged = _HEDGE.search(around.lead + around.tail)
    return Meaning("doubtful" if hedged else "none", "question")


def _clauses(text: str) -> list[str]:
    return [each for each in _SEPARATOR.split(text) if each]


def _supposed(around: Surroundings) -> Meaning:
    ahead = around.before + around.lead
    if _CONDITION.search(ahead) or _LEADING.search(ahead) or _CONDITION.search(around.inside):
        return Meaning("none", "condition")
    if _IF_BEHIND.search(around.tail) or _ONLY_IF.match(around.after):
        return Meaning("none", "condition")
    if _WISH.search(around.lead) or _SOMEDAY.search(around.lead + around.tail) or _WISH.search(around.inside):
        return Meaning("none", "wish")
    if _WOULD.search(around.inside) and not _POLITE.match(around.lead + around.inside):
        return Meaning("none", "supposition")
    return EARNEST


def _denied(around: Surroundings) -> Meaning:
    if _NOT_LAST.search(around.lead) or _NEGATION.search(around.lead) or _NEGATION.search(around.inside):
        return Meaning("none", "negation")
    if _AS_BEFORE.match(around.tail + around.after):
        return Meaning("none", "no change")
    if _KEPT.search(around.inside) or _KEPT.search(around.lead):
        return Meaning("none", "no change")
    return EARNEST


def _reported(around: Surroundings) -> Meaning:
    if _RELAYED.search(around.before + around.lead):
        return Meaning("doubtful", "message to others")
    if _PER.search(around.before + around.lead):
        return Meaning("doubtful", "report")
    for part in (around.lead, around.before):
        found = _REPORT.search(part)
        if found is None or (part is around.before and part[found.end() :].strip(" ,:")):
            continue
        if _OWN_REPORT.search(found["who"]):
            if _OWN_SAYING.fullmatch(found["verb"]):
                continue
            return Meaning("doubtful", "hearsay") if found["verb"].lower().startswith("hear") else EARNEST
        if _AUTHORITIES.search(found["who"]):
            continue
        return Meaning("none", "report")
    return EARNEST


def _joked(around: Surroundings) -> Meaning:
    near = _APART.join((around.before, around.lead, around.inside, around.tail, around.after))
    following = around.following.lstrip()
    if _IDLE.search(near) or _IDLE.match(following) or _TAKEN_BACK.match(following):
        return Meaning("none", "idle talk")
    if _RETHOUGHT.match(following):
        return Meaning("doubtful", "second thought")
    if _IRONY.search(near) or _IRONY.match(following) or _EMOJI.search(near):
        return Meaning("none", "irony")
    return EARNEST


def _timed(around: Surroundings) -> Meaning:
    own = _APART.join((around.lead, around.inside, around.tail))
    if not around.changes and _PAST.search(around.lead + " " + around.inside):
        return Meaning("none", "past")
    if around.changes and _LONG_PAST.search(around.tail) and not _PRESENT.search(around.inside):
        return Meaning("none", "past")
    if _FROM_THEN.search(around.before + around.lead) or (not around.dated and _FROM_THEN.search(around.tail)):
        return Meaning("doubtful", "future")
    if around.dated:
        return EARNEST
    if _FUTURE.search(own) or _FUTURE.search(around.before) or _FUTURE.match(around.after.lstrip(" ,;")):
        return Meaning("doubtful", "future")
    return EARNEST


def _scoped(around: Surroundings) -> Meaning:
    inside = "" if around.dated else around.inside
    near = _APART.join((around.before, around.lead, inside, around.tail, around.after))
    if around.draft or _ONCE.search(near):
        return Meaning("none", "scope")
    if not around.changes and _FOR_SOME.match(around.tail):
        return Meaning("doubtful", "scope")
    if _ELSEWHERE.search(around.before + around.lead):
        return Meaning("none", "scope")
    if _TODAY.search(around.tail) and (_PRESENT.search(around.inside) or not around.inside):
        return Meaning("doubtful", "scope")
    if _SCOPE.search(near) or _FOR_ONE.match(around.before) or _FOR_ONE.match(around.lead):
        return Meaning("doubtful", "scope")
    return EARNEST


def _hedged(around: Surroundings) -> Meaning:
    near = _APART.join((around.before, around.lead, around.inside, around.tail, around.after))
    if (
        _HEDGE.search(near)
        or _HEDGE.match(around.following.lstrip(" .!?"))
        or _MAY.search(around.inside)
        or _MAY_LEAD.search(around.lead)
    ):
        return Meaning("doubtful", "hedge")
    if _BY_OTHERS.search(around.lead) and not _AUTHORITIES.search(around.lead):
        return Meaning("doubtful", "deed of others")
    return EARNEST
