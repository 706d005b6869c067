"""The command line on frames: the tree and its budgets, what is suspended, waking it, and taking up what was left."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Usage
from holdfast.cli import documents, main, output
from holdfast.cli import log as cli_log
from holdfast.cli.frames import BAR_CELLS, draw_budget_bar
from holdfast.model.events import EVENTS
from holdfast.model.frames.frames import frame_seq
from holdfast.types import Budget
from tests.edges.cli import COMMAND, HOSTILE, CommandResult, CommandRunner, environment, run_process
from tests.postgres import fresh_url
from tests.support import SHARED_MEMORY, CountingIds, SteppingClock, figure

START = datetime.fromtimestamp(1_700_000_000, UTC)
MISSING = "hfs_" + "A" * 43
"""A token that nobody ever had."""


class Kept(NamedTuple):
    """A store with frames in it, and the tokens of those that rest."""

    path: Path
    tokens: dict[str, str]


def write_frames(path: Path) -> Kept:
    """A tree with one of every kind of frame, another root, and calls that were started and that were not."""
    with holdfast.open(path, principal="agent", clock=SteppingClock(), ids=CountingIds()) as engine:
        trip = engine.create_session("trip", actor="ada")
        root = trip.frame(HOSTILE, budget=8_000, timeout_s=600, max_tool_calls=5)
        root.budget.reserve("breadcrumbs", 700)
        root.budget.use(2_000)
        failed = root.frame("Read vendor A", budget=1_000)
        failed.budget.use(2_500)
        failed.pop("failed", "it was down")
        waiting = root.frame("Read vendor B", budget=1_000)
        deep = waiting.frame("Book it", budget=300)
        calls = [{"name": "pay", "args": {"n": 1}}, {"name": "look", "args": {}}]
        asked = deep.record("assistant", "I book.", tool_calls=calls, usage=Usage(10, 5))
        deep.start_call(asked.tool_calls[0], call_key="key-of-the-payment")
        tokens: dict[str, str] = {}
        for name, until in (("live", None), ("expired", START + timedelta(hours=1)), ("revoked", None)):
            frame = root.frame(f"Ask, {name}", budget=100)
            tokens[name] = str(frame.suspend(HOSTILE, expires_at=until, resumable_by=["boss", "cli"]))
            if name == "revoked":
                frame.revoke("a mistake")
        trip.frame("Another root", budget=0).pop("completed", "done")
        quiet = engine.create_session("quiet", actor="ada")
        quiet.record("user", "hello")
        tokens["elsewhere"] = str(engine.create_session("mine").frame("Mine", budget=5).suspend("only I may"))
        other = engine.acting_as(tenant="acme").create_session("secret", actor="ada").frame("for acme only", budget=1)
        tokens["acme"] = str(other.suspend("of another tenant", resumable_by="cli"))
    return Kept(path, tokens)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Written once; who changes it takes a copy."""
    return write_frames(tmp_path_factory.mktemp("frames") / "agent.db")


@pytest.fixture
def kept(written: Kept, tmp_path: Path) -> Kept:
    return written._replace(path=Path(shutil.copy(written.path, tmp_path / "agent.db")))


