"""The stance of a statement: in earnest, doubtful, or no statement about the present.

It is read from the words around the statement, first in its clause and then in its sentence. `key_phrases` decides whose
thing the statement is about, and `shapes` whether its value is one.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from holdfast.text.expressions import compile_late
from holdfast.text.words import RELATIVES, Sentence

Stance: TypeAlias = Literal["earnest", "doubtful", "none"]
FOLLOWING_CHARACTERS = 160
"""The characters behind a sentence that may withdraw it or call it a joke."""


def _compile_any(*phrases: str) -> re.Pattern[str]:
    return compile_late((r"(?<![\w'])(?:" + "|".join(phrases) + r")(?![\w'])").replace(" ", r"\s+"), re.IGNORECASE)


def _compile_opening(*phrases: str) -> re.Pattern[str]:
    """Phrases at the beginning of a clause, behind opening words."""
    opener = (
        r"(?:(?:ok(?:ay)?|great|good|hmm?|well|oh|uh|um|ugh|hey|hi|hello|so|and|but|then|thanks|thank you|alright|wait|"
        r"sorry|also|please|quick question|one more thing|btw|by the way|anyway|honestly|seriously|no|yes|yeah|now|"
        r"just checking|just wondering|remind me|morning|excuse me)\W{1,4}){0,3}"
    )
    return compile_late(
        (r"\W{0,10}" + opener + r"(?:" + "|".join(phrases) + r")(?![\w'])").replace(" ", r"\s+"), re.IGNORECASE
    )


_SEPARATOR = compile_late(
    r"[,;:–—]\s+|(?<![\w'])any\s?more\s(?=it)|\s-{1,2}\s|(?<![\w'])(?:but|so|because|and|though|although|however|"
    r"plus|cause|cos|cuz)\s",
    re.IGNORECASE,
)
"""A separator between clauses."""
_POLITE = _compile_opening(
    r"(?:can|could|would|will|can't|cannot|may|might) (?:you|u|we)(?: (?:please|pls|kindly|just|maybe|perhaps|also|"
    r"then|guys|quickly|go ahead and|ask you to|have you|get you to))* (?!(?:remind|tell|explain|confirm|verify|check|"
    r"see|remember|believe|say|know|show|find out|afford|still|imagine|help me understand)\b)\w+",
    r"(?:would|do) you mind|is it (?:possible|ok(?:ay)?|too late) to|any chance (?:you|we) (?:can|could)|why don't "
    r"(?:you|we)",
    r"please|pls|plz|mind (?:chang|mov|updat|sett|switch)ing|how about (?:we|you)|i was wondering if you (?:could|can)",
)
"""An instruction in the form of a question."""
_MAY_I = _compile_opening(r"(?:can|could|may) i (?!still)\w+")
_QUESTION = _compile_opening(
    r"what(?:'s|s|'re)?|when(?:'s)?|where(?:'s)?|who(?:'s|se)?|which|why|how(?:'s)?|does|did|do|is|are|was|were|has|"
    r"have|had|am|will|would|could|can|should|shall|may|might|must",
    r"(?:is|are|was|were|do|does|did|should|would|could|can|has|have|wo|ai)n'?t",
    r"any (?:idea|chance|news)|(?:do|did) you know|i(?:'m| am)? wonder(?:ing)?|"
    r"(?:tell|remind|ask|show|explain to) (?:me|us|them|him|her)(?! (?:that|at|on|by|via)\b)|guess(?! what\b)",
)
_STATEMENT_OPENING = _compile_opening(
    r"(?<=now.)is|(?:should|must) (?:be|read|say)",
    r"(?:is|was|has|does|did|will|would|can|may|should) (?=called|now\b|the one)",
)
_EMBEDDED = _compile_any(
    r"if|whether|why|how|what|where|who|whose|which|what's",
    r"(?:confirm|verify|double-?check|check|prove|pretend|make sure|ensure|assume|assumes|assuming|notice|"
    r"wonder\w*)(?: that)?",
    r"remind (?:me|us|him|her|them)|asked (?:me|you|him|her|them)|forgot|forget|remember when|surprised|glad|happy|sad|"
    r"shame",
)
"""Before a statement that is only asked about, checked or remarked on."""
_TAG = compile_late(
    r",?\s+(?:right|correct|yes|no|yeah|innit|huh|eh|true|or not|or what|or is it|or was it|am i right|"
    r"(?:is|are|was|were|do|does|did|has|have|wo|would|could|ca|should)n'?t (?:it|he|she|they|we|i|you|that)|"
    r"(?:is|are|was|does|did) (?:it|that|this) (?:right|correct|so|true|ok|not)?)\s*[?.!]*\s*$",
    re.IGNORECASE,
)
_CONDITION = _compile_any(
    r"if(?! (?:possible|you (?:can|could|don't mind|please|would|wouldn't mind|like|have (?:a|the) (?:moment|minute|"
    r"sec))|that'?s (?:ok|okay|fine|alright|possible)|it'?s (?:ok|okay|possible|not too late)|need be|so|not already))",
    r"unless|in case|whenever|provided|providing|assuming|as soon as|as long as|on condition|depending on|suppos(?:e|"
    r"ing|edly)|imagine|pretend(?:ing)?|what if|hypothetical(?:ly)?|theoretical(?:ly)?|in theory|let's say|lets say|"
    r"say (?:we|i|you|the|my|our)|were to|in a world where|should (?:it|he|she|they|you|anything)|thought experiment|"
    r"scenario|had (?:i|we|you)",
)
_LEADING = _compile_any(
    r"when(?! (?:will|can|is|are)\b)|(?<!this\s)once(?! (?:again|more)\b)|until|till|after (?:i|we|you|he|she|they|it|"
    r"the)"
)
"""Before a statement about a time that has not come yet."""
_ONLY_IF = compile_late(
    r"\W{0,4}(?:but |and |though |only |just |that is,? |i\.e\. )*(?:if|unless|provided|once|as long as|assuming|"
    r"in case|only (?:if|then|when)|depending)\b(?! (?:possible|you can|you could|that's ok|again|more)\b)",
    re.IGNORECASE,
)
_IF_BEHIND = _compile_any(
    r"if(?! (?:possible|you (?:can|could|don't mind|please)|that'?s (?:ok|okay|fine)|it'?s (?:ok|okay)))|unless|"
    r"provided|assuming|as long as|in case|once (?:i|we|you|he|she|they|it|the|my|our)|when (?:i|we|you|he|she|they|it|"
    r"the|my|our)|after (?:i|we|you|he|she|they)|as soon as"
)
_NEGATION = _compile_any(
    r"(?:do|does|did|wo|ca|should|would|could|is|was|were|are|has|have|had|must|need)n'?t(?! (?:you|we|forget|mind)\b)",
    r"(?:do|does|did|will|can|should|would|could|is|was|are|has|have|must|may) not|cannot|never|nobody|no ?one|nothing|"
    r"no need|no way|not going to|not (?:to )?(?:chang|mov|updat|switch|set)\w*|not like|not as if|rather than|"
    r"instead of|without|stop|avoid|nearly|almost|refuse\w*|hardly|no reason|neither|dont|please not|not yet|not that|"
    r"it'?s not|isnt|wasnt|no longer",
)
_NOT_LAST = compile_late(r"\bnot(?:\s+to)?\s*$", re.IGNORECASE)
_NO_CHANGE = _compile_any(
    r"keep|keeps|keeping|kept|leave(?=\s*$)|leave (?:it|that|this|them|the|my|our|everything|things)|still|stays?|"
    r"staying|remains?|unchanged|the same|as is|as it is|already|as planned|like before"
)
_REPORT_VERBS = (
    r"(?:said|says|say|saying|tells|told|thinks?|thought|claims?|claimed|claiming|insists?|insisted|reckons?|reckoned|"
    r"believes?|believed|mentioned|mentions|wrote|writes|heard|hears|hear|asked|asks|asking|suggest(?:s|ed|ing)?|"
    r"propos(?:es|ed|ing)|agreed|agrees|assumes?|assumed|announced|texted|emailed|messaged|pinged|swears|swore|joked|"
    r"jokes|wants?|wanted|hopes?|hoped|wishes|promised|promises|posted|tweeted|guessed|argues|argued|complained|"
    r"complains|shows?|showed|reads?|stated|states|informed|notified|confirmed|confirms|decided|recommended|recommends|"
    r"advised|advises|requested|requests|expects?|expected|prefers?|preferred)"
)
_REPORT = compile_late(
    r"(?P<who>(?:[\w'-]{1,20}\s+){1,5}?)(?:(?:just|also|even|always|keeps?|still|already|has|have|had|once|only|"
    r"now)\s+){0,2}(?P<verb>(?<!second\s)(?<!first\s)(?<!my\s)"
    + _REPORT_VERBS
    + r")(?:\s+(?:me|us|you|him|her|them|everyone|everybody|people|to me))?(?:\s+(?:yesterday|today|earlier|"
    r"this morning|in the|on the|at the|that|already|know))?(?=\s|[:,]|$)",
    re.IGNORECASE,
)
_OWN_REPORT = compile_late(r"(?:^|\s)(?:i|we)(?:'ve|'d)?\s*$", re.IGNORECASE)
_OWN_SAYING = _compile_any(
    r"said|say|told|mentioned|wrote|confirmed|decided|asked|emailed|texted|agreed|requested|signed|confirm|let"
)
_AUTHORITIES = _compile_any(
    r"airline|bank|hr|hotel|landlord|landlady|doctor'?s? (?:office|surgery)|clinic|hospital|insurer|insurance|provider|"
    r"carrier|courier|board|council|university|college|school|dentist|garage|court|embassy|it|payroll|registrar|"
    r"company|railway|operator|organi[sz]ers?|doctor|nurse|surgeon|physio|pharmacist|consultant|pilot|captain|"
    r"conductor|crew|station|tower|agency|travel agent|restaurant|venue|shop|store|vet|surgery|consulate|ministry|"
    r"tax office|utility|employer|firm|gym|library|post office|delivery company|it department|finance|accounts|"
    r"reception|event team|gp|practice|dvla|dmv|lufthansa|ryanair|easyjet|ba|registry|conference|studio|salon|workshop|"
    r"dealer|dealership|supplier|vendor"
)
"""Authorities on a thing: their reports about it are statements."""
_MESSAGE_TO_OTHERS = compile_late(
    r"\b(?:tell|inform|notify|remind|warn|email|text|message|let)\s+(?!me\b|us\b|you\b|it\b|"
    r"go\b)(?:[\w'-]{1,20}\s+){1,3}(?:know|that)\b|"
    r"\b(?:tell|inform|notify|warn|assure)\s+(?!me\b|us\b|you\b)[\w'-]{1,20}\s*[:,]?\s*$",
    re.IGNORECASE,
)
"""An instruction to tell somebody else: the content may be true or not."""
_PER = compile_late(
    r"\b(?:according to|rumou?r has it|word is|allegedly|supposedly|i (?:was|'ve been|have been) told)\b", re.IGNORECASE
)
_PAST = _compile_any(
    r"in (?:19|20)\d\d|back (?:when|then|in)|used to(?: be)?|(?:years?|months?|weeks?|days?) ago|previously|formerly|"
    r"originally|at (?:the|that) time|as a (?:kid|child|student|teenager)|when i was|in those days|in the past|"
    r"once upon|before (?:that|the|we|i)|last (?:year|month|week|summer|winter|spring|autumn|fall|time|night|quarter)|"
    r"yesterday|earlier|initially|first thought|had (?:been|thought)|at first"
)
_FUTURE = _compile_any(
    r"next (?:week|month|quarter|year|semester|season|term|spring|summer|autumn|fall|winter|sprint|release|(?:mon|tues|"
    r"wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october|november|"
    r"december|time)",
    r"tomorrow|soon|eventually|in (?:the )?(?:new year|future|spring|summer|autumn|fall|winter|coming|next)|(?:by|at|"
    r"towards) the end of|later (?:this|on|in)|in (?:a|an|two|three|four|five|six|\d{1,2}) (?:days?|weeks?|months?|"
    r"years?|hours?)(?: time)?|after the (?:move|summer|holidays?|break|merger|weekend|launch)|shortly|down the road|"
    r"before long|going to|gonna|about to|planning to|plan to|due to|set to (?:be|become|move|change)|upcoming|"
    r"in (?:january|february|march|april|june|july|august|september|october|november|december)",
)
_FROM_THEN = _compile_any(
    r"(?:from|starting|beginning|effective|as of|as from|with effect from|come)(?! (?:now|today|immediately|"
    r"this (?:morning|moment|minute)|yesterday|here|scratch|the (?:start|top)|with))(?: (?:on|in|"
    r"from))?(?: the)? (?:next|tomorrow|later|\d|q[1-4]|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|"
    r"sep|oct|nov|dec|summer|winter|spring|autumn|fall|first|new year|end)\w*",
    r"next (?:week|month|quarter|year|semester|season|term|spring|summer|autumn|winter)",
)
_SOMEDAY = _compile_any(r"someday|some day|one day|in my dreams|ever|when i grow up|in a perfect world|in another life")
_ONCE = _compile_any(
    r"(?:just|only) (?:for )?this (?:once|time|one)|this once|this time only|this one time|(?:just|only) once|"
    r"as a one-?off|one-?off|for (?:this|that|the) (?:\w+ ){0,2}(?:only|alone)|only for (?:this|that|the)|for (?:this|"
    r"that) (?:one|order|task|request|message|email|reply|question|answer|example|exercise|test|run|calculation|"
    r"comparison|chart|report|slide|demo|simulation|purpose)|locally|on my (?:machine|laptop|local)|ran it|tried it|"
    r"tested it|for the sake of|in (?:this|the) (?:example|exercise|test|simulation|game|story|demo|mock-?up|sandbox|"
    r"fixture|sample)|in (?:the|this|that|a|my|our) (?:tutorial|docs|documentation|book|movie|film|novel|video|article|"
    r"guide|course|lecture|paper|slides?|screenshot|template|readme|script|play|song|quiz|puzzle|riddle|worksheet|"
    r"case study)|dummy|placeholder|fictional|made-up|fake|as an example|for (?:testing|test purposes|illustration|"
    r"fun)|as a (?:test|placeholder|joke)|in the (?:unit )?tests?"
)
_SCOPE = _compile_any(
    r"for now|for (?:today|tonight|the moment|the time being|the rest of|the duration|a (?:while|bit|week|few|couple))|"
    r"temporar\w+|today only|only today|just (?:for )?(?:today|tonight|the|tomorrow)|until(?! now)|till|while (?:i'm|i|"
    r"we're|we|he|she|they|the|my|our)|while \w{1,20}(?:'s| is| are)|during|this (?:week|weekend|month|year|quarter|"
    r"sprint|semester|term|summer|winter|season|trip)(?! (?:is|was))|on weekends?|(?:on|in|for) (?:the )?(?:staging|"
    r"dev|development|test|testing|qa|sandbox|preview|demo|ci|local|localhost|pre-?prod|beta)(?: (?:environment|env|"
    r"server|branch|build|system))?|working title|drafts?|tentative\w*|not final|provisional\w*|in (?:version|"
    r"release) \w+|at home|on the (?:website|site|page|form|label)|pencil(?:led|ed)? in|interim|stand-?in|as a stopgap|"
    r"trial|in the meantime|meanwhile|over (?:easter|christmas|the)|for the (?:weekend|week|holidays?|trip|conference|"
    r"demo|test|summer|draft|pilot|experiment)"
)
_FOR_ONE = compile_late(
    r"\W{0,4}(?:(?:and|but|so|also|ok|okay|btw)\W{1,2})?(?:[Oo]nly\s|[Jj]ust\s)?[Ff]or\s(?:(?:Mon|Tues|Wednes|Thurs|"
    r"Fri|Satur|Sun)day,|the|my|our|this|that|his|her|their|a|an|[A-Z][\w'-]{1,20})"
    r"\s?(?!(?:record|sake|avoidance|most|first|next|last|best)\b)(?:[\w'-]{1,20}\s?){0,4}(?:,\s|$)"
)
"""`For the Tokyo trip, …`: the statement applies only there."""
_DRAFT_LABEL = compile_late(
    r"\s{0,9}(?:[\[(]\s?(?:draft|work in progress|wip)\b[^\])\n]{0,60}[\])]"
    r"|(?:(?:rough|first|early)\s)?(?:draft|work in progress|wip)\s?[:–—-])",
    re.IGNORECASE,
)
"""The label of a line that is a draft: it changes only facts of that scope."""
_IN_DRAFT = compile_late(
    r"\s{0,9}(?:in|for)\s(?:the|this|my|our|a)\s(?:(?:rough|first|early)\s)?draft\b(?!\s(?:of|for)\b)", re.IGNORECASE
)
"""A sentence about a draft."""
_FOR_SOME = compile_late(
    r"\sfor\s(?!(?:everyone|everybody|all|good|sure|real|certain|now|me|us|you|free|the\s(?:whole|entire|record)|both|"
    r"any|each|every|a\schange|once|ever|your|anyone|life|my|our)\b)\w",
    re.IGNORECASE,
)
"""Behind a value that applies only to some."""
_ELSEWHERE = _compile_any(
    r"(?:in|on|at) (?:their|his|her|your|its|someone's|somebody's) \w+|the (?:docs?|documentation|tutorials?|manual|"
    r"readme|examples?|article|guide|spec|template|book|course|video|internet|website|wiki) (?:says?|has|have|uses?|"
    r"shows?|recommends?|suggests?|lists?|is on|runs?)"
)
"""A statement about another place or document."""
_TODAY = compile_late(
    r"(?<!of)(?<!from)(?<!since)(?<!until)\s(?:today|tonight|this (?:morning|afternoon|evening))\b", re.IGNORECASE
)
_PRESENT = compile_late(r"\b(?:is|are)\b|'s\b", re.IGNORECASE)
_LONG_PAST = _compile_any(
    r"last time|back then|(?:years|months|decades) ago|at the time|in (?:19|20)\d\d|in those days|once upon"
)
_AS_BEFORE = compile_late(r"[\s,]{0,3}(?:just )?(?:as|like|same as) (?:before|ever|it was|always)\b", re.IGNORECASE)
_HEDGE = _compile_any(
    r"i (?:kind of |sort of )?(?:think|thnik|guess|believe|suppose|reckon|assume|imagine|suspect|feel like)|maybe|mayb|"
    r"perhaps|probably|prob|possibly|potentially|not (?:entirely |100% |quite |totally |too |so |completely )?(?:sure|"
    r"certain|final|decided|confirmed|set in stone)|unsure|might|may (?:be|have|need|move|change|become)|could (?:be|"
    r"become|move|change|also)|presumably|apparently|supposedly|allegedly|(?:it )?(?:looks|seems|sounds|"
    r"appears) (?:like|as if|that|to be)|seems?|leaning (?:towards?|to)|thinking (?:of|about)|consider(?:ing|ed)?|"
    r"discuss(?:ed|ing)|debat(?:ed|ing)|talk(?:ed|ing) about|thought about|tempted|toying with|or so|something like|"
    r"(?:got to|gotta|have to|need to|must|will|i'll|let me|should) (?:first )?(?:ask|check|confirm|double-?check|"
    r"verify|talk to|think about|sleep on|discuss|run it|clear it)|sleep on it|can't remember|don't remember|"
    r"if i remember|iirc|afaik|as far as i (?:know|remember)|tbc|tbd|to be confirmed|rough(?:ly)?|estimated?|ballpark|"
    r"guess(?:ing)?|more or less|ish|or maybe|ideally|hopefully|(?:would|'d) (?:prefer|rather|like|suggest|"
    r"propose)(?! to (?:chang|mov|updat|set|switch|correct|cancel|mak|reschedul|us|go|book|hav))|in principle|on paper|"
    r"don't quote me|rumou?r\w*|i heard|we heard|heard (?:from|that)|no idea|who knows|(?:pretty|fairly|quite|almost|"
    r"reasonably|nearly|rather|90%|95%|99%) (?:sure|certain|confident|positive)|if memory serves|(?:just |"
    r"still )?checking (?:the|with|on|that|it|now|again)|(?:i'll|let me|will) (?:look|find out)|up in the air|"
    r"still (?:open|deciding|discussing|negotiating|waiting)|waiting (?:for|on|to hear)|pending|subject to|"
    r"shouldn't it|unless|depends"
)
_IDLE = _compile_any(
    r"brainstorm\w*|don't (?:save|store|record|remember|note|write|change|update|do|touch) (?:it|that|any|this|them|"
    r"anything)|nothing to change|no changes?|off the record|just (?:an? )?(?:idea|thought|thinking|brainstorming|"
    r"exploring|example|test|question)|thinking (?:out )?loud|in my head|spitball\w*|don't act on"
)
"""A remark that the message does not count."""
_WITHDRAWAL = _compile_any(r"ignore (?:that|this|it)|never ?mind|forget (?:it|that|what i)|scratch that")
_SECOND_THOUGHT = compile_late(
    r"\W{0,4}(?:(?:hm+|oh|uh|um|ah)\W{1,3})?(?:wait|no,? wait|hold on|hang on|scratch that|oops|correction|i mean|"
    r"make that|or rather|actually,? (?:no|wait|make|not|it's|it is|leave|scratch)|sorry,? (?:no|not|i mean|make|wait|"
    r"it's|wrong)|no,? (?:not|make|it's|sorry|actually))\b",
    re.IGNORECASE,
)
"""An immediate correction."""
_IRONY = _compile_any(
    r"yeah,? right|as if|sure,? and|basically|practically|lol|lmao|rofl|haha+|ha ha|hehe|just kidding|jk|kidding|"
    r"joking|in your dreams|pigs (?:can |might )?fly|santa(?: claus)?|the queen of|queen of england|batman|the pope|"
    r"elvis|my (?:new )?best friend|as always|as usual|surprise,? surprise|what a surprise|shocker|/s|who'?s counting|"
    r"apparently (?:my|the) new|might as well|for all i care|oh (?:great|joy|wonderful|sure|fantastic|perfect|lovely)|"
    r"how (?:nice|lovely|wonderful)|of course it is|yay|at this rate|by the look of it|feels like"
)
_EMOJI = compile_late("[\U0001f602\U0001f923\U0001f643\U0001f609\U0001f61c]|[;:]-?[pPD)](?!\\w)")
_WISH = _compile_any(
    r"wish(?:es|ed)?|hope|(?:about|high) time|hoping|dream(?:s|ing|ed)?|(?:would|'d) (?:really |so |absolutely )?love|"
    r"if only|would be (?:nice|great|cool|lovely|good|better|perfect|ideal)|fantasi[sz]e|longing|can't wait|"
    r"looking forward|deserve|ought to have|(?:would|'d) kill for|my dream|goal is to|hopefully one day"
)
_WOULD = _compile_any(r"would|wouldn't|'d be|would've|might have|could have|should have been|should've been")
_MAY = _compile_any(r"might|may|could")
_MAY_LEAD = _compile_any(
    r"(?:i|we|they|he|she|you|someone) (?:could|might|may|should|ought to|shall|would)(?: (?:probably|really|maybe|"
    r"just))?"
)
_BY_OTHERS = _compile_any(
    r"(?:my|our|his|her|their) " + RELATIVES + r"s?|he|she|somebody|someone|anybody|everybody|everyone"
)
"""People before a verb who do not decide about the speaker's things."""


