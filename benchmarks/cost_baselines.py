"""What others send: everything, the newest that fits, old results cleared, and what langchain makes of a conversation."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks import peer
from benchmarks.agents.measure import ENVIRONMENT, LOCK
from benchmarks.cost_folds import Summarizer, build_prompts, whole_units
from benchmarks.cost_recordings import Recording, count
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, PromptPiece, tokens_of
from benchmarks.harness import environment

WORKER = Path(__file__).parent / "cost_langchain.py"


KEPT_RESULTS = 3
"""Of the newest results, when old ones are cleared: what a provider's own clearing keeps unless told otherwise."""


CLEARED_TOKENS = 4


def send_everything(recording: Recording) -> Iterator[Prompt]:
    whole = whole_units(recording)
    for call in recording.calls:
        yield whole[: call.units]


def send_newest(recording: Recording, window: int) -> Iterator[Prompt]:
    """The newest units that fit."""
    for prompt in send_everything(recording):
        yield fit_newest(prompt, window)


def fit_newest(prompt: Prompt, window: int) -> Prompt:
    size, first = PREFIX_TOKENS + tokens_of(prompt), 0
    while size > window and first < len(prompt) - 1:
        size -= prompt[first].tokens
        first += 1
    return prompt[first:]


def send_cleared(recording: Recording, window: int, share: float) -> Iterator[Prompt]:
    """Above a threshold, the results of all but the last few calls that have been seen give way to a word. Where even that
    does not fit, the window slides."""
    whole, texts = whole_units(recording), recording.texts
    bare = [
        PromptPiece(("bare", number), count(texts[2 * number]) + CLEARED_TOKENS, (2 * number,))
        if texts[2 * number + 1]
        else unit
        for number, unit in enumerate(whole)
    ]
    gone = 0
    for call in recording.calls:
        size = PREFIX_TOKENS + tokens_of(bare[:gone] + whole[gone : call.units])
        if size > share * window:
            with_results = [number for number in range(call.units) if texts[2 * number + 1]]
            kept = with_results[-KEPT_RESULTS:]
            gone = max(gone, min(kept[0] if kept else 0, recording.seen[call.units]))
        yield fit_newest(bare[:gone] + whole[gone : call.units], window)


class Langchain(peer.Peer):
    """The process that has langchain. It is told of one session at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [environment(ENVIRONMENT, LOCK), "-P", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"LANGSMITH_TRACING": "false"},
        )
        self._begins: list[int] = []
        """The number of the first message of each unit, as it is told."""

    def about(self) -> str:
        return str(self.order("about")[1])

    def take(self, recording: Recording) -> None:
        told: list[tuple[str, int, list[str]]] = []
        self._begins = []
        for unit in recording.units:
            self._begins.append(len(told))
            for message in unit.messages:
                answered = [[each.tool_call_id] for each in message.tool_results]
                role = str(message.role)
                ids = answered or [[call.id for call in message.tool_calls]]
                told += [(role, 0 if number else message.tokens, each) for number, each in enumerate(ids)]
        self._begins.append(len(told))
        self.order("session", told)

    def trimmed(self, recording: Recording, window: int) -> Iterator[Prompt]:
        whole = whole_units(recording)
        firsts = self.order("trim", window - PREFIX_TOKENS, self._known(recording))[1]
        for call, first in zip(recording.calls, firsts, strict=True):
            yield whole[self._unit(first) : call.units]

    def summarized(self, recording: Recording, summarizer: Summarizer, window: int, share: float) -> Iterator[Prompt]:
        """The middleware, told to summarise at a share of the window."""
        self.tell("summarize", round(share * window) - PREFIX_TOKENS, self._known(recording))
        made: tuple[int, ...] = ()
        while (heard := self.hear())[0] == "size":
            cut = self._unit(heard[1])
            made = made if made and made[-1] == cut else (*made, cut)  # a summary of itself is itself
            self.tell(summarizer.of(made).tokens)
        yield from build_prompts(recording, summarizer, [self._unit(first) for first in heard[1]])

    def _known(self, recording: Recording) -> list[int]:
        """How many messages stand before each call."""
        return [self._begins[call.units] for call in recording.calls]

    def _unit(self, message: int) -> int:
        return self._begins.index(message)
