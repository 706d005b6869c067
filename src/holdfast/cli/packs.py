"""`holdfast pack` and `diff`: what a model would be shown now, why each thing is in or out, and what changed since.

Law: looking changes nothing; only `pack --keep` writes, and that is the manifest alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

import holdfast
from holdfast.cli import shapes
from holdfast.cli.context import frame_option, model_option
from holdfast.cli.facts import within_option
from holdfast.cli.ledgers import policy_option
from holdfast.cli.screen import Column, Styled, drawable, emit, json_text, say, table
from holdfast.cli.sessions import limit_option, session_argument, thread_option
from holdfast.cli.settings import PAGE, Settings, common
from holdfast.cli.words import ago, clean, clean_lines, count, short
from holdfast.context.words import TITLES
from holdfast.errors import InvalidContent, PackChanged, PackNotFound
from holdfast.flows import manifests
from holdfast.model.pack import (
    GUARDS,
    PROFILES,
    SECTIONS,
    Brief,
    Change,
    Entry,
    Fate,
    Manifest,
    PackDiff,
    PackRecord,
    Section,
)

if TYPE_CHECKING:
    from holdfast.render.packs import Pack

BUDGET = 8_000
BAR = 40
"""How wide a budget is drawn."""
TEXT_CHARS = 120
QUERY_CHARS = 60
NAMED = 6
"""Things that one line of a difference names, at most."""
LOOKED_AT = 20
"""Packs, the newest, among which the brief of a role is looked for."""
FORMATS = ("text", "anthropic", "openai", "openai-responses")
NOW = "now"

STYLES: dict[Section, str] = {
    "system": "magenta",
    "identity": "magenta",
    "invariants": "magenta",
    "tools": "magenta",
    "history": "green",
    "notes": "yellow",
    "environment": "cyan",
    "situation": "cyan",
    "facts": "blue",
    "working_set": "cyan",
    "handles": "yellow",
    "breadcrumbs": "cyan",
    "query": "bold green",
}
FATES: dict[Fate, tuple[str, str]] = {
    "included": ("+", "green"),
    "reduced": ("~", "yellow"),
    "omitted": ("-", "dim"),
    "missing": ("!", "red"),
    "withheld": ("x", "red"),
}
CHANGES = {
    "added": ("+", "green"),
    "gone": ("-", "red"),
    "changed": ("~", "yellow"),
    "in": (">", "green"),
    "out": ("<", "red"),
}

_PARTS = (
    Column("", whole=True),
    Column("TOKENS", right=True, whole=True),
    Column("", whole=True),
    Column(""),
)
_REASONS = (
    Column("SECTION", whole=True),
    Column("", whole=True),
    Column("WHAT"),
    Column("TOKENS", right=True, whole=True),
    Column("RANK", right=True, whole=True),
    Column("FROM"),
    Column("WHY"),
)


def _brief(_context: click.Context, _parameter: click.Parameter, path: str | None) -> Brief | None:
    """A brief as JSON; any other file is the prompt of one."""
    if path is None:
        return None
    with open(path, "rb") as file:
        data = file.read()
    try:
        if not data.lstrip().startswith(b"{"):
            return Brief(prompt=data.decode())
        return msgspec.json.decode(data, type=Brief)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path!r} is no brief: {error}.") from error


class Asked(NamedTuple):
    """How a pack was asked for the last time, which is how it is asked for if nobody says otherwise."""

    record: PackRecord | None = None
    manifest: Manifest | None = None
    brief: Brief | None = None

    @property
    def options(self) -> dict[str, Any]:
        if self.manifest is None:
            return {"budget": BUDGET}
        request = self.manifest.request
        found = {name: getattr(request, name) for name in ("budget", "role", "within", "profile", "guard", "time")}
        return {**found, "model": request.model or None, "brief": self.brief}


class Conversation:
    """A session or a frame, whichever was asked for, as these commands see it."""

    def __init__(self, settings: Settings, engine: holdfast.Engine, session: str, thread: str | None, frame: Any):
        self.session = settings.session(engine, session, thread)
        self.of: Any = self.session if frame is None else self.session.get_frame(frame)
        self.frame: str | None = None if frame is None else self.of.id

    def newest(self, role: str | None = None) -> Asked:
        """The newest pack of it that was recorded, or the newest in this role."""
        own = [each for each in self.of.packs(limit=PAGE) if each.frame == self.frame]
        for record in own[:LOOKED_AT]:
            try:
                found = self.stored(record)
            except PackChanged:
                continue
            if found.manifest is not None and role in (None, found.manifest.request.role):
                return found
        return Asked()

    def stored(self, pack: PackRecord | str) -> Asked:
        return Asked(*self.of._drive(manifests.read(self.of._place, pack)))

    def fresh(self, query: str | None, asked: dict[str, Any]) -> Pack:
        """A pack that nobody asked for: nothing is written."""
        found: Pack = self.of.pack(query, settle=False, **asked)
        return found


def request_options(function: Any) -> Any:
    """What a pack may be asked for; what is not said is as it was the last time."""
    for option in (
        policy_option,
        click.option("--exclude", metavar="HANDLE", multiple=True, help="Without what this handle stands for."),
        click.option("--include", metavar="HANDLE", multiple=True, help="With what this handle stands for."),
        within_option,
        click.option("--guard", type=click.Choice(GUARDS), help="What is done about values that hold no more."),
        click.option("--time/--no-time", default=None, help="Say in it what time it is, or do not."),
        model_option,
        click.option("--profile", type=click.Choice([*PROFILES]), help="How dense it is."),
        click.option(
            "--brief",
            type=click.Path(exists=True, dir_okay=False),
            callback=_brief,
            help="What stands first: a prompt, or a brief as JSON.",
        ),
        click.option("--role", metavar="NAME", help="As packs in this role were asked for."),
        click.option("--budget", type=click.IntRange(1), metavar="TOKENS", help=f"[default: as before, or {BUDGET:,}]"),
    ):
        function = option(function)
    return function


@click.command()
@session_argument
@click.argument("query", required=False)
@thread_option
@frame_option
@request_options
@click.option("--format", "form", type=click.Choice(FORMATS), help="Show the pack itself, as a model is sent it.")
@click.option("--keep", is_flag=True, help="Record why it is as it is.")
@limit_option(12)
@common
@click.pass_obj
def pack(settings: Settings, /, session: str, query: str | None, form: str | None, keep: bool, **asked: Any) -> None:
    """Show what a model would be shown now, what takes how much of the budget, and why each thing is in or out.

    QUERY is what it is about; without it, what the user said last. What is not said by an option is as it was when a
    pack was recorded last. Nothing is written: a view that would be settled first is shown as it is.
    """
    thread, frame, policy, limit = (asked.pop(name) for name in ("thread", "frame", "policy", "limit"))
    with settings.open(policy=policy) as engine:
        conversation = Conversation(settings, engine, session, thread, frame)
        before = conversation.newest(asked["role"])
        if asked["role"] and before.record is None and asked["brief"] is None:
            reason = f"no pack in the role {clean(asked['role'])!r} was recorded lately: say --brief, too"
            raise InvalidContent(reason=reason)
        made = conversation.fresh(query, {**before.options, **{name: each for name, each in asked.items() if each}})
        kept: PackRecord | None = conversation.of.keep(made) if keep else None
    if settings.json:
        rendered = {} if form is None else {"rendered": _rendered(made, form)}
        emit({"id": None if kept is None else kept.id, **shapes.plain(made.manifest), **rendered})
        return
    if form is not None:
        _show_rendered(made, form)
    else:
        _explain(made.manifest, limit, before)
    if kept is not None:
        say(f"Kept as {kept.id}.", error=form is not None)


def _rendered(made: Pack, form: str) -> Any:
    ways: dict[str, Callable[[], Any]] = {
        "text": made.__str__,
        "anthropic": made.anthropic,
        "openai": made.openai,
        "openai-responses": made.openai_responses,
    }
    return ways[form]()


def _show_rendered(made: Pack, form: str) -> None:
    rendered = _rendered(made, form)
    for line in clean_lines(rendered) if form == "text" else [json_text(rendered)]:
        click.echo(line)


def _explain(manifest: Manifest, limit: int, before: Asked) -> None:
    tokens, request = manifest.tokens, manifest.request
    say(
        Styled(f"{tokens.used:,} of {tokens.budget:,} tokens", "bold"),
        f" ({tokens.used / tokens.budget:.0%}), {tokens.remaining:,} left",
        Styled(f"  level {tokens.level} · profile {clean(request.profile.name)} · guard {request.guard}", "dim"),
    )
    if request.query.strip():
        say("about: ", Styled(short(request.query, TEXT_CHARS), "bold"))
    if before.record is not None:
        say(Styled(f"What no option says is as for {before.record.id}.", "dim"))
    say("")
    table(_PARTS, _parts(manifest))
    say("")
    table(_REASONS, _reasons(manifest, limit))
    if manifest.exposed:
        keys = ", ".join(dict.fromkeys(short(each.key, QUERY_CHARS) for each in manifest.exposed))
        say(Styled(f"Outdated values still shown, until the next boundary: {keys}.", "yellow"))
    signs = "  ".join(f"{mark}: {fate}" for fate, (mark, _) in FATES.items() if manifest.of(fate))
    say(Styled(signs, "dim"))


def _parts(manifest: Manifest) -> Iterator[tuple[str | Styled, ...]]:
    """What takes how much: each begins where the one before it ends."""
    tokens = manifest.tokens
    full, least, free = ("█", "▏", "·") if drawable("█▏·") else ("#", "|", ".")
    start = 0
    for section in SECTIONS:
        share = tokens.breakdown.get(section, 0)
        own = [each for each in manifest.entries if each.section == section]
        if not share and not own:
            continue
        first, end = (round(BAR * min(1, at / tokens.budget)) for at in (start, start + share))
        bar = full * (end - first) or (least if share else "")
        yield TITLES[section], f"{share:,}", Styled(" " * first + bar, STYLES[section]), _counted(section, own)
        start += share
    at = round(BAR * min(1, start / tokens.budget))
    yield Styled("left", "dim"), f"{tokens.remaining:,}", Styled(" " * at + free * (BAR - at), "dim"), ""


def _counted(section: Section, entries: Sequence[Entry]) -> str:
    """How many are in, and how many are not."""
    if section == "history":
        return _messages(entries)
    found = {fate: sum(each.fate == fate for each in entries) for fate in FATES}
    return ", ".join(f"{number:,} {_COUNTED[fate]}" for fate, number in found.items() if number)


_COUNTED: dict[Fate, str] = {
    "included": "in",
    "reduced": "in, shortened",
    "omitted": "left out",
    "missing": "missing",
    "withheld": "withheld",
}
_SAID = re.compile(r"([\d,]+) messages?")


def _messages(entries: Sequence[Entry]) -> str:
    found: dict[Fate, int] = {}
    for entry in entries:
        said = _SAID.fullmatch(entry.source)
        found[entry.fate] = found.get(entry.fate, 0) + (int(said[1].replace(",", "")) if said else 1)
    shown = found.get("included", 0) + found.get("reduced", 0)
    parts = [count(shown, "message")] if shown else []
    parts += [f"{found['reduced']:,} of them in part"] if "reduced" in found else []
    parts += [f"{found['omitted']:,} left out"] if "omitted" in found else []
    return ", ".join(parts)


def _reasons(manifest: Manifest, limit: int) -> Iterator[tuple[str | Styled, ...]]:
    for section in SECTIONS:
        own = [each for each in manifest.entries if each.section == section]
        for number, entry in enumerate(own[: limit or None]):
            mark, style = FATES[entry.fate]
            yield (
                Styled("" if number else TITLES[section], "bold"),
                Styled(mark, style),
                Styled(clean(entry.id), style if entry.fate != "included" else ""),
                f"{entry.tokens:,}" if entry.tokens else "",
                f"{entry.rank:,}" if entry.rank else "",
                short(", ".join(filter(None, (entry.source, entry.authority))), TEXT_CHARS),
                short(entry.reason, TEXT_CHARS),
            )
        if limit and len(own) > limit:
            more = f"… {len(own) - limit:,} more"
            yield "", "", Styled(more, "dim"), "", "", "", Styled("--limit 0 shows all", "dim")


# What changed


@click.command()
@session_argument
@click.argument("first", required=False)
@click.argument("second", required=False)
@thread_option
@frame_option
@limit_option(40)
@common
@click.pass_obj
def diff(
    settings: Settings,
    session: str,
    first: str | None,
    second: str | None,
    thread: str | None,
    frame: str | None,
    limit: int,
) -> None:
    """Show what changed from one recorded pack to another, and why.

    Without SECOND it is the last one that was recorded; `now` is one made now, as the last was asked for. Without FIRST it
    is the one before SECOND.
    """
    with settings.open() as engine:
        conversation = Conversation(settings, engine, session, thread, frame)
        other: Any = second
        if NOW in (first, second):
            before = conversation.newest()
            if before.record is None:
                raise PackNotFound(session=session, pack="the last")
            first, other = before.record.id if first in (None, NOW) else first, conversation.fresh(None, before.options)
        found: PackDiff = conversation.of.diff(first, other)
    if settings.json:
        emit({**shapes.plain(found), "explained": found.explain()})
        return
    _told(found, limit)


def _told(found: PackDiff, limit: int) -> None:
    first, second = (each.id or "one made now" for each in (found.first, found.second))
    grown = found.second.used - found.first.used
    say(
        Styled(f"{first} → {second}" if drawable("→") else f"{first} -> {second}", "bold"),
        f"  {found.first.used:,} to {found.second.used:,} tokens ({grown:+,})",
    )
    if found.first.query != found.second.query:
        say(
            "about: ",
            short(found.second.query, TEXT_CHARS),
            Styled("  before: ", "dim"),
            short(found.first.query, QUERY_CHARS),
        )
    kept = (
        "The prompt cache stays warm: the first begins the second."
        if found.prefix_kept
        else ("The prompt cache begins anew: what stood before the tail is shown otherwise.")
    )
    say(Styled(kept, "green" if found.prefix_kept else "yellow"))
    groups: dict[tuple[Section, str, str], list[Change]] = {}
    for each in found.changes:
        groups.setdefault((each.entry.section, each.what, each.why), []).append(each)
    for number, ((section, what, why), changes) in enumerate(groups.items()):
        if limit and number >= limit:
            say(Styled(f"… and {count(len(groups) - limit, 'other change')}. --limit 0 shows all.", "dim"))
            break
        mark, style = CHANGES[what]
        names = ", ".join(clean(each.entry.id) for each in changes[:NAMED])
        more = f" and {len(changes) - NAMED:,} more" if len(changes) > NAMED else ""
        say(
            Styled(f"  {mark} ", style),
            Styled(f"{names}{more}", "bold"),
            f" ({TITLES[section]}): ",
            short(why, TEXT_CHARS),
        )
    say(Styled(f"{found.same:,} as before.", "dim"))


def made_at(record: PackRecord | None, now_us: int) -> str:
    """Which pack it is that is spoken of."""
    if record is None:
        return "a pack made now"
    asked = f", about {short(record.query, QUERY_CHARS)!r}" if record.query.strip() else ""
    return f"{record.id} ({ago(record.time_us, now_us)}{asked})"
