"""Models of Anthropic, and of servers that speak its messages."""

from __future__ import annotations

from typing import Any

from holdfast.model.content import Usage
from holdfast.models.model import ANSWER_TOOL, AnswerMode, ModelReply, ModelRequest, PromptMessage
from holdfast.models.server_model import ServerModel
from holdfast.models.transport import fields_of, list_of, text_of
from holdfast.providers.usage import read_anthropic_usage
from holdfast.render.anthropic import USER_LINE

_CUT = ("max_tokens", "model_context_window_exceeded")


class AnthropicModel(ServerModel):
    """A model of Anthropic. Needs the extra `anthropic`.

        AnthropicModel("claude-haiku-4-5")

    A value of a schema is what the model has to call a tool with."""

    _library_name = "anthropic"
    _client_names = ("Anthropic", "AsyncAnthropic")

    def _modes(self) -> tuple[AnswerMode, ...]:
        return ("tool",)

    def _endpoint(self, client: Any) -> Any:
        return client.messages

    def _build_body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"messages": []} if request.pack is None else request.pack.anthropic()
        for message in request.messages:
            if message.role == "system":
                block = {"type": "text", "text": message.text}
                body["system"] = [*body.get("system", ()), block]
            else:
                _add_message(body["messages"], message)
        body |= {"model": self.name, "max_tokens": request.max_tokens}
        if request.mode == "tool":
            tool = {"name": ANSWER_TOOL, "description": "Give the answer.", "input_schema": request.schema}
            body |= {"tools": [*body.get("tools", ()), tool], "tool_choice": {"type": "tool", "name": ANSWER_TOOL}}
        return body | self._options

    def _read_reply(self, body: dict[str, Any]) -> ModelReply:
        usage = read_anthropic_usage(body.get("usage")) or Usage()
        blocks = [fields_of(block) for block in list_of(body.get("content"))]
        answers = [
            block.get("input")
            for block in blocks
            if (block.get("type"), block.get("name")) == ("tool_use", ANSWER_TOOL)
        ]
        text = "\n".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
        stop = body.get("stop_reason")
        return ModelReply(
            text=text,
            value=answers[0] if answers else None,
            usage=usage,
            model=text_of(body.get("model")),
            stop="refused" if stop == "refusal" else "cut" if stop in _CUT else "",
            reason=text if stop == "refusal" else "",
        )


def _add_message(messages: list[dict[str, Any]], message: PromptMessage) -> None:
    """Roles alternate: what the same side says again is another block of its message. Behind a system message of the pack
    comes a reply."""
    block = {"type": "text", "text": message.text}
    if message.role == "user" and messages and messages[-1]["role"] == "system":
        messages.append({"role": "assistant", "content": [{"type": "text", "text": USER_LINE}]})
    if not messages or messages[-1]["role"] != message.role:
        messages.append({"role": message.role, "content": [block]})
        return
    content = messages[-1]["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    messages[-1] = {"role": message.role, "content": [*blocks, block]}
