"""`holdfast facts`: what is known, what it replaced, who disagrees, and what needs a second look.

Law: what no longer holds is never shown without saying so.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import click

import holdfast
from holdfast.cli import ledgers as naming
from holdfast.cli import shapes
from holdfast.cli.frames import principal_option
from holdfast.cli.ledgers import ALL_KINDS, Whose, chosen, of_a_ledger, of_actor, policy_option, there_are
from holdfast.cli.screen import FACTS, Column, Styled, emit, json_text, say, table, tree
from holdfast.cli.sessions import limit_option
from holdfast.cli.settings import PAGE, Settings, common
from holdfast.cli.words import ago, clean, count, local, short
from holdfast.model.content import Json
from holdfast.model.facts import FACT_SCOPES, MEMORY_TYPES, FactScope, MemoryType, fact_seq
from holdfast.model.names import LedgerKind
from holdfast.model.rows import ledger_of

Scopes: TypeAlias = list[tuple[FactScope, str]]

VALUE_CHARS = 80
NOTE_CHARS = 100
NAMED = 8
"""Facts that a line names, at most."""

_LEDGERS = (
    Column("LEDGER"),
    Column("NAME"),
    Column("ASSERTED", right=True, whole=True),
    Column("EVENTS", right=True, whole=True),
    Column("UPDATED", whole=True),
)
_COLUMNS = (
    Column("SCORE", right=True, whole=True),
    Column("FACT", whole=True),
    Column("STATUS", whole=True),
    Column("KEY"),
    Column("VALUE"),
    Column("AUTHORITY", whole=True),
    Column("SOURCE"),
    Column("SCOPE"),
    Column("SINCE", whole=True),
    Column("UNTIL", whole=True),
    Column("LEDGER"),
    Column("NOTE"),
)

fact_argument = click.argument("fact")
reason_option = click.option("--reason", metavar="TEXT", default="", help="Why; it is kept.")


class Shown(NamedTuple):
    """A fact in a list: where it stands, and how it came there."""

    fact: holdfast.Fact
    branch: str = ""
    score: float | None = None
    ledger: str = ""


def status(fact: holdfast.Fact, now_us: int) -> str:
    """What a fact is now, in a word."""
    if not fact.is_valid:
        return fact.status
    if fact.ran_out(now_us):
        return "expired"
    return "claim" if fact.claim else "review" if fact.needs_review else "current"


def said(value: Json) -> str:
    """A value on one line."""
    return short(value if isinstance(value, str) else json_text(value), VALUE_CHARS)


def _note(fact: holdfast.Fact) -> str:
    """What else is to be known of it."""
    notes = [fact.reason] if fact.reason and not fact.supersedes else []
    if not fact.is_valid:
        by = f"by {fact.superseded_by}" if fact.superseded_by else ""
        rule = f"({fact.rule})" if fact.rule else ""
        told = " ".join(filter(None, (by, rule)))
        notes.append(": ".join(filter(None, (told, fact.why))))
    if fact.claim:
        notes.append(f"against {fact.against}")
    if fact.needs_review:
        notes.append(f"{fact.review} is dead")
    if fact.is_disputed:
        notes.append(f"withdrawn by {', '.join(each.by for each in fact.disputes)}, not confirmed")
    if fact.depends_on:
        more = f" and {len(fact.depends_on) - NAMED:,} more" if len(fact.depends_on) > NAMED else ""
        notes.append(f"from {', '.join(fact.depends_on[:NAMED])}{more}")
    if fact.is_constraint:
        notes.append(f"constraint ({fact.constraint_type})" if fact.constraint_type else "constraint")
    if fact.requires:
        notes.append(f"for {', '.join(fact.requires)}")
    return short("; ".join(filter(None, notes)), NOTE_CHARS)


def _cells(shown: Shown, now_us: int) -> list[str | Styled]:
    fact, what = shown.fact, status(shown.fact, now_us)
    dim = "" if what in FACTS else "dim"
    source = fact.source
    return [
        "" if shown.score is None else f"{shown.score:.2f}",
        Styled(shown.branch + fact.id, dim or "bold"),
        Styled(what, FACTS.get(what, "dim")),
        Styled(short(fact.key, VALUE_CHARS), dim),
        Styled(said(fact.value), dim),
        clean(fact.authority),
        short(source.name or source.identity or ("" if source.type == "state_write" else source.type), VALUE_CHARS),
        "" if fact.scope == "global" else clean(f"{fact.scope} {fact.scope_id}".rstrip()),
        ago(fact.valid_from_us, now_us),
        "" if fact.expires_us is None else ago(fact.expires_us, now_us),
        clean(shown.ledger),
        _note(fact),
    ]


def _show(facts: list[Shown]) -> None:
    now_us = time.time_ns() // 1_000
    table(_COLUMNS, (_cells(each, now_us) for each in facts))


@click.group()
def facts() -> None:
    """Show what is known, why, and what needs a review; assert, retract, confirm."""


_DISPUTED = (
    "Nothing was retracted: a higher authority states it. It is kept as disputed until someone who may confirms it."
)


@facts.command()
@click.option("--kind", type=click.Choice(ALL_KINDS), help="Only these.")
@limit_option(100)
@common
@click.pass_obj
def ledgers(settings: Settings, kind: LedgerKind | None, limit: int) -> None:
    """List the ledgers of a tenant, and how many facts were asserted in each."""
    with settings.open() as engine:
        found = (row for row in naming.rows(engine, kind) if of_actor(row, settings.actor))
        listed = list(itertools.islice(found, limit or None))
        left_out = next(found, None) is not None
    if settings.json:
        for row in listed:
            emit(shapes.ledger(row))
        return
    if not listed:
        say(clean(f"No ledgers{f' of a {kind}' if kind else ''} in the tenant {settings.tenant!r}."))
        return
    now_us = time.time_ns() // 1_000
    table(_LEDGERS, (_ledger_cells(row, now_us) for row in listed))
    _more(left_out, limit)


def _more(left_out: bool, limit: int) -> None:
    if left_out:
        say(Styled(f"… and more: these are the first {limit:,}. --limit 0 shows all.", "dim"), error=True)


def _ledger_cells(row: holdfast.LedgerRow, now_us: int) -> list[str | Styled]:
    name = Styled(clean(" / ".join(ledger_of(row).names)), "bold")
    return [row.kind, name, f"{row.facts:,}", f"{row.version:,}", ago(row.updated_us, now_us)]


def _any(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Scopes | Literal["any"]:
    return "any" if "any" in given else _within(context, parameter, given)


def _within(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> Scopes:
    scopes = [(scope, scope_id) for scope, _, scope_id in (each.partition(":") for each in given)]
    for scope, _ in scopes:
        if scope not in FACT_SCOPES:
            raise click.BadParameter(f"{scope!r} is not one of {', '.join(FACT_SCOPES)}.")
    return scopes  # type: ignore[return-value]


within_option = click.option(
    "--within", metavar="SCOPE[:ID]", multiple=True, callback=_within, help="This scope, too, such as draft:offer."
)
any_option = click.option(
    "--within", metavar="SCOPE[:ID]", multiple=True, callback=_any, help="This scope, too, such as draft:offer; or any."
)
scope_id_option = click.option("--scope-id", metavar="NAME", default="", help="Which task, draft, …")


@facts.command("list")
@of_a_ledger
@any_option
@click.option(
    "--status", "wanted", type=click.Choice(["live", "dead"]), default="live", show_default=True, help="Which."
)
@click.option("--memory-type", type=click.Choice(MEMORY_TYPES), help="Only this kind of memory.")
@limit_option(100)
@common
@click.pass_obj
def list_(
    settings: Settings,
    whose: Whose,
    within: Scopes | Literal["any"],
    wanted: Literal["live", "dead"],
    memory_type: MemoryType | None,
    limit: int,
) -> None:
    """List what holds now, claims marked as such; or what is dead."""
    with settings.open() as engine:
        ledger = chosen(settings, engine, whose)

        def read(last: holdfast.Fact | None) -> Sequence[holdfast.Fact]:
            size = _size(limit)
            return ledger.facts(within=within, status=wanted, memory_type=memory_type, after=last, limit=size)

        kind = f"{memory_type} " if memory_type else ""
        what = f"dead {kind}facts" if wanted == "dead" else f"{kind}facts"
        _list(settings, engine, ledger, _pages(read), limit, what)


@facts.command()
@of_a_ledger
@limit_option(100)
@common
@click.pass_obj
def review(settings: Settings, whose: Whose, limit: int) -> None:
    """List what rests on something that died, in any scope.

    `facts confirm` says that it holds all the same; asserting another value replaces it.
    """
    with settings.open() as engine:
        ledger = chosen(settings, engine, whose)

        def read(last: holdfast.Fact | None) -> Sequence[holdfast.Fact]:
            return ledger.review(after=last, limit=_size(limit))

        _list(settings, engine, ledger, _pages(read), limit, "facts that need a review")


def _size(limit: int) -> int:
    """Of a page: no more than are shown, and one by which to see that there are others."""
    return min(PAGE, limit + 1) if limit else PAGE


def _pages(read: Callable[[holdfast.Fact | None], Sequence[holdfast.Fact]]) -> Iterator[holdfast.Fact]:
    last: holdfast.Fact | None = None
    while page := read(last):
        yield from page
        last = page[-1]


def _list(
    settings: Settings,
    engine: holdfast.Engine,
    ledger: holdfast.Ledger,
    found: Iterator[holdfast.Fact],
    limit: int,
    what: str,
) -> None:
    wanted = itertools.islice(found, limit or None)
    if settings.json:
        for fact in wanted:
            emit(shapes.fact(ledger.id, fact))
        return
    listed = [Shown(fact) for fact in wanted]
    if not listed:
        _nothing(settings, engine, ledger, what)
        return
    _show(listed)
    _more(next(found, None) is not None, limit)


def _nothing(settings: Settings, engine: holdfast.Engine, ledger: holdfast.Ledger, what: str) -> None:
    """No facts, and, if there is no such ledger, where there are some: a wrong name is the usual reason."""
    elsewhere = "" if engine.store.head(ledger.id.stream) else f" {there_are(settings, engine)}"
    say(clean(f"No {what} in the ledger {ledger.id}.{elsewhere}"))


@facts.command()
@click.argument("key")
@of_a_ledger
@click.option(
    "-n", "--limit", type=click.IntRange(1, PAGE), default=100, show_default=True, help="How many, the newest."
)
@common
@click.pass_obj
def history(settings: Settings, whose: Whose, key: str, limit: int) -> None:
    """Show all that was ever held to be true under KEY, as a tree.

    Below a fact stand those that it replaced, the claims against it, and what was derived from it.
    """
    with settings.open() as engine:
        ledger = chosen(settings, engine, whose)
        found = ledger.history(key, limit=limit)
        if settings.json:
            for fact in found:
                emit(shapes.fact(ledger.id, fact))
            return
        if not found:
            raise holdfast.errors.FactNotFound(ledger=ledger.id, fact=key)
        derived = _derived(ledger, found)
    _show(list(drawn(found, derived)))


def _derived(ledger: holdfast.Ledger, found: tuple[holdfast.Fact, ...]) -> dict[str, list[holdfast.Fact]]:
    """What rests on each of these, unless it is among them."""
    own = {fact.id for fact in found}
    return {
        fact.id: [ledger.get(each) for each in fact.derived_facts if each not in own]
        for fact in found
        if fact.derived_facts
    }


def drawn(found: tuple[holdfast.Fact, ...], derived: dict[str, list[holdfast.Fact]]) -> Iterator[Shown]:
    """Each fact once: below what took its place, or what it is a claim against, or else on its own, the newest first."""
    known = {fact.id for fact in found}
    below: dict[str, list[holdfast.Fact]] = {}
    tops: list[holdfast.Fact] = []
    for fact in sorted(found, key=lambda each: -fact_seq(each.id)):
        above = next((each for each in (fact.superseded_by, fact.against) if each in known), None)
        (tops if above is None else below.setdefault(above, [])).append(fact)

    def inner(fact: holdfast.Fact) -> list[holdfast.Fact]:
        return [*derived.get(fact.id, ()), *below.get(fact.id, ())] if fact.id in known else []

    for fact, branch in tree(tops, inner):
        yield Shown(fact, branch)


@facts.command()
@click.argument("key")
@of_a_ledger
@click.option("--scope", type=click.Choice(FACT_SCOPES), default="global", show_default=True, help="Where it holds.")
@scope_id_option
@common
@click.pass_obj
def why(settings: Settings, whose: Whose, key: str, scope: FactScope, scope_id: str) -> None:
    """Tell why KEY has the value that it has."""
    with settings.open() as engine:
        ledger = chosen(settings, engine, whose)
        told = ledger.why(key, scope=scope, scope_id=scope_id)
    if settings.json:
        emit(shapes.why(ledger.id, told))
        return
    now_us = time.time_ns() // 1_000
    if told.current is None:
        say(Styled(short(key, VALUE_CHARS), "bold"), " has no value now.")
    else:
        say(Styled(short(told.current.key, VALUE_CHARS), "bold"), " = ", said(told.current.value))
        _line(told.current, now_us)
    for title, group in (
        ("It took the place of", told.chain),
        ("Others say", told.claims),
        ("It rests on", told.depends_on),
        ("On it rest", told.derived),
    ):
        if group:
            say(Styled(f"{title}:", "bold"))
        for fact in group:
            _line(fact, now_us, key if title in ("It took the place of", "Others say") else "")
    say(Styled("What happened:", "bold"))
    for link in told.story:
        say(Styled(f"  {local(link.time_us)}  ", "dim"), f"{link.fact}  ", short(link.what, 2 * NOTE_CHARS))


def _line(fact: holdfast.Fact, now_us: int, key: str | None = None) -> None:
    """A fact on a line of its own; without its value if its key was just said with it."""
    what = status(fact, now_us)
    value = ""
    if key is not None:
        value = f"{short(fact.key, VALUE_CHARS)} = {said(fact.value)}  " if key != fact.key else f"{said(fact.value)}  "
    note = _note(fact)
    say(
        f"  {fact.id}  {value}",
        Styled(what, FACTS.get(what, "dim")),
        clean(f"  {fact.authority}, since {ago(fact.valid_from_us, now_us)}"),
        f"  {note}" if note else "",
    )


@facts.command()
@click.argument("query")
@of_a_ledger
@within_option
@click.option("-n", "--limit", type=click.IntRange(1, PAGE), default=20, show_default=True, help="How many.")
@common
@click.pass_obj
def search(settings: Settings, whose: Whose, query: str, within: Scopes, limit: int) -> None:
    """List the facts that fit QUERY best.

    With --session alone, in all ledgers that the session reads.
    """
    with settings.open() as engine:
        if whose.session is not None and not whose.named:
            session = settings.session(engine, whose.session, whose.thread)
            found, where = session.search(query, within=within, limit=limit), f"what the session {session.id!r} reads"
        else:
            ledger = chosen(settings, engine, whose)
            found, where = ledger.search(query, within=within, limit=limit), f"the ledger {ledger.id}"
    if settings.json:
        for known in found:
            emit({**shapes.fact(known.ledger, known.fact), "score": known.score})
        return
    if not found:
        say(clean(f"Nothing in {where} fits this."))
        return
    named = len({known.ledger for known in found}) > 1
    _show([Shown(each.fact, score=each.score, ledger=str(each.ledger) if named else "") for each in found])


def _json_value(value: str) -> Json:
    import json  # noqa: PLC0415 - only here

    try:
        parsed: Json = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"VALUE is not JSON: {error}.", param_hint="'--as-json'") from error
    return parsed


@facts.command("assert")
@click.argument("key")
@click.argument("value")
@of_a_ledger
@click.option("--as-json", is_flag=True, help="VALUE is JSON: a number, a list, …; otherwise it is text.")
@click.option("--authority", metavar="NAME", help="On whose authority; never more than the session's identity has.")
@click.option("--source", metavar="NAME", help="Where it comes from: a system, a document, a person.")
@click.option("--scope", type=click.Choice(FACT_SCOPES), help="Where it holds.  [default: as its text says, or global]")
@scope_id_option
@click.option("--supersedes", metavar="FACT", multiple=True, help="What else it takes the place of.")
@click.option("--depends-on", metavar="FACT", multiple=True, help="What it was derived from.")
@click.option("--requires", metavar="PERMISSION", multiple=True, help="What it takes to know of it.")
@click.option("--ttl", "ttl_s", type=click.FloatRange(0), metavar="SECONDS", help="For how long it holds.")
@reason_option
@principal_option
@policy_option
@common
@click.pass_obj
def assert_(
    settings: Settings,
    /,
    whose: Whose,
    key: str,
    value: str,
    as_json: bool,
    principal: str,
    policy: holdfast.Policy | None,
    **options: Any,
) -> None:
    """Hold it to be true that KEY is VALUE.

    What KEY was before is superseded, unless a higher authority says it: then this is kept as a claim.
    """
    parsed = _json_value(value) if as_json else value
    with settings.open(principal=principal, policy=policy) as engine:
        ledger = chosen(settings, engine, whose)
        fact = ledger.assert_(key, parsed, **options)
    if settings.json:
        emit(shapes.fact(ledger.id, fact))
    else:
        _show([Shown(fact)])


@facts.command()
@fact_argument
@of_a_ledger
@reason_option
@principal_option
@policy_option
@common
@click.pass_obj
def retract(
    settings: Settings, whose: Whose, fact: str, reason: str, principal: str, policy: holdfast.Policy | None
) -> None:
    """Take FACT back, and all that was derived from it.

    FACT is an id such as k12, a name outside, or a key.
    """
    with settings.open(principal=principal, policy=policy) as engine:
        ledger = chosen(settings, engine, whose)
        dead = ledger.retract(fact, reason=reason)
    if settings.json:
        emit({"retracted": [shapes.fact(ledger.id, each) for each in dead]})
        return
    _show([Shown(each) for each in dead])
    say(f"{count(len(dead), 'fact')} retracted." if dead else _DISPUTED)


@facts.command()
@fact_argument
@of_a_ledger
@reason_option
@principal_option
@policy_option
@common
@click.pass_obj
def confirm(
    settings: Settings, whose: Whose, fact: str, reason: str, principal: str, policy: holdfast.Policy | None
) -> None:
    """Say that FACT was reviewed, and holds."""
    with settings.open(principal=principal, policy=policy) as engine:
        ledger = chosen(settings, engine, whose)
        confirmed = ledger.confirm(fact, reason=reason)
    if settings.json:
        emit(shapes.fact(ledger.id, confirmed))
    else:
        _show([Shown(confirmed)])
