"""Every block and item of the official clients' types: an object reads as its dict does, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import ContentBlock, ContentBlockParam
from anthropic.types.beta import BetaContentBlock, BetaContentBlockParam, BetaMessage
from openai.types.responses import ResponseInputItemParam, ResponseOutputItem

from holdfast.model.content import Opaque
from holdfast.providers import read, read_all
from tests.core import provider_examples as given

BLOCKS = given.examples(ContentBlock) + given.examples(BetaContentBlock)
ITEMS = given.examples(ResponseOutputItem)
PARAMS = given.examples(ContentBlockParam) + given.examples(BetaContentBlockParam)
INPUTS = given.examples(ResponseInputItemParam)


def ids(cases: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [name for name, _ in cases]


def test_the_types_of_the_clients_were_found() -> None:
    assert len(BLOCKS) > 40
    assert len(ITEMS) > 40
    assert len(INPUTS) > 50


@pytest.mark.parametrize(("_name", "block"), BLOCKS, ids=ids(BLOCKS))
def test_every_anthropic_block_comes_back_whole_and_in_its_place(_name: str, block: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "before"}, block, {"type": "text", "text": "after"}]
    body = given.anthropic_message(content)
    (draft,) = read(body)
    assert [given.drop_empty_fields(each) for each in given.rejoin_draft(draft)] == [
        given.drop_empty_fields(each) for each in content
    ]
    assert read(given.as_message(body)) == read(BetaMessage.construct(**body)) == (draft,)


@pytest.mark.parametrize(("_name", "item"), ITEMS, ids=ids(ITEMS))
def test_every_responses_item_comes_back_whole_and_in_its_place(_name: str, item: dict[str, Any]) -> None:
    message = {"type": "message", "role": "assistant", "id": "msg_2", "content": [{"type": "output_text", "text": "x"}]}
    output = [message, item, message]
    body = given.response(output)
    (draft,) = read(body)
    assert [given.drop_empty_fields(each) for each in given.rejoin_draft(draft)] == [
        given.drop_empty_fields(each) for each in output
    ]
    assert read(given.as_response(body)) == (draft,)


@pytest.mark.parametrize(("_name", "block"), PARAMS, ids=ids(PARAMS))
def test_every_anthropic_block_may_stand_in_a_message_of_ones_own(_name: str, block: dict[str, Any]) -> None:
    drafts = read({"role": "assistant", "content": [block]})
    found = [part for draft in drafts for part in draft.content if isinstance(part, Opaque)]
    assert all(part.issuer == "anthropic" for part in found)
    assert all(draft.content or draft.tool_calls or draft.tool_results for draft in drafts)


@pytest.mark.parametrize(("_name", "item"), INPUTS, ids=ids(INPUTS))
def test_every_item_of_a_responses_list_is_a_message(_name: str, item: dict[str, Any]) -> None:
    (draft,) = read(item)
    assert draft.role in ("assistant", "user", "tool", "system")
    assert draft.content or draft.tool_calls or draft.tool_results
    assert all(part.issuer == "openai" for part in draft.content if isinstance(part, Opaque))
    assert read_all([item]) == (draft,)
