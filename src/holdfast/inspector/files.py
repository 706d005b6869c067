"""The built files of the inspector, as they are in the package.

Law: they hold no data of a store: everybody may have them.
"""

from __future__ import annotations

import functools
import hashlib
import os
from typing import NamedTuple

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "static")
PAGE, SCRIPT, STYLE = "index.html", "inspector.js", "inspector.css"
MEDIA_TYPES = {
    PAGE: "text/html; charset=utf-8",
    SCRIPT: "text/javascript; charset=utf-8",
    STYLE: "text/css; charset=utf-8",
}

PATHS = {"/": PAGE, f"/inspector/{SCRIPT}": SCRIPT, f"/inspector/{STYLE}": STYLE}
"""Where a server has them."""


class BuiltFile(NamedTuple):
    """A file of the page."""

    name: str
    content: bytes
    media_type: str
    digest: str
    """SHA-256 of the content, in hexadecimal."""


@functools.cache
def read_file(name: str) -> BuiltFile:
    """Read a built file, once."""
    with open(os.path.join(FOLDER, name), "rb") as file:
        content = file.read()
    return BuiltFile(name, content, MEDIA_TYPES[name], hashlib.sha256(content).hexdigest())