class Meaning(msgspec.Struct, frozen=True):
    """The stance of a statement, and the reason if it is not in earnest."""

    stance: Stance
    why: str = ""


EARNEST = Meaning("earnest")
_APART = " | "
"""Separates parts of a sentence in one search, so that no phrase matches across them."""


class Surroundings(msgspec.Struct, frozen=True):
    """The text around a statement, split by clauses."""

    before: str
    """The earlier clauses of its sentence."""
    lead: str
    """Its clause before the statement."""
    inside: str
    """The text between phrase and value."""
    tail: str
    """Its clause behind the value."""
    after: str
    """The later clauses of its sentence."""
    following: str
    """The text behind its sentence."""
    is_question: bool
    is_dated: bool = False
    """Its value is a day or a time, so words for the future say nothing about the stance."""
    changes: bool = False
    """It reports a change, so words for the past only say when."""
    draft: bool = False
    """Its line or its sentence is labelled as a draft."""


def split_surroundings(
    text: str, sentence: Sentence, start: int, value: tuple[int, int] | None, stop: int
) -> Surroundings:
    """Split a sentence around a statement from `start` to `stop`, with a value inside."""
    cuts = [separator.span() for separator in _SEPARATOR.finditer(text, sentence.start, sentence.end)]
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
        is_question=sentence.is_question,
        draft=draft is not None,
    )


