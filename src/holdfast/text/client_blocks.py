"""Blocks that the clients of models write into the messages of their users, such as `<system-reminder>`. Pure.

Law: what stands outside of whole blocks is the words of the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

_TAG = "(?:system-reminder|environment_context|user_instructions)"
"""What a user commanded by a menu or a slash has other tags: it is the words of the user."""
MAX_BLOCKS = 50
"""The blocks of a message that are looked for; what follows them is taken as the words of the user."""
_BLOCK = re.compile(rf"<({_TAG})>((?:(?!</?{_TAG}>).)*+)</\1>", re.DOTALL)


def split_client_blocks(text: str) -> tuple[Sequence[str], Sequence[str]]:
    """The words of the user in a message, and the blocks of their client without their tags, in the order of the text."""
    own, blocks, at = [], [], 0
    for match in islice(_BLOCK.finditer(text), MAX_BLOCKS):
        own.append(text[at : match.start()])
        blocks.append(match[2])
        at = match.end()
    own.append(text[at:])
    return [part for part in own if part.strip()], blocks


def has_own_words(text: str) -> bool:
    """Whether a message of a user is more than blocks of their client."""
    own, blocks = split_client_blocks(text)
    return bool(own) or not blocks
