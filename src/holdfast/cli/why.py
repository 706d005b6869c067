"""`holdfast why`: of one thing, whether a model was shown it, why, where it comes from, and what became of it.

Laws: looking changes nothing; everything is seen as whoever speaks in the session, so what he may not know of is not there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

import holdfast
from holdfast.cli import shapes
from holdfast.cli.context import frame_option
from holdfast.cli.facts import said, status
from holdfast.cli.packs import FATES, TEXT_CHARS, Conversation, made_at
from holdfast.cli.screen import FACTS, ROLES, Styled, emit, say
from holdfast.cli.sessions import session_argument, thread_option
from holdfast.cli.settings import Settings, common
from holdfast.cli.words import ago, clean, count, short, size
from holdfast.context.differences import fact_of
from holdfast.context.words import TITLES
from holdfast.errors import FactNotFound, HandleNotFound, InvalidContent
from holdfast.flows.knowing import ledgers_of
from holdfast.model.facts import fact_seq
from holdfast.model.handles import handle_seq, piece_of
from holdfast.model.pack import Entry, Manifest, PackRecord

NAMED = 8
"""Messages that a line names, at most."""
_MESSAGE = re.compile(r"m?([1-9]\d{0,17})")
_VERDICTS = {
    "included": "in",
    "reduced": "in part in",
    "omitted": "left out of",
    "missing": "could not be read for",
    "withheld": "withheld from",
}
_FATES = {"included": "shown", "reduced": "shown in part", "omitted": "left out"}


class Looked(NamedTuple):
    """The pack that is asked about, and what it is asked of."""

    conversation: Conversation
    record: PackRecord | None
    manifest: Manifest
    now_us: int

    def covering(self, seq: int) -> list[Entry]:
        """What the manifest says of a message."""
        entries = self.manifest.entries
        pinned = [each for each in entries if each.section == "system" and each.at == seq]
        return pinned + [each for each in entries if each.section == "history" and each.at <= seq <= each.to]


@click.command()
@session_argument
@click.argument("item")
@thread_option
@frame_option
@click.option(
    "--pack", metavar="PACK", help="Which one, such as p12.  [default: the last recorded; if none, one made now]"
)
@common
@click.pass_obj
def why(settings: Settings, session: str, item: str, thread: str | None, frame: str | None, pack: str | None) -> None:
    """Tell of one thing whether it is in a pack, why, where it comes from, and what took its place.

    ITEM is a fact (its key, or k12), a message (m5), a handle (h7), or anything else that `holdfast pack` lists.
    """
    with settings.open() as engine:
        conversation = Conversation(settings, engine, session, thread, frame)
        record, manifest, _ = conversation.stored(pack) if pack is not None else conversation.newest()
        if manifest is None:
            manifest = conversation.fresh(None, {}).manifest
        looked = Looked(conversation, record, manifest, time.time_ns() // 1_000)
        answers = [*_facts(looked, item), *_messages(looked, item), *_handles(looked, item)]
        if not answers:
            answers = [Answer(entries=[each]) for each in manifest.entries if each.id == item]
    if not answers:
        reason = (
            f"nothing is called {clean(item)!r} there: pass a fact (its key, or k12), a message (m5) or a handle (h7)"
        )
        raise InvalidContent(reason=reason)
    if settings.json:
        emit(
            {"item": item, "pack": None if record is None else record.id, "answers": [each.plain() for each in answers]}
        )
        return
    for number, answer in enumerate(answers):
        if number:
            say("")
        _show(looked, answer)


class Answer(NamedTuple):
    """All there is to say of one thing."""

    entries: Sequence[Entry] = ()
    """What the manifest says of it."""
    absent: str = ""
    """Why the manifest says nothing."""
    ledger: holdfast.LedgerId | None = None
    fact: holdfast.Fact | None = None
    story: holdfast.Why | None = None
    told: tuple[tuple[int, str, str], ...] = ()
    """The messages of the session that tell the fact: their seqs, what became of them, and why."""
    message: holdfast.Message | None = None
    handle: holdfast.Handle | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What it is called itself; whatever else an entry is called, it stands for more."""
        if self.fact is not None and self.ledger is not None:
            return self.fact.id, f"{self.fact.id}@{self.ledger}"
        if self.message is not None:
            return (f"m{self.message.seq}",)
        if self.handle is not None:
            return (self.handle.id,)
        return tuple(each.id for each in self.entries)

    def plain(self) -> dict[str, Any]:
        story = None if self.ledger is None or self.story is None else shapes.why(self.ledger, self.story)
        return {
            "entries": shapes.plain(list(self.entries)),
            "absent": self.absent or None,
            "fact": None if self.ledger is None or self.fact is None else shapes.fact(self.ledger, self.fact),
            "why": story,
            "told_in": [{"seq": seq, "fate": fate, "reason": reason} for seq, fate, reason in self.told],
            "message": None if self.message is None else shapes.message(self.message),
            "handle": shapes.plain(self.handle),
        }


