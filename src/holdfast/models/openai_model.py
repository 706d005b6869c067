"""Models behind OpenAI's chat completions: OpenAI itself, and every server that speaks its protocol."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.content import Usage
from holdfast.models.model import ANSWER_TOOL, AnswerMode, ModelReply, ModelRequest
from holdfast.models.server_model import ServerModel
from holdfast.models.transport import fields_of, list_of, text_of
from holdfast.providers.usage import read_openai_usage

_MODES: tuple[AnswerMode, ...] = ("schema", "tool", "json")
_CUT, _FILTERED = "length", "content_filter"


class OpenAIModel(ServerModel):
    """A model of OpenAI, or of a compatible server: vLLM, Ollama, llama.cpp. Needs the extra `openai`.

        OpenAIModel("gpt-5.5-mini")
        OpenAIModel("qwen3:8b", base_url="http://127.0.0.1:11434/v1")

    A value of a schema is asked for with a schema that the server enforces. If the server refuses that, the model has to
    call a tool; if that is refused, too, it is asked for JSON. The way that worked is kept."""

    _library_name = "openai"
    _client_names = ("OpenAI", "AsyncOpenAI")
    _mode: AnswerMode | None = None

    def _modes(self) -> tuple[AnswerMode, ...]:
        return _MODES if self._mode is None else (self._mode,)

    def _learn_mode(self, mode: AnswerMode) -> None:
        self._mode = mode

    def _endpoint(self, client: Any) -> Any:
        return client.chat.completions

    def _build_body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {} if request.pack is None else request.pack.openai()
        body.pop("max_completion_tokens", None)
        most = "max_completion_tokens" if self._base_url is None else "max_tokens"  # others know the older name only
        more = [{"role": message.role, "content": message.text} for message in request.messages]
        body |= {"model": self.name, "messages": [*body.get("messages", ()), *more], most: request.max_tokens}
        if request.mode == "schema":
            answer = {"name": ANSWER_TOOL, "schema": request.schema, "strict": request.is_strict}
            body["response_format"] = {"type": "json_schema", "json_schema": answer}
        elif request.mode == "tool":
            tool = {"name": ANSWER_TOOL, "description": "Give the answer.", "parameters": request.schema}
            body["tools"] = [*body.get("tools", ()), {"type": "function", "function": tool}]
            body["tool_choice"] = {"type": "function", "function": {"name": ANSWER_TOOL}}
        elif request.mode == "json":
            schema = msgspec.json.encode(request.schema).decode()
            order = f"Answer with one JSON object that fits this schema, and nothing else:\n{schema}"
            body["messages"].append({"role": "user", "content": order})
        return body | self._options

    def _read_reply(self, body: dict[str, Any]) -> ModelReply:
        usage = read_openai_usage(body.get("usage")) or Usage()
        choice = fields_of(next(iter(list_of(body.get("choices"))), None))
        message = fields_of(choice.get("message"))
        finish, refusal = choice.get("finish_reason"), text_of(message.get("refusal"))
        if refusal or finish == _FILTERED:
            return ModelReply(
                usage=usage, model=text_of(body.get("model")), stop="refused", reason=refusal or "a filter"
            )
        call = fields_of(fields_of(next(iter(list_of(message.get("tool_calls"))), None)).get("function"))
        is_answer = call.get("name") == ANSWER_TOOL
        return ModelReply(
            text=text_of(call.get("arguments")) if is_answer else text_of(message.get("content")),
            usage=usage,
            model=text_of(body.get("model")),
            stop="cut" if finish == _CUT else "",
        )
