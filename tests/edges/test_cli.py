"""What each command answers, in words and in JSON, and that nothing hostile gets through to a terminal."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import apsw
import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.cli import output
from holdfast.cli.commands import root
from holdfast.cli.output import json_text
from holdfast.runtime import checks as cli_checks
from tests.edges.cli import HOSTILE, LONG, CommandRunner
from tests.edges.test_cli_process import on_a_terminal
from tests.postgres import fresh_url

ROOT = Path(__file__).parents[2]

JSON_COMMANDS: dict[str, tuple[list[str], set[str]]] = {
    "list": (["sessions", "list"], {"tenant", "actor", "session", "thread", "status", "messages", "tokens", "updated"}),
    "show": (["sessions", "show", "trip"], {"session", "messages"}),
    "tail": (["sessions", "tail", "trip"], {"id", "seq", "role", "content", "tool_calls", "text", "time"}),
    "log": (["log"], {"stream", "seq", "id", "type", "time", "hash", "payload", "erased", "cursor"}),
    "log of one": (["log", "trip"], {"stream", "seq", "id", "type", "time", "hash", "payload", "erased", "cursor"}),
    "situation": (["situation", "trip"], {"session", "frame", "goal", "iteration", "by", "origins", "actions"}),
    "verify": (["verify"], {"ok", "streams", "events", "problems"}),
    "rebuild": (["rebuild"], {"streams"}),
    "doctor": (["doctor"], {"ok", "bad", "warn", "checks"}),
    "stats": (
        ["stats"],
        {"file", "tenant", "sessions", "messages", "tokens", "input_tokens", "ledgers", "facts", "largest"},
    ),
    "frames": (["frames", "trip"], {"id", "parent", "status", "goal", "budget", "session"}),
    "suspended": (["suspended"], {"session", "frame", "reason", "by", "status"}),
    "recover": (["recover", "trip"], {"frame_stack", "unknown", "pending_work", "last_event_seq", "recovery_ms"}),
    "withdraw": (["withdraw", "large"], {"session", "frame", "seq", "messages", "grown", "facts", "reason"}),
    "ledgers": (["facts", "ledgers"], {"ledger", "names", "facts", "version", "updated"}),
    "facts": (["facts", "list", "--user", "ada"], {"ledger", "names", "id", "key", "value", "status", "claim"}),
    "review": (["facts", "review", "--user", "ada"], {"id", "key", "value", "review"}),
    "search": (["facts", "search", "a seat", "--user", "ada"], {"id", "key", "value", "score"}),
    "assert": (["facts", "assert", "seat", "window", "--user", "ada"], {"id", "key", "value", "status", "claim"}),
    "proposals": (["facts", "proposals", "trip"], {"id", "ledger", "proposal"}),
    "memory": (["memory", "search", "a seat", "--user", "ada"], {"query", "passages", "tokens", "left_out", "error"}),
    "known": (["memory", "known", "ada"], {"user", "facts", "passages", "totals"}),
    "forget": (["memory", "forget", "--user", "ada", "--yes"], {"passages", "residue"}),
    "backlog": (["memory", "backlog"], {"session", "actor", "entry", "attempts", "error", "is_set_aside"}),
    "sweep": (["sweep"], {"timed_out", "frames", "facts"}),
    "collect": (["collect"], {"removed"}),
    "backup": (["backup", "{folder}/copy.db"], {"target", "bytes"}),
    "copy": (
        ["copy", "{folder}/agent.db", "{folder}/house.db"],
        {"source", "target", "events", "already_there", "streams", "bodies", "body_bytes", "created"},
    ),
    "export": (["export", "{folder}/new.jsonl"], {"target", "events", "bytes"}),
    "import": (["import", "{folder}/there.jsonl"], {"source", "events", "created"}),
    "export of one": (
        ["export", "{folder}/new.jsonl", "--transcript", "trip"],
        {"target", "lines", "bytes", "tenant", "actor", "session", "thread"},
    ),
    "import of one": (
        ["import", "{folder}/told.jsonl", "--transcript", "told"],
        {"source", "messages", "late", "created", "tenant", "actor", "session", "thread"},
    ),
}


TOLD = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "tool_calls": [{"id": "a", "name": "look", "args": {}}], "at": 1.0},
    {"role": "tool", "tool_results": [{"tool_call_id": "b", "result": None}, {"tool_call_id": "a", "result": 1}]},
]
"""A transcript of another system, with a result that answers nothing."""


def make_files(cli: CommandRunner, folder: Path) -> None:
    cli("export", folder / "there.jsonl")
    (folder / "told.jsonl").write_text("".join(json.dumps(line) + "\n" for line in TOLD))


def names(cli: CommandRunner, *args: str) -> list[tuple[str, str]]:
    return [(row["actor"], row["session"]) for row in cli("sessions", "list", "--json", *args).documents]


# Text

TEXTS = st.text(st.characters(codec="utf-8"))


@given(TEXTS)
def test_cleaned_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    for shown in (output.escape(text), output.shorten(text, 10_000), *output.escape_lines(text)):
        kinds = {unicodedata.category(char) for char in shown if char not in "\u200c\u200d"}
        assert not kinds & {"Cc", "Zl", "Zp", "Cs"}
        assert not {unicodedata.bidirectional(char) for char in shown} & {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
        }


@given(st.text(st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S", "Zs"])))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert output.escape(text) == text
    assert output.escape_lines(f"{text}\n{text}") == [text, text]


@given(st.recursive(TEXTS | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_json_comes_back_as_it_went_in_and_is_safe_to_look_at(value: Any) -> None:
    for ascii_only in (False, True):
        text = json_text(value, ascii_only=ascii_only)
        assert json.loads(text) == value
        assert output.escape(text) == text
        assert text.isascii() or not ascii_only


@given(st.integers(0, 10**15))
def test_a_size_is_short_and_within_a_hundredth(number: int) -> None:
    figure, unit = output.format_size(number).split()
    assert len(figure) <= 4
    assert abs(float(figure) * 1_000 ** ["B", "kB", "MB", "GB", "TB", "PB"].index(unit) - number) <= number / 100


@given(st.integers(-(10**18), 10**18))
def test_any_time_can_be_shown(time_us: int) -> None:
    for shown in (output.format_timestamp(time_us), output.format_local_time(time_us), output.format_age(time_us, 0)):
        assert shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "just now"), (5, "5 s ago"), (90, "1 min ago"), (-7_300, "in 2 h"), (3 * 86_400, "3 d ago"), (10**8, "2020-")],
)
def test_a_time_is_told_from_now_and_a_distant_one_by_its_date(seconds: int, shown: str) -> None:
    now_us = 1_700_000_000_000_000
    assert output.format_age(now_us - seconds * 1_000_000, now_us).startswith(shown)


# Every command


@pytest.mark.parametrize("name", JSON_COMMANDS)
def test_every_command_answers_in_json_wherever_the_option_stands(
    name: str, cli: CommandRunner, tmp_path: Path
) -> None:
    make_files(cli, tmp_path)
    template, fields = JSON_COMMANDS[name]
    args = [arg.format(folder=tmp_path) for arg in template]
    for each in (["--json", *args], [*args, "--json"]):
        ran = cli(*each)
        assert (ran.code, ran.err) == (0, "")
        for document in ran.documents:
            assert fields <= set(document)
        for made in ("copy.db", "new.jsonl"):
            (tmp_path / made).unlink(missing_ok=True)


@pytest.mark.parametrize("name", JSON_COMMANDS)
def test_every_command_answers_in_plain_text(name: str, cli: CommandRunner, tmp_path: Path) -> None:
    make_files(cli, tmp_path)
    ran = cli(*(arg.format(folder=tmp_path) for arg in JSON_COMMANDS[name][0]))
    assert ran.code == 0
    assert ran.out
    assert output.escape(ran.out.replace("\n", "")) == ran.out.replace("\n", "")


@pytest.mark.parametrize("group", [(), ("sessions",), ("facts",), ("memory",), ("keys",)])
def test_the_help_fits_80_columns_and_no_line_of_it_is_cut_off(
    group: tuple[str, ...], cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = cli(*group, "--help").out
    commands = out.split("Commands:\n")[1].splitlines()
    assert len(commands) >= 3
    assert all(re.fullmatch(r"  [a-z]+ +[A-Z].*[^.]\.", line) for line in commands), commands
    assert max(map(len, out.splitlines())) <= 80


def test_the_page_about_the_command_line_names_every_command_option_and_variable() -> None:
    page = (ROOT / "docs/howto/command-line.md").read_text()
    context = click.Context(root)
    listed = [command for name in root.list_commands(context) if (command := root.get_command(context, name))]
    inner = [each for group in listed if isinstance(group, click.Group) for each in group.commands.values()]
    commands = [root, *listed, *inner]
    for command in commands[1:]:
        assert re.search(rf"\b{command.name}\b", page), command.name
    for option in (each for command in commands for each in command.params if each.param_type_name == "option"):
        assert f"`{option.opts[-1]}`" in page, option.opts
        assert option.envvar is None or f"`{option.envvar}`" in page


def test_the_file_the_tenant_and_the_actor_may_come_from_the_environment(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_TENANT", "acme")
    assert names(cli) == [("ada", "secret")]
    assert ("eve", "twin") in names(cli, "--tenant", "default")
    monkeypatch.setenv("HOLDFAST_TENANT", "default")
    monkeypatch.setenv("HOLDFAST_ACTOR", "eve")
    assert names(cli) == [("eve", "twin")]
    monkeypatch.setenv("HOLDFAST_FILE", str(tmp_path / "absent.db"))
    assert names(cli) == [("eve", "twin")], "what is said beats the environment"


# Sessions


def test_sessions_are_listed_newest_first_or_by_name_as_far_as_asked(cli: CommandRunner) -> None:
    everything = names(cli)
    assert everything[0] == ("main", "large")
    assert names(cli, "--order", "name") == sorted(everything)
    assert names(cli, "--limit", "2") == everything[:2]
    assert names(cli, "--actor", "bob", "--order", "name") == [("bob", "threaded"), ("bob", "twin")]
    assert names(cli, "--status", "closed") == [("ada", "closed")]
    assert names(cli, "--status", "destroyed") == [("ada", "gone")]
    assert ("ada", "gone") not in everything
    assert ("ada", "secret") not in everything
    assert names(cli, "--tenant", "acme") == [("ada", "secret")]


def test_a_shortened_list_says_so_and_an_empty_one_says_where_to_look(cli: CommandRunner) -> None:
    ran = cli("sessions", "list", "-n", "1")
    assert len(ran.out.splitlines()) == 2
    assert "--limit 0" in ran.err
    assert "'acme', 'default'" in cli("sessions", "list", "--tenant", "elsewhere").out


def test_the_columns_of_a_list_are_aligned(cli: CommandRunner) -> None:
    header, *lines = cli("sessions", "list").out.splitlines()
    at = header.index("STATUS")
    assert {line[at:].split()[0] for line in lines} == {"open", "closed"}


def test_a_session_is_shown_with_its_calls_and_nothing_hostile(cli: CommandRunner) -> None:
    ran = cli("sessions", "show", "trip")
    assert "trip  open  actor ada · tenant default" in ran.out
    assert output.escape(HOSTILE) in ran.out
    assert '→ search {"to": "LIS"}' in ran.out
    assert '{"flights": [940]}' in ran.out
    assert "open call weather" in ran.out
    assert "models read 100 tokens (40 from a cache) and wrote 20" in ran.out


def test_a_reset_and_late_results_are_shown(cli: CommandRunner) -> None:
    ran = cli("sessions", "show", "late")
    assert "1 late result stored as evidence" in ran.out
    assert "No result: gave up" in ran.out
    before, after = ran.out.split("the conversation was reset here")
    assert "gave up" in before
    assert "start over" in after
    assert "reset here" not in cli("sessions", "show", "late", "-n", "1").out


def test_long_texts_are_cut_unless_asked_for_in_full(cli: CommandRunner) -> None:
    cut = cli("sessions", "show", "large", "-n", "2").out
    assert "8,000 more characters" in cut
    assert f"… {LONG} earlier messages" in cut
    assert "blob" in cut
    assert "image at https://example.org/a.png" in cut
    full = cli("sessions", "show", "large", "-n", "1", "--full").out
    assert "word " * 1_999 in full
    shown = cli("sessions", "show", "large", "-n", "0", "--json").document
    assert len(shown["messages"]) == shown["session"]["messages"] == LONG + 2


def test_an_erased_message_is_shown_as_such(cli: CommandRunner) -> None:
    with holdfast.open(cli.path) as engine:
        engine.session("twin", actor="eve").erase([2], "asked to")
    assert "erased" in cli("sessions", "show", "twin", "--actor", "eve").out
    assert [message["erased"] for message in cli("sessions", "tail", "twin", "--actor", "eve", "--json").documents] == [
        True
    ]
    assert "(erased)" in cli("log", "twin", "--actor", "eve").out


def test_a_session_is_found_without_its_actor_unless_there_are_several(cli: CommandRunner) -> None:
    assert cli("sessions", "show", "threaded", "--json").document["session"]["thread"] == "side"
    assert cli("sessions", "show", "threaded", "--thread", "side", "--json").code == 0
    ran = cli("sessions", "show", "twin")
    assert ran.code == 2
    assert "There are 2 sessions 'twin'" in ran.err
    assert "--actor 'eve'" in ran.err
    [told] = cli("sessions", "show", "twin", "--actor", "eve", "--json").document["messages"]
    assert told["text"] == "I am eve."


@pytest.mark.parametrize("limit", [1, 7, 0])
def test_tail_gives_the_last_messages_in_their_order(cli: CommandRunner, limit: int) -> None:
    found = [message["seq"] for message in cli("sessions", "tail", "large", "-n", str(limit), "--json").documents]
    everything = list(range(2, LONG + 4))
    assert found == everything[-limit:]


# The log


def feed(path: Path) -> list[tuple[str, int]]:
    with holdfast.open(path) as engine:
        return [(event.id, event.seq) for event in engine.admin.feed(limit=1_000).events]


@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("only", [[], ["--actor", "ada"], ["--tenant", "acme"], ["--type", "session.created"]])
def test_the_feed_can_be_walked_by_its_cursors_without_a_gap(cli: CommandRunner, limit: int, only: list[str]) -> None:
    everything = cli("log", "--after", "", "-n", "0", "--json", *only).documents
    walked: list[Any] = []
    cursor = ""
    while page := cli("log", "--after", cursor, "-n", str(limit), "--json", *only).documents:
        assert len(page) <= limit
        assert [event["cursor"] for event in page[:-1]] == [None] * (len(page) - 1)
        walked += page
        cursor = page[-1]["cursor"]
    assert [event["id"] for event in walked] == [event["id"] for event in everything]
    assert everything


def test_the_log_shows_the_newest_events_of_all_tenants_or_of_one_session(cli: CommandRunner) -> None:
    stored = feed(cli.path)
    assert [(event["id"], event["seq"]) for event in cli("log", "-n", "0", "--json").documents] == stored
    assert [(event["id"], event["seq"]) for event in cli("log", "-n", "9", "--json").documents] == stored[-9:]
    assert [event["seq"] for event in cli("log", "large", "-n", "3", "--json").documents] == [
        LONG + 1,
        LONG + 2,
        LONG + 3,
    ]
    assert [event["seq"] for event in cli("log", "large", "-n", "2", "--after", "5", "--json").documents] == [6, 7]
    assert [event["seq"] for event in cli("log", "large", "--type", "session.created", "--json").documents] == [1]
    for event in cli("log", "trip", "--json").documents:
        assert re.fullmatch("[0-9a-f]{64}", event["hash"])
        assert event["stream"]["key"] == ["ada", "trip"]
        assert isinstance(event["payload"], dict)


def test_the_log_says_in_a_few_words_what_each_event_is(cli: CommandRunner) -> None:
    shown = cli("log", "trip", "--payload").out
    assert "session.created" in shown
    assert "user: red \\x1b[31malert" in shown
    assert "assistant: Let me look. One moment. → search → weather" in shown
    assert '"goal": "Lisbon"' in shown
    assert "default/ada/closed  all done" in cli("log", "--type", "session.closed").out


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "9" * 30])
def test_a_place_to_begin_that_is_none_is_refused(cli: CommandRunner, after: str) -> None:
    assert cli("log", "large", f"--after={after}").code == 2
    assert cli("log", f"--after={after}", "--json").error["type"] == "InvalidCursor"


# Care


def edit(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


def test_verify_names_what_is_wrong(cli: CommandRunner) -> None:
    edit(cli.path, "UPDATE events SET payload = CAST('{}' AS BLOB) WHERE position = 3")
    ran = cli("verify")
    assert ran.code == 1
    assert "event 3 of session default/ada/trip" in ran.out
    told = cli("verify", "--json")
    assert told.code == 1
    assert not told.document["ok"]
    assert {"where", "what"} == set(told.document["problems"][0])


def test_rebuild_brings_back_what_the_log_says(cli: CommandRunner) -> None:
    before = cli("sessions", "list", "--json").out
    edit(cli.path, "DELETE FROM session_rows")
    assert names(cli) == []
    with holdfast.open(cli.path) as engine:
        streams = engine.admin.totals().streams
    assert cli("rebuild", "--json").document == {"streams": streams}
    assert cli("sessions", "list", "--json").out == before


def test_a_backup_and_an_import_hold_what_the_file_holds(cli: CommandRunner, tmp_path: Path) -> None:
    everything = cli("log", "-n", "0", "--json").out
    count = len(everything.splitlines())
    assert cli("backup", tmp_path / "copy.db").code == 0
    assert cli("export", tmp_path / "all.jsonl", "--json").document["events"] == count
    made = cli._replace(path=tmp_path / "made.db")
    assert made("import", tmp_path / "all.jsonl", "--json").document | {"source": ""} == {
        "source": "",
        "events": count,
        "created": True,
    }
    assert made("import", tmp_path / "all.jsonl", "--json").document["events"] == 0
    for path in (tmp_path / "copy.db", tmp_path / "made.db"):
        other = cli._replace(path=path)
        assert other("log", "-n", "0", "--json").out == everything
        assert other("verify").code == 0


def test_a_copy_holds_what_the_file_holds_and_goes_on_where_it_was(cli: CommandRunner, tmp_path: Path) -> None:
    target = cli._replace(path=tmp_path / "house.db")
    address = f"sqlite:///{target.path}"
    with holdfast.open(cli.path) as engine:
        totals = engine.admin.totals()
    first = cli("copy", cli.path, address, "--json").document
    assert first == {
        "source": str(cli.path),
        "target": address,
        "events": totals.events,
        "already_there": 0,
        "streams": totals.streams,
        "bodies": 1,
        "body_bytes": 50_000,
        "created": True,
    }
    assert target("verify").code == 0
    assert cli("copy", cli.path, target.path, "--json").document["already_there"] == totals.events
    with holdfast.open(target.path) as engine:
        engine.session("trip", actor="ada").record("user", "went on there")
    ran = cli("copy", target.path, cli.path)
    assert ran.out == (
        f"Copied 1 event and 0 bodies to {cli.path} ({totals.events} events were there already); "
        f"all of {totals.streams} streams compared.\n"
    )
    assert target("log", "-n", "0", "--json").out == cli("log", "-n", "0", "--json").out


def test_a_copy_moves_to_a_server_and_back(cli: CommandRunner, tmp_path: Path) -> None:
    everything, url = cli("log", "-n", "0", "--json").out, fresh_url()
    there = cli("copy", cli.path, url, "--json").document
    assert cli("copy", cli.path, url).out.startswith("Copied 0 events and 0 bodies to postgresql://")
    back = cli._replace(path=tmp_path / "back.db")
    assert cli("copy", url, back.path, "--json").document == there | {"source": url, "target": str(back.path)}
    assert back("log", "-n", "0", "--json").out == everything
    assert back("verify").code == 0


def test_a_terminal_shows_how_far_a_copy_is(cli: CommandRunner, tmp_path: Path) -> None:
    seen, code = on_a_terminal("copy", cli.path, tmp_path / "house.db")
    assert code == 0
    assert "━━━" in seen
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", seen)
    assert re.search(r" ([1-9]\d*)/\1 ", plain), "the bar never came to its end"


@pytest.mark.parametrize("command", ["backup", "export"])
def test_what_is_there_is_not_overwritten(cli: CommandRunner, tmp_path: Path, command: str) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    ran = cli(command, there, "--json")
    assert (ran.code, ran.error["type"]) == (3, "InvalidUrl")
    assert there.read_text() == "mine"


def test_an_export_is_overwritten_when_asked(cli: CommandRunner, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    assert cli("export", "--force", there).code == 0
    assert there.read_text() != "mine"


def test_an_edited_export_is_refused_in_words(cli: CommandRunner, tmp_path: Path) -> None:
    cli("export", tmp_path / "all.jsonl")
    text = (tmp_path / "all.jsonl").read_text().replace("I am eve.", "I am bob.")
    (tmp_path / "all.jsonl").write_text(text)
    ran = cli._replace(path=tmp_path / "made.db")("import", tmp_path / "all.jsonl")
    assert ran.code == 3
    assert ran.err.startswith("Error: The import stopped at line")


def test_sweep_times_out_who_was_idle_for_too_long_once(cli: CommandRunner) -> None:
    [ended] = cli("sweep", "--json").document["timed_out"]
    assert (ended["actor"], ended["session"]) == ("ada", "idle")
    assert cli("sweep", "--json").document == {"timed_out": [], "frames": [], "facts": 0}
    assert ("ada", "idle") in names(cli, "--status", "closed")


def test_a_transcript_of_another_system_goes_in_and_comes_out_again(cli: CommandRunner, tmp_path: Path) -> None:
    make_files(cli, tmp_path)
    source, target = tmp_path / "told.jsonl", tmp_path / "out.jsonl"
    for _ in range(2):
        ran = cli("import", source, "--transcript", "told", "--actor", "eve", "--thread", "side")
        assert "Imported 3 messages of 'told' and 1 item of evidence" in ran.out
    wrote = cli("export", target, "--transcript", "told", "--json").document
    assert (wrote["lines"], wrote["actor"], wrote["thread"]) == (3, "eve", "side")
    assert [json.loads(line) for line in target.read_text().splitlines()] == TOLD
    assert "the file exists" in cli("export", target, "--transcript", "told").err
    assert "Exported 3 lines of 'told'" in cli("export", target, "--transcript", "told", "--force").out
    assert ("main", "told") not in names(cli)
    cli("import", source, "--transcript", "told")
    assert ("main", "told") in names(cli)


def test_a_transcript_that_cannot_be_taken_in_is_refused_in_a_line(cli: CommandRunner, tmp_path: Path) -> None:
    make_files(cli, tmp_path)
    source = tmp_path / "told.jsonl"
    taken = cli("import", source, "--transcript", "trip", "--actor", "ada", "--json")
    assert (taken.code, taken.error["type"]) == (3, "SessionExists")
    ambiguous = cli("export", tmp_path / "out.jsonl", "--transcript", "twin")
    assert (ambiguous.code, (tmp_path / "out.jsonl").exists()) == (2, False)
    source.write_text('{"role": "user", "content": "a", "content": "b"}\n')
    refused = cli("import", source, "--transcript", "other", "--json")
    assert (refused.code, refused.error["type"], refused.error["line"]) == (3, "ImportRefused", 1)
    assert ("main", "other") not in names(cli)
    for command in ("import", "export"):
        assert cli(command, source, "--thread", "side").code == 2


def test_collect_removes_bodies_that_nothing_names(cli: CommandRunner) -> None:
    with holdfast.open(cli.path) as engine:
        engine.blobs.put(b"nobody knows me")
    assert cli("collect", "--json").document == {"removed": 0}
    assert cli("collect", "--grace", "0", "--json").document == {"removed": 1}
    assert cli("verify").code == 0


def test_stats_add_up(cli: CommandRunner) -> None:
    found = cli("stats", "--json", "--top", "2").document
    rows = cli("sessions", "list", "--json", "-n", "0").documents
    assert found["sessions"] == {"open": len(rows) - 1, "closed": 1, "destroyed": 1}
    rows += cli("sessions", "list", "--json", "--status", "destroyed").documents
    for name in ("messages", "tokens", "open_calls", "input_tokens", "output_tokens"):
        assert found[name] == sum(row[name] for row in rows)
    assert found["file"]["events"] == len(feed(cli.path))
    assert found["file"]["blobs"] == 1
    largest = sorted(rows, key=lambda row: -row["tokens"])[:2]
    assert [row["session"] for row in found["largest"]] == [row["session"] for row in largest]
    shown = cli("stats").out
    assert f"{found['tokens']:,}" in shown
    assert "█" * 20 in shown


# The doctor


def verdicts(cli: CommandRunner, *args: str) -> dict[str, tuple[str, str]]:
    checks = cli("doctor", "--json", *args).document["checks"]
    return {check["name"]: (check["verdict"], check["found"]) for check in checks}


def test_the_doctor_finds_what_is_odd_and_advises(cli: CommandRunner) -> None:
    (Path(f"{cli.path}.blobs") / "0123.partial").write_bytes(b"cut off")
    cli.path.chmod(0o666)
    found = verdicts(cli)
    odd = {name for name, (verdict, _) in found.items() if verdict == "warn"}
    assert odd == {"leftovers", "permissions", "open calls", "idle sessions", "outbox"}
    assert found["contents"][0] == found["schema"][0] == found["rows"][0] == "ok"
    ran = cli("doctor")
    assert ran.code == 0
    assert "`holdfast sweep`" in ran.out
    assert "0 problems, 5 warnings" in ran.out


def test_the_doctor_knows_that_a_closed_folder_keeps_other_users_out(cli: CommandRunner) -> None:
    cli.path.chmod(0o644)
    cli.path.parent.chmod(0o700)
    assert verdicts(cli)["permissions"] == ("ok", "mode 644")


def test_the_doctor_verifies_small_files_and_large_ones_on_request(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(cli.path, "UPDATE events SET time_us = 1 WHERE position = 3")
    assert verdicts(cli)["contents"][0] == "bad"
    monkeypatch.setattr("holdfast.runtime.doctor.QUICK_EVENTS", 10)
    assert verdicts(cli)["contents"][0] == "ok"
    assert verdicts(cli, "--full")["contents"][0] == "bad"
    assert cli("doctor", "--full").code == 1


def test_the_doctor_sees_a_write_lock_that_is_never_given_back(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_checks, "LOCK_MS", 1)
    connection = apsw.Connection(str(cli.path))
    connection.execute("BEGIN IMMEDIATE")
    assert verdicts(cli)["write lock"][0] == "bad"
    connection.close()
    assert verdicts(cli)["write lock"][0] == "ok"


def test_the_doctor_sees_a_file_of_a_newer_holdfast(cli: CommandRunner) -> None:
    edit(cli.path, "PRAGMA user_version = 999")
    found = verdicts(cli)
    assert found["schema"][0] == found["open"][0] == "bad"