@pytest.fixture
def cli(kept: Kept, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(kept.path, capsys)


Typed = Callable[[str], None]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """What the next command finds on standard input."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def said(path: Path | str, *args: str) -> CommandResult:
    """The same as `Cli`, where there is no fixture."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["--file", str(path), *args])
    return CommandResult(code, out.getvalue(), err.getvalue())


# Bars

AMOUNTS = st.integers(0, 20) | st.integers(0, 2**53)


@given(st.builds(Budget, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS))
@example(Budget(10**9, 1, 1, 1))
@example(Budget(1, 10**9, 0, 0))
@example(Budget(3, 1, 1, 10**9))
def test_a_bar_shows_every_part_of_a_budget_and_whether_it_is_overdrawn(budget: Budget) -> None:
    bar = draw_budget_bar(budget)
    assert re.fullmatch(r"\[(#*r*=*\.*!*| +)\]", bar)
    assert len(bar) == BAR_CELLS + 2
    assert ("!" in bar) == budget.is_overdrawn
    assert ("." in bar) == (budget.available > 0)
    assert ("#" in bar) == (min(budget.used, budget.total) > 0)
    if not budget.is_overdrawn:
        assert ("r" in bar) == (budget.reserved > 0)
        assert ("=" in bar) == (budget.delegated > 0)


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_bar_is_right_to_a_cell(total: int, used: int) -> None:
    used = min(total, used)
    assert abs(draw_budget_bar(Budget(total, used)).count("#") - used * BAR_CELLS / total) <= 1


# Words

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just(HOSTILE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = sorted({field for event in EVENTS.values() for field in event.__struct_fields__})


@given(st.sampled_from(sorted(EVENTS)), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4) | JSON)
def test_whatever_an_event_says_is_told_in_a_few_clean_words(kind: str, payload: Any) -> None:
    event = holdfast.types.StoredEvent(
        stream=holdfast.types.Scope("t", "a", "s").stream,
        seq=7,
        type=kind,
        version=1,
        command="0" * 32,
        ordinal=0,
        principal="p",
        time_us=1,
        cause=None,
        key=None,
        command_digest=bytes(32),
        payload_digest=bytes(32),
        payload=json.dumps(payload).encode(),
        salt=bytes(16),
        hash=bytes(32),
    )
    role, shown = cli_log.summarize_event(event)
    assert output.escape(role + shown) == role + shown
    assert len(shown) <= 2 * cli_log.SUMMARY_CHARS + 10


@pytest.mark.parametrize("kind", [name for name in EVENTS if name.startswith(("frame", "token", "budget", "call"))])
def test_what_is_said_of_an_event_of_frames_names_the_frame_and_no_raw_json(
    cli: CommandRunner, kept: Kept, kind: str
) -> None:
    _wake(kept)
    lines = cli("log", "trip", "--type", kind, "-n", "0").out.splitlines()
    assert lines, "the history has none of these"
    for line in lines:
        assert re.search(r"\bf[1-9]", line)
        assert "{" not in line


def _wake(kept: Kept) -> None:
    """Everything else that can happen to frames."""
    with holdfast.open(kept.path, principal="agent") as engine:
        trip = engine.session("trip", actor="ada")
        frame = trip.frame("More", budget=100)
        frame.update(goal="Much more")
        frame.handles.add("document", "text", title="A page")
        frame.record_all([("user", "word " * 100), ("assistant", "text"), ("user", "more"), ("assistant", "text")])
        frame.context.compact(strategy=holdfast.types.TruncateAt(1))
        frame.budget.grant(50)
        reserved = [frame.budget.reserve("thinking", 10) for _ in range(2)]
        frame.budget.commit(reserved[0], 5)
        frame.budget.cancel(reserved[1])
        frame.suspend("a moment")
        engine.resume(frame.reissue())


def test_the_log_says_in_a_few_words_what_happened_to_frames(cli: CommandRunner) -> None:
    log = cli("log", "trip", "-n", "0").out
    assert "frame.pushed          f2, 8,000 tokens: red \\x1b[31malert" in log
    assert "f5 under f2, 1,000 tokens: Read vendor A" in log
    assert "f5 failed, 2,500 tokens used: it was down" in log
    assert "assistant in f10: I book. → pay → look" in log
    assert "call.started          c11_0 in f10, attempt 1, key key-of-the-payment" in log
    cli("recover", "trip")
    assert "actor.resumed         " in cli("log", "trip", "--type", "actor.resumed").out
    assert "1 tool_in_progress" in cli("log", "trip", "--type", "actor.resumed").out


# The tree


def test_the_tree_shows_each_frame_with_its_budget_its_tools_and_its_time(cli: CommandRunner) -> None:
    ran = cli("frames", "trip")
    assert (ran.code, ran.err) == (0, "")
    lines = {match[1]: line for line in ran.out.splitlines() if (match := re.match(r"[^\w]*(f\d+) ", line))}
    assert len(lines) == 8
    assert "waiting" in lines["f2"]
    assert "[########r=..]  4,500 of 8,000  0 of 5" in lines["f2"]
    assert "late by " in lines["f2"]
    assert output.shorten(HOSTILE, 80) in lines["f2"]
    assert "failed     [####!!!!!!!!]  2,500 of 1,000" in lines["f5"]
    assert re.search(r"1 of 5 +10 +5 +late by ", lines["f10"])
    assert "left, paused" in lines["f14"]
    assert lines["f21"].startswith("f21")
    assert lines["f10"].startswith("│  └─ f10  active")


@pytest.mark.parametrize(("encoding", "branch"), [("utf-8", "│  └─ f10  active"), ("latin-1", "|  `- f10  active")])
def test_the_tree_is_drawn_with_what_the_reader_can_be_shown(kept: Kept, encoding: str, branch: str) -> None:
    done = run_process("-f", kept.path, "frames", "trip", env=environment(PYTHONIOENCODING=encoding), encoding=encoding)
    assert branch in done.stdout
    assert "\\u25" not in done.stdout


STEPS = st.lists(
    st.tuples(st.sampled_from(["root", "child", "child", "pop", "suspend"]), st.integers(0, 9)), max_size=14
)


@settings(max_examples=figure(6, 300), deadline=None)
@given(STEPS, st.integers(1, 6))
@example([("root", 0), ("child", 0), ("child", 0), ("pop", 1), ("pop", 1), ("root", 0)], 3)
def test_the_tree_is_that_of_the_session_however_little_of_it_is_shown(
    steps: list[tuple[str, int]], limit: int
) -> None:
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        path = Path(folder, "agent.db")
        with holdfast.open(path) as engine:
            session = engine.create_session("s")
            grow(session, steps)
            frames = {frame.id: frame for frame in session.frames.list(limit=1_000)}
        listed = [frame["id"] for frame in said(path, "frames", "s", "--json", "-n", "0").documents]
        assert listed == list(frames)
        for status in (None, "live", "completed"):
            asked = [] if status is None else ["--status", status]
            wanted = [
                each for each in frames.values() if status in (None, each.status) or (status == "live" and each.is_live)
            ]
            check_shown(said(path, "frames", "s", *asked, "-n", "0"), frames, [each.id for each in wanted], len(wanted))
            live = [each.id for each in wanted if each.is_live][-limit:]
            past = [each.id for each in wanted if not each.is_live]
            chosen = [*live, *past[len(past) - min(len(past), limit - len(live)) :]]
            check_shown(said(path, "frames", "s", *asked, "-n", str(limit)), frames, chosen, len(wanted), status)
            found = said(path, "frames", "s", "--json", *asked, "-n", str(limit)).documents
            assert [frame["id"] for frame in found] == sorted(chosen, key=frame_seq)


def grow(session: holdfast.Session, steps: list[tuple[str, int]]) -> None:
    live: list[holdfast.Frame] = []
    for step, which in steps:
        if step == "root" or not live:
            live.append(session.frame("root", budget=1_000))
            continue
        frame = live[which % len(live)]
        with contextlib.suppress(holdfast.errors.Conflict):  # too deep, resting, or with others below it
            if step == "child":
                live.append(frame.frame("child", budget=10))
            elif step == "suspend":
                frame.suspend("a moment")
            else:
                frame.pop("completed")
                live.remove(frame)


def check_shown(
    ran: CommandResult,
    frames: dict[str, holdfast.types.FrameState],
    chosen: list[str],
    of: int,
    status: str | None = None,
) -> None:
    """What was chosen is there with all above it, each right below its parent's branch, and the rest is counted."""
    assert ran.code == 0
    lines = [match for line in ran.out.splitlines() if (match := re.match(r"([|` -]*)(f\d+) ", line))]
    shown = [match[2] for match in lines]
    needed: set[str] = set()
    for each in chosen:
        above: str | None = each
        while above is not None:
            needed.add(above)
            above = frames[above].parent
    assert len(shown) == len(needed)
    assert set(shown) == needed
    path: list[str] = []
    siblings: dict[str | None, list[str]] = {}
    for each in sorted(needed, key=frame_seq):
        siblings.setdefault(frames[each].parent, []).append(each)
    for match in lines:
        depth = len(match[1]) // 3
        beside = siblings[frames[match[2]].parent]
        assert match[2] == beside.pop(0), "the oldest comes first"
        assert not depth or match[1].endswith("|- " if beside else "`- ")
        path[depth:] = [match[2]]
        assert frames[match[2]].depth == depth
        assert frames[match[2]].parent == (path[depth - 1] if depth else None)
    counted = re.search(r"and ([\d,]+) more", ran.err)
    matching = [frames[each] for each in shown if status in (None, frames[each].status) or status == "live"]
    assert (int(counted[1]) if counted else 0) == (of - len(matching) if len(chosen) < of else 0)


def test_a_session_without_frames_says_so(cli: CommandRunner) -> None:
    assert cli("frames", "quiet").out == "No frames in the session 'quiet'.\n"
    assert cli("frames", "trip", "--status", "cancelled").out == "No cancelled frames in the session 'trip'.\n"
    assert cli("frames", "quiet", "--json").out == ""


# What rests


def test_what_is_suspended_is_listed_with_its_reason_and_who_may_resume_it(cli: CommandRunner) -> None:
    found = {entry["frame"]: entry for entry in cli("suspended", "--session", "trip", "--json").documents}
    assert [entry["status"] for entry in found.values()] == ["live", "expired", "revoked"]
    assert found["f14"]["by"] == "agent"
    assert found["f14"]["resumable_by"] == ["boss", "cli"]
    assert found["f14"]["reason"] == HOSTILE
    assert found["f16"]["expires"] == "2023-11-14T23:13:20.000000Z"
    ran = cli("suspended")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"trip +ada +f14 +live +2023-11-14 +agent +boss, cli +red \\x1b\[31malert", ran.out)
    assert "acme" not in ran.out
    assert len(ran.out.splitlines()) == 5
    assert len(cli("suspended", "--actor", "main", "--json").documents) == 1


