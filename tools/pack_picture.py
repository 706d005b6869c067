"""Draw docs/pack.svg: what `holdfast pack` prints on a terminal. `make picture` writes the file, and a test compares it.

The session is recorded here, and the command runs as it does for everyone: in a process of its own, on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

import holdfast

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pack.svg"
COLUMNS = 120
QUESTION = "Where does my order go, and what did it cost?"
COMMAND = ("pack", "order-4711", "--budget", "4000", "--no-time", "--limit", "8")
FONT_FACE = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""The picture loads nothing: a reader's own fixed-width font serves."""


def look_up(part: str) -> str:
    """The stock of one part, in every shop."""
    return "\n".join(f"shop {number}: {number % 7} of {part}, shelf {number * 3 % 40}" for number in range(400))


def record_session(path: Path) -> None:
    """A customer corrects an address, and a tool returns a long list."""
    tool = holdfast.Tool.from_function(look_up)
    brief = holdfast.Brief(prompt="You are the order desk. Answer in one sentence.", tools=(tool,))
    with holdfast.open(path) as engine:
        acme = engine.ledger(organization="acme")
        acme.set("refund_limit", "200 euros", authority="policy", source="handbook")
        session = engine.session("order-4711", user="ada", create=True, ledgers=[engine.ledger(user="ada").id, acme.id])
        session.ledger(user="ada").set("shipping_address", "123 Main St")
        session.record("user", "Please send the lamp to 123 Main St. Is it in stock?")
        reply = session.record("assistant", tool_calls=[{"name": "look_up", "args": {"part": "the lamp"}}])
        session.run(reply.tool_calls[0], [tool])
        session.record("assistant", "Yes, shop 6 has six. It goes to 123 Main St.")
        session.observe("Actually, my shipping address is now 456 Oak Ave.")
        session.record("assistant", "I have changed it. It costs 79 euros.")
        session.record("user", QUESTION)
        session.packs.store(session.pack(budget=4_000, brief=brief, time=False))


def run_command(path: Path) -> str:
    """What the command writes to a terminal, colours included."""
    terminal, end = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TTY_COMPATIBLE")}
    environment |= {
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": "60",
        "PYTHONUTF8": "1",
        "HOLDFAST_FILE": str(path),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *COMMAND], stdin=end, stdout=end, stderr=end, env=environment
    )
    os.close(end)
    written = bytearray()
    try:
        while data := os.read(terminal, 65_536):
            written += data
    except OSError:  # how a terminal says that its last writer is gone
        pass
    finally:
        os.close(terminal)
    if process.wait() != 0:
        raise SystemExit(written.decode())
    return written.decode().replace("\r\n", "\n")


def draw_picture() -> str:
    """The picture as SVG: the same bytes each time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "desk.db"
        record_session(path)
        printed = run_command(path)
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(printed.rstrip("\n")))
    return console.export_svg(
        title="holdfast pack order-4711", unique_id="pack", code_format=FONT_FACE.sub("", CONSOLE_SVG_FORMAT)
    )


if __name__ == "__main__":
    PICTURE.write_text(draw_picture())
