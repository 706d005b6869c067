"""Prompts: files beside this module, with a version in their first line.

Laws: a prompt that changes has another version; its digest shows if someone forgot that. What users, tools and models wrote
goes into a prompt as JSON, apart from the orders, and can close neither the JSON nor the tag around the orders.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import InvalidArgument
from holdfast.model import limits
from holdfast.models.model import PromptMessage
from holdfast.text.fence import SEPARATOR, fence_texts, remove_tag

_VERSION = re.compile(r"<!-- version ([1-9]\d*) -->\n")
_DIGEST_CHARS = 8
_GAP = " […] "
"""In the place of the middle of a long text."""


class Prompt(msgspec.Struct, frozen=True):
    """The text of a prompt, and what is stored with the results of it."""

    name: str
    version: int
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:_DIGEST_CHARS]

    @property
    def short_label(self) -> str:
        """The name and the version: "detect@1"."""
        return f"{self.name}@{self.version}"

    @property
    def label(self) -> str:
        """The name, the version and the digest: "detect@1:0a1b2c3d"."""
        return f"{self.short_label}:{self.digest}"

    def ask(self, data: Mapping[str, Any], order: str) -> list[PromptMessage]:
        """The prompt as the system message, then the data, then the order inside the tag that only the application
        writes."""
        quoted = msgspec.json.format(msgspec.json.encode(quote_data(data)), indent=1).decode()
        return [
            PromptMessage("system", self.text),
            PromptMessage("user", SEPARATOR.join((quoted, fence_order(order)))),
        ]


@functools.cache
def load_prompt(name: str) -> Prompt:
    """The prompt in the file of this name."""
    file = importlib.resources.files("holdfast.models").joinpath("prompts", f"{name}.md")
    head = _VERSION.match(text := file.read_text(encoding="utf-8"))
    if head is None:
        raise InvalidArgument(argument="prompt", reason=f"the first line of {name}.md names no version")
    return Prompt(name, int(head[1]), text[head.end() :].strip())


def fence_order(*orders: str) -> str:
    """Orders inside the tag that only the application writes."""
    return SEPARATOR.join(fence_texts(orders))


def quote_data(value: Any) -> Any:
    """Data without the tag of the application, at any depth, in keys and values. Long texts lose their middle."""
    if isinstance(value, str):
        return shorten_middle(remove_tag(value))
    if isinstance(value, Mapping):
        return {quote_data(key): quote_data(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [quote_data(inner) for inner in value]
    return value


def shorten_middle(text: str, most: int = limits.MODEL_TEXT_CHARS) -> str:
    """A text of at most so many characters: the end of a conversation counts as much as its beginning."""
    if len(text) <= most:
        return text
    half = (most - len(_GAP)) // 2
    return text[:half] + _GAP + text[-half:]
