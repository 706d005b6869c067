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
        function = {"name": self.name, "description": self.description, "parameters": self._schema(properties=True)}
        return {"type": "function", "function": function}

    def openai_responses(self) -> dict[str, Any]:
        """For `tools` of responses.create()."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self._schema(properties=True),
            "strict": False,
        }

    def anthropic(self) -> dict[str, Any]:
        """For `tools` of messages.create()."""
        return {"name": self.name, "description": self.description, "input_schema": self._schema()}

    def _schema(self, *, properties: bool = False) -> dict[str, Any]:
        """A copy: whoever gets it may change it. Providers refuse one that is not the schema of an object, and OpenAI one
        without `properties`."""
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.parameters))
        copy.setdefault("type", "object")
        if properties and copy["type"] == "object":
            copy.setdefault("properties", {})
        return copy
