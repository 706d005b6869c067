"""The benchmark of the gateway: its parts are kept for what made them, and its replay waits for the contender's work."""

from __future__ import annotations

import json
import sys
import textwrap
import time
import urllib.request
from pathlib import Path

import msgspec
from benchmarks.gateway import parts
from benchmarks.gateway.contenders import Contender, GatewayProcess
from benchmarks.gateway.findings import CACHE_MODE, FAITHFUL, PLAIN, InstalledSize
from benchmarks.gateway.material import ReplaySession, read_sessions
from benchmarks.gateway.parts import Binder, Part, PartFolder, measure_part, run_parts

SIZE = InstalledSize(1, 2)
LONG = "\n".join(f"src/parser_{number}.py: line {number} of module_{number}" for number in range(400))


def record(path: Path, *, said: str = "Look at src/parser_7.py.") -> ReplaySession:
    """A recorded session of three calls."""
    call = {"id": "call-1", "name": "Read", "args": {"path": "src/parser_7.py"}}
    lines = [
        {"role": "user", "content": said, "at": "2026-01-01T10:00:00Z"},
        {"role": "assistant", "content": "I read it.", "tool_calls": [call], "at": "2026-01-01T10:00:05Z"},
        {
            "role": "tool",
            "tool_results": [{"tool_call_id": "call-1", "result": LONG, "is_error": False}],
            "at": "2026-01-01T10:00:06Z",
        },
        {"role": "assistant", "content": "It is long.", "at": "2026-01-01T10:00:09Z"},
        {"role": "user", "content": "Thank you.", "at": "2026-01-01T10:01:00Z"},
        {"role": "assistant", "content": "Done.", "at": "2026-01-01T10:01:05Z"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (session,) = read_sessions([path])
    return session


def test_a_kept_part_is_used_again_for_what_made_it_alone(tmp_path: Path) -> None:
    folder, made = PartFolder(tmp_path), iter([SIZE, InstalledSize(3, 4)])

    def measure(binding: str) -> InstalledSize:
        return measure_part(PartFolder(tmp_path), "the size", binding, InstalledSize, lambda: next(made)).found

    assert measure("one version") == SIZE
    assert measure("one version") == SIZE
    assert measure("another version") == InstalledSize(3, 4)
    assert folder.find("the size", "one version", InstalledSize) is None
    for file in tmp_path.iterdir():
        file.write_bytes(b"{")
    assert folder.find("the size", "another version", InstalledSize) is None


def test_a_part_is_bound_to_its_sessions_and_the_code_of_its_contender(tmp_path: Path) -> None:
    session, other = record(tmp_path / "one.jsonl"), record(tmp_path / "two.jsonl", said="Look elsewhere.")
    own, peer, plain = (Part(name) for name in (FAITHFUL, CACHE_MODE, PLAIN))
    before = Binder([session], [session])
    assert len({before.bind(each) for each in (own, peer, plain, Part(FAITHFUL, "large"))}) == 4
    assert Binder([other], [session]).bind(own) != before.bind(own)
    after = Binder([session], [session])
    after._own = "another version"
    assert after.bind(own) != before.bind(own)
    assert (after.bind(peer), after.bind(plain)) == (before.bind(peer), before.bind(plain))


def test_all_that_a_part_is_bound_to_is_there() -> None:
    for name in {*parts.MEASURING, *parts.OWN, *parts.TIMING}:
        assert (parts.ROOT / name).exists(), name
    empty = parts.digest_files([])
    assert all(parts.digest_files([name]) != empty for name in parts.MEASURING)


def test_parts_run_in_lanes_of_their_own_and_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    session = record(file)
    wanted, binder = [Part(FAITHFUL), Part(PLAIN)], Binder([session], [])
    kept = PartFolder(tmp_path / "kept")
    found, missing = run_parts(wanted, binder, kept, [file], [], tmp_path / "lanes", 1)
    assert not missing
    own, plain = (found[part].found for part in wanted)
    assert (own.total.calls, own.total.failed, own.total.intact, own.total.streams) == (3, 0, 3, 3)
    assert own.total.cost == plain.total.cost > 0
    assert own.total.grounding == plain.total.grounding == 1
    assert own.stated_plain > 0
    again, _ = run_parts(wanted, binder, kept, [], [], tmp_path / "unused", 1)
    assert msgspec.to_builtins(again[wanted[0]]) == msgspec.to_builtins(found[wanted[0]])


SERVER = """
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path == "/work":
            self.wfile.flush()
            self.connection.shutdown(1)
            end = time.process_time() + 0.4
            while time.process_time() < end:
                pass
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_replay_waits_until_the_contender_has_done_its_work(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(textwrap.dedent(SERVER), "utf-8")
    process = GatewayProcess(
        Contender("worker", (sys.executable, str(script), "{port}"), "/health"), "", tmp_path, None
    )
    try:
        process.wait_until_idle(10)
        before = process.read_cpu_s()
        urllib.request.urlopen(f"{process.url}/work").read()
        process.wait_until_idle(30)
        assert process.read_cpu_s() - before >= 0.38
        begun = time.monotonic()
        process.wait_until_idle(30)
        assert time.monotonic() - begun < 10  # it is idle, so this ends by itself
    finally:
        process.stop()