# Facts


def _facts(looked: Looked, item: str) -> Iterator[Answer]:
    """The fact of this id, or those that stand, or stood last, under this key, in each ledger that the session reads."""
    session = looked.conversation.session
    own = session.ledger()
    for ledger_id in ledgers_of(session.scope, session.state()):
        ledger = own if ledger_id == own.id else session.ledger(**{ledger_id.kind: ledger_id.names[0]})
        for fact in _of(ledger, item.removesuffix(f"@{ledger_id}")):
            story = ledger.why(fact.key, scope=fact.scope, scope_id=fact.scope_id)
            entries = [each for each in looked.manifest.entries if each.section == "facts"]
            entries = [each for each in entries if fact_of(looked.manifest, each) == (ledger_id, fact.id)]
            absent = "" if entries else _absent(looked, ledger_id, fact)
            yield Answer(entries, absent, ledger_id, fact, story, tuple(_told(looked, fact)))


def _of(ledger: holdfast.Ledger, item: str) -> list[holdfast.Fact]:
    if fact_seq(item):
        try:
            return [ledger.get(item)]
        except FactNotFound:
            pass
    found: dict[tuple[str, str], holdfast.Fact] = {}
    for fact in sorted(ledger.history(item), key=lambda each: (not each.is_valid, each.claim, -fact_seq(each.id))):
        found.setdefault((fact.scope, fact.scope_id), fact)
    return [*found.values()]


def _absent(looked: Looked, ledger: holdfast.LedgerId, fact: holdfast.Fact) -> str:
    """Why a fact was not among those to choose from."""
    request = looked.manifest.request
    version = dict(looked.manifest.ledgers).get(ledger, 0)
    if fact_seq(fact.id) > version:
        return "it was not known yet"
    if fact.superseded_by is not None and fact_seq(fact.superseded_by) <= version:
        return f"{fact.superseded_by} had taken its place ({fact.rule})"
    if fact.ran_out(request.as_of_us):
        return "it had run out"
    if not fact.is_valid and fact.ended_us is not None and fact.ended_us <= request.as_of_us:
        return f"it had been {fact.status}"
    if fact.scope != "global" and (fact.scope, fact.scope_id) not in request.within:
        return f"it holds in the {fact.scope} {fact.scope_id!r} alone, which was not asked for"
    return "others were looked at first"


def _told(looked: Looked, fact: holdfast.Fact) -> Iterator[tuple[int, str, str]]:
    scope = looked.manifest.scope
    for seq in sorted(
        {each.seq for each in fact.mentions if (each.actor, each.session) == (scope.actor, scope.session)}
    ):
        for entry in looked.covering(seq):
            yield seq, entry.fate, entry.reason


# Messages and handles


def _messages(looked: Looked, item: str) -> Iterator[Answer]:
    found = _MESSAGE.fullmatch(item)
    message = None if found is None else _message(looked, int(found[1]))
    if message is not None:
        entries = looked.covering(message.seq)
        yield Answer(entries, "" if entries else _unseen(looked, message), message=message)


def _message(looked: Looked, seq: int) -> holdfast.Message | None:
    found = looked.conversation.session.messages(before=seq + 1, limit=1)
    return found[0] if found and found[0].seq == seq else None


def _unseen(looked: Looked, message: holdfast.Message) -> str:
    manifest = looked.manifest
    if message.seq > manifest.version:
        return "it was not said yet"
    if message.frame != manifest.frame:
        whose = "the session" if message.frame is None else f"the frame {message.frame}"
        return f"it is of {whose}: a pack is of one conversation"
    if message.late:
        return "it came late, and is kept as evidence"
    if any(each.id in {call.id for call in message.tool_calls} for each in manifest.entries):
        return "it waits for the results of its calls"
    return "the conversation began anew after it"


def _handles(looked: Looked, item: str) -> Iterator[Answer]:
    piece = piece_of(item)
    if piece is None and not handle_seq(item):
        return
    handle = _handle(looked, item)
    entries = [each for each in looked.manifest.entries if each.section == "handles" and each.id == item]
    if piece is not None and not entries:
        entries = looked.covering(piece[0])
    if handle is not None or entries:
        yield Answer(entries, "" if entries else "it is not in reach of this conversation", handle=handle)


