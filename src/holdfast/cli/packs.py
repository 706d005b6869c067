"""`holdfast pack`, `why` and `diff`: the pack of a conversation, the reason for each candidate, and what changed.

Laws: only `pack --keep` writes, and only the manifest; everything is read with the identity of the session, so facts
that it has no permission for do not appear.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

import holdfast
from holdfast.cli import documents
from holdfast.cli.facts import fact_status, format_value, within_option
from holdfast.cli.options import (
    frame_option,
    limit_option,
    model_option,
    policy_option,
    session_argument,
    thread_option,
)
from holdfast.cli.output import (
    FACT_STYLES,
    ROLE_STYLES,
    StyledText,
    TableColumn,
    escape,
    escape_lines,
    format_age,
    format_count,
    format_size,
    is_drawable,
    json_text,
    print_json,
    print_line,
    print_more,
    print_table,
    shorten,
)
from holdfast.cli.settings import PAGE, Settings, common_options
from holdfast.core.packs.explanations import TITLES, fact_of_entry
from holdfast.errors import FactNotFound, HandleNotFound, InvalidArgument, PackChanged, PackNotFound
from holdfast.flows.facts.queries import ledgers_of
from holdfast.flows.packs import records
from holdfast.model.facts.fact import fact_seq
from holdfast.model.history.handles import handle_seq, parse_piece_id
from holdfast.model.packs.pack import (
    GUARD_MODES,
    PROFILES,
    SECTIONS,
    Brief,
    Fate,
    Manifest,
    ManifestEntry,
    PackChange,
    PackDiff,
    PackRecord,
    Section,
)

if TYPE_CHECKING:
    from holdfast.render.pack import Pack

DEFAULT_BUDGET = 8_000
BUDGET_BAR_CHARS = 40
"""The width of the bar of a budget."""
TEXT_CHARS = 120
QUERY_CHARS = 60
MAX_NAMES = 6
"""The maximum number of items that one line of a difference names."""
MAX_PACKS_SEARCHED = 20
"""The number of newest packs in which the brief of a role is searched for."""
FORMATS = ("text", "anthropic", "bedrock", "gemini", "litellm", "openai", "openai-responses")
NOW = "now"


SECTION_STYLES: dict[Section, str] = {
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
    "recall": "blue",
    "handles": "yellow",
    "breadcrumbs": "cyan",
    "query": "bold green",
}
FATE_MARKS: dict[Fate, tuple[str, str]] = {
    "included": ("+", "green"),
    "reduced": ("~", "yellow"),
    "omitted": ("-", "dim"),
    "missing": ("!", "red"),
    "withheld": ("x", "red"),
}
CHANGE_MARKS = {
    "added": ("+", "green"),
    "gone": ("-", "red"),
    "changed": ("~", "yellow"),
    "in": (">", "green"),
    "out": ("<", "red"),
}
_SECTION_COLUMNS = (
    TableColumn("", whole=True),
    TableColumn("TOKENS", right=True, whole=True),
    TableColumn("", whole=True),
    TableColumn("", wrap=True),
)
_REASON_COLUMNS = (
    TableColumn("SECTION", whole=True),
    TableColumn("", whole=True),
    TableColumn("WHAT"),
    TableColumn("TOKENS", right=True, whole=True),
    TableColumn("RANK", right=True, whole=True),
    TableColumn("FROM"),
    TableColumn("WHY", below=True),
)


def _read_brief(_context: click.Context, _parameter: click.Parameter, path: str | None) -> Brief | None:
    """Read a brief from JSON. The text of any other file is its prompt."""
    if path is None:
        return None
    with open(path, "rb") as file:
        data = file.read()
    try:
        if not data.lstrip().startswith(b"{"):
            return Brief(prompt=data.decode())
        return msgspec.json.decode(data, type=Brief)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path!r} is not a brief: {error}.") from error


class PackDefaults(NamedTuple):
    """The last recorded pack. Its options are the defaults of the next pack."""

    record: PackRecord | None = None
    manifest: Manifest | None = None
    brief: Brief | None = None

    @property
    def options(self) -> dict[str, Any]:
        if self.manifest is None:
            return {"budget": DEFAULT_BUDGET}
        request = self.manifest.request
        options = {name: getattr(request, name) for name in ("budget", "role", "within", "profile", "guard", "time")}
        return {**options, "model": request.model or None, "brief": self.brief}


class PackConversation:
    """The session or frame that a command works on."""

    def __init__(self, settings: Settings, engine: holdfast.Engine, session: str, thread: str | None, frame: Any):
        self.session = settings.find_session(engine, session, thread)
        self.target: Any = self.session if frame is None else self.session.frames.get(frame)
        self.frame: str | None = None if frame is None else self.target.id

    def find_newest(self, role: str | None = None) -> PackDefaults:
        """Find the last recorded pack, or the last one in this role."""
        stored = [record for record in self.target.packs.list(limit=PAGE) if record.frame == self.frame]
        for record in stored[:MAX_PACKS_SEARCHED]:
            try:
                defaults = self.read_stored(record)
            except PackChanged:
                continue
            if defaults.manifest is not None and role in (None, defaults.manifest.request.role):
                return defaults
        return PackDefaults()

    def read_stored(self, pack: PackRecord | str) -> PackDefaults:
        return PackDefaults(*self.target._drive(records.read_pack(self.target._context, pack)))

    def build_pack(self, query: str | None, options: dict[str, Any]) -> Pack:
        """Build a pack without writing anything."""
        pack: Pack = self.target.pack(query, settle=False, **options)
        return pack


def request_options(function: Any) -> Any:
    """Add the options of a pack. Their defaults are those of the last recorded pack."""
    for option in (
        policy_option,
        click.option("--exclude", metavar="HANDLE", multiple=True, help="Omit this handle."),
        click.option("--include", metavar="HANDLE", multiple=True, help="Include this handle."),
        within_option,
        click.option("--guard", type=click.Choice(GUARD_MODES), help="What the guard does with superseded values."),
        click.option("--time/--no-time", default=None, help="Include the current time, or omit it."),
        model_option,
        click.option("--profile", type=click.Choice([*PROFILES]), help="The profile: how dense the pack is."),
        click.option(
            "--brief",
            type=click.Path(exists=True, dir_okay=False),
            callback=_read_brief,
            help="The brief: a text file with the prompt, or a JSON file with a brief.",
        ),
        click.option("--role", metavar="NAME", help="Use the options of the last pack in this role."),
        click.option(
            "--budget",
            type=click.IntRange(1),
            metavar="TOKENS",
            help=f"The token limit.  [default: of the last pack, or {DEFAULT_BUDGET:,}]",
        ),
    ):
        function = option(function)
    return function


@click.command()
@session_argument
@click.argument("query", required=False)
@thread_option
@frame_option
@request_options
@click.option("--format", "form", type=click.Choice(FORMATS), help="Print the pack in the format of a provider.")
@click.option("--keep", is_flag=True, help="Record the manifest.")
@limit_option(12)
@common_options
@click.pass_obj
def pack(settings: Settings, /, session: str, query: str | None, form: str | None, keep: bool, **options: Any) -> None:
    """Show the pack of the next model call: sizes, and reasons.

    QUERY is the question; by default, the last message of the user. The defaults of the options are those of the last
    recorded pack. Nothing is written, and nothing is compacted.
    """
    thread, frame, policy, limit = (options.pop(name) for name in ("thread", "frame", "policy", "limit"))
    with settings.open(policy=policy) as engine:
        conversation = PackConversation(settings, engine, session, thread, frame)
        before = conversation.find_newest(options["role"])
        if options["role"] and before.record is None and options["brief"] is None:
            reason = f"no recent pack has the role {escape(options['role'])!r}; pass --brief as well"
            raise InvalidArgument(argument="--role", reason=reason)
        result = conversation.build_pack(
            query, {**before.options, **{name: value for name, value in options.items() if value not in (None, (), [])}}
        )
        record: PackRecord | None = conversation.target.packs.store(result) if keep else None
    if settings.json:
        rendered = {} if form is None else {"rendered": _render(result, form)}
        print_json({"id": None if record is None else record.id, **documents.to_plain(result.manifest), **rendered})
        return
    if form is not None:
        _print_rendering(result, form)
    else:
        _print_manifest(result.manifest, limit, before)
    if record is not None:
        print_line(f"Recorded as {record.id}.", error=form is not None)


def _render(result: Pack, form: str) -> Any:
    renderers: dict[str, Callable[[], Any]] = {
        "text": result.__str__,
        "anthropic": result.anthropic,
        "bedrock": result.bedrock,
        "gemini": result.gemini,
        "litellm": result.litellm,
        "openai": result.openai,
        "openai-responses": result.openai_responses,
    }
    return renderers[form]()


def _print_rendering(result: Pack, form: str) -> None:
    rendered = _render(result, form)
    for line in escape_lines(rendered) if form == "text" else [json_text(rendered)]:
        click.echo(line)


def _print_manifest(manifest: Manifest, limit: int, before: PackDefaults) -> None:
    tokens, request = manifest.tokens, manifest.request
    print_line(
        StyledText(f"{tokens.used:,} of {tokens.budget:,} tokens", "bold"),
        f" ({tokens.used / tokens.budget:.0%}), {tokens.remaining:,} left",
    )
    profile = escape(request.profile.name)
    print_line(StyledText(f"level {tokens.level} · profile {profile} · guard {request.guard}", "dim"))
    if request.query.strip():
        print_line("about: ", StyledText(shorten(request.query, TEXT_CHARS), "bold"))
    if before.record is not None:
        print_line(StyledText(f"The defaults of the options are those of {before.record.id}.", "dim"))
    print_line("")
    print_table(_SECTION_COLUMNS, _section_rows(manifest))
    print_line("")
    print_table(_REASON_COLUMNS, _reason_rows(manifest, limit))
    if manifest.exposed:
        keys = ", ".join(dict.fromkeys(shorten(exposure.key, QUERY_CHARS) for exposure in manifest.exposed))
        print_line(StyledText(f"Outdated values still shown, until the next boundary: {keys}.", "yellow"))
    signs = "  ".join(f"{mark}: {fate}" for fate, (mark, _) in FATE_MARKS.items() if manifest.of(fate))
    print_line(StyledText(signs, "dim"))


def _section_rows(manifest: Manifest) -> Iterator[tuple[str | StyledText, ...]]:
    """Yield one row for each section. Its bar starts where the bar before it ends."""
    tokens = manifest.tokens
    full, least, free = ("█", "▏", "·") if is_drawable("█▏·") else ("#", "|", ".")
    start = 0
    for section in SECTIONS:
        share = tokens.breakdown.get(section, 0)
        entries = [entry for entry in manifest.entries if entry.section == section]
        if not share and not entries:
            continue
        first, end = (round(BUDGET_BAR_CHARS * min(1, at / tokens.budget)) for at in (start, start + share))
        bar = full * (end - first) or (least if share else "")
        yield (
            TITLES[section],
            f"{share:,}",
            StyledText(" " * first + bar, SECTION_STYLES[section]),
            _count_entries(section, entries),
        )
        start += share
    at = round(BUDGET_BAR_CHARS * min(1, start / tokens.budget))
    yield (
        StyledText("left", "dim"),
        f"{tokens.remaining:,}",
        StyledText(" " * at + free * (BUDGET_BAR_CHARS - at), "dim"),
        "",
    )


def _count_entries(section: Section, entries: Sequence[ManifestEntry]) -> str:
    """Count the entries by their fate."""
    if section == "history":
        return _count_messages(entries)
    counts = {fate: sum(entry.fate == fate for entry in entries) for fate in FATE_MARKS}
    return ", ".join(f"{number:,} {_FATE_WORDS[fate]}" for fate, number in counts.items() if number)


_FATE_WORDS: dict[Fate, str] = {
    "included": "included",
    "reduced": "reduced",
    "omitted": "omitted",
    "missing": "missing",
    "withheld": "withheld",
}
_MESSAGE_COUNT = re.compile(r"([\d,]+) messages?")


def _count_messages(entries: Sequence[ManifestEntry]) -> str:
    counts: dict[Fate, int] = {}
    for entry in entries:
        count = _MESSAGE_COUNT.fullmatch(entry.source)
        counts[entry.fate] = counts.get(entry.fate, 0) + (int(count[1].replace(",", "")) if count else 1)
    shown = counts.get("included", 0) + counts.get("reduced", 0)
    parts = [format_count(shown, "message")] if shown else []
    parts += [f"{counts['reduced']:,} of them reduced"] if "reduced" in counts else []
    parts += [f"{counts['omitted']:,} omitted"] if "omitted" in counts else []
    return ", ".join(parts)


def _reason_rows(manifest: Manifest, limit: int) -> Iterator[tuple[str | StyledText, ...]]:
    for section in SECTIONS:
        entries = [entry for entry in manifest.entries if entry.section == section]
        for number, entry in enumerate(entries[: limit or None]):
            mark, style = FATE_MARKS[entry.fate]
            yield (
                StyledText("" if number else TITLES[section], "bold"),
                StyledText(mark, style),
                StyledText(escape(entry.id), style if entry.fate != "included" else ""),
                f"{entry.tokens:,}" if entry.tokens else "",
                f"{entry.rank:,}" if entry.rank else "",
                shorten(", ".join(filter(None, (entry.source, entry.authority))), TEXT_CHARS),
                shorten(entry.reason, TEXT_CHARS),
            )
        if limit and len(entries) > limit:
            more = f"… {len(entries) - limit:,} more"
            yield "", "", StyledText(more, "dim"), "", "", "", StyledText("--limit 0 shows all", "dim")


# What changed


@click.command()
@session_argument
@click.argument("first", required=False)
@click.argument("second", required=False)
@thread_option
@frame_option
@limit_option(40)
@common_options
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
    """Show what changed between two packs, and why.

    SECOND is by default the last recorded pack; `now` builds a new pack with the options of that one. FIRST is by default
    the pack before SECOND.
    """
    with settings.open() as engine:
        conversation = PackConversation(settings, engine, session, thread, frame)
        other: Any = second
        if NOW in (first, second):
            before = conversation.find_newest()
            if before.record is None:
                raise PackNotFound(session=session, pack="the last")
            first, other = (
                before.record.id if first in (None, NOW) else first,
                conversation.build_pack(None, before.options),
            )
        difference: PackDiff = conversation.target.packs.diff(first, other)
    if settings.json:
        print_json({**documents.to_plain(difference), "explained": difference.explain()})
        return
    _print_diff(difference, limit)


def _print_diff(difference: PackDiff, limit: int) -> None:
    first, second = (pack.id or "a new pack" for pack in (difference.first, difference.second))
    growth = difference.second.used - difference.first.used
    print_line(
        StyledText(f"{first} → {second}" if is_drawable("→") else f"{first} -> {second}", "bold"),
        f"  {difference.first.used:,} to {difference.second.used:,} tokens ({growth:+,})",
    )
    if difference.first.query != difference.second.query:
        print_line(
            "about: ",
            shorten(difference.second.query, TEXT_CHARS),
            StyledText("  before: ", "dim"),
            shorten(difference.first.query, QUERY_CHARS),
        )
    cache = (
        "The prompt cache stays valid: the second pack starts with the first."
        if difference.prefix_kept
        else ("The prompt cache is lost: a part before the tail has changed.")
    )
    print_line(StyledText(cache, "green" if difference.prefix_kept else "yellow"))
    groups: dict[tuple[Section, str, str], list[PackChange]] = {}
    for change in difference.changes:
        groups.setdefault((change.entry.section, change.what, change.why), []).append(change)
    for number, ((section, what, why), changes) in enumerate(groups.items()):
        if limit and number >= limit:
            print_more(f"and {format_count(len(groups) - limit, 'other change')}", error=False)
            break
        mark, style = CHANGE_MARKS[what]
        names = ", ".join(escape(change.entry.id) for change in changes[:MAX_NAMES])
        more = f" and {len(changes) - MAX_NAMES:,} more" if len(changes) > MAX_NAMES else ""
        print_line(
            StyledText(f"  {mark} ", style),
            StyledText(f"{names}{more}", "bold"),
            f" ({TITLES[section]}): ",
            shorten(why, TEXT_CHARS),
        )
    print_line(StyledText(f"{difference.same:,} unchanged.", "dim"))


def describe_pack(record: PackRecord | None, now_us: int) -> str:
    """Name a pack, with its age and question."""
    if record is None:
        return "a new pack"
    question = f", about {shorten(record.query, QUERY_CHARS)!r}" if record.query.strip() else ""
    return f"{record.id} ({format_age(record.time_us, now_us)}{question})"


MAX_MENTIONS = 8
"""The maximum number of messages that are listed."""
_MESSAGE_ID = re.compile(r"m?([1-9]\d{0,17})")


_FATE_VERDICTS = {
    "included": "included in",
    "reduced": "reduced in",
    "omitted": "omitted from",
    "missing": "missing from",
    "withheld": "withheld from",
}
_MESSAGE_FATES = {"included": "included", "reduced": "reduced", "omitted": "omitted"}


class PackInspection(NamedTuple):
    """A pack, and the conversation that it belongs to."""

    conversation: PackConversation
    record: PackRecord | None
    manifest: Manifest
    now_us: int

    def find_entries(self, seq: int) -> list[ManifestEntry]:
        """Return the manifest entries that contain a message."""
        entries = self.manifest.entries
        pinned = [entry for entry in entries if entry.section == "system" and entry.at == seq]
        return pinned + [entry for entry in entries if entry.section == "history" and entry.at <= seq <= entry.to]


@click.command()
@session_argument
@click.argument("item")
@thread_option
@frame_option
@click.option(
    "--pack", metavar="PACK", help="The pack, such as p12.  [default: the last recorded pack, or else a new one]"
)
@common_options
@click.pass_obj
def why(settings: Settings, session: str, item: str, thread: str | None, frame: str | None, pack: str | None) -> None:
    """Explain why an item is in a pack, or is not.

    Also shows where the item comes from, and what superseded it. ITEM is a fact (its key, or k12), a message (m5), a handle
    (h7), or any other id that `holdfast pack` lists.
    """
    with settings.open() as engine:
        conversation = PackConversation(settings, engine, session, thread, frame)
        record, manifest, _ = conversation.read_stored(pack) if pack is not None else conversation.find_newest()
        if manifest is None:
            manifest = conversation.build_pack(None, {}).manifest
        inspection = PackInspection(conversation, record, manifest, time.time_ns() // 1_000)
        reports = [
            *_explain_facts(inspection, item),
            *_explain_message(inspection, item),
            *_explain_handle(inspection, item),
        ]
        if not reports:
            reports = [ItemReport(entries=[entry]) for entry in manifest.entries if entry.id == item]
    if not reports:
        reason = f"there is no {escape(item)!r}; pass a fact (its key, or k12), a message (m5) or a handle (h7)"
        raise InvalidArgument(argument="ITEM", reason=reason)
    if settings.json:
        print_json(
            {
                "item": item,
                "pack": None if record is None else record.id,
                "answers": [report.to_plain() for report in reports],
            }
        )
        return
    for number, report in enumerate(reports):
        if number:
            print_line("")
        _print_report(inspection, report)


class ItemReport(NamedTuple):
    """Everything about one item."""

    entries: Sequence[ManifestEntry] = ()
    """Its entries in the manifest."""
    absence: str = ""
    """Why the manifest has none."""
    ledger: holdfast.types.LedgerId | None = None
    fact: holdfast.Fact | None = None
    explanation: holdfast.types.FactExplanation | None = None
    mentions: tuple[tuple[int, str, str], ...] = ()
    """The messages that state the fact: seq, fate and reason."""
    message: holdfast.Message | None = None
    handle: holdfast.Handle | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The ids of the item itself; an entry with another id contains more than the item."""
        if self.fact is not None and self.ledger is not None:
            return self.fact.id, f"{self.fact.id}@{self.ledger}"
        if self.message is not None:
            return (f"m{self.message.seq}",)
        if self.handle is not None:
            return (self.handle.id,)
        return tuple(entry.id for entry in self.entries)

    def to_plain(self) -> dict[str, Any]:
        story = (
            None
            if self.ledger is None or self.explanation is None
            else documents.explanation(self.ledger, self.explanation)
        )
        return {
            "entries": documents.to_plain(list(self.entries)),
            "absent": self.absence or None,
            "fact": None if self.ledger is None or self.fact is None else documents.fact(self.ledger, self.fact),
            "why": story,
            "told_in": [{"seq": seq, "fate": fate, "reason": reason} for seq, fate, reason in self.mentions],
            "message": None if self.message is None else documents.message(self.message),
            "handle": documents.to_plain(self.handle),
        }


