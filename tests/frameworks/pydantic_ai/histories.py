"""Histories for tests: one with every kind of part, and short ones."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ask(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text, timestamp=NOON)], timestamp=NOON)


def answer(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)], timestamp=NOON)


def call(name: str, call_id: str, args: str = "{}") -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=call_id)], timestamp=NOON)


def give(name: str, call_id: str, content: object) -> ModelRequest:
    part = ToolReturnPart(name, content, tool_call_id=call_id, timestamp=NOON)
    return ModelRequest(parts=[part], timestamp=NOON)


def every_kind() -> list[ModelMessage]:
    """A history with parts of every kind that a program meets."""
    return [
        ModelRequest(
            parts=[
                SystemPromptPart("Be kind.", timestamp=NOON, dynamic_ref="who"),
                UserPromptPart(
                    [
                        "Look: ",
                        TextContent("typed", metadata={"a": 1}),
                        BinaryContent(b"\x89PNG\r\n\x1a\n\x00\xff", media_type="image/png"),
                        BinaryContent(b"%PDF-1.4 \x00\x01", media_type="application/pdf", identifier="bill"),
                        ImageUrl("https://example.com/a.png"),
                        DocumentUrl("https://example.com/a.pdf"),
                        CachePoint(),
                    ],
                    timestamp=NOON,
                ),
            ],
            instructions="Answer in one line.",
            timestamp=NOON,
            run_id="r1",
            conversation_id="c1",
            metadata={"trace": [1, None]},
        ),
        ModelResponse(
            parts=[
                ThinkingPart("hm", id="t1", signature="c2lnbmVk", provider_name="anthropic"),
                TextPart("I look.", provider_details={"n": 1}),
                ToolCallPart("look", {"b": 1, "a": [True, None, 2.5]}, tool_call_id="call-1"),
                ToolCallPart("look", '{ "a":  1 }', tool_call_id="call-2"),
                NativeToolCallPart("web_search", {"q": "x"}, tool_call_id="n1", provider_name="openai"),
                NativeToolReturnPart(
                    "web_search", {"hits": [1]}, tool_call_id="n1", provider_name="openai", timestamp=NOON
                ),
            ],
            usage=RequestUsage(input_tokens=11, output_tokens=7, cache_read_tokens=3, details={"x": 1}),
            model_name="m",
            timestamp=NOON,
            provider_name="anthropic",
            provider_details={"k": "v"},
            provider_response_id="resp-1",
            finish_reason="tool_call",
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("look", {"found": ["é", "\x00"]}, tool_call_id="call-1", metadata={"m": 1}, timestamp=NOON),
                ToolReturnPart(
                    "look", "try again", tool_call_id="call-2", timestamp=NOON, outcome="retried",
                    retry=RetryInfo(cause="model_retry", attempt=1, max_retries=2),
                ),
            ],
            timestamp=NOON,
        ),
        ModelResponse(
            parts=[FilePart(BinaryContent(b"\x00\x01\x02", media_type="image/png"), id="f"), TextPart("A picture.")],
            timestamp=NOON,
        ),
        ModelRequest(
            parts=[
                RetryFeedbackPart("no", retry=RetryInfo(cause="model_retry", attempt=1, max_retries=1), timestamp=NOON)
            ],
            timestamp=NOON,
        ),
        ModelResponse(parts=[CompactionPart(content="short", provider_name="openai"), TextPart("fin")], timestamp=NOON),
    ]  # fmt: skip
