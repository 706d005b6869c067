"""Two desks on one store, as two gateway processes have them, and sub-agents at once: the laws of the desk hold."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.gateway.desk import Desk
from holdfast.gateway.engines import open_engine
from holdfast.gateway.lines import Family
from holdfast.gateway.model import Arrival, Outcome, PreparedRequest
from holdfast.gateway.options import DeskOptions
from tests.gateway.clients import ItemsClient, MessagesClient, ModelClient
from tests.gateway.harness import OPTIONS, STEPS, Harness, check_laws
from tests.postgres import empty_url

SMALL = DeskOptions(window=3_000)
CODEX_SEED = 4
"""A client with this seed is Codex."""


@pytest.fixture(params=["sqlite", "postgres"])
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[holdfast.Engine]]:
    """Two engines on one store."""
    with ExitStack() as stack:
        store = str(tmp_path / "gateway.db") if request.param == "sqlite" else stack.enter_context(empty_url())
        yield [stack.enter_context(open_engine(store)) for _ in range(2)]


def call(desk: Desk, client: ModelClient, calls: int | None = None) -> PreparedRequest:
    """A request of a client, its reply, and how the client goes on."""
    prepared = desk.prepare(Arrival(dialect=client.dialect, headers=client.headers, body=client.request()))
    check_laws(prepared)
    reply = client.build_reply(calls)
    now = desk.engine._context.clock.now_us()
    desk.settle(prepared, Outcome(status=200, reply=reply, sent_us=now, ended_us=now))
    client.take(reply)
    return prepared


def run_at_once(*works: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def load_family(engine: holdfast.Engine, client: ModelClient) -> Family:
    """The family of a client as its store has it; no message is recorded twice."""
    kind = "claude" if client.dialect == "anthropic" else "codex"
    family = Family(f"{kind}-{client.family}")
    family.load(engine)
    for line in family.lines.values():
        hashes = [node.hash for node in line.nodes]
        assert len({*hashes}) == len(hashes)
    return family


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), steps=st.lists(st.sampled_from(STEPS), min_size=10, max_size=25))
def test_two_desks_take_turns(engines: list[holdfast.Engine], seed: int, steps: list[str]) -> None:
    harness = Harness(seed, OPTIONS, engines=engines, kind=MessagesClient if seed % 2 else ItemsClient)
    harness.client.family = f"family-{seed}"
    for name in steps:
        harness.step(name)
    harness.send()
    assert engines[1].admin.verify().ok


@pytest.mark.parametrize("kind", [MessagesClient, ItemsClient])
def test_desks_in_turn_send_one_view(engines: list[holdfast.Engine], kind: type[ModelClient]) -> None:
    """A desk that comes back to a conversation has the boundaries that the other one made."""
    harness = Harness(CODEX_SEED, OPTIONS, engines=engines, kind=kind)
    views = []
    for _ in range(40):
        prepared = harness.send()
        assert Desk(engines[0], OPTIONS).prepare(prepared.arrival).body == prepared.body
        step: Any = prepared.step
        views.append(step.view_name)
        harness.client.take(harness.answer(prepared))
    changes = [view for view, _ in itertools.groupby(views)]
    assert len(changes) == len({*changes}) > 3, "no view comes back"


@pytest.mark.parametrize("kind", [MessagesClient, ItemsClient])
def test_sub_agents_go_on_at_once(engines: list[holdfast.Engine], kind: type[ModelClient]) -> None:
    desks = [Desk(engine, SMALL) for engine in engines]
    main = kind(CODEX_SEED)
    agents = [kind(number, agent=f"agent-{number}") for number in range(8)]

    def work(desk: Desk, client: ModelClient) -> None:
        for left in reversed(range(6)):
            call(desk, client, calls=int(left > 0 or not client.agent))

    run_at_once(*(partial(work, desks[number % 2], client) for number, client in enumerate([main, *agents])))
    family = load_family(engines[0], main)
    (session,) = family.sessions.values()
    assert [frame.status for frame in session.frames.list()] == ["completed"] * 8
    lengths = {line.agent: len(line.nodes) for line in family.lines.values()}
    assert all(lengths[agent.agent] >= 12 for agent in agents)
    assert engines[0].admin.verify().ok


def test_branches_go_on_at_once(engines: list[holdfast.Engine]) -> None:
    desks = [Desk(engine, SMALL) for engine in engines]
    main = MessagesClient(3)
    for _ in range(3):
        call(desks[0], main, calls=0)
    branches = [copy.deepcopy(main) for _ in range(4)]
    for number, branch in enumerate(branches, 1):
        branch.words += 1_000 * number
        del branch.messages[2 * (number % 2) :]  # two of them begin anew, as after the client's own compaction
        branch.ask()

    def work(desk: Desk, branch: ModelClient) -> None:
        for _ in range(6):
            call(desk, branch)

    run_at_once(*(partial(work, desks[number % 2], branch) for number, branch in enumerate(branches)))
    load_family(engines[1], main)
    assert engines[0].admin.verify().ok


def test_an_epoch_has_nothing_that_another_desk_recorded_as_it_began(
    engines: list[holdfast.Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    desks = [Desk(engine, SMALL) for engine in engines]
    before, after = MessagesClient(3), MessagesClient(4)
    after.words = 1_000
    call(desks[0], before)
    reset = holdfast.Session.reset

    def go_on_meanwhile(session: holdfast.Session, *args: Any, **options: Any) -> object:
        answer = reset(session, *args, **options)
        monkeypatch.undo()
        call(desks[0], before)  # this desk does not know yet that the other one shortens the conversation
        return answer

    monkeypatch.setattr(holdfast.Session, "reset", go_on_meanwhile)
    boundaries = 0
    for _ in range(40):
        boundaries += call(desks[1], after).is_changed
    assert boundaries
    assert engines[0].admin.verify().ok


def test_one_request_that_two_desks_take_is_recorded_once(engines: list[holdfast.Engine]) -> None:
    clients = [MessagesClient(5), MessagesClient(5)]
    desks = [Desk(engine, SMALL) for engine in engines]
    for _ in range(6):
        run_at_once(*map(partial(partial, call), desks, clients))
    family = load_family(engines[0], clients[0])
    (line,) = family.lines.values()
    assert len(line.nodes) in (len(clients[0].messages), len(clients[0].messages) - 1)
    assert engines[0].admin.verify().ok


def test_a_sub_agent_goes_on_after_its_frame_ended() -> None:
    with open_engine("memory:") as engine:
        desk = Desk(engine, SMALL)
        main, agent = MessagesClient(1), MessagesClient(2, agent="agent-a")
        call(desk, main)
        for calls in (1, 1, 0, 1, 0):
            call(desk, agent, calls)
        session = engine.session(f"claude-{main.family}")
        assert [frame.status for frame in session.frames.list()] == ["completed", "completed"]
        call(desk, main)
        assert engine.admin.verify().ok


@pytest.mark.parametrize("kind", [MessagesClient, ItemsClient])
def test_a_sub_agent_of_a_sub_agent_is_a_frame_in_its_frame(kind: type[ModelClient]) -> None:
    with open_engine("memory:") as engine:
        desk = Desk(engine, SMALL)
        main, outer = kind(CODEX_SEED), kind(2, agent="agent-a")
        inner = kind(3, agent="agent-b", parent="agent-a")
        for client in (main, outer, inner, inner, outer):
            call(desk, client, calls=1)
        for client in (inner, outer):
            call(desk, client, calls=0)
        call(desk, main)
        session = next(iter(load_family(engine, main).sessions.values()))
        first, second = sorted(session.frames.list(), key=lambda frame: frame.depth)
        assert (first.parent, second.parent) == (None, first.id)
        assert [first.status, second.status] == ["completed", "completed"]
        assert engine.admin.verify().ok
