"""The command line on packs: what a model would be shown and why, what became of one thing, and what changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import holdfast
from holdfast.cli import packs as drawing
from holdfast.cli.calls import format_dollars
from holdfast.cli.output import UNSAFE, escape
from holdfast.core.packs.explanations import TITLES
from holdfast.model.packs.pack import SECTIONS, Manifest, ManifestEntry
from tests.edges.cli import HOSTILE, CommandRunner, copy_store
from tests.edges.test_cli_context import COLOUR, drawn

BRIEF = holdfast.Brief(prompt=f"You run a shop. {HOSTILE}", invariants=("Never promise a refund.",))
CALM = holdfast.Brief(prompt="You are calm.")
BUDGET = 3_000
OLD, NEW = "123 Main St", "456 Oak Ave"
SECRET = "4711-secret"
LINES = "".join(f"order {number}: {'LATE' if number == 700 else 'fine'}, {HOSTILE}\n" for number in range(1_500))
"""Larger than what is shown whole."""
SHOWN = ("included", "reduced")


def write_packs(path: Path) -> None:
    """A conversation with a correction, a secret, a claim and a large result, and packs that were recorded on the way; a
    frame's own; and one of which nobody has asked for a pack."""
    who = holdfast.Identity(user_name="Ada", authority="customer")
    with holdfast.open(path, briefs={"desk": BRIEF, "calm": CALM}) as engine:
        ada, shop = engine.ledger(user="ada"), engine.ledger(organization="shop")
        ada.set("shipping_address", OLD, authority="customer")
        ada.set("offer", "10% off", scope="draft", scope_id="spring")
        ada.set("\u202eyek", HOSTILE, authority="customer")
        shop.set("refund_limit", "at most 50 euros", authority="policy", is_constraint=True)
        shop.set("vault", SECRET, requires=["vault:read"])
        order = engine.create_session("order", actor="ada", identity=who, ledgers=[ada.id, shop.id])
        order.record("user", f"Ship it to {OLD}, please.")
        order.pack(budget=BUDGET, role="desk", model="claude-sonnet-4-5")
        order.record("assistant", f"It goes to {OLD}.")
        order.pack(budget=2_500, role="calm")
        call = order.record("assistant", "I look.", tool_calls=[{"name": "orders", "args": {}}]).tool_calls[0]
        order.result(call, LINES)
        order.record("assistant", HOSTILE)
        order.observe(f"Actually, my shipping address is now {NEW}.")
        order.observe("Per the CEO, the refund limit is 500 euros.")
        frame = order.frame("Look after it", budget=9_000)
        frame.record("user", "Where are the lamps?")
        frame.handles.add("document", f"lamps: 12 {HOSTILE}", title="the lamps", priority="high")
        frame.pack(budget=1_500, role="calm")
        frame.record("assistant", "On the shelf.")
        order.pack(budget=BUDGET, role="desk", model="claude-sonnet-4-5")
        order.record("assistant", f"To {NEW}, then.")
        quiet = engine.create_session("quiet", actor="ada")
        quiet.record("system", "Be quiet.")
        quiet.record("assistant", tool_calls=[{"name": "wait", "args": {}}])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once; who changes it takes a copy."""
    path = tmp_path_factory.mktemp("packs") / "agent.db"
    write_packs(path)
    return path


@pytest.fixture
def cli(written: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(written, capsys)


@pytest.fixture
def own(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    """For who changes something."""
    return CommandRunner(copy_store(written, tmp_path / "agent.db"), capsys)


@contextmanager
def reading(path: Path, session: str = "order") -> Iterator[holdfast.Session]:
    with holdfast.open(path) as engine:
        yield engine.session(session, actor="ada")


def fresh(session: Any, query: str | None = None, **asked: Any) -> Any:
    """The pack that the command is to show."""
    defaults = {"budget": BUDGET, "brief": BRIEF, "role": "desk", "model": "claude-sonnet-4-5", "settle": False}
    return session.pack(query, **{**defaults, **asked})


def told_of(entries: Any) -> list[tuple[Any, ...]]:
    """What is said of each candidate, but for what the clock has to do with."""
    plain = [each if isinstance(each, dict) else msgspec.to_builtins(each) for each in entries]
    return [tuple(each.get(name) for name in ("id", "section", "fate", "reason")) for each in plain]


# What a model would be shown


def test_a_pack_is_what_the_library_would_make_asked_for_as_it_was_asked_for_last(
    cli: CommandRunner, written: Path
) -> None:
    ran = cli("pack", "order", "Where are the lamps?", "--json")
    assert (ran.code, ran.err) == (0, "")
    with reading(written) as session:
        manifest = fresh(session, "Where are the lamps?").manifest
    assert told_of(ran.document["entries"]) == told_of(manifest.entries)
    assert ran.document["tokens"]["breakdown"] == manifest.tokens.breakdown
    assert ran.document["request"]["model"] == "claude-sonnet-4-5"
    assert ran.document["id"] is None


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (("--budget", "1300"), {"budget": 1_300}),
        (("--role", "calm"), {"budget": 2_500, "brief": CALM, "role": "calm", "model": None}),
        (("--profile", "high_stakes"), {"profile": "high_stakes"}),
        (("--guard", "annotate"), {"guard": "annotate"}),
        (("--guard", "off"), {"guard": "off"}),
        (("--within", "draft:spring"), {"within": [("draft", "spring")]}),
        (("--include", "h8_0"), {"include": ["h8_0"]}),
        (("--model", "gpt-5.5"), {"model": "gpt-5.5"}),
    ],
)
def test_options_say_otherwise(
    cli: CommandRunner, written: Path, options: tuple[str, ...], asked: dict[str, Any]
) -> None:
    document = cli("pack", "order", *options, "--json").document
    with reading(written) as session:
        manifest = fresh(session, **asked).manifest
    assert told_of(document["entries"]) == told_of(manifest.entries)
    assert document["tokens"]["budget"] == manifest.tokens.budget
    assert document["brief"] == manifest.brief


def test_every_section_and_every_reason_is_shown_with_its_figures(cli: CommandRunner, written: Path) -> None:
    out = cli("pack", "order", "--limit", "0").out
    with reading(written) as session:
        manifest = fresh(session).manifest
    head, parts, reasons = out.split("\n\n")
    assert head.startswith(f"{manifest.tokens.used:,} of {manifest.tokens.budget:,} tokens")
    shown = dict(re.findall(r"^(\w[\w ]*?) +([\d,]+) ", parts, re.MULTILINE))
    expected = {TITLES[name]: f"{tokens:,}" for name, tokens in manifest.tokens.breakdown.items()}
    assert shown == {**expected, "left": f"{manifest.tokens.remaining:,}"}
    lines = reasons.splitlines()
    assert len(lines) == 2 + len(manifest.entries)
    for line, entry in zip(lines[1:], manifest.entries, strict=False):
        assert re.match(rf"(?:{TITLES[entry.section]}|) +{re.escape(drawing.FATE_MARKS[entry.fate][0])}  ", line)
        assert escape(entry.id) in line
        assert line.rstrip().endswith(escape(entry.reason)[:100])


def test_of_many_candidates_some_are_shown_and_that_is_said(cli: CommandRunner) -> None:
    out = cli("pack", "order", "--limit", "1").out
    assert re.search(r"… \d+ more .*--limit 0 shows all", out)


@pytest.mark.parametrize("form", drawing.FORMATS)
def test_the_pack_itself_is_shown_as_it_is_sent(cli: CommandRunner, written: Path, form: str) -> None:
    ran = cli("pack", "order", "--format", form)
    assert (ran.code, ran.err) == (0, "")
    with reading(written) as session:
        pack = fresh(session)
    expected = str(pack) if form == "text" else getattr(pack, form.replace("-", "_"))()
    assert not UNSAFE.search(ran.out.replace("\n", ""))
    minute = re.compile(r"time: \w+ \d+-\d+-\d+ \d+:\d+")
    if form == "text":
        lines = "\n".join(escape(line.replace("\t", "    ")) for line in str(expected).split("\n"))
        assert minute.sub("", ran.out) == minute.sub("", lines) + "\n"
    else:
        assert minute.sub("", json.dumps(ran.document)) == minute.sub("", json.dumps(expected))
    document = cli("pack", "order", "--format", form, "--json").document
    assert minute.sub("", json.dumps(document["rendered"])) == minute.sub("", json.dumps(expected))


def test_what_is_dead_or_secret_is_in_none_of_them(cli: CommandRunner) -> None:
    for form in drawing.FORMATS:
        out = cli("pack", "order", "--format", form).out
        assert NEW in out
        assert OLD not in out
        assert SECRET not in out
    assert OLD in cli("pack", "order", "--format", "text", "--guard", "off").out


def test_a_brief_is_a_prompt_or_json(cli: CommandRunner, tmp_path: Path) -> None:
    file = tmp_path / "brief"
    file.write_text("You are somebody else.")
    assert "You are somebody else." in cli("pack", "quiet", "--brief", file, "--format", "text").out
    file.write_bytes(msgspec.json.encode(BRIEF))
    assert "Never promise a refund." in cli("pack", "quiet", "--brief", file, "--format", "text").out
    for bad in (b'{"prompt": 7}', b"{", b"\xff\xfe"):
        file.write_bytes(bad)
        ran = cli("pack", "quiet", "--brief", file)
        assert ran.code == 2
        assert "is not a brief" in ran.err


def test_no_time_omits_the_time(cli: CommandRunner) -> None:
    assert "- time: " in cli("pack", "quiet", "--format", "text").out
    assert "- time: " not in cli("pack", "quiet", "--no-time", "--format", "text").out


def test_a_role_that_nobody_has_spoken_in_is_refused(cli: CommandRunner) -> None:
    ran = cli("pack", "order", "--role", "nobody", "--json")
    assert ran.code == 3
    assert "--brief" in ran.error["message"]
    assert cli("pack", "order", "--budget", "100", "--json").error["type"] == "BudgetTooSmall"
    assert cli("pack", "order", "--frame", "f999", "--json").error["type"] == "FrameNotFound"
    assert cli("pack", "nowhere", "--json").error["type"] == "SessionNotFound"


def frame_of(path: Path) -> str:
    with reading(path) as session:
        return session.frames.list()[0].id


def test_a_frame_has_packs_of_its_own(cli: CommandRunner, written: Path) -> None:
    frame = frame_of(written)
    document = cli("pack", "order", "--frame", frame, "--json").document
    assert (document["frame"], document["tokens"]["budget"], document["request"]["role"]) == (frame, 1_500, "calm")
    assert cli("pack", "order", "--frame", "top", "--json").document["frame"] == frame
    assert cli("context", "order", "--frame", "top", "--json").document["frame"] == frame
    assert cli("situation", "order", "--frame", "top", "--json").document["frame"] == frame
    assert f"- {frame} (active): Look after it" in cli("pack", "order", "--format", "text").out
    assert {"breadcrumbs", "handles"} <= {entry["section"] for entry in document["entries"]}
    (handle,) = [entry["id"] for entry in document["entries"] if entry["section"] == "handles"]
    ran = cli("why", "order", handle, "--frame", frame)
    assert re.search(rf"^{handle}  resident.*\nincluded in p\d+ .*: handles, ", ran.out)
    assert "not in" in cli("why", "order", "m2", "--frame", frame).out


# Looking changes nothing


LOOKING = (
    ("pack", "order"),
    ("pack", "order", "lamps", "--format", "anthropic"),
    ("pack", "quiet"),
    ("why", "order", "shipping_address"),
    ("why", "order", "m2"),
    ("why", "quiet", "m2"),
    ("diff", "order"),
    ("diff", "order", "now"),
)


def events_in(path: Path) -> int:
    with holdfast.open(path) as engine:
        return engine.admin.verify().events


def test_looking_changes_nothing(own: CommandRunner) -> None:
    before = events_in(own.path)
    for args in LOOKING:
        assert own(*args).code == 0, args
        assert own(*args, "--json").code == 0, args
    assert events_in(own.path) == before


def test_a_pack_is_kept_if_that_is_asked_for(own: CommandRunner) -> None:
    before = events_in(own.path)
    kept = own("pack", "order", "--keep", "--json").document["id"]
    assert events_in(own.path) == before + 1
    with reading(own.path) as session:
        assert session.packs.list()[0].id == kept
    assert f"Recorded as p{before + 2}" not in own("pack", "order").out
    assert re.search(r"Recorded as p\d+\.$", own("pack", "order", "--keep").out.strip())


# Why


def facts_of(session: holdfast.Session) -> Iterator[tuple[holdfast.Ledger, holdfast.Fact]]:
    for ledger in (session.ledger(), session.ledger(user="ada"), session.ledger(organization="shop")):
        for wanted in ("live", "dead"):
            for fact in ledger.items(within="any", status=wanted):
                yield ledger, fact


def test_why_says_of_every_fact_what_the_manifest_says(cli: CommandRunner, written: Path) -> None:
    """Whether it is asked for by its id or by its key; of what is not among the candidates, why."""
    with reading(written) as session:
        manifest = session.packs.manifest(session.packs.list()[0])
        known = [(str(ledger.id), fact) for ledger, fact in facts_of(session)]
    assert len(known) >= 6
    entries = {entry.id: entry for entry in manifest.entries if entry.section == "facts"}
    assert len(entries) >= 4
    for ledger, fact in known:
        kind, _, _ = ledger.partition(" ")
        expected = entries.pop(f"{fact.id}@{ledger}", None)
        for item in (fact.id, fact.key, f"{fact.id}@{ledger}"):
            answers = cli("why", "order", item, "--json").document["answers"]
            (answer,) = [
                each
                for each in answers
                if each["fact"] and (each["fact"]["id"], each["fact"]["ledger"]) == (fact.id, kind)
            ] or [None]
            if answer is None:
                assert item == fact.key, "by its key, only what stands there, or stood last, is told of"
                continue
            assert told_of(answer["entries"]) == told_of([] if expected is None else [expected])
            assert bool(answer["absent"]) == (expected is None)
            ran = cli("why", "order", item)
            assert ran.code == 0
            assert not UNSAFE.search(ran.out.replace("\n", ""))
        assert len(answers) == 1, "one ledger alone was asked"
    assert not entries


def test_why_tells_what_took_the_place_of_a_fact_and_where_it_was_told(cli: CommandRunner) -> None:
    out = cli("why", "order", "shipping_address").out
    assert re.search(rf"^k\d+  shipping_address = {NEW}  current  user ada", out)
    assert re.search(rf"older fact k\d+ {OLD}  superseded by k\d+ \(explicit\)", out)
    assert "in p" in out
    dead = re.search(r"older fact (k\d+)", out)
    assert dead is not None
    told = cli("why", "order", dead[1]).out
    assert re.search(r"not in p\d+ .*: k\d+ had superseded it", told)
    assert re.search(r"stated in m\d+, which is reduced: ", told)


def test_why_can_be_asked_of_an_older_pack(cli: CommandRunner, written: Path) -> None:
    with reading(written) as session:
        (*_, first) = session.packs.list()
        now = session.ledger(user="ada").get("shipping_address")
    assert now is not None
    (old,) = now.supersedes
    assert re.search(rf"^included in {first.id} ", cli("why", "order", old, "--pack", first.id).out, re.MULTILINE)
    assert "it was asserted later" in cli("why", "order", now.id, "--pack", first.id).out
    assert "it was recorded later" in cli("why", "order", "m8", "--pack", first.id).out
    assert cli("why", "order", old, "--pack", "p99999", "--json").error["type"] == "PackNotFound"


def test_why_says_of_every_message_what_became_of_it(cli: CommandRunner, written: Path) -> None:
    with reading(written) as session:
        manifest = session.packs.manifest(session.packs.list()[0])
        messages = session.messages(limit=1_000)
    seen = 0
    for message in messages:
        (answer,) = cli("why", "order", f"m{message.seq}", "--json").document["answers"]
        covering = [e for e in manifest.entries if e.section == "history" and e.at <= message.seq <= e.to]
        expected = covering if message.frame is None else []
        assert told_of(answer["entries"]) == told_of(expected or covering)
        seen += bool(covering)
    assert seen >= 6
    first, second = (cli("why", "order", name).out for name in (str(messages[0].seq), f"m{messages[0].seq}"))
    assert re.sub(r"\d+ s ago", "", first) == re.sub(r"\d+ s ago", "", second)


def test_why_says_of_a_large_result_where_it_lies(cli: CommandRunner, written: Path) -> None:
    with reading(written) as session:
        (piece,) = [each for each in session.handles.list() if each.residency != "resident"]
    out = cli("why", "order", piece.id).out
    assert out.startswith(f"{piece.id}  spooled_out, ")
    assert "history" in out


def test_why_says_of_anything_that_is_listed_what_the_list_says(cli: CommandRunner) -> None:
    """A message of the system, the clock, a call that waits."""
    entries = cli("pack", "quiet", "--json").document["entries"]
    assert [entry["section"] for entry in entries] == ["system", "tools", "history", "environment"]
    for entry in entries:
        (answer,) = cli("why", "quiet", entry["id"], "--json").document["answers"]
        assert told_of(answer["entries"]) == told_of([entry])
        assert cli("why", "quiet", entry["id"]).code == 0
    assert "waits for the results of its calls" in cli("why", "quiet", "m3").out


def test_of_what_the_reader_may_not_know_there_is_no_trace(cli: CommandRunner, written: Path) -> None:
    with holdfast.open(written) as engine:
        vault = engine.ledger(organization="shop").get("vault")
    assert vault is not None
    for item in ("vault", vault.id):
        there = cli("why", "order", item, "--json")
        nothing = cli("why", "order", item.replace("vault", "tluav") if item == "vault" else "k77", "--json")
        assert SECRET not in there.out + there.err
        if item == "vault":
            assert there.code == nothing.code == 3
            assert there.error["message"].replace("vault", "tluav") == nothing.error["message"]
        else:
            assert "vault" not in there.out


# What changed


def test_a_difference_is_what_the_library_says(cli: CommandRunner, written: Path) -> None:
    with reading(written) as session:
        found = session.packs.diff()
    document = cli("diff", "order", "--json").document
    assert document["explained"] == found.explain()
    assert [change["why"] for change in document["changes"]] == [change.why for change in found.changes]
    out = cli("diff", "order").out
    assert out.startswith(f"{found.first.id} → {found.second.id}")
    assert f"{found.same:,} unchanged." in out
    for change in found.changes:
        assert escape(change.why)[:80] in out
    assert cli("diff", "order", found.first.id, found.second.id).out == out


def test_a_difference_can_be_asked_up_to_now(cli: CommandRunner, written: Path) -> None:
    with reading(written) as session:
        (*_, first) = session.packs.list()
    for args in (("now",), (first.id, "now")):
        out = cli("diff", "order", *args).out
        assert "→ a new pack" in out
    assert out.startswith(first.id)
    assert "the prompt cache" in out.lower()


def test_without_packs_there_is_nothing_to_compare(cli: CommandRunner) -> None:
    for args in ((), ("now",)):
        assert cli("diff", "quiet", *args, "--json").error["type"] == "PackNotFound"


def test_a_long_difference_is_cut_and_says_so(cli: CommandRunner) -> None:
    assert re.search(r"… and \d+ other changes?\. --limit 0 shows all", cli("diff", "order", "--limit", "1").out)


# On a terminal


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_on_a_terminal_it_is_coloured_and_the_tables_fit(written: Path, columns: int) -> None:
    ran = drawn(written, columns, "pack", "order")
    assert ran.code == 0
    assert COLOUR.search(ran.out)
    plain = COLOUR.sub("", ran.out)
    assert not UNSAFE.search(plain.replace("\n", ""))
    for args in (("why", "order", "shipping_address"), ("diff", "order")):
        assert COLOUR.search(drawn(written, columns, *args).out)
    _, parts, reasons = plain.split("\n\n")
    assert all(cell_len(line) <= columns for line in (parts + "\n" + reasons).splitlines())


@pytest.mark.parametrize("columns", [80, 100, 130])
def test_no_reason_is_cut_on_a_narrow_terminal(written: Path, columns: int) -> None:
    """Where a column has too little room, the reason is on a line of its own."""
    lines = [line.rstrip() for line in COLOUR.sub("", drawn(written, columns, "pack", "order").out).splitlines()]
    with reading(written) as session:
        entries = fresh(session).manifest.entries
    assert len(entries) >= 10
    for entry in entries:
        at = next(number for number, line in enumerate(lines) if f" {escape(entry.id)[:8]}" in line)
        words = escape(entry.reason).split()
        nearby = " ".join(lines[at : at + 4]).split()
        assert all(word in nearby for word in words), (entry.reason, lines[at : at + 4])
    assert max(map(cell_len, lines[4:])) <= columns
    own = [line.strip() for line in lines]
    assert ("WHY" in own) == (columns <= 100)


def test_no_colour_without_a_terminal(cli: CommandRunner) -> None:
    for args in LOOKING:
        assert not COLOUR.search(cli(*args).out)


# Drawing

breakdowns = st.dictionaries(st.sampled_from(SECTIONS), st.integers(1, 5_000), min_size=1)


@given(breakdown=breakdowns, spare=st.integers(0, 50_000))
def test_bars_follow_each_other_and_fill_the_budget(breakdown: dict[Any, int], spare: int) -> None:
    """Each begins where the one before it ends, none is left out, and together with what is left they are as long as the
    budget is drawn."""
    used = sum(breakdown.values())
    tokens = holdfast.types.TokenSummary(budget=used + spare, used=used, breakdown=breakdown)
    manifest = msgspec.structs.replace(EMPTY, tokens=tokens)
    *rows, left = drawing._section_rows(manifest)
    assert [row[0] for row in rows] == [TITLES[name] for name in SECTIONS if name in breakdown]
    end = 0
    for row in rows:
        bar = row[2].text  # type: ignore[union-attr]
        assert bar.strip(" ")
        assert len(bar) - len(bar.lstrip(" ")) == end
        end += bar.count("█")
    rest = left[2].text  # type: ignore[union-attr]
    assert end + rest.count("·") == drawing.BUDGET_BAR_CHARS


EMPTY = Manifest(
    scope=holdfast.types.Scope("default", "ada", "order"),
    version=1,
    request=holdfast.types.PackRequest(
        budget=1, effective=1, fact_share=0.5, profile=holdfast.Profile(name="balanced"), as_of_us=0
    ),
    tokens=holdfast.types.TokenSummary(budget=1, used=0, breakdown={}),
    counter="",
    renderer="",
    policy="",
    context_hash="",
)


@given(
    st.lists(
        st.builds(
            ManifestEntry,
            id=st.text(min_size=1, max_size=20),
            section=st.sampled_from(SECTIONS),
            fate=st.sampled_from(["included", "reduced", "omitted", "missing", "withheld"]),
            reason=st.text(max_size=30),
            tokens=st.integers(0, 10**6),
            source=st.text(max_size=30),
            rank=st.integers(0, 99),
        ),
        max_size=12,
    ),
    st.integers(0, 4),
)
def test_every_candidate_is_listed_or_counted_and_nothing_hostile_gets_out(
    entries: list[ManifestEntry], limit: int
) -> None:
    manifest = msgspec.structs.replace(EMPTY, entries=tuple(entries))
    rows = [
        [cell if isinstance(cell, str) else cell.text for cell in row] for row in drawing._reason_rows(manifest, limit)
    ]
    more = [int(row[2].split()[1]) for row in rows if row[6] == "--limit 0 shows all"]
    listed = [row for row in rows if row[1]]
    assert len(listed) + sum(more) == len(entries)
    assert not any(UNSAFE.search(cell) for row in rows for cell in row)


# Model calls


def test_calls_are_those_of_the_library_newest_first(cli: CommandRunner, written: Path) -> None:
    ran = cli("calls", "order", "--json", "--limit", "0")
    assert (ran.code, ran.err) == (0, "")
    with reading(written) as session:
        expected = [msgspec.to_builtins(each) for each in session.packs.calls()]
    assert ran.documents == json.loads(json.dumps(expected))
    assert [each["id"] for each in cli("calls", "order", "--json", "-n", "2").documents] == [
        each["id"] for each in expected[:2]
    ]
    drawn_rows = cli("calls", "order").out
    assert all(each["id"] in drawn_rows for each in expected)
    assert "guard" in drawn_rows


def test_calls_of_a_frame_are_its_own_and_a_session_may_have_none(own: CommandRunner) -> None:
    with holdfast.open(own.path) as engine:
        frame = engine.session("order", actor="ada").frames.list()[0].id
        silent = engine.create_session("silent", actor="ada")
        silent.record("user", "Hello?")
    (call,) = own("calls", "order", "--frame", frame, "--json").documents
    assert call["frame"] == frame
    assert "no model calls" in own("calls", "silent").out


def test_a_hostile_model_name_draws_nothing(own: CommandRunner) -> None:
    with holdfast.open(own.path) as engine:
        session = engine.create_session("hostile", actor="ada")
        session.record("user", "Hello?")
        session.pack(budget=BUDGET, model="claude \u202edesrever\u2066 end")
        session.record("assistant", "Hi.")
    ran = own("calls", "hostile")
    assert ran.code == 0
    assert "desrever" in ran.out
    assert UNSAFE.search(ran.out.replace("\n", "")) is None


def test_dollars_have_as_many_digits_as_are_useful() -> None:
    assert [format_dollars(each) for each in (0, 1_234, 999_999, 1_500_000)] == ["$0", "$0.0012", "$1.0000", "$1.50"]
