"""What stands between StateBench's data and the engine. All of it is told with the results.

The benchmark has fields that the API has, too: those are passed on as they are. A few things it writes in other ways, since
it has no field for them; what is done about those is listed in `BEYOND_FIELDS`, and can be switched off to see what it is
worth. Nothing here knows a question, an answer or a phrase: what is superseded, supposed, disputed, out of date or beside
the point is for the engine to tell.
"""

from __future__ import annotations

import re

FIELDS = (
    "identity_role is the session's identity (name, authority, department, organisation; no permissions)",
    "a persistent fact is asserted with key, value, id, source type, authority, scope, depends_on, supersedes, constraint",
    "a write to the working set or to the environment goes there, observed at the time of the event",
    "a turn of the conversation is observed as a message of the user or of the assistant",
    "a query is a pack of 8,000 tokens at the time of the last event, without its text: the harness adds that itself",
)
BEYOND_FIELDS = (
    "events are delivered in the order of their times: some files have them in another",
    "a value that begins with the tag [RESTRICTED…] requires a permission that no reader has, and loses the tag",
    "a working-set item that begins with the tag [SCOPE: …] is a fact of that task, and loses the tag",
    "an event that names what it supersedes has at least the authority of that: it is the system of record",
    "the id W-AUTO is no id",
)
NO_ID = "W-AUTO"
_RESTRICTED = re.compile(r"\[RESTRICTED\b[^\]]{0,500}\]\s{0,9}")
_SCOPED = re.compile(r"\[SCOPE:\s{0,9}(?P<task>[^\]]{1,500})\]\s{0,9}")


def split_restriction(value: str) -> tuple[bool, str]:
    """Whether a value is tagged as restricted, and the value without the tag."""
    found = _RESTRICTED.match(value)
    return (False, value) if found is None else (True, value[found.end() :])


def split_task(value: str) -> tuple[str, str]:
    """The task that a value is tagged with, if it is, and the value without the tag."""
    found = _SCOPED.match(value)
    return ("", value) if found is None else (found["task"].strip(), value[found.end() :])


def describe_mapping() -> list[str]:
    """What the adapter does, for a reader of the results."""
    return [
        *(f"The adapter passes on: {each}." for each in FIELDS),
        *(f"The adapter does beyond that: {each}." for each in BEYOND_FIELDS),
    ]
