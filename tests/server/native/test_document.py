"""The OpenAPI document at a server: without a key, and its examples work."""

from __future__ import annotations

from pathlib import Path

import httpx2

from holdfast.api.examples import EXAMPLES
from holdfast.api.operations import OPERATIONS
from holdfast.api.parts import PARTS
from tests.server.native.serving import serving


def test_no_key_is_needed(tmp_path: Path) -> None:
    with serving(tmp_path) as api:
        answer = httpx2.get(f"{api.url}/api/openapi.json")
        assert (answer.status_code, answer.json()["openapi"]) == (200, "3.1.0")
        assert httpx2.get(f"{api.url}/api/sessions").status_code == 401


def test_every_example_succeeds(tmp_path: Path) -> None:
    requests = {each.name: (each.verb, each.path) for each in OPERATIONS}
    requests |= {each.name: (each.verb, each.path) for each in PARTS}
    with serving(tmp_path) as api:
        for name, body in EXAMPLES.items():
            verb, template = requests[name]
            path = template.format(session="order-1", kind="user", ledger="ada", name="timezone")
            answer = api.send(verb, path, body)
            assert answer.status_code in (200, 201, 204), f"{name}: {answer.text}"
