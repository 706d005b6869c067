"""How far the token estimate is from the exact count on each kind of text, and what either costs.

Real text: recorded sessions and dialogues from the data folder, sources and descriptions of the installed packages, and
the paragraphs that the tests ship for other languages.
"""

from __future__ import annotations

import json
import random
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from tests.core.test_tokens import PARAGRAPHS, pieces

from benchmarks.harness import FSYNC, Bench, Sample, Spread, each_us, limit_met, measure_time, time_ratio
from benchmarks.report import Goal, Line, Table, micros
from benchmarks.sample_messages import text as message_text
from holdfast.adapters.tokens import EstimatingCounter, ExactCounter
from holdfast.ports import TokenCounter

GOAL = Goal("at most", 10)
GOAL_TIME = Goal("at most", 1)
PROMISED = ("chat", "Markdown", "code", "JSON", "tool logs", "Chinese")
"""Kinds of text on which the estimate shall be within the goal."""
LONGEST_CHARS = 20_000
LARGE_CHARS = 10_000_000
CHARS_PER_TOKEN = 4

Texts = dict[str, list[str]]


def session_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """What recorded sessions hold, by who said it and, for results, which tool."""
    for path in sorted(folder.glob("trajectories/*/*.jsonl")):
        tools: dict[str, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            message = json.loads(line)
            if message.get("content"):
                kind = "chat" if message["role"] in ("user", "assistant") else "Markdown"
                yield f"{kind}: {message['role']}", message["content"]
            for call in message.get("tool_calls") or ():
                tools[call["id"]] = call["name"]
                yield "JSON: tool calls", json.dumps({"name": call["name"], "args": call["args"]}, ensure_ascii=False)
            for result in message.get("tool_results") or ():
                yield result_text(tools.get(result["tool_call_id"], ""), result["result"])


def result_text(tool: str, result: object) -> tuple[str, str]:
    if not isinstance(result, str):
        return "JSON: results", json.dumps(result, ensure_ascii=False)
    if result[:1] in "{[" and result[-1:] in "}]":
        return "JSON: results", result
    return f"tool logs: {tool if tool in ('Bash', 'Read', 'Grep') else 'other tools'}", result


def dialogue_texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("dialogues/*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield "JSON: dialogues", line
            for turn in json.loads(line)["turns"]:
                yield "chat: dialogues", turn["text"]


def installed_texts(chance: random.Random, most: int) -> Iterator[tuple[str, str]]:
    """Code and descriptions of what is installed here."""
    places = sysconfig.get_paths()
    for kind, folder, pattern in (
        ("code: Python packages", places["purelib"], "**/*.py"),
        ("code: Python library", places["stdlib"], "*.py"),
        ("code: C headers", places["include"], "**/*.h"),
        ("Markdown: descriptions", places["purelib"], "*.dist-info/METADATA"),
    ):
        files = sorted(Path(folder).glob(pattern))
        for path in chance.sample(files, min(most, len(files))):
            text = path.read_text(encoding="utf-8", errors="replace")
            for piece in pieces(text.partition("\n\n")[2] if kind.startswith("Markdown") else text)[:5]:
                yield kind, piece


def language_texts() -> Iterator[tuple[str, str]]:
    for language, paragraphs in PARAGRAPHS.items():
        for one, other in zip(paragraphs, paragraphs[1:] + paragraphs[:1], strict=True):
            yield language if language in PROMISED else f"other: {language}", f"{one}\n\n{other}"


def collect(bench: Bench) -> Texts:
    chance, most = random.Random(1), bench.pick(500, 60)
    found: Texts = defaultdict(list)
    for source in (
        session_texts(bench.data),
        dialogue_texts(bench.data),
        installed_texts(chance, most),
        language_texts(),
    ):
        for kind, text in source:
            if text.strip():
                found[kind].append(text[:LONGEST_CHARS])
    return {kind: chance.sample(found[kind], min(most, len(found[kind]))) for kind in sorted(found)}


def error(estimates: Sequence[int], exact: Sequence[int]) -> tuple[float, float]:
    """Mean absolute error and bias, in percent of each text's exact count."""
    shares = [100 * (ours / true - 1) for ours, true in zip(estimates, exact, strict=True)]
    return mean(map(abs, shares)), mean(shares)


def accuracy(kind: str, texts: Sequence[str], *, promised: bool) -> Line:
    exact = list(map(ExactCounter().count, texts))
    ours, bias = error(list(map(EstimatingCounter().count, texts)), exact)
    theirs, their_bias = error([-(-len(text) // CHARS_PER_TOKEN) for text in texts], exact)
    return Line(
        what=f"{kind} ({len(texts):,} texts)",
        ours=f"{ours:.1f} % ({bias:+.1f})",
        theirs=f"{theirs:.1f} % ({their_bias:+.1f})",
        ratio=Spread(ours / theirs, ours / theirs, ours / theirs) if not promised else Spread(ours, ours, ours),
        goal=GOAL if promised else None,
    )


def accuracies(texts: Texts) -> Table:
    lines = []
    for kind in PROMISED:
        parts = [name for name in texts if name.partition(":")[0] == kind]
        if parts:
            lines.append(accuracy(kind, [text for name in parts for text in texts[name]], promised=True))
        lines += [accuracy(f"  {name}", texts[name], promised=False) for name in parts if name != kind]
    lines += [accuracy(name, texts[name], promised=False) for name in texts if name.startswith("other:")]
    return Table(
        name="tokens",
        title="error of the estimate against exact o200k counts: mean absolute (bias), in percent",
        ours=EstimatingCounter.name,
        theirs=f"characters ÷ {CHARS_PER_TOKEN}",
        lines=lines,
        notes=[
            "With a goal, the ratio is our error in percent; without one, our error ÷ theirs.",
            "Half of the recorded sessions and dialogues were among the texts that the weights were fitted to.",
        ],
    )


def speed(bench: Bench, what: str, texts: Sequence[str], rounds: int) -> Line:
    estimating, exact = EstimatingCounter(), ExactCounter()

    def turn(counter: TokenCounter) -> Sample:
        return measure_time(len(texts), lambda: [counter.count(text) for text in texts])

    samples = bench.in_turns(rounds, {"ours": lambda: turn(estimating), "theirs": lambda: turn(exact)}, slices=5)
    return Line(
        what=what,
        ours=micros(each_us(samples["ours"])),
        theirs=micros(each_us(samples["theirs"])),
        ratio=time_ratio(samples["ours"], samples["theirs"]),
        goal=GOAL_TIME,
        limit=limit_met(samples["ours"], samples[FSYNC]),
    )


def speeds(bench: Bench, texts: Texts) -> Table:
    logs = "\n".join(text for name in texts if name.startswith(("tool logs", "code")) for text in texts[name])
    large = (logs * (LARGE_CHARS // len(logs) + 1))[:LARGE_CHARS]
    rounds = bench.pick(15, 5)
    return Table(
        name="tokens, time",
        title="the estimate against counting exactly",
        ours=EstimatingCounter.name,
        theirs=ExactCounter().name,
        lines=[
            speed(bench, "a message of 500 bytes", [message_text(number) for number in range(1_000)], rounds),
            speed(bench, "a Chinese message", texts["Chinese"] * 50, rounds),
            speed(bench, f"{LARGE_CHARS // 1_000_000} MB of code and logs", [large], bench.pick(5, 3)),
        ],
    )


def run(bench: Bench) -> list[Table]:
    if not bench.data.is_dir():
        print(f"\ntokens: there is no data folder {bench.data}: so no chat, JSON or logs. Name one with --data.")
    texts = collect(bench)
    return [accuracies(texts), speeds(bench, texts)]
