"""Search facts by words without an index: every fact is scored. The reference for the search of the databases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from holdfast.model.facts.fact import FactQuery
from holdfast.model.rows import FactRow

KEY_WEIGHT = 3
"""The weight of a word in a key; in a value it is 1."""


def is_within(fact: FactRow, search: FactQuery) -> bool:
    """Whether a fact is within the bounds of a search, whatever its words are."""
    return (
        fact.tenant == search.tenant
        and fact.ledger in search.ledgers
        and fact.live == search.live
        and (fact.expires_us is None or fact.expires_us > search.now_us)
        and (fact.scope, fact.scope_id) in search.scopes
        and _may_know(fact, search.permissions)
    )


def _may_know(fact: FactRow, permissions: Sequence[str] | None) -> bool:
    if not fact.requires or permissions is None:
        return True
    return set(msgspec.json.decode(fact.requires, type=list[str])) <= set(permissions)


def rank_rows(facts: Sequence[FactRow], words: Sequence[str], limit: int) -> tuple[tuple[FactRow, float], ...]:
    """Return the facts with any of the words, best first, by BM25."""
    wanted = dict.fromkeys(words)
    weights = [_word_weights(fact) for fact in facts]
    lengths = [1 + fact.key_words.count(" ") + fact.words.count(" ") for fact in facts]
    mean = sum(lengths) / len(lengths) if lengths else 1
    common = Counter(word for weight in weights for word in wanted if word in weight)
    ranked: list[tuple[FactRow, float]] = []
    for fact, weight, length in zip(facts, weights, lengths, strict=True):
        score = sum(
            math.log(1 + (len(facts) - common[word] + 0.5) / (common[word] + 0.5))
            * (weight[word] * 2.2 / (weight[word] + 0.3 + 0.9 * length / mean))
            for word in wanted
            if word in weight
        )
        if score > 0:
            ranked.append((fact, score))
    ranked.sort(key=lambda match: (-match[1], match[0].ledger, -match[0].fact))
    return tuple(ranked[:limit])


def _word_weights(fact: FactRow) -> Counter[str]:
    weights = Counter(fact.words.split())
    for word in fact.key_words.split():
        weights[word] += KEY_WEIGHT
    return weights
