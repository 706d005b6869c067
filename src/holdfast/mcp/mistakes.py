"""Errors as a model reads them: what was wrong, and what to do with the tools that it has.

Law: a text names arguments and tools; never a method of the library, or text of a library that checks arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

from holdfast.errors import HoldfastError, SessionNotFound, describe_value

_NO_SESSION = (
    "You have no session {!r}. Leave `session` out for your usual one, or create it: record, remember, begin and ask "
    "do that."
)
_TOOL_WORDS = (
    ("Pass the id of one of its frames: see frames.list().", "Pass the id that `begin` returned."),
    ("Pass the id of a live frame: see frames.list().", "Pass the id that `begin` returned, of work that is not over."),
    ("Push another frame, or pack the session itself", "Begin another one with `begin`, or leave `frame` out"),
    ("Push or resume one, or pack the session itself.", "Begin one with `begin`, or leave `frame` out."),
    ("see handles.list(), and handles.attachments() of its frames.", "a marker in a text, or a result, names it."),
    ("Pass the id of a stored pack: see packs.list().", "Pass the id that `pack` returned."),
    ("Pass what suspend() returned, and check the tenant.", "Pass the token that `ask` returned, as it is."),
    ("Use engine.resume() with its token before new work.", "Call `ask` with its token and the answer first."),
    ("Use suspend() first, or the frame above it that was suspended with all frames below.", "It waits for no answer."),
    ("Open the frame with frames.get().", "Go on with the frame."),
    ("or add tokens with budget.grant().", "or begin another piece of work with a larger `budget`."),
    ("Pass the id, the ref or the key of a fact: see items().", "Pass the key of a fact: `recall` lists them."),
    ("Pass the id of one: see facts.proposals().", "State the value with `remember`."),
)
"""What errors advise programs, and what is said to models instead."""


def explain_error(error: HoldfastError) -> str:
    """An error of Holdfast, for a model."""
    if isinstance(error, SessionNotFound):
        return f"{type(error).__name__}: {_NO_SESSION.format(error.session)}"
    text = str(error)
    for advice, words in _TOOL_WORDS:
        text = text.replace(advice, words)
    return f"{type(error).__name__}: {text}"


def explain_arguments(tool: Tool, arguments: Mapping[str, Any], error: ToolError) -> ToolError:
    """The error of a call, in our words if the arguments are wrong."""
    if not isinstance(error.__cause__, ValidationError):
        return error
    known = list(tool.parameters.get("properties", {}))
    wrong: dict[str, str] = {}
    for each in error.__cause__.errors(include_url=False, include_context=False, include_input=False):
        name = str(each["loc"][0]) if each["loc"] else "arguments"
        reason = "it is missing" if each["type"] == "missing" else each["msg"].replace("Input should", "it should")
        wrong.setdefault(name, reason)
    texts = [f"Invalid argument `{name}` of `{tool.name}`: {reason}." for name, reason in wrong.items()]
    unknown = [describe_value(name) for name in arguments if name not in known]
    if unknown:
        texts.append(f"It has no argument {', '.join(unknown[:5])}.")
    texts.append(f"Its arguments are: {', '.join(known)}. Nothing was stored.")
    return ToolError(" ".join(texts))