def judge_stance(around: Surroundings) -> Meaning:
    """Judge the stance of a statement."""
    for judge in (
        _judge_question,
        _judge_supposition,
        _judge_denial,
        _judge_report,
        _judge_joke,
        _judge_time,
        _judge_scope,
    ):
        meaning = judge(around)
        if meaning.stance != "earnest":
            return meaning
    return _judge_hedge(around)


def _judge_question(around: Surroundings) -> Meaning:
    clause = around.lead + (around.inside or "go")
    polite = _POLITE.match(clause) or _POLITE.match(around.before) or (_POLITE.match(around.before + clause))
    if _MAY_I.match(clause):
        return Meaning("doubtful", "question")
    if not polite and (_QUESTION.match(clause) and not _STATEMENT_OPENING.match(clause)):
        return Meaning("none", "question")
    if _EMBEDDED.search(around.lead):
        return Meaning("none", "embedded question")
    has_tag = _TAG.search(around.tail + around.after) is not None
    if not around.is_question:
        return Meaning("none", "question") if has_tag and "n't" in around.after else EARNEST
    if has_tag:
        return Meaning("none", "question")
    if polite or any(_QUESTION.match(part) or _POLITE.match(part) for part in _split_clauses(around.after)):
        return EARNEST
    hedged = _HEDGE.search(around.lead + around.tail)
    return Meaning("doubtful" if hedged else "none", "question")


