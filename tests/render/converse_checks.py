"""What Gemini and Bedrock enforce beside their types. No client library is imported here: the tests in the environment with
the clients check the types, and these laws too."""

from __future__ import annotations

import re
from typing import Any

MARKS = 4
BLANK_REFUSED = re.compile(r"\S")
BEDROCK_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
BEDROCK_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
DOCUMENT_NAME = re.compile(r"[a-zA-Z0-9\-()\[\]]+(?: [a-zA-Z0-9\-()\[\]]+)*")


def check_gemini(made: dict[str, Any], signed: bool = True) -> None:
    assert made["system_instruction"] is None or made["system_instruction"].strip()
    contents = made["contents"]
    assert [each["role"] for each in contents] == [("user", "model")[at % 2] for at in range(len(contents))]
    for at, content in enumerate(contents):
        parts = content["parts"]
        assert parts
        for part in parts:
            assert "type" not in part
            assert BLANK_REFUSED.search(part.get("text", "x")) or "thought_signature" in part
        calls = [part["function_call"] for part in parts if "function_call" in part]
        answers = [part["function_response"] for part in parts if "function_response" in part]
        assert not calls or content["role"] == "model"
        assert not answers or content["role"] == "user"
        assert all("function_response" in part for part in parts[: len(answers)]), "responses come first"
        asked = [part["function_call"] for part in contents[at - 1]["parts"] if "function_call" in part] if at else []
        if content["role"] == "user":
            assert [_named(each) for each in answers] == [_named(each) for each in asked]
        for call in calls:
            assert GEMINI_NAME.fullmatch(call["name"]) or "." in call["name"]
            assert isinstance(call["args"], dict)
        if calls:
            assert contents[at + 1]["role"] == "user"
            first = next(part for part in parts if "function_call" in part)
            assert not signed or first["thought_signature"]
        assert all(isinstance(answer["response"], dict) for answer in answers)
        assert content["role"] == "model" or not any(part.get("thought") for part in parts)


def _named(call: dict[str, Any]) -> tuple[Any, Any]:
    return call["name"], call.get("id")


def check_bedrock(made: dict[str, Any]) -> None:
    messages = made["messages"]
    assert [each["role"] for each in messages] == [("user", "assistant")[at % 2] for at in range(len(messages))]
    lists = [made["system"], *(message["content"] for message in messages)]
    assert sum("cachePoint" in block for blocks in lists for block in blocks) <= MARKS
    ids: list[str] = []
    names: list[str] = []
    for at, message in enumerate(messages):
        blocks = drop_cache_points(message["content"])
        assert blocks
        _check_points(message["content"])
        assert all(len(block) == 1 for block in blocks), "a union has one field"
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        assert not calls or message["role"] == "assistant"
        assert all("toolResult" in block for block in blocks[: len(results)]), "results come first"
        asked = (
            [block["toolUse"]["toolUseId"] for block in messages[at - 1]["content"] if "toolUse" in block] if at else []
        )
        if message["role"] == "user":
            assert sorted(asked) == sorted(each["toolUseId"] for each in results)
        for result in results:
            assert result["content"]
            assert all(BLANK_REFUSED.search(block.get("text", "x")) for block in result["content"])
        for call in calls:
            assert BEDROCK_ID.fullmatch(call["toolUseId"])
            assert BEDROCK_NAME.fullmatch(call["name"])
        ids += [call["toolUseId"] for call in calls]
        inner = [*blocks, *(block for result in results for block in result["content"])]
        documents = [block["document"]["name"] for block in inner if "document" in block]
        assert not documents or any("text" in block for block in inner), "a document has a text beside it"
        names += documents
        assert all(BLANK_REFUSED.search(block.get("text", "x")) for block in blocks)
        assert message["role"] == "assistant" or not any("reasoningContent" in block for block in blocks)
        assert "reasoningContent" not in blocks[-1]
    assert all(DOCUMENT_NAME.fullmatch(name) for name in names)
    assert len({*names}) == len(names)
    assert len({*ids}) == len(ids)


def _check_points(content: list[dict[str, Any]]) -> None:
    for at, block in enumerate(content):
        if "cachePoint" in block:
            assert at > 0, "there is something to cache"
            assert content[at - 1].keys() & {"text", "image", "document", "toolUse", "toolResult"}


def drop_cache_points(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if "cachePoint" not in block]