def test_a_short_list_says_how_many_more_there_are(cli: CommandRunner) -> None:
    ran = cli("suspended", "-n", "1")
    assert len(ran.out.splitlines()) == 2
    assert "… and 3 more" in ran.err
    assert cli("suspended", "--session", "quiet").out == "No suspended frames in the session 'quiet'.\n"
    assert cli("suspended", "--tenant", "nobody").out == "No suspended frames in the tenant 'nobody'.\n"


def test_no_command_ever_tells_a_token(cli: CommandRunner, kept: Kept, typed: Typed, tmp_path: Path) -> None:
    typed(kept.tokens["live"])
    told = cli("resume").out
    for command in (
        ["frames", "trip"],
        ["frames", "trip", "--json"],
        ["suspended"],
        ["suspended", "--json"],
        ["recover", "trip", "--json"],
        ["sessions", "show", "trip", "--json"],
        ["log", "-n", "0", "--payload"],
        ["log", "-n", "0", "--json"],
        ["doctor"],
    ):
        ran = cli(*command)
        assert ran.code == 0
        told += ran.out + ran.err
    cli("export", tmp_path / "all.jsonl")
    told += (tmp_path / "all.jsonl").read_text()
    secrets = [token.removeprefix("hfs_") for token in kept.tokens.values()]
    assert not [secret for secret in secrets if secret in told]