def _split_clauses(text: str) -> list[str]:
    return [part for part in _SEPARATOR.split(text) if part]


def _judge_supposition(around: Surroundings) -> Meaning:
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


def _judge_denial(around: Surroundings) -> Meaning:
    if _NOT_LAST.search(around.lead) or _NEGATION.search(around.lead) or _NEGATION.search(around.inside):
        return Meaning("none", "negation")
    if _AS_BEFORE.match(around.tail + around.after):
        return Meaning("none", "no change")
    if _NO_CHANGE.search(around.inside) or _NO_CHANGE.search(around.lead):
        return Meaning("none", "no change")
    return EARNEST


def _judge_report(around: Surroundings) -> Meaning:
    if _MESSAGE_TO_OTHERS.search(around.before + around.lead):
        return Meaning("doubtful", "message to others")
    if _PER.search(around.before + around.lead):
        return Meaning("doubtful", "report")
    for part in (around.lead, around.before):
        report = _REPORT.search(part)
        if report is None or (part is around.before and part[report.end() :].strip(" ,:")):
            continue
        if _OWN_REPORT.search(report["who"]):
            if _OWN_SAYING.fullmatch(report["verb"]):
                continue
            return Meaning("doubtful", "hearsay") if report["verb"].lower().startswith("hear") else EARNEST
        if _AUTHORITIES.search(report["who"]):
            continue
        return Meaning("none", "report")
    return EARNEST


