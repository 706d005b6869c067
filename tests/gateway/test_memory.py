"""What a gateway keeps in memory is bounded by bytes, and what is free goes back to the system."""

from __future__ import annotations

import gc
import queue
import subprocess
import sys
import threading
import tracemalloc
import weakref
from pathlib import Path

import pytest

from holdfast.gateway import lines as gateway_lines
from holdfast.gateway import proxy
from holdfast.gateway.dialects import read_request
from holdfast.gateway.edits import apply_view
from holdfast.gateway.engines import open_engine
from holdfast.gateway.lineage import Node
from holdfast.gateway.lines import Family, Line, Lines
from holdfast.gateway.model import SentView
from holdfast.gateway.options import DeskOptions
from holdfast.text.cache import TextCache
from holdfast.text.guard import finder
from tests.gateway.conftest import open_bench
from tests.gateway.harness import Harness
from tests.gateway.raw_upstream import WAIT_S, answer_with, build_answer, open_client

POST = "POST /v1/messages"
BODY = b'{"model":"m"}'
TRIM = """
import sys, time
from holdfast.gateway.memory import MemoryTrimmer

def read_rss():
    return int(open("/proc/self/statm").read().split()[1])

blocks = [bytes(3_000) for _ in range(20_000)]
del blocks[:-1]  # the last one keeps the C library from giving the end of its memory back
before = read_rss()
trimmer = MemoryTrimmer(0.01)
if sys.argv[1] == "noted":
    trimmer.note_request()
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end and read_rss() > before / 2:
    time.sleep(0.01)
print(read_rss() <= before / 2)
"""


def test_records_that_wait_keep_no_more_than_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "SETTLE_BYTES", 1_000)
    release = threading.Event()

    def wait(_outcome: object) -> None:
        assert release.wait(WAIT_S)

    with open_bench(answer_with(build_answer(b"{}"))) as bench, open_client(bench.url) as client:
        bench.desk.on_settle = wait
        for kept in (600, 600, 5_000, 300):
            bench.desk.kept_bytes = kept
            client.send(POST, body=BODY)
            assert client.read_answer()[0] == 200
        release.set()
        assert [bench.desk.next_outcome().status for _ in range(2)] == [200, 200]  # those of 600 and 300 bytes
        with pytest.raises(queue.Empty):
            bench.desk.outcomes.get(timeout=0.05)
        client.send(POST, body=BODY)  # a single large one is recorded
        assert client.read_answer()[0] == 200
        assert bench.desk.next_outcome().status == 200


def test_conversations_in_memory_are_bounded_and_those_used_last_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(str(tmp_path / "store.db"))
    lines = Lines(engine)
    monkeypatch.setattr(gateway_lines, "FAMILY_BYTES", 10 * gateway_lines._NODE_BYTES)
    families = [_add_family(lines, name, nodes=4) for name in ("first", "second")]
    assert [lines.family(each.name) is each for each in families] == [True, True]
    assert lines.family("first") is families[0]
    third = _add_family(lines, "third", nodes=4)
    lines.family("third")
    assert [name in lines._families for name in ("first", "second", "third")] == [True, False, True]
    third.lines["more"] = third.lines["third"]
    third.lines["third"].nodes *= 5
    assert lines.family("third") is third
    assert list(lines._families) == ["third"]  # the one in use stays, however large


def _add_family(lines: Lines, name: str, nodes: int) -> Family:
    family = lines.family(name)
    line = Line(lines.engine.session(name, create=True), None, "", 0)
    line.nodes = [Node(b"%d" % number, "user") for number in range(nodes)]
    family.lines[name] = line
    return family


def test_what_a_conversation_takes_is_known() -> None:
    harness = Harness(7, DeskOptions())
    for _ in range(60):
        harness.exchange("take")
    (known,) = harness.desk._lines._families.values()
    (session,) = known.sessions.values()
    Family("before").read(session)  # fills the caches of the engine
    gc.collect()
    tracemalloc.start()
    family = Family(known.name)
    family.read(session)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(len(line.nodes) for line in family.lines.values()) > 100
    assert 0.6 < taken / family.size < 1.4


def test_a_view_that_was_replaced_is_given_up() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
    request = read_request("anthropic", [], body)
    view = SentView(summary=b'"s"', removed=frozenset({(0, 0)}), depth=1)
    assert b'"s"' in apply_view(body, request, view, mark=False)
    ref = weakref.ref(view)
    del view
    gc.collect()
    assert ref() is None


def test_the_terms_of_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cache: TextCache[frozenset[str]] = TextCache(1 << 20)
    monkeypatch.setattr(finder, "_lookup_cache", cache)
    texts = [f"the budget of project {number} is {number}" for number in range(100)]
    finder.limit_lookups(2_000)
    found = [finder.lookup_terms(text) for text in texts]
    assert found == [finder.lookup_terms(text) for text in texts]
    assert 0 < sum(len(text) + 64 * len(terms) for text, terms in cache._values.items()) <= 2_000


@pytest.mark.parametrize(("noted", "patience_s"), [("noted", WAIT_S), ("idle", 0.3)])
def test_free_memory_goes_back_after_a_request(noted: str, patience_s: float) -> None:
    command = [sys.executable, "-c", TRIM, noted, str(patience_s)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=2 * WAIT_S).stdout
    assert printed.strip() == str(noted == "noted")