def _handle(looked: Looked, item: str) -> holdfast.Handle | None:
    of = looked.conversation.of
    try:
        if piece_of(item) is not None:
            found: holdfast.Handle = of.piece(item)
            return found
    except HandleNotFound:
        return None
    own = () if looked.conversation.frame is None else of.handles(limit=1_000)
    return next((each for each in own if each.id == item), None)


# Shown


def _show(looked: Looked, answer: Answer) -> None:
    if answer.fact is not None:
        _show_fact(looked, answer, answer.fact)
    if answer.message is not None:
        _show_message(looked, answer.message)
    if answer.handle is not None:
        each = answer.handle
        what = f"  {each.residency}, {each.tokens:,} tokens, {size(each.size)}, {each.priority} priority"
        say(Styled(each.id, "bold"), what, clean(f"  {each.source or each.title or each.kind}"))
    pack = made_at(looked.record, looked.now_us)
    for entry in answer.entries:
        _, style = FATES[entry.fate]
        within = "" if entry.id in answer.names else f", in {clean(entry.id)}"
        rank = f", rank {entry.rank:,}" if entry.rank else ""
        say(
            Styled(_VERDICTS[entry.fate], f"bold {style}"),
            f" {pack}{within}: {TITLES[entry.section]}, {entry.tokens:,} tokens{rank}: ",
            short(entry.reason, TEXT_CHARS),
        )
    if answer.absent:
        say(Styled("not in", "bold red"), f" {pack}: ", short(answer.absent, TEXT_CHARS))
    if answer.story is not None and answer.fact is not None:
        _show_story(looked, answer.fact, answer.story)
    for seq, fate, reason in answer.told[:NAMED]:
        say(
            "  told in ", Styled(f"m{seq}", "bold"), f", which is {_FATES.get(fate, fate)}: ", short(reason, TEXT_CHARS)
        )
    for shown in looked.manifest.exposed:
        if answer.fact is not None and shown.fact == answer.fact.id:
            say(Styled(f"  still shown in m{shown.at}, until the next boundary", "yellow"))


def _show_fact(looked: Looked, answer: Answer, fact: holdfast.Fact) -> None:
    what = status(fact, looked.now_us)
    source = fact.source.identity or fact.source.name or fact.source.type
    say(
        Styled(fact.id, "bold"),
        f"  {short(fact.key, TEXT_CHARS)} = {said(fact.value)}  ",
        Styled(what, FACTS.get(what, "dim")),
        clean(f"  {answer.ledger}, by {source} ({fact.authority}), {ago(fact.valid_from_us, looked.now_us)}"),
    )


def _show_message(looked: Looked, message: holdfast.Message) -> None:
    role = message.role or "erased"
    calls = f" [{', '.join(call.name for call in message.tool_calls)}]" if message.tool_calls else ""
    say(
        Styled(f"m{message.seq}", "bold"),
        "  ",
        Styled(role, ROLES.get(role, "")),
        clean(f"  by {message.principal}, {ago(message.time_us, looked.now_us)}, {count(message.tokens, 'token')}: "),
        short(message.text + calls, TEXT_CHARS),
    )


def _show_story(looked: Looked, fact: holdfast.Fact, story: holdfast.Why) -> None:
    """What it replaced, and what replaced it; who disagrees; what it rests on."""
    chain = [each for each in (*((story.current,) if story.current else ()), *story.chain) if each.id != fact.id]
    for each in chain:
        newer = fact_seq(each.id) > fact_seq(fact.id)
        _link(looked, "after it came" if newer else "before it stood", each)
    for title, group in (("against it stands", story.claims), ("it rests on", story.depends_on)):
        for each in group:
            if each.id != fact.id:
                _link(looked, title, each)
    if fact.needs_review:
        say(Styled(f"  it needs a review, since {fact.review} died", "yellow"))


def _link(looked: Looked, title: str, fact: holdfast.Fact) -> None:
    what = status(fact, looked.now_us)
    rule = f" by {fact.superseded_by} ({fact.rule})" if fact.superseded_by else ""
    why = f": {short(fact.why, TEXT_CHARS)}" if fact.why else ""
    say(
        f"  {title} ",
        Styled(fact.id, "bold"),
        f" {said(fact.value)}  ",
        Styled(what, FACTS.get(what, "dim")),
        f"{rule}{why}",
    )