def _judge_joke(around: Surroundings) -> Meaning:
    near = _APART.join((around.before, around.lead, around.inside, around.tail, around.after))
    following = around.following.lstrip()
    if _IDLE.search(near) or _IDLE.match(following) or _WITHDRAWAL.match(following):
        return Meaning("none", "idle talk")
    if _SECOND_THOUGHT.match(following):
        return Meaning("doubtful", "second thought")
    if _IRONY.search(near) or _IRONY.match(following) or _EMOJI.search(near):
        return Meaning("none", "irony")
    return EARNEST


def _judge_time(around: Surroundings) -> Meaning:
    clause = _APART.join((around.lead, around.inside, around.tail))
    if not around.changes and _PAST.search(around.lead + " " + around.inside):
        return Meaning("none", "past")
    if around.changes and _LONG_PAST.search(around.tail) and not _PRESENT.search(around.inside):
        return Meaning("none", "past")
    if _FROM_THEN.search(around.before + around.lead) or (not around.is_dated and _FROM_THEN.search(around.tail)):
        return Meaning("doubtful", "future")
    if around.is_dated:
        return EARNEST
    if _FUTURE.search(clause) or _FUTURE.search(around.before) or _FUTURE.match(around.after.lstrip(" ,;")):
        return Meaning("doubtful", "future")
    return EARNEST


def _judge_scope(around: Surroundings) -> Meaning:
    inside = "" if around.is_dated else around.inside
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


def _judge_hedge(around: Surroundings) -> Meaning:
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
