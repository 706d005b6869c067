"""A manifest in words."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.pack import SECTIONS, Entry, Fate, Manifest, Section

TITLES: dict[Section, str] = {
    "system": "system",
    "identity": "identity",
    "invariants": "invariants",
    "tools": "tools",
    "history": "history",
    "notes": "notes",
    "environment": "environment",
    "situation": "situation",
    "facts": "facts",
    "working_set": "working set",
    "handles": "handles",
    "breadcrumbs": "breadcrumbs",
    "query": "question",
}
_OUT: tuple[Fate, ...] = ("omitted", "missing", "withheld")
_BAR = 40


def explained(manifest: Manifest) -> str:
    tokens = manifest.tokens
    request = manifest.request
    used = f"{tokens.used:,} of {tokens.budget:,} tokens used, {tokens.remaining:,} left"
    lines = [f"{used}; level: {tokens.level}; profile: {request.profile.name}; guard: {request.guard}."]
    for section in SECTIONS:
        share = tokens.breakdown.get(section, 0)
        own = [each for each in manifest.entries if each.section == section]
        if not share and not own:
            continue
        lines.append(f"\n{TITLES[section]}: {share:,} tokens {bar(share, tokens.budget)}".rstrip())
        lines += told(own)
    if manifest.exposed:
        keys = ", ".join(sorted({each.key for each in manifest.exposed}))
        lines.append(f"\nOutdated values still shown, until the next boundary: {keys}.")
    return "\n".join(lines)


def bar(share: int, budget: int, width: int = _BAR) -> str:
    filled = min(width, -(-share * width // max(1, budget))) if share else 0
    return "█" * filled


def told(entries: Iterable[Entry]) -> list[str]:
    """One line for each."""
    return [f"  {_MARKS[each.fate]} {line(each)}" for each in entries]


_MARKS: dict[Fate, str] = {"included": "+", "reduced": "~", "omitted": "-", "missing": "!", "withheld": "x"}


def line(entry: Entry) -> str:
    where = f" ({', '.join(filter(None, (entry.source, entry.authority)))})" if entry.source or entry.authority else ""
    size = f", {entry.tokens:,} tokens" if entry.tokens else ""
    state = "" if entry.fate == "included" else f"{entry.fate}: "
    return f"{entry.id}{where}{size}: {state}{entry.reason}"
