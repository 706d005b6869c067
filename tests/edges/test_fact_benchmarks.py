"""What is measured of facts is what the engine does: timelines come to the figures that they must come to, and ledgers that
are filled for a measurement are as if they had been written one fact at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks import facts
from benchmarks.harness import Bench
from benchmarks.statebench import ledgers as statebench
from benchmarks.statebench import mapping
from benchmarks.statebench.ledgers import BOTH, EVENTS, MODES, TALK, Replay, Tally, Timeline
from benchmarks.statebench.scores import Score
from hypothesis import given
from hypothesis import strategies as st

import holdfast

NOW = "2025-06-01T09:00:00"


def write(key: str, value: str, supersedes: str | None = None, **rest: Any) -> dict[str, Any]:
    source = {"type": "user", "identity": None, "authority": rest.pop("authority", "peer")}
    return {"id": "W-AUTO", "key": key, "value": value, "supersedes": supersedes, "source": source} | rest


def written(minute: int, *writes: dict[str, Any]) -> dict[str, Any]:
    return {"ts": f"2025-06-01T09:{minute:02}:00", "type": "state_write", "writes": list(writes)}


def said(minute: int, text: str) -> dict[str, Any]:
    return {"ts": f"2025-06-01T09:{minute:02}:00", "type": "conversation_turn", "speaker": "user", "text": text}


def asked(minute: int, required: list[str], forbidden: list[str], reasoning: str = "") -> dict[str, Any]:
    truth = {"must_mention": required, "must_not_mention": forbidden, "reasoning": reasoning}
    return {"ts": f"2025-06-01T09:{minute:02}:00", "type": "query", "ground_truth": truth}


def timeline(*events: dict[str, Any], track: str = "supersession", **start: Any) -> Timeline:
    state = {
        "identity_role": {"user_name": "Ada", "authority": "Manager"},
        "persistent_facts": start.get("facts", []),
        "working_set": start.get("working", []),
        "environment": {"now": NOW} | start.get("environment", {}),
    }
    return msgspec.convert({"id": "T-1", "track": track, "initial_state": state, "events": list(events)}, Timeline)


MOVED = (
    written(1, write("launch_date", "May 3rd", id="F-1"), write("venue", "Hall A")),
    said(2, "Correction: the launch date is June 9th, not May 3rd."),
    written(3, write("launch_date_v2", "June 9th", "F-1")),
    asked(4, ["June 9th", "Hall A"], ["may  3RD", "never written"]),
)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_superseded_is_dead_and_the_rest_is_not(mode: str) -> None:
    tally = Replay(timeline(*MOVED), mode).run()
    others = 1 if mode == TALK else 2
    assert tally == Tally(forbidden=1, required=2, required_live=2, named=1, named_dead=1, others=others)


def test_what_only_the_conversation_says_is_missed_without_it() -> None:
    label = "Must detect supersession of: ['F-1']"
    told = timeline(*MOVED[:2], asked(4, ["June 9th"], ["May 3rd"], label), track=statebench.TALKING)
    assert Replay(told, EVENTS).run() == Tally(forbidden=1, forbidden_live=1, unnamed=1, told=1, others=1)
    assert Replay(told, BOTH).run() == Tally(forbidden=1, required=1, required_live=1, told=1, told_dead=1, others=1)


def test_what_nothing_supersedes_stays_live_wherever_it_stands() -> None:
    lingering = timeline(
        written(1, write("weather", "rain by noon", layer="environment")),
        asked(2, ["noon"], ["rain", "sun", "maybe $5", "secret", "Hall A"]),
        facts=[write("venue", "Hall A"), write("price", "[RESTRICTED: board] secret $9")],
        working=[{"item_type": "context", "content": "maybe $5"}],
        environment={"weather": "sun all day"},
    )
    assert Replay(lingering, EVENTS).run() == Tally(
        forbidden=5, forbidden_live=3, at_hand=2, unnamed=1, required=1, required_live=1, suspect=2
    )


def test_the_record_ends_what_a_higher_authority_said() -> None:
    raised = timeline(
        written(1, write("limit_v2", "20%", "limit")),
        asked(2, ["20%"], ["15%"]),
        facts=[write("limit", "15%", authority="system")],
    )
    assert Replay(raised, EVENTS).run() == Tally(
        forbidden=1, required=1, required_live=1, named=1, named_dead=1, others=1
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12))
def test_events_end_what_they_name_and_nothing_else(steps: list[tuple[int, bool]]) -> None:
    """Chains of any shape: each step writes something new, or supersedes the last of one of the chains."""
    last: dict[int, str] = {}
    events: list[dict[str, Any]] = []
    ended = 0
    for at, (chain, goes_on) in enumerate(steps):
        old = last.get(chain) if goes_on else None
        ended += old is not None
        last[chain] = f"fact_{at}"
        events.append(written(at, write(f"fact_{at}", f"value {at} of {chain}", old)))
    tally = Replay(timeline(*events), EVENTS).run()
    assert (tally.named, tally.named_dead, tally.others, tally.others_dead) == (ended, ended, len(steps) - ended, 0)


def test_timelines_are_read_and_goals_are_judged(tmp_path: Path) -> None:
    (tmp_path / "statebench").mkdir()
    for split in statebench.SPLITS:
        (tmp_path / "statebench" / f"{split}.jsonl").write_bytes(msgspec.json.encode(timeline(*MOVED)) + b"\n")
    tables = statebench.run(Bench(tmp_path, True, tmp_path))
    assert len(tables) == 2 * (len(MODES) + 1)
    judged = {line.what: line for line in tables[3].lines}
    assert judged["events alone: superseded by an event and dead"].met is True
    assert judged["events and talk: live values killed"].theirs == "0 of 2"
    assert "superseded 1 of 1" in str(tables[0])


def test_no_data_is_said_and_is_no_failure(tmp_path: Path) -> None:
    tables = statebench.run(Bench(tmp_path, True, tmp_path / "nowhere"))
    assert [(len(table.lines), "nothing was measured" in table.notes[0]) for table in tables] == [(0, True)] * 2


def test_a_ledger_that_is_filled_is_as_if_it_had_been_written(tmp_path: Path) -> None:
    pairs = [("venue", "Hall A"), ("date", "May 3rd"), ("venue", "Hall B"), ("venue", "Hall C"), ("date", "June 9th")]

    def told(ledger: holdfast.Ledger) -> list[tuple[object, ...]]:
        found = [*ledger.items(), *ledger.items(status="dead")]
        return [(f.id, f.key, f.value, f.status, f.authority, f.supersedes, f.superseded_by, f.rule) for f in found]

    with holdfast.open(tmp_path / "filled.db") as engine:
        filled, singly = engine.ledger(project="filled"), engine.ledger(project="singly")
        facts.fill(engine.store, filled.id, pairs)
        for pair in pairs:
            singly.set(*pair)
        assert told(filled) == told(singly)
        assert [known.fact.value for known in filled.search("hall")] == ["Hall C"]
        assert filled.set("venue", "Hall D").supersedes == (filled.history("venue")[-2].id,)
        assert engine.admin.verify().ok


def test_rare_words_are_rare_and_common_ones_common() -> None:
    values = [value.split() for _, value in facts.Texts().pairs(2_000)]
    holding = {
        what: sum(not {*map(facts.word, ranks)}.isdisjoint(value) for value in values)
        for what, ranks in facts.QUERIES.items()
    }
    assert holding["rare words"] < 20 < 1_500 < holding["common words"]
    assert len({facts.word(rank) for rank in range(facts.WORDS)}) == facts.WORDS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[RESTRICTED: to HR] a raise of 15%", (True, "a raise of 15%")),
        ("[RESTRICTED] a raise", (True, "a raise")),
        ("a raise [RESTRICTED]", (False, "a raise [RESTRICTED]")),
        ("[UNRESTRICTED] a raise", (False, "[UNRESTRICTED] a raise")),
    ],
)
def test_a_tag_at_the_beginning_of_a_value_is_a_restriction(value: str, expected: tuple[bool, str]) -> None:
    assert mapping.split_restriction(value) == expected


def test_a_tag_at_the_beginning_of_an_item_is_its_task() -> None:
    assert mapping.split_task("[SCOPE: a draft ] terms") == ("a draft", "terms")
    assert mapping.split_task("terms [SCOPE: a draft]") == ("", "terms [SCOPE: a draft]")


def test_what_the_adapter_does_is_told_and_why_queries_fail() -> None:
    assert len(mapping.describe_mapping()) == len(mapping.FIELDS) + len(mapping.BEYOND_FIELDS)
    score = Score(judged=4, exposed=2, above=1, floor=1, marked=1, absent=3, lost=1, in_history=2)
    assert (score + Score()).describe_causes() == (
        "3 absent, 1 lost",
        "2 of 4: 1 above the floor of 1, 1 marked (2 in history)",
    )
