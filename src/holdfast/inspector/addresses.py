"""The addresses of answers in a file: paths of /api, as a page writes them.

Law: a name in an address is redacted as it is in the answers, so that the page finds what it asks for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, unquote

from holdfast.api.operations import OPERATIONS
from holdfast.inspector.redaction import Redactor

_SAFE = "!'()*-._~"
"""What a page leaves as it is when it encodes a name, as encodeURIComponent does."""
_NAME_FIELDS = frozenset({"actor", "thread", "user", "name", "scope_id"})
"""Fields of a query that have a name. Others have one of a few words, or a number."""
_TEMPLATES = tuple(dict.fromkeys(tuple(each.path.split("/")[1:]) for each in OPERATIONS if each.path))


def encode_name(name: str) -> str:
    """A name in an address."""
    return quote(name, safe=_SAFE)


def build_address(path: str, query: Mapping[str, str]) -> str:
    """The address of an answer: its query sorted by name, without what asks for a page."""
    pairs = sorted((name, text) for name, text in query.items() if text and name not in ("page", "limit"))
    return path + "?" * bool(pairs) + "&".join(f"{encode_name(name)}={encode_name(text)}" for name, text in pairs)


def build_read_address(address: str, body: Mapping[str, object]) -> str:
    """The address of an answer that was asked for by POST."""
    return f"POST {address} {json.dumps(body, sort_keys=True, separators=(',', ':'), ensure_ascii=False)}"


def redact_address(redactor: Redactor, address: str) -> str:
    """An address with its names redacted: "/sessions/trip-1/facts/why?name=city"."""
    if redactor.mode == "none" and not redactor.has_withheld:
        return address
    if address.startswith("POST "):
        _, inner, body = address.split(" ", 2)
        return build_read_address(redact_address(redactor, inner), redactor.redact(json.loads(body)))
    path, _, query = address.partition("?")
    fields = dict(parse_qsl(query, keep_blank_values=True))
    shown = {name: redactor.redact_name(text) if name in _NAME_FIELDS else text for name, text in fields.items()}
    return build_address(_redact_path(redactor, path), shown)


def _redact_path(redactor: Redactor, path: str) -> str:
    segments = [unquote(each) for each in path.split("/")[1:]]
    template = _find_template(segments)
    shown = [
        encode_name(redactor.redact_name(each) if mark.startswith("{") else each)
        for each, mark in zip(segments, template, strict=True)
    ]
    return "/" + "/".join(shown)


def _find_template(segments: list[str]) -> tuple[str, ...]:
    """Which parts of a path are names: the template that fits, with the most fixed words. Of an unknown path, all are."""
    fitting = [
        template
        for template in _TEMPLATES
        if len(template) == len(segments)
        and all(mark.startswith("{") or mark == each for each, mark in zip(segments, template, strict=True))
    ]
    known = sorted(fitting, key=lambda template: sum(mark.startswith("{") for mark in template))
    return known[0] if known else ("{name}",) * len(segments)
