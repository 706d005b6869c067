"""Who sent a request: the conversation and the sub-agent, by the client's own ids in headers and metadata.

Claude Code sends the session in a header, and in the metadata; the header of a sub-agent is absent on the main line. Codex
sends the session and the thread; a sub-agent is a thread of its own in the session of the first one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

_PLAIN_ID = re.compile(r"[A-Za-z0-9][\w.:@+=~-]{0,99}", re.ASCII)
_CLAUDE_SESSION = re.compile(r"_session_([0-9A-Za-z-]{8,64})$")
"""The end of the user id that older versions of Claude Code send."""
_ID_CHARS = 32
_GENERIC_HEADERS = ("x-session-id", "session-id", "session_id", "x-conversation-id", "conversation_id")
_GENERIC_FIELDS = ("session_id", "conversation_id", "thread_id")


class ClientIdentity(NamedTuple):
    client: str = ""
    family: str = ""
    agent: str = ""
    parent_agent: str = ""
    cache_key: str = ""
    """By which the client routes its prompt cache. It can stand for many conversations, so it names none alone."""


def read_identity(headers: Mapping[str, str], metadata: object = None, cache_key: str = "") -> ClientIdentity:
    """The ids of a request."""
    fields: dict[str, Any] = metadata if type(metadata) is dict else {}
    claude = headers.get("x-claude-code-session-id") or _read_claude_user(fields.get("user_id"))
    if claude:
        agent = _clean_id(headers.get("x-claude-code-agent-id"))
        parent = _clean_id(headers.get("x-claude-code-parent-agent-id"))
        return ClientIdentity("claude", _clean_id(claude), agent, parent)
    if _is_codex(headers):
        return _read_codex(headers, cache_key)
    named = next(filter(None, map(headers.get, _GENERIC_HEADERS)), "")
    stated = next((fields[name] for name in _GENERIC_FIELDS if type(fields.get(name)) is str and fields[name]), "")
    return ClientIdentity(family=_clean_id(named or stated), cache_key=cache_key)


def _read_claude_user(user: object) -> str:
    """The session in the user id that Claude Code sends: JSON, or in older versions a text."""
    if type(user) is not str:
        return ""
    if not user.startswith("{"):
        match = _CLAUDE_SESSION.search(user)
        return "" if match is None else match[1]
    try:
        fields = msgspec.json.decode(user)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    session = fields.get("session_id")
    return session if type(session) is str else ""


def _is_codex(headers: Mapping[str, str]) -> bool:
    if headers.get("originator", "").startswith("codex") or headers.get("user-agent", "").startswith("codex"):
        return True
    return any(name.startswith("x-codex-") for name in headers)


def _read_codex(headers: Mapping[str, str], cache_key: str) -> ClientIdentity:
    thread = headers.get("thread-id") or headers.get("thread_id") or headers.get("conversation_id") or ""
    session = headers.get("session-id") or headers.get("session_id") or thread or cache_key
    parent = headers.get("x-codex-parent-thread-id", "")
    if parent and session == thread:  # versions whose sub-agents are sessions of their own
        session = parent
    agent = thread if thread != session else ""
    return ClientIdentity(
        "codex", _clean_id(session), _clean_id(agent), _clean_id(parent if agent and parent != session else "")
    )


def _clean_id(text: str | None) -> str:
    """An id as it is, if it can be part of a name; else a hash of it."""
    if not text or _PLAIN_ID.fullmatch(text):
        return text or ""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_CHARS]