# Facts


def _explain_facts(inspection: PackInspection, item: str) -> Iterator[ItemReport]:
    """Report the fact with this id, or the current or last fact of this key, in each ledger that the session reads."""
    session = inspection.conversation.session
    session_ledger = session.ledger()
    for ledger_id in ledgers_of(session.scope, session.state()):
        ledger = (
            session_ledger if ledger_id == session_ledger.id else session.ledger(**{ledger_id.kind: ledger_id.names[0]})
        )
        for fact in _find_facts(ledger, item.removesuffix(f"@{ledger_id}")):
            story = ledger.why(fact.key, scope=fact.scope, scope_id=fact.scope_id)
            entries = [entry for entry in inspection.manifest.entries if entry.section == "facts"]
            entries = [entry for entry in entries if fact_of_entry(inspection.manifest, entry) == (ledger_id, fact.id)]
            absent = "" if entries else _explain_absent_fact(inspection, ledger_id, fact)
            yield ItemReport(entries, absent, ledger_id, fact, story, tuple(_find_mentions(inspection, fact)))


def _find_facts(ledger: holdfast.Ledger, item: str) -> list[holdfast.Fact]:
    if fact_seq(item):
        try:
            return [ledger.fact(item)]
        except FactNotFound:
            pass
    facts: dict[tuple[str, str], holdfast.Fact] = {}
    for fact in sorted(ledger.history(item), key=lambda fact: (not fact.is_valid, fact.is_claim, -fact_seq(fact.id))):
        facts.setdefault((fact.scope, fact.scope_id), fact)
    return [*facts.values()]


