"""`holdfast read`: whatever was recorded can be read again, also from another process, and in a sandbox without writing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast import File, Image, Text
from holdfast.cli import STORAGE, main
from holdfast.flows.history.handle_text import read_recorded
from holdfast.gateway.stores import default_store, shorten_session
from holdfast.types import MessageGroup, Opaque
from tests.edges.cli import COMMAND, run_process
from tests.support import PATIENCE_S

LONG = "".join(f"line {number}: {'x' * 40}\n" for number in range(1, 2_001))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


def read(session: holdfast.Session, handle: str, **options: Any) -> str:
    text: str = session._drive(read_recorded(session._context, handle, **options)).text
    return text


class TestEveryMessage:
    """The core reads every message by its handle, wherever it stands."""

    def test_left_the_view(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            reply = session.record("assistant", "I read it.", tool_calls=[{"name": "Read", "args": {"path": "a.py"}}])
            result = session.result(reply.tool_calls[0], LONG)
            for number in range(40):
                session.record("user", f"question {number} " * 200)
                session.record("assistant", f"answer {number} " * 200)
            session.context.compact(window=8_000, strategy="summarize_oldest")
            groups = [item for item in session.context.view().items if isinstance(item, MessageGroup)]
            assert result.seq not in {message.seq for group in groups for message in group.messages}
            text = read(session, f"h{result.seq}_0", first_line=1_999, last_line=2_000)
            assert text == "".join(LONG.splitlines(keepends=True)[1_998:])

    def test_withdrawn(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            session.record("user", "stay")
            gone = session.record("user", "take this back")
            session.withdraw(gone)
            assert read(session, f"h{gone.seq}_0") == "take this back"

    def test_of_a_frame(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            session.record("user", "start")
            with session.frame("sub-agent", budget=10_000) as frame:
                message = frame.record("user", "look for the bug")
            assert read(session, f"h{message.seq}_0") == "look for the bug"

    def test_of_an_earlier_epoch(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            message = session.record("user", "before")
            session.reset("compaction of the client")
            session.record("user", "after")
            assert read(session, f"h{message.seq}_0") == "before"

    def test_of_a_fork_and_its_parent(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            shared = session.record("user", "shared")
            fork = session.fork(as_="claude-1.2")
            own, other = fork.record("user", "in the fork"), session.record("user", "in the parent")
            assert read(fork, f"h{shared.seq}_0") == "shared"
            assert read(fork, f"h{own.seq}_0") == "in the fork"
            assert read(session, f"h{other.seq}_0") == "in the parent"

    def test_of_an_ended_session(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            message = session.record("user", "said")
            session.end()
            assert read(session, f"h{message.seq}_0") == "said"

    def test_evidence(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            reply = session.record("assistant", "", tool_calls=[{"name": "slow", "args": {}}])
            session.close_calls("gave up")
            late = session.result(reply.tool_calls[0], "done after all")
            assert read(session, f"h{late.seq}_0") == "done after all"

    def test_a_provider_s_own_part(self, store: Path) -> None:
        thinking = '{"type":"thinking","thinking":"It is the cache.","signature":"c2ln"}'
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            message = session.record("assistant", [Opaque("anthropic", thinking), "It is the cache."])
            assert read(session, f"h{message.seq}_0") == thinking
            answer = session.handles.tool()(handle=f"h{message.seq}_0")
            assert answer == f"Error: h{message.seq}_0 is a provider's own part, which nobody else can read."

    def test_a_whole_message_with_its_calls(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            call = {"name": "Write", "args": {"path": "a.py", "content": LONG}}
            message = session.record("assistant", ["I write it.", Opaque("anthropic", '{"a":1}')], tool_calls=[call])
            session.result(message.tool_calls[0], "written")
            text = read(session, f"h{message.seq}", limit=1 << 20)
            assert text.startswith('I write it.\n{"a":1}\nCall of Write:\n{"content":"line 1: xx')
            assert text.count("line 1999: ") == 1
            assert read(session, f"h{message.seq + 1}") == "written"

    def test_erased(self, store: Path) -> None:
        with holdfast.open(store) as engine:
            session = engine.create_session("claude-1")
            message = session.record("user", "my password is hunter2")
            session.erase([message.seq], "asked to")
            for handle in (f"h{message.seq}_0", f"h{message.seq}"):
                with pytest.raises(holdfast.errors.HandleNotFound):
                    read(session, handle)


def write_sessions(store: Path) -> dict[str, str]:
    """Two sessions that begin alike, a fork of one, and one that is no id; the text of the first message of each."""
    names = {
        "codex-0199a1b2-0001-7abc-8def-aaaabbbbcccc": "first",
        "codex-0199a1b2-0002-7abc-8def-ddddeeeeffff": "second",
        "notes": "third",
    }
    with holdfast.open(store) as engine:
        for name, text in names.items():
            engine.create_session(name).record("user", text)
        first = next(iter(names))
        engine.session(first).fork(as_=f"{first}.12345678").record("user", "in the fork")
    return names


class Command(NamedTuple):
    store: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *args: str, code: int = 0) -> tuple[str, str]:
        self.capture.readouterr()
        assert main(["--file", str(self.store), "read", *args]) == code
        out, err = self.capture.readouterr()
        return out, err


@pytest.fixture
def command(store: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(store, capsys)


class TestCommand:
    def test_a_part_of_a_name(self, command: Command) -> None:
        names = write_sessions(command.store)
        for name, text in names.items():
            assert command(f"{name}:h2_0")[0] == f"{text}\n"
            assert command(f"{shorten_session(name)}:h2_0")[0] == f"{text}\n"
            assert command("h2_0", "--session", shorten_session(name))[0] == f"{text}\n"
        assert command("aaaabbbbcccc:h2")[0] == command("[12345678:h2]")[0] == "first\n"
        out, err = command("0199a1b2:h2_0", code=3)
        assert not out
        assert (
            "'0199a1b2' of a name is ambiguous: 3 sessions have it, 'codex-0199a1b2-0001-7abc-8def-aaaabbbbcccc';"
            in err
        )
        assert "'codex-0199a1b2-0002-7abc-8def-ddddeeeeffff'" in err
        assert "There is no session 'ffff'" in command("ffff:h2_0", code=3)[1]
        assert "There is no session 'nowhere to be found'" in command("nowhere to be found:h2_0", code=3)[1]

    def test_which_session_must_be_said_unless_there_is_one(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with holdfast.open(command.store) as engine:
            engine.create_session("only").record("user", "hello")
        assert command("h2_0")[0] == "hello\n"
        with holdfast.open(command.store) as engine:
            engine.create_session("other").record("user", "bye")
        assert "There are: 'other'; 'only'" in command("h2_0", code=2)[1]
        monkeypatch.setenv("HOLDFAST_SESSION", "other")
        assert command("h2_0")[0] == "bye\n"
        assert command("only:h2_0")[0] == "hello\n"

    def test_ranges(self, command: Command) -> None:
        with holdfast.open(command.store) as engine:
            session = engine.create_session("claude-0000000011112222")
            call = session.record("assistant", "", tool_calls=[{"name": "Read", "args": {}}]).tool_calls[0]
            handle = f"11112222:h{session.result(call, LONG).seq}_0"
        lines = LONG.splitlines(keepends=True)
        assert command(handle, "--lines", "1-80") == (
            "".join(lines[:80]),
            f"{handle[9:]}: lines 1 to 80 of 103 kB in all. holdfast read {handle} --lines 81- reads on\n",
        )
        assert command(handle, "--lines", "81-")[0].startswith("line 81: ")
        assert command(handle, "--lines", "7")[0] == lines[6]
        assert command(handle, "--lines", "-2")[0] == "".join(lines[-2:])
        assert command(handle, "--bytes", "3-9")[0] == f"{LONG[3:9]}\n"
        assert command(handle, "--bytes", "-5")[0] == LONG[-5:]
        out, err = command(handle, "--search", "LINE 1500:")
        assert "1500: line 1500: " in out
        assert "1 matching line" in err
        document = json.loads(command(handle, "--lines", "1-1", "--json")[0])
        assert (document["session"], document["text"], document["lines"]) == (
            "claude-0000000011112222",
            lines[0],
            [1, 1],
        )
        assert "--lines takes two numbers" in command(handle, "--lines", "a-b", code=2)[1]
        assert (
            "Invalid argument `--lines`: 5000 is not a whole number from 1 to 2000"
            in command(handle, "--lines", "5000-", code=3)[1]
        )
        assert "There is no handle 'h99_0'" in command("11112222:h99_0", code=3)[1]
        assert "a handle looks like h12 or h12_0" in command("11112222:12", code=3)[1]

    def test_the_text_is_printed_as_it_was_recorded(self, command: Command) -> None:
        text = "\x1b[31mred\x1b[0m  \ttrailing  \r\n\u202ebidi\n\nend  "
        with holdfast.open(command.store) as engine:
            engine.create_session("s").record("user", text)
        arguments = [*COMMAND, "--file", str(command.store), "read", "s:h2_0"]
        done = subprocess.run(arguments, capture_output=True, check=True, timeout=PATIENCE_S)
        assert done.stdout == text.encode() + b"\n"

    def test_the_store_of_the_gateway_is_the_default(
        self, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delenv("HOLDFAST_FILE", raising=False)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        path = Path(default_store())
        assert path == tmp_path / "holdfast" / "gateway.db"
        assert main(["read", "h2_0"]) == 3
        assert str(path) in command.capture.readouterr().err
        assert not path.exists()
        path.parent.mkdir()
        with holdfast.open(path) as engine:
            engine.create_session("s").record("user", "hello")
        assert main(["read", "h2_0"]) == 0
        assert command.capture.readouterr().out == "hello\n"
        monkeypatch.setenv("XDG_DATA_HOME", "relative")
        assert default_store() == os.path.expanduser("~/.local/share/holdfast/gateway.db")

    def test_another_process_reads_while_one_writes(self, command: Command) -> None:
        with holdfast.open(command.store) as engine:
            session = engine.create_session("s")
            for number in range(3):
                message = session.record("user", f"message {number} " * 5_000)
                done = run_process("--file", command.store, "read", f"s:h{message.seq}_0", "--bytes", "0-9")
                assert (done.stdout, done.returncode) == (f"message {number}\n", 0)

    def test_a_sandbox_without_writing_reads_beside_the_gateway(self) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        with tempfile.TemporaryDirectory() as folder:  # others may not enter the folders of pytest
            os.chmod(folder, 0o755)
            store = Path(folder) / "gateway.db"
            with holdfast.open(store) as engine:
                message = engine.create_session("s").record("user", "hello " * 20_000)
                before = {path.name: path.stat().st_mtime_ns for path in store.parent.iterdir()}
                arguments = [sys.executable, "-c", SANDBOXED, str(store), f"s:h{message.seq}_0"]
                done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
                assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
                assert before == {path.name: path.stat().st_mtime_ns for path in store.parent.iterdir()}


SANDBOXED = """
import os, sys
from holdfast.cli import main, commands
import holdfast, holdfast.cli.read, holdfast.flows.history.handle_text
with holdfast.open("memory:") as engine:  # loads what is loaded at first use
    engine.create_session("s").record("user", "x")