# Waking


def test_a_token_on_standard_input_wakes_its_frame_once(cli: CommandRunner, kept: Kept, typed: Typed) -> None:
    typed(f"  {kept.tokens['live']}\r\nand whatever follows\n")
    ran = cli("resume")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "f14 is active again: Ask, live\nsession trip · actor ada · tenant default\n"
    with holdfast.open(kept.path) as engine:
        trip = engine.session("trip", actor="ada")
        assert trip.frames.get("f14").state().status == "active"
        assert trip.events(after=trip.state().version - 1)[0].principal == "cli"
    typed(kept.tokens["live"])
    assert cli("resume", "--json").error["type"] == "TokenConsumed"


def test_a_frame_wakes_in_the_name_that_is_given_and_is_told_in_json(
    cli: CommandRunner, kept: Kept, typed: Typed
) -> None:
    typed(kept.tokens["elsewhere"])
    assert cli("resume", "--json").error["type"] == "TokenForbidden"
    typed(kept.tokens["elsewhere"])
    frame = cli("resume", "--principal", "agent", "--json").document
    assert (frame["actor"], frame["session"], frame["id"], frame["status"]) == ("main", "mine", "f2", "active")
    typed(kept.tokens["acme"])
    assert cli("resume", "--tenant", "acme", "--json").document["session"] == "secret"


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("expired", "TokenExpired"),
        ("revoked", "TokenRevokedError"),
        ("elsewhere", "TokenForbidden"),
        ("acme", "TokenInvalid"),
        (MISSING, "TokenInvalid"),
        (f"{MISSING}A", "TokenInvalid"),
        ("", "TokenInvalid"),
        (HOSTILE, "TokenInvalid"),
        ("x" * 10_000, "TokenInvalid"),
    ],
)
def test_a_token_that_does_not_work_is_refused_in_one_line(
    cli: CommandRunner, kept: Kept, typed: Typed, token: str, kind: str
) -> None:
    given = kept.tokens.get(token, token)
    before = kept.path.read_bytes()
    typed(given)
    ran = cli("resume")
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert output.escape(ran.err.rstrip("\n")) == ran.err.rstrip("\n")
    typed(given)
    refused = cli("resume", "--json")
    assert (refused.code, refused.out, refused.error["type"]) == (3, "", kind)
    assert not given.strip() or given not in ran.err + refused.err
    assert kept.path.read_bytes() == before


