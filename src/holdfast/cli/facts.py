"""`holdfast facts`: list, search, explain and change facts, and decide on proposals.

Law: a fact that is superseded, retracted or expired is never shown without its status.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import click

import holdfast
from holdfast.cli import documents
from holdfast.cli import options as naming
from holdfast.cli.options import (
    LEDGER_KINDS,
    LedgerSelector,
    belongs_to_actor,
    describe_ledgers,
    limit_option,
    policy_option,
    principal_option,
    reason_option,
    select_ledger,
    session_argument,
    thread_option,
    with_ledger,
)
from holdfast.cli.output import (
    FACT_STYLES,
    StyledText,
    TableColumn,
    escape,
    format_age,
    format_count,
    format_local_time,
    json_text,
    print_json,
    print_line,
    print_more,
    print_table,
    shorten,
    walk_tree,
)
from holdfast.cli.settings import PAGE, Settings, common_options, read_pages
from holdfast.model.content import Json
from holdfast.model.facts.fact import FACT_SCOPES, MEMORY_TYPES, FactScope, MemoryType, fact_seq
from holdfast.model.names import LedgerKind
from holdfast.model.rows import ledger_of

ScopeList: TypeAlias = list[tuple[FactScope, str]]
VALUE_CHARS = 80
NOTE_CHARS = 100
MAX_NAMES = 8
"""The maximum number of facts that a line names."""


_LEDGER_COLUMNS = (
    TableColumn("LEDGER"),
    TableColumn("NAME"),
    TableColumn("ASSERTED", right=True, whole=True),
    TableColumn("EVENTS", right=True, whole=True),
    TableColumn("UPDATED", whole=True),
)
_FACT_COLUMNS = (
    TableColumn("SCORE", right=True, whole=True),
    TableColumn("FACT", whole=True),
    TableColumn("STATUS", whole=True),
    TableColumn("KEY"),
    TableColumn("VALUE"),
    TableColumn("AUTHORITY", whole=True),
    TableColumn("SOURCE"),
    TableColumn("SCOPE"),
    TableColumn("SINCE", whole=True),
    TableColumn("UNTIL", whole=True),
    TableColumn("LEDGER"),
    TableColumn("NOTE", below=True),
)
fact_argument = click.argument("fact")


class FactListing(NamedTuple):
    """A fact in a list, with its branch in the tree, its score and its ledger."""

    fact: holdfast.Fact
    branch: str = ""
    score: float | None = None
    ledger: str = ""


def fact_status(fact: holdfast.Fact, now_us: int) -> str:
    """The status of a fact, in one word."""
    if not fact.is_valid:
        return fact.status
    if fact.has_expired(now_us):
        return "expired"
    return "claim" if fact.is_claim else "review" if fact.needs_review else "current"


def format_value(value: Json) -> str:
    """A value on one line."""
    return shorten(value if isinstance(value, str) else json_text(value), VALUE_CHARS)


def _fact_note(fact: holdfast.Fact) -> str:
    """Remarks on a fact: what superseded it, claims, disputes, sources."""
    notes = [fact.reason] if fact.reason and not fact.supersedes else []
    if not fact.is_valid:
        by = f"by {fact.superseded_by}" if fact.superseded_by else ""
        rule = f"({fact.rule})" if fact.rule else ""
        cause = " ".join(filter(None, (by, rule)))
        notes.append(": ".join(filter(None, (cause, fact.why))))
    if fact.is_claim:
        notes.append(f"against {fact.against}")
    if fact.needs_review:
        notes.append(fact.review_reason)
    if fact.is_disputed:
        notes.append(f"disputed by {', '.join(dispute.by for dispute in fact.disputes)}, not confirmed")
    if fact.depends_on:
        more = f" and {len(fact.depends_on) - MAX_NAMES:,} more" if len(fact.depends_on) > MAX_NAMES else ""
        notes.append(f"from {', '.join(fact.depends_on[:MAX_NAMES])}{more}")
    if fact.is_constraint:
        notes.append(f"constraint ({fact.constraint_type})" if fact.constraint_type else "constraint")
    if fact.requires:
        notes.append(f"for {', '.join(fact.requires)}")
    return shorten("; ".join(filter(None, notes)), NOTE_CHARS)


def _fact_cells(listing: FactListing, now_us: int) -> list[str | StyledText]:
    fact, status = listing.fact, fact_status(listing.fact, now_us)
    dim = "" if status in FACT_STYLES else "dim"
    source = fact.source
    return [
        "" if listing.score is None else f"{listing.score:.2f}",
        StyledText(listing.branch + fact.id, dim or "bold"),
        StyledText(status, FACT_STYLES.get(status, "dim")),
        StyledText(shorten(fact.key, VALUE_CHARS), dim),
        StyledText(format_value(fact.value), dim),
        escape(fact.authority),
        shorten(source.name or source.identity or ("" if source.type == "state_write" else source.type), VALUE_CHARS),
        "" if fact.scope == "global" else escape(f"{fact.scope} {fact.scope_id}".rstrip()),
        format_age(fact.valid_from_us, now_us),
        "" if fact.expires_us is None else format_age(fact.expires_us, now_us),
        escape(listing.ledger),
        _fact_note(fact),
    ]


def _print_facts(facts: list[FactListing]) -> None:
    now_us = time.time_ns() // 1_000
    print_table(_FACT_COLUMNS, (_fact_cells(listing, now_us) for listing in facts))


@click.group()
def facts() -> None:
    """Show, explain, assert, retract and confirm facts."""


_DISPUTE_NOTICE = (
    "Nothing was retracted: the fact has a higher authority. It is disputed until a sufficient authority decides."
)


@facts.command()
@click.option("--kind", type=click.Choice(LEDGER_KINDS), help="Only ledgers of this kind.")
@limit_option(100)
@common_options
@click.pass_obj
def ledgers(settings: Settings, kind: LedgerKind | None, limit: int) -> None:
    """List the ledgers of a tenant, with their counts of facts."""
    with settings.open() as engine:
        rows = (row for row in naming.iterate_ledgers(engine, kind) if belongs_to_actor(row, settings.actor))
        listed = list(itertools.islice(rows, limit or None))
        has_more = next(rows, None) is not None
    if settings.json:
        for row in listed:
            print_json(documents.ledger(row))
        return
    if not listed:
        print_line(escape(f"No ledgers{f' of a {kind}' if kind else ''} in the tenant {settings.tenant!r}."))
        return
    now_us = time.time_ns() // 1_000
    print_table(_LEDGER_COLUMNS, (_ledger_cells(row, now_us) for row in listed))
    if has_more:
        print_more(f"and more: these are the first {limit:,}")


def _ledger_cells(row: holdfast.types.LedgerRow, now_us: int) -> list[str | StyledText]:
    name = StyledText(escape(" / ".join(ledger_of(row).names)), "bold")
    return [row.kind, name, f"{row.facts:,}", f"{row.version:,}", format_age(row.updated_us, now_us)]


def _parse_scopes_or_any(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> ScopeList | Literal["any"]:
    return "any" if "any" in texts else _parse_scopes(context, parameter, texts)


def _parse_scopes(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> ScopeList:
    scopes = [(scope, scope_id) for scope, _, scope_id in (text.partition(":") for text in texts)]
    for scope, _ in scopes:
        if scope not in FACT_SCOPES:
            raise click.BadParameter(f"{scope!r} is not one of {', '.join(FACT_SCOPES)}.")
    return scopes  # type: ignore[return-value]


within_option = click.option(
    "--within",
    metavar="SCOPE[:ID]",
    multiple=True,
    callback=_parse_scopes,
    help="Include facts of this scope, such as draft:offer.",
)
within_or_any_option = click.option(
    "--within",
    metavar="SCOPE[:ID]",
    multiple=True,
    callback=_parse_scopes_or_any,
    help="Include facts of this scope, such as draft:offer; or of any scope.",
)
scope_id_option = click.option("--scope-id", metavar="NAME", default="", help="The name of the task, draft, …")


@facts.command("list")
@with_ledger
@within_or_any_option
@click.option(
    "--status",
    "wanted",
    type=click.Choice(["live", "dead"]),
    default="live",
    show_default=True,
    help="Current facts, or ended ones.",
)
@click.option("--memory-type", type=click.Choice(MEMORY_TYPES), help="Only facts of this memory type.")
@limit_option(100)
@common_options
@click.pass_obj
def list_(
    settings: Settings,
    selector: LedgerSelector,
    within: ScopeList | Literal["any"],
    wanted: Literal["live", "dead"],
    memory_type: MemoryType | None,
    limit: int,
) -> None:
    """List the facts of a ledger; --status dead lists ended ones."""
    with settings.open() as engine:
        ledger = select_ledger(settings, engine, selector)

        def read(last: holdfast.Fact | None) -> Sequence[holdfast.Fact]:
            size = _page_size(limit)
            return ledger.items(within=within, status=wanted, memory_type=memory_type, after=last, limit=size)

        kind = f"{memory_type} " if memory_type else ""
        what = f"ended {kind}facts" if wanted == "dead" else f"{kind}facts"
        _print_list(settings, engine, ledger, read_pages(read), limit, what)


@facts.command()
@with_ledger
@limit_option(100)
@common_options
@click.pass_obj
def review(settings: Settings, selector: LedgerSelector, limit: int) -> None:
    """List the facts that need a review, in any scope.

    A fact needs a review if a fact that it was derived from has ended. `facts confirm` confirms it; `facts assert`
    supersedes it.
    """
    with settings.open() as engine:
        ledger = select_ledger(settings, engine, selector)

        def read(last: holdfast.Fact | None) -> Sequence[holdfast.Fact]:
            return ledger.review.list(after=last, limit=_page_size(limit))

        _print_list(settings, engine, ledger, read_pages(read), limit, "facts that need a review")


def _page_size(limit: int) -> int:
    """The size of a page: the facts to show, and one more that tells whether there are others."""
    return min(PAGE, limit + 1) if limit else PAGE


def _print_list(
    settings: Settings,
    engine: holdfast.Engine,
    ledger: holdfast.Ledger,
    facts: Iterator[holdfast.Fact],
    limit: int,
    what: str,
) -> None:
    first_facts = itertools.islice(facts, limit or None)
    if settings.json:
        for fact in first_facts:
            print_json(documents.fact(ledger.id, fact))
        return
    listed = [FactListing(fact) for fact in first_facts]
    if not listed:
        _print_no_facts(settings, engine, ledger, what)
        return
    _print_facts(listed)
    if next(facts, None) is not None:
        print_more(f"and more: these are the first {limit:,}")


def _print_no_facts(settings: Settings, engine: holdfast.Engine, ledger: holdfast.Ledger, what: str) -> None:
    """Report that there are no facts. If the ledger is empty, name others: a wrong name is the usual reason."""
    elsewhere = "" if engine.store.head(ledger.id.stream) else f" {describe_ledgers(settings, engine)}"
    print_line(escape(f"No {what} in the ledger {ledger.id}.{elsewhere}"))


@facts.command()
@click.argument("key")
@with_ledger
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, PAGE),
    default=100,
    show_default=True,
    help="The maximum number; the newest are shown.",
)
@common_options
@click.pass_obj
def history(settings: Settings, selector: LedgerSelector, key: str, limit: int) -> None:
    """Show all facts that KEY ever had, as a tree.

    Below a fact: the facts that it superseded, the claims against it, and the facts derived from it.
    """
    with settings.open() as engine:
        ledger = select_ledger(settings, engine, selector)
        history = ledger.history(key, limit=limit)
        if settings.json:
            for fact in history:
                print_json(documents.fact(ledger.id, fact))
            return
        if not history:
            raise holdfast.errors.FactNotFound(ledger=ledger.id, fact=key)
        derived = _find_derived(ledger, history)
    _print_facts(list(arrange_facts(history, derived)))


def _find_derived(ledger: holdfast.Ledger, facts: tuple[holdfast.Fact, ...]) -> dict[str, list[holdfast.Fact]]:
    """Read the facts derived from each of these, except those in the list itself."""
    listed = {fact.id for fact in facts}
    return {
        fact.id: [ledger.fact(fact_id) for fact_id in fact.derived_facts if fact_id not in listed]
        for fact in facts
        if fact.derived_facts
    }


def arrange_facts(facts: tuple[holdfast.Fact, ...], derived: dict[str, list[holdfast.Fact]]) -> Iterator[FactListing]:
    """Yield each fact once, the newest first.

    A fact comes below the fact that superseded it or that it is a claim against; any other fact is at the top.
    """
    known = {fact.id for fact in facts}
    below: dict[str, list[holdfast.Fact]] = {}
    tops: list[holdfast.Fact] = []
    for fact in sorted(facts, key=lambda fact: -fact_seq(fact.id)):
        above = next((fact_id for fact_id in (fact.superseded_by, fact.against) if fact_id in known), None)
        (tops if above is None else below.setdefault(above, [])).append(fact)

    def inner(fact: holdfast.Fact) -> list[holdfast.Fact]:
        return [*derived.get(fact.id, ()), *below.get(fact.id, ())] if fact.id in known else []

    for fact, branch in walk_tree(tops, inner):
        yield FactListing(fact, branch)


@facts.command()
@click.argument("key")
@with_ledger
@click.option(
    "--scope", type=click.Choice(FACT_SCOPES), default="global", show_default=True, help="The scope of the fact."
)
@scope_id_option
@common_options
@click.pass_obj
def why(settings: Settings, selector: LedgerSelector, key: str, scope: FactScope, scope_id: str) -> None:
    """Explain why KEY has its value."""
    with settings.open() as engine:
        ledger = select_ledger(settings, engine, selector)
        explanation = ledger.why(key, scope=scope, scope_id=scope_id)
    if settings.json:
        print_json(documents.explanation(ledger.id, explanation))
        return
    now_us = time.time_ns() // 1_000
    if explanation.current is None:
        print_line(StyledText(shorten(key, VALUE_CHARS), "bold"), " has no value now.")
    else:
        print_line(
            StyledText(shorten(explanation.current.key, VALUE_CHARS), "bold"),
            " = ",
            format_value(explanation.current.value),
        )
        _print_fact(explanation.current, now_us)
    for title, group in (
        ("It superseded", explanation.chain),
        ("Claims against it", explanation.claims),
        ("It was derived from", explanation.depends_on),
        ("Derived from it", explanation.derived),
    ):
        if group:
            print_line(StyledText(f"{title}:", "bold"))
        for fact in group:
            _print_fact(fact, now_us, key if title in ("It superseded", "Claims against it") else "")
    print_line(StyledText("History:", "bold"))
    for link in explanation.story:
        print_line(
            StyledText(f"  {format_local_time(link.time_us)}  ", "dim"),
            f"{link.fact}  ",
            shorten(link.what, 2 * NOTE_CHARS),
        )


def _print_fact(fact: holdfast.Fact, now_us: int, key: str | None = None) -> None:
    """Print a fact on one line: with its value if `key` is given, and with its key if that is another one."""
    status = fact_status(fact, now_us)
    value = ""
    if key is not None:
        value = (
            f"{shorten(fact.key, VALUE_CHARS)} = {format_value(fact.value)}  "
            if key != fact.key
            else f"{format_value(fact.value)}  "
        )
    note = _fact_note(fact)
    print_line(
        f"  {fact.id}  {value}",
        StyledText(status, FACT_STYLES.get(status, "dim")),
        escape(f"  {fact.authority}, {format_age(fact.valid_from_us, now_us)}"),
        f"  {note}" if note else "",
    )


@facts.command()
@click.argument("query")
@with_ledger
@within_option
@click.option("-n", "--limit", type=click.IntRange(1, PAGE), default=20, show_default=True, help="The maximum number.")
@common_options
@click.pass_obj
def search(settings: Settings, selector: LedgerSelector, query: str, within: ScopeList, limit: int) -> None:
    """List the facts that match QUERY best.

    With only --session: the facts of all ledgers that the session reads.
    """
    with settings.open() as engine:
        if selector.session is not None and not selector.ledger_names:
            session = settings.find_session(engine, selector.session, selector.thread)
            matches = session.facts.search(query, within=within, limit=limit)
            where = f"the ledgers of the session {session.id!r}"
        else:
            ledger = select_ledger(settings, engine, selector)
            matches = ledger.search(query, within=within, limit=limit)
            where = f"the ledger {ledger.id}"
    if settings.json:
        for match in matches:
            print_json({**documents.fact(match.ledger, match.fact), "score": match.score})
        return
    if not matches:
        print_line(escape(f"No fact in {where} matches."))
        return
    show_ledger = len({match.ledger for match in matches}) > 1
    _print_facts(
        [
            FactListing(match.fact, score=match.score, ledger=str(match.ledger) if show_ledger else "")
            for match in matches
        ]
    )


def _parse_json(value: str) -> Json:
    import json  # noqa: PLC0415 - only here

    try:
        parsed: Json = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"VALUE is not JSON: {error}.", param_hint="'--as-json'") from error
    return parsed


@facts.command("assert")
@click.argument("key")
@click.argument("value")
@with_ledger
@click.option("--as-json", is_flag=True, help="VALUE is JSON: a number, a list, …; otherwise it is text.")
@click.option(
    "--authority", metavar="NAME", help="The authority of the fact; at most that of the identity of the session."
)
@click.option("--source", metavar="NAME", help="The source: a system, a document, a person.")
@click.option(
    "--scope", type=click.Choice(FACT_SCOPES), help="The scope.  [default: the scope that the text names, or global]"
)
@scope_id_option
@click.option("--supersedes", metavar="FACT", multiple=True, help="Another fact that the new one supersedes.")
@click.option("--depends-on", metavar="FACT", multiple=True, help="A fact that the new one is derived from.")
@click.option("--requires", metavar="PERMISSION", multiple=True, help="A permission that readers need.")
@click.option("--ttl", "ttl_s", type=click.FloatRange(0), metavar="SECONDS", help="How long the fact is valid.")
@reason_option
@principal_option
@policy_option
@common_options
@click.pass_obj
def assert_(
    settings: Settings,
    /,
    selector: LedgerSelector,
    key: str,
    value: str,
    as_json: bool,
    principal: str,
    policy: holdfast.Policy | None,
    **options: Any,
) -> None:
    """Assert the fact that KEY is VALUE.

    The new fact supersedes the current one. If the current fact has a higher authority, the new one is stored as a claim.
    """
    parsed = _parse_json(value) if as_json else value
    with settings.open(principal=principal, policy=policy) as engine:
        ledger = select_ledger(settings, engine, selector)
        fact = ledger.set(key, parsed, **options)
    if settings.json:
        print_json(documents.fact(ledger.id, fact))
    else:
        _print_facts([FactListing(fact)])


@facts.command()
@fact_argument
@with_ledger
@reason_option
@principal_option
@policy_option
@common_options
@click.pass_obj
def retract(
    settings: Settings, selector: LedgerSelector, fact: str, reason: str, principal: str, policy: holdfast.Policy | None
) -> None:
    """Retract FACT, and all facts derived from it.

    FACT is an id such as k12, an external name, or a key.
    """
    with settings.open(principal=principal, policy=policy) as engine:
        ledger = select_ledger(settings, engine, selector)
        retracted = ledger.retract(fact, reason=reason)
    if settings.json:
        print_json({"retracted": [documents.fact(ledger.id, ended) for ended in retracted]})
        return
    _print_facts([FactListing(ended) for ended in retracted])
    print_line(f"{format_count(len(retracted), 'fact')} retracted." if retracted else _DISPUTE_NOTICE)


@facts.command()
@fact_argument
@with_ledger
@reason_option
@principal_option
@policy_option
@common_options
@click.pass_obj
def confirm(
    settings: Settings, selector: LedgerSelector, fact: str, reason: str, principal: str, policy: holdfast.Policy | None
) -> None:
    """Confirm FACT after a review."""
    with settings.open(principal=principal, policy=policy) as engine:
        ledger = select_ledger(settings, engine, selector)
        confirmed = ledger.review.confirm(fact, reason=reason)
    if settings.json:
        print_json(documents.fact(ledger.id, confirmed))
    else:
        _print_facts([FactListing(confirmed)])


_PROPOSAL_COLUMNS = (
    TableColumn("PROPOSAL", whole=True),
    TableColumn("CHANGE", whole=True),
    TableColumn("KEY"),
    TableColumn("VALUE"),
    TableColumn("FACT", whole=True),
    TableColumn("SURE", right=True, whole=True),
    TableColumn("LEDGER"),
    TableColumn("REASON", below=True),
)
proposal_argument = click.argument("proposal")


@facts.command()
@session_argument
@thread_option
@common_options
@click.pass_obj
def proposals(settings: Settings, session: str, thread: str | None) -> None:
    """List the proposals of a session that wait for a decision.

    A detector proposes a change of a fact if it is not sure enough to change the fact itself.
    """
    with settings.open() as engine:
        waiting = settings.find_session(engine, session, thread).facts.proposals()
    if settings.json:
        for proposal in waiting:
            print_json(documents.to_plain(proposal))
        return
    if not waiting:
        print_line(escape(f"No proposal waits for a decision in the session {session!r}."))
        return
    print_table(_PROPOSAL_COLUMNS, (_proposal_cells(proposal) for proposal in waiting))


def _proposal_cells(waiting: holdfast.types.OpenProposal) -> list[str | StyledText]:
    proposal = waiting.proposal
    kind, *names = waiting.ledger
    return [
        StyledText(waiting.id, "bold"),
        proposal.change,
        shorten(proposal.key, VALUE_CHARS),
        "" if proposal.value is None else format_value(proposal.value),
        escape(proposal.fact or ""),
        f"{proposal.confidence:.0%}",
        escape(f"{kind} {'/'.join(names)}"),
        shorten(proposal.reason, VALUE_CHARS),
    ]


@facts.command()
@session_argument
@proposal_argument
@thread_option
@principal_option
@policy_option
@common_options
@click.pass_obj
def accept(
    settings: Settings,
    session: str,
    proposal: str,
    thread: str | None,
    principal: str,
    policy: holdfast.Policy | None,
) -> None:
    """Accept PROPOSAL, with the authority of the session."""
    with settings.open(principal=principal, policy=policy) as engine:
        settings.find_session(engine, session, thread).facts.accept(proposal)
    _print_decision(settings, proposal, "accepted")


@facts.command()
@session_argument
@proposal_argument
@thread_option
@principal_option
@common_options
@click.pass_obj
def decline(settings: Settings, session: str, proposal: str, thread: str | None, principal: str) -> None:
    """Decline PROPOSAL: no fact changes."""
    with settings.open(principal=principal) as engine:
        settings.find_session(engine, session, thread).facts.decline(proposal)
    _print_decision(settings, proposal, "declined")


def _print_decision(settings: Settings, proposal: str, decision: str) -> None:
    if settings.json:
        print_json({"proposal": proposal, "decision": decision})
    else:
        print_line(escape(f"{proposal} {decision}."))
