"""Tools as providers want to be told of them."""

from __future__ import annotations

from typing import Any

import msgspec


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as providers want to be told of it. Each method makes the same bytes every time."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""

    def openai(self) -> dict[str, Any]:
        """For `tools` of chat.completions.create()."""
        function = {"name": self.name, "description": self.description, "parameters": self._schema()}
        return {"type": "function", "function": function}

    def openai_responses(self) -> dict[str, Any]:
        """For `tools` of responses.create()."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self._schema(),
            "strict": False,
        }

    def anthropic(self) -> dict[str, Any]:
        """For `tools` of messages.create()."""
        return {"name": self.name, "description": self.description, "input_schema": self._schema()}

    def _schema(self) -> dict[str, Any]:
        """A copy: whoever gets it may change it."""
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.parameters))
        return copy


def _whole(least: int, description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "description": description}


READ_HANDLE = Tool(
    name="read_handle",
    description=(
        "Read what is shown only in part, by the handle in its marker: bytes start to stop, lines first_line to last_line, "
        "or the lines that contain search. A reply is limited in length and says how to go on."
    ),
    parameters={
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "such as h12_0"},
            "start": _whole(0, "from 0"),
            "stop": _whole(0, "exclusive"),
            "first_line": _whole(1, "from 1"),
            "last_line": _whole(1, "inclusive"),
            "search": {"type": "string", "description": "ignores case"},
        },
        "required": ["handle"],
        "additionalProperties": False,
    },
)
"""The tool that reads stored bodies. Every pack offers it from the first call on, whether there is something to read or
not: a list of tools that changes costs the whole cache of a prompt."""