@pytest.mark.parametrize("args", [["{}"], ["--principal", "boss", "{}"], ["--token={}"], ["--token", "{}"]])
def test_a_token_on_the_command_line_is_refused_and_not_repeated(
    cli: CommandRunner, kept: Kept, args: list[str]
) -> None:
    ran = cli("resume", *(arg.format(kept.tokens["live"]) for arg in args))
    assert ran.code == 2
    assert kept.tokens["live"] not in ran.err + ran.out
    assert "Usage: holdfast resume" in ran.err
    assert cli("suspended", "--session", "trip", "--json").documents[0]["status"] == "live"


def test_the_real_command_reads_a_pipe_and_whatever_else_it_is_given(kept: Kept) -> None:
    noise = b"\xff\xfe\x00" + os.urandom(5_000)
    strict = environment(PYTHONIOENCODING="utf-8")
    command = [*COMMAND, "-f", str(kept.path), "resume"]
    refused = subprocess.run(command, input=noise, capture_output=True, check=False, env=strict)
    assert (refused.returncode, refused.stdout) == (3, b"")
    assert refused.stderr.startswith(b"Error: This is not a suspension token")
    script = f"{' '.join(COMMAND)} -f {kept.path} resume <&-"
    closed = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert closed.stderr.startswith("Error: This is not a suspension token")
    done = run_process("-f", kept.path, "resume", input=kept.tokens["live"])
    assert done.stdout.startswith("f14 is active again")


def test_a_terminal_asks_for_the_token_and_does_not_show_it(kept: Kept) -> None:
    terminal, end = os.openpty()
    command = [*COMMAND, "-f", str(kept.path), "resume"]
    process = subprocess.Popen(
        command, stdin=end, stdout=end, stderr=end, env=environment(COLUMNS="100"), start_new_session=True
    )
    os.close(end)
    seen = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end was closed
        while chunk := os.read(terminal, 65_536):
            seen += chunk
            if seen.endswith(b"Token: "):
                os.write(terminal, kept.tokens["live"].encode() + b"\n")
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    assert b" again: Ask, live" in seen
    assert kept.tokens["live"].encode() not in seen


# Taking up what was left


def test_what_nobody_knows_the_outcome_of_comes_first_with_its_key(cli: CommandRunner, kept: Kept) -> None:
    ran = cli("recover", "trip")
    assert (ran.code, ran.err) == (0, "")
    place, unknown, call, key, *rest = ran.out.splitlines()
    assert place == "session trip · actor ada · tenant default"
    assert unknown.startswith("OUTCOME UNKNOWN of 1 tool call")
    assert call == "  c11_0 in f10  pay was started and has no result: its outcome is unknown"
    assert key == "    key key-of-the-payment"
    assert re.fullmatch(r"\d frames? recovered, 7 items pending, last event 23, \d+ ms", rest[-1])
    pending = [line.split()[0] for line in rest if "_" in line.split()[0]]
    assert sorted(pending) == ["tool_not_started", *["waiting_for_subcall"] * 2, *["waiting_for_user"] * 3]
    with holdfast.open(kept.path) as engine:
        (event,) = engine.session("trip", actor="ada").events(after=22)
    assert (event.type, event.principal) == ("actor.resumed", "cli")


def test_a_recovery_in_json_has_all_that_the_library_tells(cli: CommandRunner, kept: Kept) -> None:
    found = cli("recover", "trip", "--principal", "agent", "--json").document
    with holdfast.open(kept.path) as engine:
        session = engine.session("trip", actor="ada")
        recovery = session.recover()
        assert session.events(after=22)[0].principal == "agent"
    same = documents.recovery(session.scope, recovery)
    moving = {"recovery_ms", "last_event_seq"}
    assert {name: found[name] for name in found if name not in moving} == {
        name: same[name] for name in same if name not in moving
    }
    assert found["unknown"] == [
        {
            "kind": "tool_in_progress",
            "frame": "f10",
            "description": "pay was started and has no result: its outcome is unknown",
            "call": "c11_0",
            "key": "key-of-the-payment",
        }
    ]
    assert found["pending_items"] == 7
    assert found["current_frame"] == found["frame_stack"][-1]["id"]


