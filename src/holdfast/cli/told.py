"""An event in a few words.

Law: what is told comes from the payload as it is stored, whatever is in it, so nothing is taken for granted here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import holdfast
from holdfast.cli import shapes
from holdfast.cli.screen import ROLES, json_text
from holdfast.cli.words import count, short

SUMMARY_CHARS = 72

_WORDS = {
    "frame.pushed": "f{seq}{under}, {budget} tokens: {goal}",
    "frame.updated": "{frame}: {changed}",
    "frame.popped": "{frame} {status}, {used} tokens used{others}: {summary}",
    "frame.suspended": "{frame}{others}, by {by}: {reason}",
    "frame.resumed": "{frame}, by {by}",
    "frame.handle_added": "{frame} h{seq}, {kind}: {title}",
    "frame.result_added": "{frame} h{seq}, {child} {status}: {title}",
    "frame.compacted": "{policy}{within}, {why}: {original} to {final} tokens",
    "handle.moved": "{piece}{within}, {residency}",
    "handle.replaced": "{frame} {handle}, {residency}: {title}",
    "pack.recorded": "p{seq}{within}, {used} of {budget} tokens{answered}: {query}",
    "token.reissued": "{frame}, by {by}",
    "token.revoked": "{frame}: {reason}",
    "budget.reserved": "{frame} r{seq}, {amount} tokens: {purpose}",
    "budget.committed": "{frame} {reservation}, {tokens} tokens",
    "budget.cancelled": "{frame} {reservation}",
    "budget.used": "{frame}, {tokens} tokens",
    "budget.granted": "{frame}, {amount} tokens",
    "call.started": "{call}{within}, attempt {attempt}, key {key}",
    "actor.resumed": "{found}",
    "identity.refreshed": "{speaker}",
    "working.set": "{item}: {value}",
    "working.cleared": "{items}",
    "environment.observed": "{item}: {value}",
    "environment.cleared": "{items}",
    "fact.asserted": "k{seq}{against}, {key}: {value}",
    "fact.superseded": "{fact}, by {by}, {rule}: {reason}",
    "fact.retracted": "{facts}: {reason}",
    "fact.expired": "{facts}: {reason}",
    "fact.promoted": "{fact}{against}, now {scope} {scope_id}: {reason}",
    "fact.endorsed": "{fact}{against}, {authority}, by {by}: {reason}",
    "fact.confirmed": "{fact}, by {by}: {reason}",
    "fact.disputed": "{fact}, by {by}, {authority}: {reason}",
    "fact.reinstated": "{fact}{instead}: {reason}",
    "fact.marked": "{facts}, since {because} is dead",
    "situation.updated": "{by}{within}, in iteration {iteration}: {stated}",
    "action.recorded": "{mode}{within}, in iteration {iteration}: {did}",
    "facts.proposed": "{proposed}, by {detector}, in message {message}",
    "proposal.decided": "{proposal} {decision}",
}
"""What is said of events that have neither a role nor a reason alone. The names are fields, or what `_more` adds."""

_ABSENT = {
    "used": "0",
    "tokens": "0",
    "amount": "0",
    "budget": "0",
    "attempt": "1",
    "residency": "resident",
    "mode": "fast",
}
"""Figures that are not stored when they are this."""


class _Fields(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return _ABSENT.get(name, "")


def summary(event: holdfast.Recorded) -> tuple[str, str]:
    """A role, if it has one, and a few words on what the event says."""
    said = shapes.payload(event)
    if said is None:
        return "", "(erased)"
    if not isinstance(said, dict):
        return "", short(str(said), SUMMARY_CHARS)
    if isinstance(role := said.get("role"), str) and role in ROLES:
        frame = f" in {short(_figure(said['frame']), SUMMARY_CHARS)}" if said.get("frame") else ""
        return role, frame + short(f": {_message(said)}", SUMMARY_CHARS)
    if event.type in _WORDS:
        fields = _Fields({name: _figure(value) for name, value in said.items()} | _more(event, said))
        return "", short(_WORDS[event.type].format_map(fields).removesuffix(": "), SUMMARY_CHARS)
    reason = said.get("reason", said.get("text"))
    return "", short(reason if isinstance(reason, str) else json_text(said) if said else "", SUMMARY_CHARS)


def _figure(value: object) -> str:
    if isinstance(value, str):
        return value[: 4 * SUMMARY_CHARS]
    return f"{value:,}" if type(value) is int else json_text(value)[: 4 * SUMMARY_CHARS]


def _more(event: holdfast.Recorded, said: dict[str, Any]) -> dict[str, str]:
    """What needs more than a field to be said."""
    cascade, pending, frames = said.get("cascade"), said.get("pending"), said.get("frames")
    proposals = said.get("proposals")
    found = [count(len(frames) if isinstance(frames, list) else 0, "frame")]
    if isinstance(pending, dict):
        found += [f"{number} {kind}" for kind, number in pending.items()]
    return {
        "seq": str(event.seq),
        "under": f" under {said['parent']}" if said.get("parent") else "",
        "within": f" in {said['frame']}" if said.get("frame") else "",
        "answered": f", answered by {said['reply']}" if said.get("reply") else "",
        "others": f", with {len(cascade)} below it" if isinstance(cascade, list) and cascade else "",
        "changed": ", ".join(f"{name} {_figure(said[name])}" for name in said if name != "frame"),
        "found": ", ".join(found),
        "against": f", a claim against {said['against']}" if said.get("against") else "",
        "instead": f", instead of {_listed(said['instead'])}" if said.get("instead") else "",
        "items": _listed(said.get("items")),
        "piece": _piece(said.get("piece")),
        "facts": _listed(said.get("facts")),
        "proposed": count(len(proposals) if isinstance(proposals, list) else 0, "proposal"),
        "stated": _stated(said),
        "did": _did(said),
        "speaker": _speaker(said),
        "decision": "accepted" if said.get("accepted") is True else "declined",
    }


def _piece(said: object) -> str:
    """The handle of a piece of a message."""
    return f"h{_figure(said.get('message'))}_{_figure(said.get('piece'))}" if isinstance(said, dict) else ""


def _speaker(said: dict[str, Any]) -> str:
    """Who speaks from now on, and with which rights."""
    identity = said.get("identity")
    found: dict[str, Any] = identity if isinstance(identity, dict) else {}
    name = _figure(found.get("user_name") or found.get("user_id") or "unnamed")
    return (
        f"{name}, {_figure(found.get('authority', 'peer'))}; permissions: {_listed(found.get('permissions')) or 'none'}"
    )


def _stated(said: dict[str, Any]) -> str:
    """What an update of a situation says, and what it clears."""
    fields = said.get("fields")
    told = [f"{name}: {_figure(text)}" for name, text in fields.items()] if isinstance(fields, dict) else []
    cleared = _listed(said.get("cleared"))
    return "; ".join([*told, *([f"cleared {cleared}"] if cleared else [])])


def _did(said: dict[str, Any]) -> str:
    """The tools that an action called, or else what it was about."""
    calls = ", ".join(_figure(call.get("name")) for call in _objects(said, "tool_calls"))
    return calls or next((_figure(said[name]) for name in ("approach", "thinking") if said.get(name)), "")


def _listed(names: object) -> str:
    """As many of these as a line has room for."""
    return ", ".join(map(_figure, names[:SUMMARY_CHARS])) if isinstance(names, list) else ""


def _message(said: dict[str, object]) -> str:
    pieces: list[str] = []
    for part in _objects(said, "content"):
        pieces.append(str(part.get("text", part.get("preview", f"[{part.get('type')}]"))))
    for call in _objects(said, "tool_calls"):
        pieces.append(f"→ {call.get('name')}")
    for result in _objects(said, "tool_results"):
        pieces.append(f"{'✗' if result.get('is_error') else '←'} {result.get('tool_call_id')}")
    return " ".join(pieces)


def _objects(said: dict[str, object], name: str) -> Iterator[dict[str, object]]:
    listed = said.get(name)
    return (each for each in listed if isinstance(each, dict)) if isinstance(listed, list) else iter(())
