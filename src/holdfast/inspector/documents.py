"""The page with its data as one HTML file that opens from a disk, without a network.

Laws: the file runs one script, which it names by its hash, and no other; no text in its data can end the element that it is
in. It is written as a whole or not at all, and replaces no file unless that is asked for.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.errors import InvalidUrl
from holdfast.inspector.files import PAGE, SCRIPT, STYLE, read_file
from holdfast.inspector.shared_parts import Pool, Sharing
from holdfast.storage.files import atomic_file

DATA_ID = "holdfast-data"
FORMAT = 2
"""The form of the data: 2 has the table `shared`, and answers that refer to it."""
_STYLE_LINK = re.compile(r'<link rel="stylesheet" href="[^"]*inspector\.css">')
_SCRIPT_LINK = re.compile(r'<script([^>]*?) src="[^"]*inspector\.js"([^>]*)></script>')
_TITLE = re.compile(r"<title>[^<]*</title>")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def hash_source(text: str) -> str:
    """A script or a style, as a content policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def escape_json(value: Any) -> str:
    """JSON that can stand in an HTML page: it has none of the signs that mean something there."""
    text = msgspec.json.encode(value).decode()
    for sign, escaped in _ESCAPES.items():
        text = text.replace(sign, escaped)
    return text


def build_policy(script: str, style: str) -> str:
    """The content policy of the file: that of the page, with hashes, and without any connection."""
    return (
        f"default-src 'none'; script-src {hash_source(script)}; style-src {hash_source(style)}; img-src blob: data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def write_page(head: Mapping[str, Any], pool: Pool, answers: Mapping[str, Any], title: str) -> Iterator[str]:
    """The file, piece by piece. `head` says what the file is; `answers` are the data, by their addresses, of this pool."""
    page = read_file(PAGE).content.decode()
    style = read_file(STYLE).content.decode()
    script = _close_nothing(read_file(SCRIPT).content.decode())
    link = _SCRIPT_LINK.search(page)
    assert link is not None, "the built page has no script"
    kind = re.search(r'type="[^"]*"', link[1] + link[2])
    page = page.replace(link[0], "", 1)
    page = _STYLE_LINK.sub(lambda _: f"<style>{style}</style>", page, count=1)
    page = _TITLE.sub(lambda _: f"<title>{html.escape(title)}</title>", page, count=1)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(build_policy(script, style))}">'
    page = page.replace("<head>", f"<head>\n{policy}", 1)
    before, _, after = page.partition("</body>")
    yield f'{before}<script type="application/json" id="{DATA_ID}">'
    yield from _write_data(head, pool, answers)
    yield f"</script>\n<script{' ' + kind[0] if kind else ''}>{script}</script>\n</body>{after}"


def _write_data(head: Mapping[str, Any], pool: Pool, answers: Mapping[str, Any]) -> Iterator[str]:
    sharing = Sharing(pool)
    for answer in answers.values():
        sharing.add(answer)
    yield escape_json({"format": FORMAT, **head})[:-1] + ',"answers":{'
    for number, (address, answer) in enumerate(answers.items()):
        yield f"{',' if number else ''}\n{escape_json(address)}:{escape_json(sharing.write(answer))}"
    yield '},"shared":['
    for number, part in enumerate(sharing.table):
        yield f"{',' if number else ''}\n{escape_json(part)}"
    yield "]}"


def _close_nothing(script: str) -> str:
    """The script without anything that ends its element or begins a comment of HTML."""
    return re.sub(r"<(/script|!--)", r"\\x3c\1", script, flags=re.IGNORECASE)


def write_file(target: str, pieces: Iterable[str], *, replace: bool) -> int:
    """Write a file of these pieces, and return its size in bytes."""
    if os.path.exists(target) and not replace:
        raise InvalidUrl(url=target, reason="the file exists; --force replaces it")
    size = 0
    with atomic_file(target) as partial, open(partial, "wb") as file:
        for piece in pieces:
            size += file.write(piece.encode())
    return size