def _explain_absent_fact(inspection: PackInspection, ledger: holdfast.types.LedgerId, fact: holdfast.Fact) -> str:
    """Why a fact was not a candidate."""
    request = inspection.manifest.request
    version = dict(inspection.manifest.ledgers).get(ledger, 0)
    if fact_seq(fact.id) > version:
        return "it was asserted later"
    if fact.superseded_by is not None and fact_seq(fact.superseded_by) <= version:
        return f"{fact.superseded_by} had superseded it ({fact.rule})"
    if fact.has_expired(request.as_of_us):
        return "it had expired"
    if not fact.is_valid and fact.ended_us is not None and fact.ended_us <= request.as_of_us:
        return f"it had been {fact.status}"
    if fact.scope != "global" and (fact.scope, fact.scope_id) not in request.within:
        return f"its scope, {fact.scope} {fact.scope_id!r}, was not requested"
    return "other facts came first"


def _find_mentions(inspection: PackInspection, fact: holdfast.Fact) -> Iterator[tuple[int, str, str]]:
    scope = inspection.manifest.scope
    for seq in sorted(
        {mention.seq for mention in fact.mentions if (mention.actor, mention.session) == (scope.actor, scope.session)}
    ):
        for entry in inspection.find_entries(seq):
            yield seq, entry.fate, entry.reason