os.setgid(65534)
os.setuid(65534)
sys.exit(main(["--file", sys.argv[1], "read", sys.argv[2], "--bytes", "0-5"]))
"""


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
PDF = b"%PDF-1.4\n\xff\xfe" + bytes(range(256)) * 3


class TestImages:
    """A model that reads an image by a command gets words about it, not its bytes; and it can have the file."""

    @pytest.fixture
    def handles(self, command: Command) -> dict[str, str]:
        with holdfast.open(command.store) as engine:
            session = engine.create_session("claude-0000000011112222")
            image = Image(engine.blobs.put(PNG, media_type="image/png"))
            file = File(engine.blobs.put(PDF, media_type="application/pdf"), name="a.pdf")
            contents: dict[str, Any] = {
                "image": [image],
                "both": [Text("A screenshot:"), image],
                "two": [image, Text("and"), file],
                "text": "plain\ntext",
                "large": LONG,
                "look-alike": "[image/png, 8 bytes]",
            }
            found = {}
            for name, content in contents.items():
                call = session.record("assistant", "", tool_calls=[{"name": "Read", "args": {}}]).tool_calls[0]
                found[name] = f"11112222:h{session.result(call, content).seq}_0"
            return found

    @pytest.mark.parametrize("options", [(), ("--lines", "1-80"), ("--lines", "-3"), ("--search", "x"), ("--json",)])
    def test_a_model_gets_words(self, command: Command, handles: dict[str, str], options: tuple[str, ...]) -> None:
        out, err = command(handles["image"], *options, code=3)
        assert not out
        text = json.loads(err)["error"]["message"] if "--json" in options else err
        assert f"{handles['image'][9:]} is not text: image/png, 10.2 kB." in text
        assert f"`holdfast read {handles['image']} --output FILE` writes it to a file" in text

    def test_its_bytes_can_be_asked_for(self, command: Command, handles: dict[str, str]) -> None:
        assert command(handles["image"], "--bytes", "0-8")[0] == f"{PNG[:8].hex()}\n"
        assert json.loads(command(handles["image"], "--bytes", "1-4", "--json")[0])["text"] == PNG[1:4].hex()

    def test_a_file(self, command: Command, handles: dict[str, str], tmp_path: Path) -> None:
        target = tmp_path / "a.png"
        out, err = command(handles["image"], "--output", str(target))
        assert (out, err) == (f"{target}\n", "")
        assert target.read_bytes() == PNG
        assert "the file exists; choose another name" in command(handles["image"], "-o", str(target), code=3)[1]
        assert target.read_bytes() == PNG
        assert command(handles["image"], "-o", str(tmp_path / "no" / "a.png"), code=STORAGE)[0] == ""

    def test_an_image_among_texts(self, command: Command, handles: dict[str, str], tmp_path: Path) -> None:
        out, err = command(handles["both"])
        assert out == "A screenshot:\n[image/png, 10248 bytes]\n"
        assert err.endswith(f" holdfast read {handles['both']} --output FILE writes what is not text to a file\n")
        assert command(handles["both"], "--output", str(tmp_path / "b.png"))[0] == f"{tmp_path / 'b.png'}\n"
        assert (tmp_path / "b.png").read_bytes() == PNG
        assert "--output" not in command(handles["look-alike"])[1]

    def test_several_have_files_of_their_own(self, command: Command, handles: dict[str, str], tmp_path: Path) -> None:
        out, _ = command(handles["two"], "--output", str(tmp_path / "c.bin"), "--json")
        assert json.loads(out)["files"] == [str(tmp_path / "c.bin"), str(tmp_path / "c-2.bin")]
        assert [(tmp_path / name).read_bytes() for name in ("c.bin", "c-2.bin")] == [PNG, PDF]
        (tmp_path / "d-2.bin").touch()
        assert command(handles["two"], "--output", str(tmp_path / "d.bin"), code=3)[0] == ""
        assert not (tmp_path / "d.bin").exists()

    @pytest.mark.parametrize(("name", "content"), [("text", "plain\ntext"), ("large", LONG)])
    def test_a_text(self, command: Command, handles: dict[str, str], tmp_path: Path, name: str, content: str) -> None:
        command(handles[name], "--output", str(tmp_path / "t.txt"))
        assert (tmp_path / "t.txt").read_bytes() == content.encode()

    def test_a_file_has_all_of_it(self, command: Command, handles: dict[str, str], tmp_path: Path) -> None:
        for options in (("--lines", "1-2"), ("--bytes", "0-9"), ("--search", "x"), ("--limit", "100")):
            _, err = command(handles["image"], "--output", str(tmp_path / "x"), *options, code=2)
            assert "--output writes all of it" in err
            assert not (tmp_path / "x").exists()


class TestStartingTime:
    def test_no_other_command_is_loaded(self) -> None:
        code = "import sys, holdfast.cli; print(*sorted(m for m in sys.modules if m.startswith('holdfast.')))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        loaded = set(done.stdout.split())
        assert not {name for name in loaded if name.startswith("holdfast.cli.")} - {
            "holdfast.cli.commands",
            "holdfast.cli.output",
            "holdfast.cli.settings",
        }
        assert not loaded & {"holdfast.runtime.engine", "holdfast.flows.execute"}
