"""The main job, on one SQLite file: an agent records what it does, dies in the middle, and goes on where it was.

python examples/demo.py            plays it
python examples/demo.py --agent F  is the agent itself, working on the file F
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import apsw

import holdfast

SOURCES = Path(holdfast.__file__).parent
SESSION = "count-the-lines"
LARGE_BYTES = 4_000

COLOR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(code: str, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOR else text


def title(text: str) -> None:
    print("\n" + paint("1;36", f"── {text} " + "─" * max(0, 74 - len(text))))


def say(text: str, mark: str = "·") -> None:
    print(f"  {mark} {text}")


# The agent: a fixed plan, real files, real counting.


def list_files() -> str:
    return "\n".join(sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py")))


def read_all() -> str:
    return "\n".join(path.read_text() for path in sorted(SOURCES.rglob("*.py")))


def count_lines() -> str:
    return f"{read_all().count(chr(10)):,} lines"


PLAN: list[tuple[str, Callable[[], str]]] = [
    ("system", lambda: "You count lines of code. Be exact."),
    ("user", lambda: "How much Python is in this package?"),
    ("assistant", lambda: "I list the files first."),
    ("tool", list_files),
    ("assistant", lambda: "Now I read all of them."),
    ("tool", read_all),
    ("assistant", lambda: "And count."),
    ("tool", count_lines),
    ("assistant", lambda: f"The package has {count_lines()} of Python."),
]


def agent(path: str) -> None:
    """Do the steps that are not done yet. Each has a key, so doing one again changes nothing."""
    with holdfast.open(path, principal="demo-agent") as engine:
        try:
            session = engine.session(SESSION)
        except holdfast.errors.SessionNotFound:
            session = engine.create_session(SESSION, metadata={"goal": "count"})
        done = session.state().messages
        print(f"start {done}", flush=True)
        for number, (role, act) in enumerate(PLAN[done:], done + 1):
            text = act()
            content: holdfast.Part | str = text
            if len(text) > LARGE_BYTES:
                ref = engine.put_blob(text.encode(), media_type="text/plain")
                content = holdfast.Body(ref, preview=text[:60].splitlines()[0])
            message = session.record(role, content, key=f"step-{number}")
            print(f"done {number} {message.id}", flush=True)


# The play around it.


def run_agent(path: str, *, kill_after: int | None) -> list[str]:
    """Start the agent as a process of its own; with `kill_after`, SIGKILL it as soon as that step is acknowledged."""
    child = subprocess.Popen([sys.executable, __file__, "--agent", path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    lines: list[str] = []
    for line in child.stdout:
        word, number, *rest = line.split()
        if word == "start":
            say(f"agent {child.pid} opens the file: {number} steps are there already")
            continue
        lines.append(rest[0])
        say(f"step {number} is durable   {paint('2', rest[0][:13] + '…')}", paint("32", "✓"))
        if kill_after is not None and int(number) >= kill_after:
            child.send_signal(signal.SIGKILL)
            break
    child.stdout.close()
    child.wait()
    if child.returncode == -signal.SIGKILL:
        say(paint("31", f"kill -9 {child.pid}: the process is gone in the middle of its work"), paint("31", "✗"))
    return lines


def show(engine: holdfast.Engine) -> None:
    session = engine.session(SESSION)
    for message in session.messages():
        lines = message.text.splitlines()
        text = lines[0] + (f" (+{len(lines) - 1} lines)" if len(lines) > 1 else "")
        for part in message.content:
            if isinstance(part, holdfast.Body):
                text = f"{part.ref.size:,} bytes in the blob store, checked by digest {part.ref.digest[:12]}…"
                assert len(engine.read_blob(part.ref)) == part.ref.size
        print(f"  {message.seq:>3}  {message.role or 'erased':<9}  {message.tokens:>4} tokens  {text[:64]}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        path = os.path.join(folder, "agent.db")

        title("An agent works, and is killed")
        acknowledged = run_agent(path, kill_after=5)

        title("Another process goes on where it was")
        acknowledged += run_agent(path, kill_after=None)

        with holdfast.open(path) as engine:
            title("What the log holds")
            show(engine)
            kept = [message.id for message in engine.session(SESSION).messages()]
            lost = [each for each in acknowledged if each not in kept]
            say(f"{len(PLAN)} steps planned, {len(kept)} kept, {len(lost)} lost, {len(kept) - len(set(kept))} doubled")
            assert len(kept) == len(PLAN)
            assert not lost

            title("A retry is free; a lie is refused")
            again = engine.session(SESSION).record("user", "How much Python is in this package?", key="step-2")
            say(f"step-2 sent again: the same message, seq {again.seq}")
            try:
                engine.session(SESSION).record("user", "Delete everything.", key="step-2")
            except holdfast.errors.KeyConflict as error:
                say(str(error))

            title("Erased for good, and the chain still verifies")
            engine.session(SESSION).erase([again.seq], "the user asked for it")
            report = engine.verify()
            say(f"event {again.seq} erased; {report.events} events verified, problems: {len(report.problems)}")
            assert report.ok

        title("Someone edits the file behind our back")
        edit = apsw.Connection(path)
        edit.execute("UPDATE events SET payload = CAST(replace(payload, 'exact', 'vague') AS BLOB) WHERE seq = 2")
        edit.execute("UPDATE events SET principal = 'nobody' WHERE seq = 4")
        edit.close()
        with holdfast.open(path) as engine:
            for problem in engine.verify().problems:
                say(str(problem), paint("33", "!"))
            assert not engine.verify().ok
    print()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--agent"]:
        agent(sys.argv[2])
    else:
        main()