# Messages and handles


def _explain_message(inspection: PackInspection, item: str) -> Iterator[ItemReport]:
    match = _MESSAGE_ID.fullmatch(item)
    message = None if match is None else _find_message(inspection, int(match[1]))
    if message is not None:
        entries = inspection.find_entries(message.seq)
        yield ItemReport(entries, "" if entries else _explain_absent_message(inspection, message), message=message)


def _find_message(inspection: PackInspection, seq: int) -> holdfast.Message | None:
    messages = inspection.conversation.session.messages(before=seq + 1, limit=1)
    return messages[0] if messages and messages[0].seq == seq else None


def _explain_absent_message(inspection: PackInspection, message: holdfast.Message) -> str:
    manifest = inspection.manifest
    if message.seq > manifest.version:
        return "it was recorded later"
    if message.frame != manifest.frame:
        owner = "the session" if message.frame is None else f"the frame {message.frame}"
        return f"it belongs to {owner}; a pack has the messages of one conversation"
    if message.late:
        return "it arrived late and is stored as evidence"
    if any(entry.id in {call.id for call in message.tool_calls} for entry in manifest.entries):
        return "it waits for the results of its calls"
    return "the conversation was reset after it"


def _explain_handle(inspection: PackInspection, item: str) -> Iterator[ItemReport]:
    piece = parse_piece_id(item)
    if piece is None and not handle_seq(item):
        return
    handle = _find_handle(inspection, item)
    entries = [entry for entry in inspection.manifest.entries if entry.section == "handles" and entry.id == item]
    if piece is not None and not entries:
        entries = inspection.find_entries(piece[0])
    if handle is not None or entries:
        yield ItemReport(entries, "" if entries else "this conversation has no access to it", handle=handle)


