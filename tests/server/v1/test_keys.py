"""/v1 in the whole server, with real keys: their tokens are counted in the store, and limited there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import openai
import pytest

import holdfast
from holdfast.access.access import Access
from holdfast.access.records import KeyGrant
from holdfast.access.spend import KeySpending
from tests.server.native.serving import make_keys, serving
from tests.server.v1.upstream import echo, model_server


async def count_tokens(folder: Path, key: str) -> int:
    async with await holdfast.open_async(folder / "agent.db") as engine:
        return await KeySpending(engine).total(Access(key_id=key.split("_")[1]))


def test_the_tokens_of_a_key_are_counted_and_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "x")
    (key,) = make_keys(tmp_path, KeyGrant(name="desk", rights=("read", "write", "model"), tokens_per_hour=1))
    with (
        model_server(echo) as (model, upstream),
        serving(tmp_path, upstream=upstream, upstream_key_variable="UPSTREAM_KEY") as api,
        openai.OpenAI(base_url=f"{api.url}/v1", api_key=key, max_retries=0) as client,
    ):
        response = client.responses.create(model="m1", input="Hello.")
        assert response.output_text == "You said: Hello."
        assert response.usage is not None
        assert asyncio.run(count_tokens(tmp_path, key)) == response.usage.total_tokens > 0
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model="m1", input="Hello again.")
        assert len(model.asked) == 1
