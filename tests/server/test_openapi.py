"""The OpenAPI document and the server agree, and whatever a client sends by the document, the server does not fail.

Requests are made from the document by schemathesis: valid ones and others, for sessions, frames and facts that exist and
that do not. No answer may be a 5xx."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings

from holdfast.server.settings import ServerSettings
from tests.server.processes import ServerProcess, serving
from tests.support import figure

CALLS = figure(800, 50_000)
NAMES: dict[str, tuple[str, ...]] = {
    "session": ("talk", "talk", "talk", "other", "nobody"),
    "frame": ("f3", "top", "none"),
    "ledger": ("ada", "nobody"),
    "kind": ("user", "project", "session"),
}
"""What stands in a path most of the time: a random name reaches nothing but its 404."""
ANSWER_S = 20
SLOW_TO_MAKE = "/context/summaries"
"""Its body takes a second to make up, and no more than a moment to answer."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    store = tmp_path_factory.mktemp("openapi") / "agent.db"
    with serving(ServerSettings(store=str(store), request_s=10)) as server:
        with server.client() as client:
            for name in ("talk", "other"):
                assert client.put(f"/api/sessions/{name}", json={"create": True, "user": "ada"}).status_code == 200
                message = {"message": "user", "content": "I live in Lisbon."}
                assert client.post(f"/api/sessions/{name}/messages", json=message).status_code == 200
                frame = {"goal": "find a hotel", "budget": 5_000}
                assert client.post(f"/api/sessions/{name}/frames", json=frame).status_code == 201
        yield server


def test_no_request_that_the_document_allows_makes_the_server_fail(server: ServerProcess) -> None:
    import schemathesis  # slow to load, and every process that shares the tests reads this module

    schema = schemathesis.openapi.from_url(f"{server.url}/api/openapi.json", headers=server.headers)
    found: list[Any] = list(schema.get_all_operations())
    operations = [each.ok() for each in found]
    assert len(operations) > 100
    statuses: Counter[int] = Counter()
    failures: list[str] = []
    choice = random.Random(1)
    http = requests.Session()
    examples = -(-CALLS // len(operations))

    for operation in operations:

        @settings(
            max_examples=min(examples, 2) if operation.path.endswith(SLOW_TO_MAKE) else examples,
            database=None,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def call(case: Any) -> None:
            for name, names in NAMES.items():
                if name in case.path_parameters:
                    case.path_parameters[name] = choice.choice(names)
            request = case.as_transport_kwargs(base_url=f"{server.url}/api", headers=server.headers)
            with http.request(**request, timeout=ANSWER_S, stream=True) as answer:
                statuses[answer.status_code] += 1
                if answer.status_code >= 500:
                    failures.append(f"{answer.status_code} {request} {answer.text[:500]}")
                elif not answer.headers.get("content-type", "").startswith("text/event-stream"):
                    assert answer.content is not None

        call()
    assert not failures, "\n".join(failures[:20])
    assert statuses[200] > sum(statuses.values()) // 20, statuses
    with server.client() as client:
        assert client.get("/readyz").status_code == 200