def _find_handle(inspection: PackInspection, item: str) -> holdfast.Handle | None:
    target = inspection.conversation.target
    try:
        if parse_piece_id(item) is not None:
            handle: holdfast.Handle = target.handles.get(item)
            return handle
    except HandleNotFound:
        return None
    attachments = () if inspection.conversation.frame is None else target.handles.attachments(limit=1_000)
    return next((handle for handle in attachments if handle.id == item), None)


# Output


def _print_report(inspection: PackInspection, report: ItemReport) -> None:
    if report.fact is not None:
        _print_fact(inspection, report, report.fact)
    if report.message is not None:
        _print_message(inspection, report.message)
    if report.handle is not None:
        handle = report.handle
        size = f"{format_count(handle.tokens, 'token')}, {format_size(handle.size)}"
        what = f"  {handle.residency}, {size}, {handle.priority} priority"
        print_line(StyledText(handle.id, "bold"), what, escape(f"  {handle.source or handle.title or handle.kind}"))
    pack = describe_pack(inspection.record, inspection.now_us)
    for entry in report.entries:
        _, style = FATE_MARKS[entry.fate]
        within = "" if entry.id in report.names else f", in {escape(entry.id)}"
        rank = f", rank {entry.rank:,}" if entry.rank else ""
        print_line(
            StyledText(_FATE_VERDICTS[entry.fate], f"bold {style}"),
            f" {pack}{within}: {TITLES[entry.section]}, {format_count(entry.tokens, 'token')}{rank}: ",
            shorten(entry.reason, TEXT_CHARS),
        )
    if report.absence:
        print_line(StyledText("not in", "bold red"), f" {pack}: ", shorten(report.absence, TEXT_CHARS))
    if report.explanation is not None and report.fact is not None:
        _print_fact_history(inspection, report.fact, report.explanation)
    for seq, fate, reason in report.mentions[:MAX_MENTIONS]:
        print_line(
            "  stated in ",
            StyledText(f"m{seq}", "bold"),
            f", which is {_MESSAGE_FATES.get(fate, fate)}: ",
            shorten(reason, TEXT_CHARS),
        )
    for exposure in inspection.manifest.exposed:
        if report.fact is not None and exposure.fact == report.fact.id:
            print_line(StyledText(f"  still shown in m{exposure.at}, until the next boundary", "yellow"))


