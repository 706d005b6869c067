"""Random conversations with withdrawals and restorations against a plain model: a list of messages, and for each
withdrawal the set of messages that it took out."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast import codec, errors
from holdfast.core.faults import find_fault
from holdfast.core.fold import fold_session
from holdfast.core.invariants import find_violations
from holdfast.core.upcast import decode_event
from holdfast.model.state import SessionState
from tests.property.session_model import CharCounter
from tests.property.store_tools import session_events, store_of_kind
from tests.property.transcript_player import check_pairs
from tests.support import CountingIds, SteppingClock, figure

RUNS = figure(40, 2_000)
STEPS = 40


class Conversation:
    """The plain model: messages by seq, each with the seq of the first message of its group."""

    def __init__(self) -> None:
        self.groups: dict[int, int] = {}
        self.taken: dict[int, set[int]] = {}

    def visible(self) -> list[int]:
        gone = {seq for seqs in self.taken.values() for seq in seqs}
        return sorted((seq for seq in self.groups if seq not in gone), key=lambda seq: (self.groups[seq], seq))

    def newest(self) -> list[int]:
        visible = self.visible()
        return [seq for seq in visible if self.groups[seq] == self.groups[visible[-1]]] if visible else []

    def after(self, seq: int) -> list[int]:
        """The messages after a seq, in whole groups."""
        visible = self.visible()
        heads = {self.groups[each] for each in visible if each > seq}
        return [each for each in visible if self.groups[each] in heads]


class Player:
    def __init__(self, engine: holdfast.Engine, seed: int) -> None:
        self.random = Random(seed)
        self.session = engine.create_session(f"s{seed}")
        self.model = Conversation()
        self.calls: list[str] = []

    def record(self, message: holdfast.Message, head: int | None = None) -> None:
        self.model.groups[message.seq] = head or message.seq

    def step(self) -> None:
        random = self.random
        choice = random.random()
        if self.calls and (choice < 0.5 or len(self.calls) > 1):
            call = self.calls.pop(random.randrange(len(self.calls)))
            message = self.session.result(call, "x" * random.randrange(1, 30), is_error=random.random() < 0.2)
            self.record(message, int(call[1:].partition("_")[0]))
        elif choice < 0.45 or (self.calls and choice < 0.7):
            self.record(self.session.record("user", random.choice(["hello", "and now?", "x" * 50])))
        elif choice < 0.7:
            self.reply()
        elif choice < 0.9:
            self.withdraw()
        elif self.model.taken:
            self.restore()

    def reply(self) -> None:
        random = self.random
        calls = [{"name": "tool", "args": {}, "id": f"p{at}"} for at in range(random.choice([0, 0, 1, 2]))]
        message = self.session.record("assistant", random.choice(["yes", "what next?"]), tool_calls=calls)
        self.record(message)
        self.calls = [call.id for call in message.tool_calls]

    def withdraw(self) -> None:
        after = self.random.choice([None, self.random.randrange(self.session.state().version + 2)])
        expected = self.model.newest() if after is None else self.model.after(after)
        before = self.rendered()
        open_before = bool(self.calls)
        withdrawal = self.session.withdraw(after)
        if withdrawal is None:
            assert expected == []
            return
        closings = [message for message in withdrawal.messages if message.closing]
        new = {each.seq for each in closings} - {*self.model.groups}
        for seq in new:
            head = next(self.model.groups[each] for each in expected if self.has_calls(each))
            self.model.groups[seq] = head
            self.calls = []
        assert {message.seq for message in withdrawal.messages} == {*expected, *new}
        outside = after is not None and any(seq <= after for seq in expected)
        assert withdrawal.grown == outside
        self.model.taken[withdrawal.seq] = {*expected, *new}
        if self.random.random() < 0.3 and not open_before:
            self.session.restore(withdrawal)
            del self.model.taken[withdrawal.seq]
            assert self.rendered() == before

    def has_calls(self, seq: int) -> bool:
        return any(call.startswith(f"c{seq}_") for call in self.calls)

    def restore(self) -> None:
        seq = self.random.choice([*self.model.taken])
        before = {*self.model.visible()}
        del self.model.taken[seq]
        restoration = self.session.restore(seq)
        assert {message.seq for message in restoration.messages} == {*self.model.visible()} - before
        with pytest.raises(errors.RestoreRefused):
            self.session.restore(seq)

    def rendered(self) -> tuple[Any, ...]:
        """What models are shown. A boundary moves the marks of the provider's cache, and no words."""
        shown = (codec.encode(self.session.context.render(kind)) for kind in ("text", "openai", "anthropic"))
        return tuple(each.replace(b'"cache_control":{"type":"ephemeral"},', b"") for each in shown)

    def check(self) -> None:
        view = self.session.context.view()
        shown = [message.seq for message in view.messages]
        waiting = {int(call[1:].partition("_")[0]) for call in self.calls}
        first = min(waiting, default=1 << 60)
        assert shown == [seq for seq in self.model.visible() if self.model.groups[seq] < first]
        check_pairs(self.session.context.window(1_000_000))
        state = self.session.state()
        assert find_violations(state) == []
        visible = self.model.visible()
        by_seq = {message.seq: message for message in self.session.messages(limit=1_000)}
        assert {*by_seq} == {*self.model.groups}
        assert {seq for seq, message in by_seq.items() if message.withdrawn} == {*by_seq} - {*visible}
        assert state.live == len(visible)
        assert state.live_tokens == sum(by_seq[seq].tokens for seq in visible)
        assert state.turns == sum(by_seq[seq].role == "user" for seq in visible)
        assert (state.asks, state.errors) == end_of(by_seq[seq] for seq in sorted(visible))
        assert [call.id for call in state.open_calls] == sorted(self.calls)

    def check_log(self) -> None:
        """Every event is one that a command can have made, and a replay gives the same state."""
        state = SessionState()
        for recorded in session_events(self.session):
            event = decode_event(recorded)
            assert find_fault(state, event, recorded.type) is None
            state = fold_session(state, event, recorded.type, recorded.time_us)
        assert state == self.session.state()


def end_of(messages: Iterable[holdfast.Message]) -> tuple[bool, tuple[str, ...]]:
    """Whether a conversation ends with a question, and the calls that failed since the last reply."""
    asks, failed = False, list[str]()
    for message in messages:
        asks = message.role == "assistant" and message.text.endswith("?") and not message.tool_calls
        if message.role == "assistant":
            failed = []
        failed += (result.tool_call_id for result in message.tool_results if result.is_error)
    return asks, tuple(failed)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_withdrawals_and_restorations_show_what_a_plain_model_shows(kind: Any) -> None:
    with (
        store_of_kind(kind) as url,
        holdfast.open(url, clock=SteppingClock(), ids=CountingIds(), counter=CharCounter()) as engine,
    ):
        for seed in range(RUNS if kind == "memory" else max(1, RUNS // 20)):
            player = Player(engine, seed)
            for _ in range(STEPS):
                player.step()
                player.check()
            player.check_log()
        assert engine.admin.verify().problems == ()
