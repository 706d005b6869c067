"""What OpenAI refuses in requests for chat completions and for responses."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.upstreams.refusals import Refusal, require
from tests.gateway.upstreams.seals import Sealer

_CHAT_TOP = frozenset(
    "model messages audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens"
    " metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key"
    " prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier"
    " stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity"
    " web_search_options".split()
)
_CHAT_FIELDS = {
    "developer": "role content name",
    "system": "role content name",
    "user": "role content name",
    "assistant": "role content name refusal audio function_call tool_calls annotations",
    "tool": "role content tool_call_id",
    "function": "role content name",
}
_RESPONSES_TOP = frozenset(
    "model input background client_metadata context_management conversation include instructions max_output_tokens"
    " max_tool_calls metadata parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options"
    " prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text"
    " tool_choice tools top_logprobs top_p truncation user".split()
)
_ITEM_FIELDS = {
    "message": "type id role content status phase",
    "function_call": "type id call_id name arguments status namespace caller async",
    "function_call_output": "type id call_id name output status namespace caller",
    "custom_tool_call": "type id call_id name input status namespace caller async",
    "custom_tool_call_output": "type id call_id name output status namespace caller",
    "reasoning": "type id summary content encrypted_content status",
    "compaction": "type id encrypted_content",
    "item_reference": "type id",
}
_OTHER_ITEMS = frozenset(
    "local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call apply_patch_call_output"
    " web_search_call file_search_call computer_call computer_call_output code_interpreter_call image_generation_call"
    " mcp_list_tools mcp_call mcp_approval_request mcp_approval_response tool_search_call tool_search_output"
    " additional_tools configuration_update compaction_trigger program program_output".split()
)
_PARTS = {
    "input_text": "type text prompt_cache_breakpoint",
    "output_text": "type text annotations logprobs",
    "input_image": "type image_url detail file_id",
    "input_file": "type file_id file_data file_url filename",
    "refusal": "type refusal",
    "summary_text": "type text",
    "reasoning_text": "type text",
}


_CODEX_FIELD = "internal_chat_message_metadata_passthrough"
"""What Codex adds to its items: OpenAI takes it, and does not document it."""


def _require_known(value: dict[str, Any], known: str, where: str) -> None:
    for name in value:
        if name not in known.split() and name != _CODEX_FIELD:
            param = f"{where}.{name}"
            raise Refusal(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")


def _check_top(request: dict[str, Any], known: frozenset[str]) -> None:
    for name in request:
        if name not in known:
            raise Refusal(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    model = request.get("model")
    if not isinstance(model, str) or not model:
        raise Refusal("you must provide a model parameter", param="model", code="missing_required_parameter")


def check_chat(request: dict[str, Any]) -> None:
    """Raise for what the Chat Completions API refuses."""
    _check_top(request, _CHAT_TOP)
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal("Invalid 'messages': empty array.", param="messages", code="empty_array")
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        require(isinstance(message, dict), f"Invalid type for '{where}': expected an object.", where)
        role = message.get("role")
        if role not in _CHAT_FIELDS:
            supported = ", ".join(f"'{name}'" for name in _CHAT_FIELDS)
            raise Refusal(f"Invalid value: '{role}'. Supported values are: {supported}.", param=f"{where}.role")
        _require_known(message, _CHAT_FIELDS[role], where)
        if role == "tool":
            _check_tool_message(message, number, open_calls)
            continue
        _check_answered(open_calls)
        open_calls = []
        _check_chat_content(message, where)
        for place, call in enumerate(message.get("tool_calls") or []):
            open_calls.append(_check_chat_call(call, f"{where}.tool_calls[{place}]", open_calls))
    _check_answered(open_calls)


def _check_tool_message(message: dict[str, Any], number: int, open_calls: list[str]) -> None:
    call = message.get("tool_call_id")
    require(isinstance(call, str), f"Missing required parameter: 'messages[{number}].tool_call_id'.")
    if call not in open_calls:
        text = (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        )
        raise Refusal(text, param=f"messages.[{number}].role")
    require(message.get("content") is not None, f"Missing required parameter: 'messages[{number}].content'.")
    open_calls.remove(call)


def _check_answered(open_calls: list[str]) -> None:
    if open_calls:
        raise Refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
            f" The following tool_call_ids did not have response messages: {', '.join(open_calls)}",
            param="messages",
        )


def _check_chat_content(message: dict[str, Any], where: str) -> None:
    content = message.get("content")
    is_empty = content is None and not message.get("tool_calls") and not message.get("refusal")
    require(not is_empty or message.get("audio") or message.get("function_call"), _describe_type(where), where)
    if isinstance(content, list):
        require(content, f"Invalid '{where}.content': empty array.", f"{where}.content")
        for number, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            good = kind in ("text", "image_url", "input_audio", "file", "refusal")
            require(good, f"Invalid value: '{kind}'.", f"{where}.content[{number}].type")
    else:
        require(content is None or isinstance(content, str), _describe_type(where), f"{where}.content")


def _describe_type(where: str) -> str:
    return f"Invalid value for '{where}.content': expected a string, got null."


def _check_chat_call(call: Any, where: str, before: list[str]) -> str:
    require(isinstance(call, dict), f"Invalid type for '{where}'.", where)
    _require_known(call, "id type function custom", where)
    require(isinstance(call.get("id"), str), f"Missing required parameter: '{where}.id'.", where)
    function = call.get("function") if call.get("type") == "function" else call.get("custom")
    if not isinstance(function, dict):
        raise Refusal(f"Missing required parameter: '{where}.function'.", param=where)
    if call.get("type") == "function":
        _require_known(function, "name arguments", f"{where}.function")
        require(isinstance(function.get("arguments"), str), f"Invalid type for '{where}.function.arguments'.", where)
    call_id: str = call["id"]
    require(call_id not in before, f"Duplicate value for 'tool_call_id' of '{call_id}'", where)
    return call_id


class ResponseRules:
    """Checks requests for responses of one server, and remembers its stored responses and items."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self.stored: dict[str, list[dict[str, Any]]] = {}
        """The whole conversation up to a stored response, by the id of that."""
        self.reasoned: dict[str, str] = {}
        """The reasoning item that an item came after, by its id."""

    def check(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """The whole conversation as items, or a refusal."""
        _check_top(request, _RESPONSES_TOP)
        items = self._read_items(request)
        self._check_ids(items)
        self._check_reasoning(items)
        _check_outputs(items)
        return items

    def remember(self, items: list[dict[str, Any]], response: dict[str, Any]) -> None:
        if response.get("store", True):
            self.stored[response["id"]] = [*items, *response["output"]]
        reasoning = ""
        for item in response["output"]:
            if item["type"] == "reasoning":
                reasoning = item["id"]
            elif reasoning:
                self.reasoned[item["id"]], reasoning = reasoning, ""

    def _read_items(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        given = request.get("input")
        before: list[dict[str, Any]] = []
        previous = request.get("previous_response_id")
        if previous is not None:
            if previous not in self.stored:
                text = f"Previous response with id '{previous}' not found."
                raise Refusal(text, param="previous_response_id", code="previous_response_not_found")
            before = self.stored[previous]
        if isinstance(given, str):
            return [*before, {"type": "message", "role": "user", "content": given}]
        if not isinstance(given, list):
            raise Refusal("Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
        return [*before, *(self._read_item(item, f"input[{number}]") for number, item in enumerate(given))]

    def _read_item(self, item: Any, where: str) -> dict[str, Any]:
        if not isinstance(item, dict):
            raise Refusal(f"Invalid type for '{where}': expected an object.", param=where)
        kind = item.get("type", "message")
        if kind in _OTHER_ITEMS:
            return item
        if kind not in _ITEM_FIELDS:
            raise Refusal(f"Invalid value: '{kind}'.", param=f"{where}.type", code="invalid_value")
        _require_known(item, _ITEM_FIELDS[kind], where)
        match kind:
            case "message":
                good = item.get("role") in ("user", "assistant", "system", "developer")
                require(good, f"Invalid value: '{item.get('role')}'.", f"{where}.role")
                _check_parts(item.get("content"), f"{where}.content")
            case "function_call":
                good = isinstance(item.get("arguments"), str) and isinstance(item.get("name"), str)
                require(
                    good and isinstance(item.get("call_id"), str), f"Missing required parameter in '{where}'.", where
                )
            case "function_call_output" | "custom_tool_call_output":
                require(isinstance(item.get("call_id"), str), f"Missing required parameter: '{where}.call_id'.", where)
                good = isinstance(item.get("output"), str | list)
                require(good, f"Missing required parameter: '{where}.output'.", where)
            case "reasoning" | "compaction":
                self._check_encrypted(item)
        return item

    def _check_encrypted(self, item: dict[str, Any]) -> None:
        content = item.get("encrypted_content")
        if content is not None and not self._sealer.has_sealed(content):
            text = f"The encrypted content {str(content)[:5]}...{str(content)[-4:]} could not be verified."
            reason = "Reason: Encrypted content could not be decrypted or parsed."
            raise Refusal(f"{text} {reason}", code="invalid_encrypted_content")

    def _check_ids(self, items: list[dict[str, Any]]) -> None:
        seen: set[str] = set()
        for item in items:
            name = item.get("id")
            if name is None or item.get("type") == "item_reference":
                continue
            duplicate = f"Duplicate item found with id {name}. Remove duplicate items from your input and try again."
            require(name not in seen, duplicate, "input")
            seen.add(name)

    def _check_reasoning(self, items: list[dict[str, Any]]) -> None:
        names = {item.get("id") for item in items}
        for item, after in zip(items, [*items[1:], {}], strict=True):
            kind, follower = item.get("type"), after.get("type", "message" if "role" in after else None)
            if kind == "reasoning":
                is_own = follower not in (None, "function_call_output", "custom_tool_call_output")
                is_own = is_own and after.get("role", "assistant") == "assistant"
                text = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
                require(is_own, text, "input")
            before = self.reasoned.get(item.get("id") or "")
            if before is not None and before not in names:
                what = f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item"
                raise Refusal(f"{what}: '{before}'.", param="input")


def _check_parts(content: object, where: str) -> None:
    if not isinstance(content, list):
        require(isinstance(content, str), f"Missing required parameter: '{where}'.", where)
        return
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        require(kind in _PARTS, f"Invalid value: '{kind}'.", f"{where}[{number}].type")
        _require_known(part, _PARTS[str(kind)], f"{where}[{number}]")


def _check_outputs(items: list[dict[str, Any]]) -> None:
    """Each output has its call before it, and each call its output."""
    calls: dict[str, bool] = {}
    for item in items:
        kind, call = item.get("type"), item.get("call_id")
        if kind in ("function_call", "custom_tool_call"):
            require(call not in calls, f"Duplicate function call with call_id {call}.", "input")
            calls[str(call)] = False
        elif kind in ("function_call_output", "custom_tool_call_output"):
            missing = f"No tool call found for function call output with call_id {call}."
            require(call in calls, missing, "input")
            require(not calls[str(call)], f"Duplicate function call output with call_id {call}.", "input")
            calls[str(call)] = True
    for call, is_answered in calls.items():
        require(is_answered, f"No tool output found for function call {call}.", "input")


def read_json(body: bytes) -> dict[str, Any]:
    """The request, or the refusal of a body that is none."""
    try:
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refusal(f"The request body is not valid JSON: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise Refusal("The request body is not valid JSON: expected an object")
    return value