def _print_fact(inspection: PackInspection, report: ItemReport, fact: holdfast.Fact) -> None:
    what = fact_status(fact, inspection.now_us)
    source = fact.source.identity or fact.source.name or ("" if fact.source.type == "state_write" else fact.source.type)
    if not source and report.ledger is not None and report.ledger.kind == "session":
        source = report.ledger.names[0]
    by = f", by {source}" if source else ""
    print_line(
        StyledText(fact.id, "bold"),
        f"  {shorten(fact.key, TEXT_CHARS)} = {format_value(fact.value)}  ",
        StyledText(what, FACT_STYLES.get(what, "dim")),
        escape(f"  {report.ledger}{by} ({fact.authority}), {format_age(fact.valid_from_us, inspection.now_us)}"),
    )


def _print_message(inspection: PackInspection, message: holdfast.Message) -> None:
    role = message.role or "erased"
    calls = f" [{', '.join(call.name for call in message.tool_calls)}]" if message.tool_calls else ""
    print_line(
        StyledText(f"m{message.seq}", "bold"),
        "  ",
        StyledText(role, ROLE_STYLES.get(role, "")),
        escape(f"  by {message.principal}, {format_age(message.time_us, inspection.now_us)}, "),
        f"{format_count(message.tokens, 'token')}: ",
        shorten(message.text + calls, TEXT_CHARS),
    )


