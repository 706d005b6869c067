"""A detector and an extractor that ask a model: `holdfast.open(detector=ModelDetector(model))`.

Laws: a proposal quotes its message, character for character: what the message does not say cannot be proposed, whoever told
the model to. A model gives no authority, names no scope, and points only to facts that it was shown. Its confidence has a
cap. The same message about the same facts is not asked twice.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections import OrderedDict
from typing import Any, ClassVar

import msgspec

from holdfast.errors import InvalidArgument, describe_value
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.facts.detection import (
    DetectionRule,
    FactCandidate,
    FactChange,
    MessageSpan,
    Observation,
    Proposal,
)
from holdfast.model.names import check_whole
from holdfast.model.sessions.model_uses import MeteredAnswer
from holdfast.models.model import Model
from holdfast.models.prompt_files import load_prompt
from holdfast.models.questions import ModelOutcome, ModelQuestion, check_model, name_author, used

CHANGES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "changes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "change": {"type": "string", "enum": ["assert", "supersede", "retract", "expire"]},
                    "fact": {"type": ["string", "null"]},
                    "key": {"type": "string"},
                    "quote": {"type": "string"},
                    "confidence": {"type": "number"},
                },
                "required": ["change", "fact", "key", "quote", "confidence"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["changes"],
    "additionalProperties": False,
}
_RULES: dict[str, DetectionRule] = {
    "assert": "stated",
    "supersede": "explicit",
    "retract": "explicit",
    "expire": "temporal",
}
_KEY = re.compile(r"[a-z][a-z0-9_]{0,63}")
_KEY_GAPS = re.compile(r"[\s\-./]+")


class _StatedChange(msgspec.Struct, frozen=True):
    """A change as a model reports it, checked by the schema."""

    change: FactChange
    fact: str | None
    key: str
    quote: str
    confidence: float


class AnswerCache:
    """The last answers, by a digest of their questions. Threads share it."""

    def __init__(self, size: int) -> None:
        self._size = check_whole("remember", size)
        self._lock = threading.Lock()
        self._answers: OrderedDict[bytes, tuple[Proposal, ...]] = OrderedDict()

    def get(self, digest: bytes) -> tuple[Proposal, ...] | None:
        with self._lock:
            if digest in self._answers:
                self._answers.move_to_end(digest)
            return self._answers.get(digest)

    def put(self, digest: bytes, answer: tuple[Proposal, ...]) -> None:
        with self._lock:
            self._answers[digest] = answer
            self._answers.move_to_end(digest)
            while len(self._answers) > self._size:
                self._answers.popitem(last=False)


class _ChangeAsker:
    """The questions and answers of a detector or an extractor."""

    _prompt_name: ClassVar[str]
    _purpose: ClassVar[str]
    _roles: ClassVar[tuple[str, ...]]

    def __init__(
        self, model: Model, *, confidence: float = limits.MODEL_CONFIDENCE, remember: int = limits.MODEL_ANSWERS
    ) -> None:
        """`confidence` is the highest that a proposal gets: below `policy.apply_from`, every proposal waits for a
        decision. `remember` is how many answers are kept."""
        self._model = check_model(model)
        self._prompt = load_prompt(self._prompt_name)
        if type(confidence) not in (int, float) or not 0 <= confidence <= 1:
            reason = f"pass a number from 0 to 1, not {describe_value(confidence)}"
            raise InvalidArgument(argument="confidence", reason=reason)
        self._cap = float(confidence)
        self._cache = AnswerCache(remember)
        self.name = name_author(model, self._prompt)

    def _ask(self, observation: Observation) -> ModelQuestion | None:
        """The question; None if there is nothing to ask."""
        message = observation.message
        if message.role not in self._roles or not any(map(str.isalnum, message.text)):
            return None
        data = {
            "facts": [
                {"id": _alias(at), "key": fact.key, "value": fact.text} for at, fact in enumerate(observation.facts)
            ],
            "previous": [{"role": each.role, "text": each.text} for each in observation.previous],
            "message": {"role": message.role, "text": message.text},
        }
        order = 'Report what "message" in the JSON above changes. Quote it character for character.'
        messages = self._prompt.ask(data, order)
        return ModelQuestion(purpose=self._purpose, prompt=self._prompt, messages=messages, schema=CHANGES_SCHEMA)

    def _digest(self, observation: Observation) -> bytes:
        """Of all that the answer depends on, without the time."""
        facts = [(each.fact, each.key, each.value, each.scope, each.scope_id) for each in observation.facts]
        texts = [(each.role, each.text) for each in (*observation.previous, observation.message)]
        return hashlib.sha256(msgspec.json.encode((self.name, self._prompt.digest, facts, texts))).digest()

    def _read(self, observation: Observation, outcome: ModelOutcome) -> MeteredAnswer[tuple[Proposal, ...]]:
        if outcome.error:
            return MeteredAnswer(value=(), uses=used(outcome.use), error=outcome.error)
        proposals: dict[str, Proposal] = {}
        for each in outcome.value["changes"][: limits.PROPOSALS]:
            proposal = self._build_proposal(observation, msgspec.convert(each, _StatedChange, strict=False))
            if proposal is not None:
                proposals.setdefault(proposal.key, proposal)  # two about one key contradict each other
        answer = tuple(proposals.values())
        self._cache.put(self._digest(observation), answer)
        return MeteredAnswer(value=answer, uses=used(outcome.use))

    def _build_proposal(self, observation: Observation, stated: _StatedChange) -> Proposal | None:
        """The proposal of a change; None if the message does not state it, or it is about nothing that was shown."""
        span = find_quote(observation.message.text, stated.quote)
        if span is None or not math.isfinite(stated.confidence):
            return None
        known = {_alias(at): fact for at, fact in enumerate(observation.facts)}
        fact = known.get(stated.fact or "")
        change: FactChange = stated.change
        key = _KEY_GAPS.sub("_", stated.key.strip().lower())
        if change == "assert":
            same = (each for each in observation.facts if each.key == key and each.scope == "global")
            fact = next(same, None)
            change = "assert" if fact is None else "supersede"
        elif fact is None:
            return None
        if fact is None and not _KEY.fullmatch(key):
            return None
        has_value = change in ("assert", "supersede")
        value = _type_value(observation.message.text[span.start : span.end], fact) if has_value else None
        if fact is not None and has_value and value == fact.value:
            return None
        key = key if fact is None else fact.key
        return Proposal(
            change=change,
            rule=_RULES[change],
            reason=f"the model {self._model.name} read it in the message: {key}",
            confidence=min(self._cap, max(0.0, stated.confidence)),
            fact=None if fact is None else fact.fact,
            key=key,
            value=value,
            new=span if has_value else None,
        )

    def _recall(self, observation: Observation) -> ModelQuestion | MeteredAnswer[tuple[Proposal, ...]]:
        """The question to ask, or the answer if there is nothing to ask."""
        question = self._ask(observation)
        known = () if question is None else self._cache.get(self._digest(observation))
        return question if known is None and question is not None else MeteredAnswer(value=known or ())

    def _answer(self, observation: Observation) -> MeteredAnswer[tuple[Proposal, ...]]:
        question = self._recall(observation)
        if isinstance(question, MeteredAnswer):
            return question
        return self._read(observation, question.ask(self._model))

    async def _answer_async(self, observation: Observation) -> MeteredAnswer[tuple[Proposal, ...]]:
        question = self._recall(observation)
        if isinstance(question, MeteredAnswer):
            return question
        return self._read(observation, await question.ask_async(self._model))


class _DetectionAsker(_ChangeAsker):
    _prompt_name = "detect"
    _purpose = "detection"
    _roles = ("user", "assistant", "system")


class _ExtractionAsker(_ChangeAsker):
    _prompt_name = "extract"
    _purpose = "extraction"
    _roles = ("user",)


class ModelDetector(_DetectionAsker):
    """A detector that asks a model. What it proposes is decided by policy, within the authority of the speaker."""

    def detect(self, observation: Observation) -> MeteredAnswer[tuple[Proposal, ...]]:
        return self._answer(observation)


class ModelExtractor(_ExtractionAsker):
    """An extractor that asks a model for the lasting facts in a message of a user. It reads nothing else."""

    def extract(self, observation: Observation) -> MeteredAnswer[tuple[Proposal, ...]]:
        return self._answer(observation)


class AsyncModelDetector(_DetectionAsker):
    """A ModelDetector for an engine of open_async()."""

    async def detect(self, observation: Observation) -> MeteredAnswer[tuple[Proposal, ...]]:
        return await self._answer_async(observation)


class AsyncModelExtractor(_ExtractionAsker):
    """A ModelExtractor for an engine of open_async()."""

    async def extract(self, observation: Observation) -> MeteredAnswer[tuple[Proposal, ...]]:
        return await self._answer_async(observation)


def _alias(number: int) -> str:
    """The name of a fact in a prompt: a model cannot guess the id of a fact that it was not shown."""
    return f"f{number + 1}"


def find_quote(text: str, quote: str) -> MessageSpan | None:
    """Where a message says these very words, as whole words; None if it does not."""
    quote = quote.strip()
    if not any(map(str.isalnum, quote)):
        return None
    start = text.find(quote)
    while start >= 0:
        end = start + len(quote)
        cuts_before = start > 0 and text[start - 1].isalnum() and quote[0].isalnum()
        cuts_behind = end < len(text) and text[end].isalnum() and quote[-1].isalnum()
        if not cuts_before and not cuts_behind:
            return MessageSpan(0, start, end)
        start = text.find(quote, start + 1)
    return None


def _type_value(quote: str, fact: FactCandidate | None) -> Json:
    """The quoted value; a number if the value before is one."""
    if fact is not None and type(fact.value) in (int, float):
        try:
            number = float(quote.replace(",", ""))
        except ValueError:
            return quote
        is_whole = type(fact.value) is int and number.is_integer() and abs(number) < 1 << 53
        return int(number) if is_whole else number if math.isfinite(number) else quote
    return quote
