"""What Gemini and Bedrock send: replies in one piece, and as their streams. No client library is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

SIGNATURE = "+/8gc2lnbmVk"
CITATION = {"title": "t", "location": {"web": {"url": "u"}}}
GEMINI_PARTS: list[dict[str, Any]] = [
    {"text": "Well, hm.", "thought": True},
    {"text": "Wait, please."},
    {
        "functionCall": {"id": "a", "name": "find", "args": {"toPlace": "é", "n": [1, None]}},
        "thoughtSignature": SIGNATURE,
    },
    {"functionCall": {"name": "wait", "args": {}}},
    {"executableCode": {"code": "1", "language": "PYTHON"}},
    {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
    {"text": "", "thoughtSignature": SIGNATURE},
]
BEDROCK_CONTENT: list[dict[str, Any]] = [
    {"reasoningContent": {"reasoningText": {"text": "Well, hm.", "signature": "c2ln"}}},
    {"reasoningContent": {"redactedContent": b"\xfb\xff"}},
    {"text": "Wait, please."},
    {
        "citationsContent": {
            "content": [{"text": "Grass."}],
            "citations": [{"title": "t", "location": {"web": {"url": "u"}}}],
        }
    },
    {"toolUse": {"toolUseId": "a", "name": "find", "input": {"to": "é", "n": [1, 2]}}},
    {"toolUse": {"toolUseId": "b", "name": "wait", "input": {}}},
]


def gemini_response(parts: list[dict[str, Any]], stop: str = "STOP") -> dict[str, Any]:
    usage = {"promptTokenCount": 90, "toolUsePromptTokenCount": 10, "candidatesTokenCount": 8, "thoughtsTokenCount": 12}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": stop, "index": 0}],
        "usageMetadata": {**usage, "cachedContentTokenCount": 64, "totalTokenCount": 120},
        "modelVersion": "gemini-x",
        "responseId": "r1",
    }


def converse_response(content: list[dict[str, Any]], stop: str = "tool_use") -> dict[str, Any]:
    usage = {"inputTokens": 28, "outputTokens": 20, "totalTokens": 120}
    return {
        "ResponseMetadata": {"RequestId": "req-1"},
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop,
        "usage": {**usage, "cacheReadInputTokens": 64, "cacheWriteInputTokens": 8},
        "metrics": {"latencyMs": 1},
    }


Split = Callable[[str], list[str]]


def gemini_chunks(whole: dict[str, Any], split: Split) -> Iterator[dict[str, Any]]:
    """A response of Gemini as its stream: text in pieces, anything else whole."""
    about = {key: whole[key] for key in ("modelVersion", "responseId")}
    for part in whole["candidates"][0]["content"]["parts"]:
        plain = part.keys() <= {"text", "thought"}
        for piece in [{**part, "text": text} for text in split(part["text"])] if plain else [part]:
            candidate = {"content": {"role": "model", "parts": [piece]}, "index": 0}
            yield {**about, "candidates": [candidate], "usageMetadata": {"promptTokenCount": 90}}
    end = {"finishReason": whole["candidates"][0]["finishReason"], "index": 0}
    yield {**about, "candidates": [end], "usageMetadata": whole["usageMetadata"]}


def converse_events(whole: dict[str, Any], split: Split) -> Iterator[dict[str, Any]]:
    """A response of Bedrock as its stream."""
    yield {"messageStart": {"role": "assistant"}}
    for index, block in enumerate(whole["output"]["message"]["content"]):
        at = {"contentBlockIndex": index}
        if "toolUse" in block:
            start = {key: block["toolUse"][key] for key in ("toolUseId", "name")}
            yield {"contentBlockStart": {"start": {"toolUse": start}, **at}}
        for delta in _deltas(block, split):
            yield {"contentBlockDelta": {"delta": delta, **at}}
        yield {"contentBlockStop": at}
    yield {"messageStop": {"stopReason": whole["stopReason"]}}
    yield {"metadata": {"usage": whole["usage"], "metrics": {"latencyMs": 1}}}


def _deltas(block: dict[str, Any], split: Split) -> Iterator[dict[str, Any]]:
    match block:
        case {"text": str(text)}:
            yield from ({"text": piece} for piece in split(text))
        case {"toolUse": {"input": given}}:
            spelled = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            yield from ({"toolUse": {"input": piece}} for piece in split(spelled))
        case {"reasoningContent": {"reasoningText": reasoned}}:
            yield from ({"reasoningContent": {"text": piece}} for piece in split(reasoned["text"]))
            yield {"reasoningContent": {"signature": reasoned["signature"]}}
        case {"reasoningContent": redacted}:
            yield {"reasoningContent": redacted}
        case {"citationsContent": cited}:
            yield from ({"text": piece} for piece in split(cited["content"][0]["text"]))
            yield from ({"citation": each} for each in cited["citations"])


SAMPLES = {"gemini": gemini_response(GEMINI_PARTS), "bedrock": converse_response(BEDROCK_CONTENT)}
EVENTS = {"gemini": gemini_chunks, "bedrock": converse_events}


def halves(whole: str) -> list[str]:
    return [whole[: len(whole) // 2], whole[len(whole) // 2 :]]


def sample(provider: str) -> list[dict[str, Any]]:
    return list(EVENTS[provider](SAMPLES[provider], halves))