def _print_fact_history(inspection: PackInspection, fact: holdfast.Fact, story: holdfast.types.FactExplanation) -> None:
    """Print older and newer facts, the claims against a fact, and the facts that it was derived from."""
    current = (story.current,) if story.current else ()
    for related in (*current, *story.chain):
        if related.id != fact.id:
            is_newer = fact_seq(related.id) > fact_seq(fact.id)
            _print_related_fact(inspection, "newer fact" if is_newer else "older fact", related)
    for title, group in (("claim against it", story.claims), ("derived from", story.depends_on)):
        for related in group:
            if related.id != fact.id:
                _print_related_fact(inspection, title, related)
    if fact.needs_review:
        print_line(StyledText(f"  it needs a review: {fact.review_reason}", "yellow"))


def _print_related_fact(inspection: PackInspection, title: str, fact: holdfast.Fact) -> None:
    what = fact_status(fact, inspection.now_us)
    rule = f" by {fact.superseded_by} ({fact.rule})" if fact.superseded_by else ""
    why = f": {shorten(fact.why, TEXT_CHARS)}" if fact.why else ""
    print_line(
        f"  {title} ",
        StyledText(fact.id, "bold"),
        f" {format_value(fact.value)}  ",
        StyledText(what, FACT_STYLES.get(what, "dim")),
        f"{rule}{why}",
    )
