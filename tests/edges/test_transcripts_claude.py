"""Logs of Claude Code: every line is kept, the conversation is recorded, and a second import adds what is new."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import FileAbsent, ImportRefused
from holdfast.frameworks.claude_entries import LogName
from holdfast.frameworks.claude_import import ImportedLogs, import_logs, is_log
from holdfast.frameworks.claude_lines import read_lines
from holdfast.frameworks.claude_logs import ClaudeLog
from tests.edges.claude_lines import Chat
from tests.edges.cli import CommandRunner
from tests.support import figure

NAME = "1c2b5f0e-0000-4000-8000-000000000001"
PROJECT = "-work-shop"


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def example_lines(chat: Chat) -> list[dict[str, Any]]:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
    first, *rest = chat.reply(
        "I look.", ("Bash", "toolu_1", {"command": "ls"}), ("Read", "toolu_2", {"file_path": "a"})
    )
    thinking = chat.line("assistant", message=first["message"] | {"content": [thought]})
    file = {"type": "file", "filename": "notes.md", "content": {"type": "text", "file": {"content": "Remember."}}}
    return [
        chat.note("summary", summary="Tests", leafUuid="x"),
        chat.prompt("Fix the test."),
        chat.line("attachment", attachment=file),
        chat.line("attachment", attachment={"type": "date", "date": "2026-11-18"}, rendered=[{"content": "Today."}]),
        thinking,
        first,
        *rest,
        chat.result("toolu_2", [{"type": "text", "text": "no such file"}], is_error=True),
        chat.result("toolu_1", "a.py"),
        chat.line("system", subtype="informational", content="Compacting"),
        *chat.reply("Fixed."),
        chat.line("assistant", message={"role": "assistant", "model": "<synthetic>", "content": []}),
        chat.line("from-the-future", payload={"x": [1, 2]}),
    ]


def messages_of(engine: holdfast.Engine, frame: str | None = None, actor: str = PROJECT) -> list[tuple[str, str]]:
    session = engine.session(NAME, actor=actor)
    found = [each for each in session.messages(limit=1_000) if not each.withdrawn and each.frame == frame]
    return [(str(each.role), each.text) for each in found]


def shown_in(log: ClaudeLog) -> list[str]:
    return [each.text for each in log.open().messages(limit=1_000) if not each.withdrawn]


def test_a_log_becomes_a_session_and_is_imported_once(tmp_path: Path) -> None:
    chat = Chat(NAME)
    lines = example_lines(chat)
    source = write(tmp_path / "projects" / PROJECT / f"{NAME}.jsonl", lines)
    with holdfast.open("memory:") as engine:
        assert import_logs(engine, source) == ImportedLogs(sessions=1, lines=len(lines), messages=6)
        assert import_logs(engine, source) == ImportedLogs(sessions=1)
        assert messages_of(engine) == [
            ("user", "Fix the test."),
            ("user", "notes.md:\nRemember."),
            ("assistant", "I look."),
            ("tool", "no such file"),
            ("tool", "a.py"),
            ("assistant", "Fixed."),
        ]
        session = engine.session(NAME, actor=PROJECT)
        reply = session.messages()[2]
        assert [call.name for call in reply.tool_calls] == ["Bash", "Read"]
        assert reply.usage == holdfast.Usage(input_tokens=100, output_tokens=5, cache_read_tokens=90)
        assert not session.open_calls()
        thinking = session.pack(budget=8_000).anthropic()["messages"][1]["content"][0]
        assert thinking == {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
        assert ClaudeLog(engine, LogName(PROJECT, NAME)).load() == lines
        more = [chat.prompt("Go on."), *chat.reply("Yes.")]
        write(source, lines + more)
        assert import_logs(engine, source) == ImportedLogs(sessions=1, lines=2, messages=2)
        assert messages_of(engine)[-2:] == [("user", "Go on."), ("assistant", "Yes.")]
        assert engine.admin.verify().ok


def test_subagents_are_frames_wherever_their_lines_are(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / PROJECT
    chat, side = Chat(NAME), Chat(NAME)
    inline = [side.prompt("Look around.", isSidechain=True), *side.reply("Nothing.", isSidechain=True)]
    start = chat.reply("", ("Task", "toolu_1", {"prompt": "Look around."}), ("Agent", "toolu_2", {"prompt": "Count."}))
    counted = chat.result("toolu_2", "Seven.", agentId="a1")
    ended = [chat.result("toolu_1", "Nothing."), counted, *chat.reply("Done.")]
    write(folder / f"{NAME}.jsonl", [chat.prompt("Go."), *start, *inline, *ended])
    own = Chat(NAME)
    agent = write(
        folder / NAME / "subagents" / "agent-a1.jsonl",
        [own.prompt("Count.", isSidechain=True, agentId="a1"), *own.reply("Seven.", isSidechain=True, agentId="a1")],
    )
    agent.with_suffix(".meta.json").write_text(
        '{"agentType": "Explore", "toolUseId": "toolu_2", "description": "count"}'
    )
    write(folder / "agent-b2.jsonl", [Chat(NAME).prompt("Old style.", isSidechain=True, agentId="b2")])
    with holdfast.open("memory:") as engine:
        for number in range(2):
            imported = import_logs(engine, tmp_path)
            assert (imported.sessions, imported.subagents, imported.lines) == (1, 2, 0 if number else 12)
            assert messages_of(engine) == [
                ("user", "Go."),
                ("assistant", ""),
                ("tool", "Nothing."),
                ("tool", "Seven."),
                ("assistant", "Done."),
            ]
            session = engine.session(NAME, actor=PROJECT)
            looked, count, old = session.frames.list()
            assert [row.thread for row in engine.sessions()] == [""]
            assert messages_of(engine, looked.id) == [("user", "Look around."), ("assistant", "Nothing.")]
            assert messages_of(engine, count.id) == [("user", "Count."), ("assistant", "Seven.")]
            assert messages_of(engine, old.id) == [("user", "Old style.")]
        assert [(each.goal, each.status) for each in (looked, count, old)] == [
            ("Look around.", "completed"),
            ("count", "completed"),
            ("Old style.", "active"),
        ]
        assert session.frames.get(count).state().inputs == {"agent": "a1", "type": "Explore", "call": "toolu_2"}
        assert session.frames.get(count).state().summary == "Seven."
        assert session.frames.get(count).spend().usage == holdfast.Usage(100, 5, cache_read_tokens=90)
        causes = [event.cause for event in session.events(limit=1_000) if event.type == "frame.pushed"]
        assert causes == ["toolu_1", "toolu_2", None]
        described = ClaudeLog(engine, LogName(PROJECT, NAME)).agent("subagents/agent-a1").load()
        assert described is not None
        assert described[0]["type"] == "agent_metadata"
        assert engine.admin.verify().ok


def test_a_folder_has_subagents_of_subagents_in_any_order_and_stopped_ones(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / PROJECT
    chat = Chat(NAME)
    start = chat.reply("", ("Agent", "toolu_1", {"prompt": "Lead."}), ("Agent", "toolu_9", {"prompt": "Stop."}))
    ended = [chat.result("toolu_9", "Stopped", is_error=True), chat.result("toolu_1", "Led."), *chat.reply("Done.")]
    write(folder / f"{NAME}.jsonl", [chat.prompt("Go."), *start, *ended])
    for agent, parent, call, name in (
        ("z", "", "toolu_1", "Lead."),
        ("y", "z", "toolu_2", "Follow."),
        ("a", "y", "toolu_3", "Follow closely."),
        ("b", "y", "toolu_4", "Fail."),
        ("x", "", "toolu_9", "Stop."),
        ("p", "q", "toolu_5", "Its parent is not here."),
    ):
        side: dict[str, Any] = {"isSidechain": True, "agentId": agent}
        own = Chat(NAME)
        lines = [own.prompt(name, **side)]
        if agent == "y":
            lines += own.reply("", ("Agent", "toolu_3", {}), ("Agent", "toolu_4", {}), **side)
            lines += [own.result("toolu_3", "Yes.", **side), own.result("toolu_4", "No.", is_error=True, **side)]
        lines += own.reply("", ("Bash", "toolu_8", {}), **side) if agent in "bx" else own.reply("Yes.", **side)
        file = write(folder / NAME / "subagents" / f"agent-{agent}.jsonl", lines)
        about = {"description": name, "toolUseId": call} | ({"parentAgentId": parent} if parent else {})
        file.with_suffix(".meta.json").write_text(json.dumps(about))
    with holdfast.open("memory:") as engine:
        assert import_logs(engine, tmp_path).subagents == 6
        assert import_logs(engine, tmp_path) == ImportedLogs(sessions=1, subagents=6)
        frames = engine.session(NAME, actor=PROJECT).frames.list()
        goals = {frame.id: frame.goal for frame in frames}
        assert {(each.goal, goals.get(each.parent or ""), each.status) for each in frames} == {
            ("Lead.", None, "completed"),
            ("Follow.", "Lead.", "completed"),
            ("Follow closely.", "Follow.", "completed"),
            ("Fail.", "Follow.", "failed"),
            ("Stop.", None, "failed"),
            ("Its parent is not here.", None, "completed"),
        }
        assert engine.admin.verify().ok


def test_a_pack_of_an_imported_log_tells_a_result_once(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / PROJECT
    chat, own = Chat(NAME), Chat(NAME)
    said, more = "There are 412 tests in all.", "And none of them is slow, as far as I see."
    start = chat.reply("", ("Agent", "toolu_1", {"prompt": "Count."}), ("Agent", "toolu_2", {"prompt": "Time."}))
    results = [chat.result("toolu_1", f"{said}\nagentId: a"), chat.result("toolu_2", "It was launched.")]
    write(folder / f"{NAME}.jsonl", [chat.prompt("Go."), *start, *results, *chat.reply("Done.")])
    for agent, call, text in (("a", "toolu_1", said), ("b", "toolu_2", more)):
        side: dict[str, Any] = {"isSidechain": True, "agentId": agent}
        lines = [own.prompt("Do it.", **side), *own.reply(text, **side)]
        file = write(folder / NAME / "subagents" / f"agent-{agent}.jsonl", lines)
        file.with_suffix(".meta.json").write_text(json.dumps({"toolUseId": call}))
    with holdfast.open("memory:") as engine:
        import_logs(engine, tmp_path)
        text = engine.session(NAME, actor=PROJECT).pack(budget=4_000).text
        assert text.count(said) == 1
        assert text.count(more) == 1


class _Died(BaseException):
    """The process ends here."""


class InterruptedStore:
    """A store with which something happens before one of its writes."""

    def __init__(self, inner: Any, at: int, happen: Callable[[], None]) -> None:
        self._inner = inner
        self._at = at
        self._happen = happen
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, *args: Any, **options: Any) -> Any:
        self.writes += 1
        if self.writes == self._at:
            self._happen()
        return self._inner.append(*args, **options)


def write_family(folder: Path) -> None:
    """A session with a sub-agent, one below that, and one that was stopped; with lines that come twice."""
    chat, note = Chat(NAME), {"type": "mode", "sessionId": NAME, "mode": "default"}
    start = chat.reply("", ("Agent", "toolu_1", {"prompt": "Lead."}), ("Agent", "toolu_9", {"prompt": "Stop."}))
    ended = [chat.result("toolu_9", "Stopped", is_error=True), chat.result("toolu_1", "Led."), *chat.reply("Done.")]
    write(folder / f"{NAME}.jsonl", [note, chat.prompt("Go."), note, *start, *ended, note])
    for agent, parent, call, name in (
        ("y", "z", "toolu_2", "Follow."),
        ("z", "", "toolu_1", "Lead."),
        ("x", "", "toolu_9", "Stop."),
    ):
        side: dict[str, Any] = {"isSidechain": True, "agentId": agent}
        own = Chat(NAME)
        lines = [own.prompt(name, **side)]
        is_stopped = agent == "x"
        lines += own.reply("", ("Bash", "toolu_8", {}), **side) if is_stopped else own.reply("Yes.", **side)
        file = write(folder / NAME / "subagents" / f"agent-{agent}.jsonl", lines)
        about = {"description": name, "toolUseId": call} | ({"parentAgentId": parent} if parent else {})
        file.with_suffix(".meta.json").write_text(json.dumps(about))


def check_family(engine: holdfast.Engine) -> None:
    session = engine.session(NAME, actor=PROJECT)
    frames = session.frames.list()
    goals = {frame.id: frame.goal for frame in frames}
    assert sorted((each.goal, goals.get(each.parent or "", ""), str(each.status)) for each in frames) == [
        ("Follow.", "Lead.", "completed"),
        ("Lead.", "", "completed"),
        ("Stop.", "", "failed"),
    ]
    said = [(str(each.role), each.text, len(each.tool_calls)) for each in session.messages() if each.frame is None]
    assert said == [
        ("user", "Go.", 0),
        ("assistant", "", 2),
        ("tool", "Stopped", 0),
        ("tool", "Led.", 0),
        ("assistant", "Done.", 0),
    ]
    log = ClaudeLog(engine, LogName(PROJECT, NAME))
    assert len(log.load() or []) == 9
    assert [len(log.agent(f"subagents/agent-{each}").load() or []) for each in "xyz"] == [3, 3, 3]
    assert session.evidence() == []
    assert engine.admin.verify().ok


@pytest.mark.parametrize("happens", ["the process dies", "another process imports it"])
def test_an_import_is_complete_whatever_happens_before_one_of_its_writes(tmp_path: Path, happens: str) -> None:
    write_family(tmp_path / "projects" / PROJECT)

    def happen() -> None:
        if happens == "the process dies":
            raise _Died
        import_all()

    def import_all() -> None:
        with holdfast.open(url) as other:
            import_logs(other, tmp_path)

    at, writes = 0, 1
    while at <= writes:
        url = f"{tmp_path}/{at}.db"
        with holdfast.open(url) as engine:
            store = InterruptedStore(engine.store, at, happen)
            engine.store = cast("Any", store)
            with contextlib.suppress(_Died):
                import_logs(engine, tmp_path)
        writes = max(writes, store.writes)
        if happens == "the process dies":
            import_all()
        with holdfast.open(url) as engine:
            check_family(engine)
        at += figure(3, 1)
    assert writes > 20


def test_a_subagent_that_goes_on_after_its_end_has_a_further_frame(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / PROJECT
    write(folder / f"{NAME}.jsonl", [Chat(NAME).prompt("Go.")])
    own = Chat(NAME)
    lines = [own.prompt("Count.", isSidechain=True), *own.reply("Seven.", isSidechain=True)]
    with holdfast.open("memory:") as engine:
        for more in ([], [own.prompt("And now?", isSidechain=True), *own.reply("Eight.", isSidechain=True)]):
            lines += more
            agent = write(folder / NAME / "subagents" / "agent-a1.jsonl", lines)
            assert import_logs(engine, agent).messages == 2
        first, second = engine.session(NAME, actor=PROJECT).frames.list()
        assert [first.status, second.status] == ["completed", "completed"]
        assert messages_of(engine, first.id) == [("user", "Count."), ("assistant", "Seven.")]
        assert messages_of(engine, second.id) == [("user", "And now?"), ("assistant", "Eight.")]
        assert import_logs(engine, tmp_path).messages == 1  # of the session itself


def test_broken_lines_are_kept_and_an_unfinished_one_waits(tmp_path: Path) -> None:
    chat = Chat(NAME)
    source = write(tmp_path / f"{NAME}.jsonl", [chat.prompt("Hello.")])
    reply = json.dumps(chat.reply("Hi.")[0])
    source.write_bytes(source.read_bytes() + b"{broken\n[1]\n" + reply[:40].encode())
    with holdfast.open("memory:") as engine:
        assert import_logs(engine, source) == ImportedLogs(sessions=1, lines=1, messages=1, broken=2)
        source.write_bytes(source.read_bytes() + reply[40:].encode())
        assert import_logs(engine, source) == ImportedLogs(sessions=1, lines=1, messages=1)
        kept = engine.session(NAME).entries.list(kind="claude.broken")
        assert [entry.body for entry in kept] == [b"[1]", b"{broken"]


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"role": "user", "content": "x", "sessionId": "y", "type": "z"}\n')
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert not is_log(other)
    assert not is_log(empty)
    with holdfast.open("memory:") as engine:
        for source in (other, empty, tmp_path):
            with pytest.raises(ImportRefused, match="not a log of Claude Code"):
                import_logs(engine, source)
        with pytest.raises(FileAbsent):
            import_logs(engine, tmp_path / "none")
        assert engine.sessions() == ()


def test_the_command_imports_a_file_and_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "projects" / PROJECT / f"{NAME}.jsonl", example_lines(Chat(NAME)))
    cli = CommandRunner(tmp_path / "agent.db", capsys)
    ran = cli("import", source)
    assert "Imported 14 new lines, 6 new messages of 1 session and 0 sub-agents from" in ran.out
    again = cli("import", tmp_path / "projects", "--json").document
    assert {name: again[name] for name in ("lines", "messages", "sessions", "subagents", "broken")} == {
        "lines": 0,
        "messages": 0,
        "sessions": 1,
        "subagents": 0,
        "broken": 0,
    }
    assert "Fix the test." in cli("log", NAME, "--actor", PROJECT).out
    assert cli("import", tmp_path / "nothing").code != 0


def long_turn(chat: Chat) -> list[dict[str, Any]]:
    """A turn of more messages than a log remembers."""
    lines = [chat.prompt("Read all files.")]
    for number in range(60):
        lines += [*chat.reply("", ("Read", f"toolu_{number}", {})), chat.result(f"toolu_{number}", "x")]
    return [*lines, *chat.reply("The wrong ones.")]


@pytest.mark.parametrize("has_hook", [False, True])
@pytest.mark.parametrize("size", [1, 10, 1_000])
def test_going_back_over_a_long_turn_withdraws_it(size: int, has_hook: bool) -> None:
    chat, name = Chat(NAME), LogName("p", "s")
    lines = [chat.prompt("One."), *chat.reply("First.")]
    at = chat.last
    lines += long_turn(chat)
    chat.last = at
    right = [chat.line("system"), chat.prompt("Two.", promptId="p2"), *chat.reply("Better.")]
    with holdfast.open("memory:") as engine:
        for first in range(0, len(lines), size):
            ClaudeLog(engine, name, observe=True).append(lines[first : first + size])
        log = ClaudeLog(engine, name, observe=True)
        if has_hook:
            log.record_prompt("p2", "Two.")
        for first in range(0, len(right), size):
            log.append(right[first : first + size])
        assert shown_in(log) == ["One.", "First.", "Two.", "Better."]
        log = ClaudeLog(engine, name, observe=True)
        if has_hook:
            log.record_prompt("p3", "Three.")
        log.append([chat.prompt("Three.", promptId="p3"), *chat.reply("Yes.")])
        assert shown_in(log) == ["One.", "First.", "Two.", "Better.", "Three.", "Yes."]
        assert engine.admin.verify().ok


def test_a_hook_after_a_long_turn_that_was_taken_back_withdraws_nothing_else() -> None:
    """The process has died after it withdrew the turn."""
    chat, name = Chat(NAME), LogName("p", "s")
    lines = [chat.prompt("One."), *chat.reply("First.")]
    at = chat.last
    with holdfast.open("memory:") as engine:
        ClaudeLog(engine, name).append(lines + long_turn(chat))
        log = ClaudeLog(engine, name)
        session = log.open()
        session.withdraw(after=session.messages(limit=1_000)[1])
        log.record_prompt("p2", "Two.")
        chat.last = at
        file = {"type": "file", "filename": "notes.md", "content": "Remember."}
        log.append([chat.line("attachment", attachment=file), chat.prompt("Two.", promptId="p2")])
        assert shown_in(log) == ["One.", "First.", "notes.md:\nRemember.", "Two."]


def test_going_back_to_a_prompt_that_a_hook_recorded_keeps_it() -> None:
    chat, name = Chat(NAME), LogName("p", "s")
    with holdfast.open("memory:") as engine:
        log = ClaudeLog(engine, name)
        log.append([chat.prompt("One."), *chat.reply("First.")])
        log.record_prompt("p2", "Two.")
        log.append([chat.prompt("Two.", promptId="p2")])
        at = chat.last
        log.append(chat.reply("No."))
        chat.last = at
        ClaudeLog(engine, name).append([chat.prompt("Think again."), *chat.reply("Yes.")])
        assert shown_in(log) == ["One.", "First.", "Two.", "Think again.", "Yes."]


def test_a_line_may_follow_anything_that_is_no_line(tmp_path: Path) -> None:
    chat = Chat(NAME)
    folder = tmp_path / "projects" / PROJECT
    source = write(folder / f"{NAME}.jsonl", [chat.prompt("Hello.")])
    source.write_bytes(source.read_bytes() + b"{broken\n")
    with holdfast.open("memory:") as engine:
        import_logs(engine, source)
        session = engine.session(NAME, actor=PROJECT)
        log = ClaudeLog(engine, LogName(PROJECT, NAME))
        log.note("claude.compaction", "c1", None)
        keys = [
            entry.key for kind in ("claude.broken", "claude.compaction") for entry in session.entries.list(kind=kind)
        ]
        assert len(keys) == 2
        for key in keys:
            log.append([chat.prompt("Go on.", parentUuid=key), chat.prompt("Side.", parentUuid=key, isSidechain=True)])
            log.append([chat.line("user", parentUuid=key, message={"content": "Sum."}, isCompactSummary=True)])
        assert engine.admin.verify().ok


def test_sub_agents_in_a_long_file_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = Chat(NAME)
    lines: list[dict[str, Any]] = []
    for number in range(40):
        own = Chat(NAME)
        lines += [chat.prompt("Go."), *chat.reply("", ("Task", f"toolu_{number}", {"prompt": f"Look {number}."}))]
        lines += [own.prompt(f"Look {number}.", isSidechain=True), *own.reply("Nothing.", isSidechain=True)]
        lines += [chat.result(f"toolu_{number}", "Nothing.")]
    read: list[int] = []
    read_lines_of = ClaudeLog._read_lines

    def count(self: ClaudeLog, *args: Any) -> list[tuple[int, dict[str, Any]]]:
        found = read_lines_of(self, *args)
        read.append(len(found))
        return found

    monkeypatch.setattr(ClaudeLog, "_read_lines", count)
    source = write(tmp_path / "projects" / PROJECT / f"{NAME}.jsonl", lines)
    with holdfast.open("memory:") as engine:
        import_logs(engine, source)
        frames = engine.session(NAME, actor=PROJECT).frames.list()
        assert [(each.goal, each.status) for each in frames] == [(f"Look {n}.", "completed") for n in range(40)]
    assert sum(read) < 5 * len(lines)


blocks = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=5)),
        st.builds(
            lambda name: {"type": "tool_use", "id": name, "name": "Bash", "input": {}}, st.sampled_from(["a", "b"])
        ),
        st.builds(
            lambda name, text: {"type": "tool_result", "tool_use_id": name, "content": text},
            st.sampled_from(["a", "b", "c"]),
            st.text(max_size=5),
        ),
        st.dictionaries(
            st.sampled_from(["type", "text", "id"]), st.one_of(st.none(), st.integers(), st.text(max_size=3))
        ),
    ),
    max_size=3,
)
any_lines = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["user", "assistant", "attachment", "system", "new"])},
        optional={
            "uuid": st.sampled_from("uvwxyz"),
            "parentUuid": st.one_of(st.none(), st.sampled_from("uvwxyz"), st.integers()),
            "isSidechain": st.booleans(),
            "isMeta": st.booleans(),
            "isCompactSummary": st.booleans(),
            "message": st.one_of(
                st.none(),
                st.text(max_size=3),
                st.fixed_dictionaries(
                    {"content": st.one_of(st.text(max_size=5), blocks, st.none())},
                    optional={"id": st.sampled_from(["m1", "m2"]), "usage": st.just({"input_tokens": 1})},
                ),
            ),
            "attachment": st.one_of(
                st.none(), st.fixed_dictionaries({"type": st.sampled_from(["file", "date"]), "content": st.text()})
            ),
        },
    ),
    max_size=12,
)


@settings(max_examples=figure(60, 5_000))
@given(any_lines, st.lists(st.integers(1, 4), max_size=12))
def test_any_lines_in_any_parts_are_kept_and_never_refused(lines: list[dict[str, Any]], sizes: list[int]) -> None:
    """Also if the process is another one after each part. No call is without its result in what a model sees."""
    first: dict[str, int] = {}
    kept = [line for at, line in enumerate(lines) if "uuid" not in line or first.setdefault(line["uuid"], at) == at]
    with holdfast.open("memory:") as engine:
        rest = list(lines)
        for size in [*sizes, len(lines) or 1]:
            part, rest = rest[:size], rest[size:]
            ClaudeLog(engine, LogName("p", "s")).append(part)
        log = ClaudeLog(engine, LogName("p", "s"))
        assert log.load() == (kept or None)
        if lines:
            version = log.open().state().version
            log.follow()
            assert log.open().state().version == version
            log.open().close_calls("the end")
            for unit in log.open().context.window(tokens=1 << 30).groups:
                calls = [call.id for message in unit.messages for call in message.tool_calls]
                results = [result.tool_call_id for message in unit.messages for result in message.tool_results]
                assert sorted(calls) == sorted(results)
        assert engine.admin.verify().ok


steps = st.lists(
    st.tuples(
        st.sampled_from(["prompt", "reply", "call", "result", "queued", "note"]),
        st.sampled_from(["Go on.", "Go on. ", "And now?", "Stop."]),
        st.sampled_from(["no hook", "in time", "early", "alone"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=figure(60, 5_000))
@given(steps)
def test_hooks_change_nothing_of_what_the_lines_say(steps: list[tuple[str, str, str, bool]]) -> None:
    """Whenever a hook gets a prompt: before the lines that come before it, also if its line never comes, and if another
    process stores the lines. What is shown is what is shown without hooks."""
    chat, lines, hooks = Chat(NAME), list[dict[str, Any]](), list[tuple[int, str, str]]()
    for number, (kind, said, hook, _) in enumerate(steps):
        if hook == "alone":
            hooks.append((number, f"alone-{number}", said))
        if kind in ("prompt", "queued"):
            if hook in ("in time", "early"):
                hooks.append((max(0, number - 2 * (hook == "early")), f"p{number}", said))
            queued = {"type": "queued_command", "prompt": said, "commandMode": "prompt"}
            is_queued = kind == "queued"
            line = chat.line("attachment", attachment=queued) if is_queued else chat.prompt(said, promptId=f"p{number}")
            lines.append(line)
        elif kind == "result":
            lines.append(chat.result(f"toolu_{number - 1}", said))
        elif kind == "note":
            lines.append(chat.note("mode", number=number))
        else:
            calls = [("Bash", f"toolu_{number}", {"command": "ls"})] if kind == "call" else []
            lines += chat.reply("" if calls else said, *calls)

    def shown(log: ClaudeLog) -> list[tuple[str, str]]:
        messages = log.open().messages(limit=1_000)
        return [(str(each.role), each.text.strip()) for each in messages if not each.withdrawn]

    with holdfast.open("memory:") as engine:
        plain, name = ClaudeLog(engine, LogName("p", "plain")), LogName("p", "hooked")
        log = ClaudeLog(engine, name, observe=True)
        for number, line in enumerate(lines):
            for _, prompt, said in (each for each in hooks if each[0] == number):
                log.record_prompt(prompt, said)
            plain.append([line])
            log.append([line])
            if steps[number][3]:
                log = ClaudeLog(engine, name, observe=True)
        last = [chat.prompt("The end."), *chat.reply("Yes.")]
        plain.append(last)
        log.append(last)
        assert shown(log) == shown(plain)
        assert log.load() == plain.load()
        assert engine.admin.verify().ok


def test_a_reply_is_one_message_unless_its_calls_were_answered_between_its_lines() -> None:
    chat = Chat(NAME)
    first, second, third = chat.reply("Two.", ("Bash", "toolu_1", {}), ("Bash", "toolu_2", {}))
    answer = chat.result("toolu_1", "one")
    joined = read_lines(enumerate([first, second, third, answer]))
    assert [(each.kind, each.calls) for each in joined] == [("reply", ["toolu_1", "toolu_2"]), ("result", [])]
    apart = read_lines(enumerate([first, second, answer, third]))
    assert [(each.kind, each.calls) for each in apart] == [
        ("reply", ["toolu_1"]),
        ("result", []),
        ("reply", ["toolu_2"]),
    ]