def test_what_is_pending_is_shortened_but_never_what_is_unknown(cli: CommandRunner) -> None:
    ran = cli("recover", "trip", "-n", "2")
    assert "key-of-the-payment" in ran.out
    assert "… and 4 more pending" in ran.err
    assert len(re.findall("^(?:waiting|tool)_", ran.out, re.MULTILINE)) == 2


def test_a_session_with_nothing_left_to_do_says_so(cli: CommandRunner) -> None:
    ran = cli("recover", "quiet")
    assert "UNKNOWN" not in ran.out
    assert "0 frames recovered, 0 items pending, last event 3" in ran.out


# The other commands


def test_a_session_is_shown_with_its_frames_and_its_started_calls(cli: CommandRunner) -> None:
    shown = cli("sessions", "show", "trip").out
    assert "6 live frames (1 active, 3 suspended, 2 waiting)" in shown
    assert "open call pay  c11_0  in f10  started, outcome unknown, key key-of-the-payment" in shown
    assert cli("sessions", "show", "trip", "--json").document["session"]["live_frames"] == 6


def test_stats_count_what_is_suspended(cli: CommandRunner) -> None:
    assert cli("stats", "--json").document["suspended"] == 4
    assert cli("stats", "--json", "--actor", "ada").document["suspended"] == 3
    assert re.search(r"suspended +4  frames that wait", cli("stats").out)


def test_the_doctor_sees_frames_that_are_late_and_tokens_that_are_void(cli: CommandRunner, kept: Kept) -> None:
    def verdicts() -> dict[str, tuple[str, str]]:
        checks = cli("doctor", "--json").document["checks"]
        return {check["name"]: (check["verdict"], check["found"]) for check in checks}

    found = verdicts()
    assert found["contents"][0] == "ok"
    assert found["frames"] == ("warn", "3 frames past the deadline in 1 session: trip")
    finding = (
        "2 suspended frames without a usable token (1 with an expired token, 1 with a revoked one) in 1 session: trip"
    )
    assert found["suspended"] == ("warn", finding)
    assert "`holdfast recover`" in cli("doctor").out
    swept = cli("sweep", "--json").document
    assert {frame["frame"] for frame in swept["frames"]} == {"f2", "f9", "f10"}
    found = verdicts()
    assert found["frames"][0] == found["suspended"][0] == "ok"


# On a server as on a file

ALIKE = [
    ["frames", "trip"],
    ["frames", "trip", "--json"],
    ["frames", "trip", "--status", "suspended", "-n", "1"],
    ["frames", "secret"],
    ["suspended"],
    ["suspended", "--json", "--actor", "ada"],
    ["resume"],
    ["resume", "--json"],
    ["log", "trip", "-n", "0"],
    ["recover", "trip"],
    ["recover", "trip", "--json"],
    ["sweep", "--json"],
    ["verify"],
]


def test_the_commands_answer_on_a_server_as_on_a_file(
    kept: Kept, capsys: pytest.CaptureFixture[str], typed: Typed
) -> None:
    there = write_frames(cast("Path", fresh_url()))
    assert there.tokens == kept.tokens
    for command in ALIKE:
        answers = []
        for path in (kept.path, there.path):
            typed(kept.tokens["live"])
            ran = CommandRunner(path, capsys)(*command)
            answers.append((ran.code, *(steady(text) for text in (ran.out, ran.err))))
        assert answers[0] == answers[1]
        assert answers[0][1] or answers[0][2]


def steady(text: str) -> str:
    """Without what depends on the moment at which it was said."""
    text = re.sub(r'\d+ ms$|(?<="recovery_ms": )\d+', "0", text, flags=re.MULTILINE)
    text = re.sub(r'(?<="time_us": )\d+|(?<=_us": )\d+|\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d(\.\d+Z)?', "0", text)
    return re.sub(r"\b[0-9a-f]{12,64}\b", "0", text)
