"""Read facts from what users say to their agents.

An agent has nobody who accepts a proposal, so what a user states about themselves is taken as it is, as it is for ended
conversations. Clients put texts of their own around the words of the user: these are cut off first.

Law: what stands in a text of a client is no statement of the user.
"""

from __future__ import annotations

import re

import msgspec

from holdfast.model.facts.detection import MessageSpan, Observation, Proposal
from holdfast.model.sessions.messages import Message

OWN_CHARS = 4_000
"""Longer words are pasted texts, and no statements of the user."""
TEXT_CHARS = 200_000
"""Longer messages are not looked at."""
_TAG = r"(?:system-reminder|command-[a-z]{1,20}|local-command-[a-z]{1,20}|environment_context|user_instructions)"
_BLOCK = re.compile(rf"<({_TAG})>(?:(?!</?{_TAG}>).)*+</\1>", re.DOTALL)
_MACHINE = re.compile(rf"</?{_TAG}\b")


def find_own_words(text: str) -> tuple[int, int]:
    """Where the user's own words are in a message: without the texts of a client before and behind them. An empty range, if
    the two cannot be told apart."""
    start, end = 0, len(text)
    if end > TEXT_CHARS:
        return 0, 0
    blocks = [match.span() for match in _BLOCK.finditer(text)]
    for first, last in blocks:
        if text[start:first].strip():
            break
        start = last
    for first, last in reversed(blocks):
        if first < start or text[last:end].strip():
            break
        end = first
    words = text[start:end]
    start += len(words) - len(words.lstrip())
    end = max(start, start + len(words.strip()))
    return (start, start) if _MACHINE.search(text, start, end) else (start, end)


def is_statement(message: Message) -> bool:
    """Whether a message can have the user's own words."""
    start, end = find_own_words(message.text) if message.role == "user" else (0, 0)
    return 0 < end - start <= OWN_CHARS


class UserDetector:
    """The rules of the engine, and what users state about themselves, in their own words."""

    name = "gateway-1"

    def detect(self, observation: Observation) -> tuple[Proposal, ...]:
        from holdfast.text.detect.detector import RuleDetector  # noqa: PLC0415 - loaded only when it is used
        from holdfast.text.detect.own_statements import find_own_statements  # noqa: PLC0415 - the same

        message = observation.message
        start, end = find_own_words(message.text)
        own = msgspec.structs.replace(
            observation, message=msgspec.structs.replace(message, text=message.text[start:end])
        )
        stated = find_own_statements(own)
        taken = {each.new for each in stated}
        others = (each for each in RuleDetector().detect(own) if each.new is None or each.new not in taken)
        return tuple(_move(each, start) for each in (*stated, *others))


def _move(proposal: Proposal, by: int) -> Proposal:
    """The proposal, with the places that it names in the whole message."""
    old = tuple(_move_span(each, by) for each in proposal.old)
    return msgspec.structs.replace(proposal, old=old, new=proposal.new and _move_span(proposal.new, by))


def _move_span(span: MessageSpan, by: int) -> MessageSpan:
    return MessageSpan(0, span.start + by, span.end + by) if span.seq == 0 else span
