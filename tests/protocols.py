"""What providers take and what they answer, protocol by protocol: each request is read into the same form, or refused for
the reason for which a provider refuses it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

MARKS = 4
CALLS = 128
"""Tools of a request, and calls of a message."""
IMAGE_CHARS = 5 << 20
MAGIC = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}
SPEAKER = re.compile(r"[^\s<|\\/>]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IDS = {"anthropic": re.compile(r"[a-zA-Z0-9_-]+"), "chat": re.compile(r".{1,40}"), "responses": re.compile(r".{1,64}")}


class RequestRefused(Exception):
    """A request that a provider answers with 400."""


class Call(NamedTuple):
    id: str
    name: str
    args: dict[str, Any]
    raw: str = ""
    """The arguments as they are spelled, where they are sent as text."""


class Turn(NamedTuple):
    """What one side says before the other one does. A user's results come first."""

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[tuple[str, str], ...] = ()


class Talk(NamedTuple):
    """A conversation as a model sees it, whatever the protocol."""

    system: str
    turns: tuple[Turn, ...]
    tools: tuple[str, ...]

    @property
    def last(self) -> tuple[tuple[Call, str], ...]:
        """The last calls, each with its result."""
        for turn, after in zip(reversed(self.turns[:-1]), reversed(self.turns[1:]), strict=True):
            if turn.calls:
                results = dict(after.results)
                return tuple((call, results[call.id]) for call in turn.calls)
        return ()

    @property
    def shown(self) -> str:
        """Everything that it is shown."""
        lines = [self.system]
        for turn in self.turns:
            lines += (text for _, text in turn.results)
            lines += (turn.text, *(json.dumps([call.name, call.args]) for call in turn.calls))
        return "\n".join(lines)


class Reply(NamedTuple):
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    thought: str = ""
    stop: Stop = ""
    """Why it ends before its end; the arguments of its last call are cut off, too."""


Stop: TypeAlias = Literal["", "length", "refusal", "content_filter"]
STOPS: dict[str, dict[str, str]] = {
    "anthropic": {"length": "max_tokens", "refusal": "refusal", "content_filter": "refusal"},
    "chat": {"length": "length", "refusal": "stop", "content_filter": "content_filter"},
    "responses": {"length": "max_output_tokens", "refusal": "", "content_filter": "content_filter"},
}


class ProviderMemory:
    """What a provider has made, by the name under which it comes back."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[str, str]] = {}
        self.thoughts: dict[str, str] = {}
        self.reasoned: set[str] = set()
        """The numbers of the responses that have a reasoning item: what else they are made of is refused without it."""

    def check(self, call: Call) -> None:
        require(call.id in self.calls, f"the call {call.id} is nobody's")
        name, spelled = self.calls[call.id]
        same = call.raw == spelled if call.raw else json.dumps(call.args) == json.dumps(json.loads(spelled))
        require(name == call.name and same, f"the call {call.id} is not as it was made")

    def check_thought(self, sealed: object, thought: str | None = None) -> None:
        require(type(sealed) is str and sealed in self.thoughts, "invalid signature in a thinking block")
        require(thought is None or self.thoughts[str(sealed)] == thought, "a thinking block cannot be modified")


def require(holds: object, reason: str) -> None:
    if not holds:
        raise RequestRefused(reason)


def fields(value: Any, where: str, known: str, needed: str = "") -> dict[str, Any]:
    """An object with no other fields than these."""
    require(type(value) is dict, f"{where}: should be an object")
    for name in value:
        require(name in known.split(), f"{where}.{name}: extra inputs are not permitted")
    for name in needed.split():
        require(value.get(name) is not None, f"{where}.{name}: field required")
    found: dict[str, Any] = value
    return found


def check_list(value: Any, where: str) -> list[Any]:
    require(type(value) is list and value, f"{where}: should be a list of at least one")
    found: list[Any] = value
    return found


def check_text(value: Any, where: str) -> str:
    """Text that is not blank: empty blocks are refused."""
    require(type(value) is str and value.strip(), f"{where}: text content must be non-empty")
    return str(value)


def check_int(value: Any, where: str, least: int) -> None:
    require(type(value) is int and value >= least, f"{where}: should be a whole number of at least {least}")


def check_name(value: Any, where: str) -> str:
    require(type(value) is str and NAME.fullmatch(value), f"{where}: should be a name")
    return str(value)


def parse_arguments(value: Any, where: str) -> dict[str, Any]:
    """Arguments, which are JSON in a string."""
    require(type(value) is str, f"{where}: should be a string")
    try:
        found = json.loads(value)
    except ValueError:
        raise RequestRefused(f"{where}: is not JSON") from None
    require(type(found) is dict, f"{where}: should be an object")
    return dict(found)


def schema(value: Any, where: str, *, properties: bool = False) -> None:
    require(type(value) is dict and value.get("type") == "object", f"{where}: should be the schema of an object")
    require(not properties or type(value.get("properties")) is dict, f"{where}: object schema missing properties")


def picture(kind: Any, data: Any, where: str) -> None:
    """An image, as base64 and of the type that it says it is."""
    require(kind in MAGIC, f"{where}: media type {kind!r} is not supported")
    require(type(data) is str and 0 < len(data) <= IMAGE_CHARS, f"{where}: image exceeds 5 MB maximum")
    try:
        first = base64.b64decode(data, validate=True)[:8]
    except ValueError:
        raise RequestRefused(f"{where}: invalid base64 data") from None
    require(first.startswith(MAGIC[kind]), f"{where}: the image does not match its media type {kind}")


def address(url: Any, where: str) -> None:
    """An image that is fetched, or a data URL."""
    require(type(url) is str, f"{where}: should be a URL")
    if not url.startswith("https://"):
        head, _, data = url.partition(";base64,")
        require(head.startswith("data:"), f"{where}: invalid URL")
        picture(head.removeprefix("data:"), data, where)


def unique(names: list[str], where: str) -> tuple[str, ...]:
    require(len(set(names)) == len(names), f"{where}: must be unique")
    return tuple(names)


# Anthropic


ANTHROPIC = "model max_tokens messages system tools tool_choice stop_sequences temperature thinking metadata stream"


def anthropic(body: dict[str, Any], made: ProviderMemory) -> Talk:
    fields(body, "request", ANTHROPIC, "model messages")
    check_int(body.get("max_tokens"), "max_tokens", 1)
    reader = _Anthropic(made)
    system = body.get("system", [])
    told = reader.texts(system, "system", empty=True) if type(system) is list else check_text(system, "system")
    tools = [reader.tool(each, f"tools.{n}") for n, each in enumerate(body.get("tools", []))]
    turns: list[Turn] = []
    for number, message in enumerate(check_list(body["messages"], "messages")):
        turn = reader.message(message, f"messages.{number}")
        require(not turns or turns[-1].role != turn.role, f"messages.{number}: roles must alternate")
        turns.append(turn)
    require(turns[0].role == "user", "messages: the first message must use the user role")
    last = turns[-1]
    trails = last.role == "assistant" and last.text != last.text.rstrip()
    require(not trails, "messages: final assistant content cannot end with trailing whitespace")
    require(last.role == "user", "this model does not support assistant message prefill: end with a user message")
    check_pairs(turns, made)
    require(tools or not any(turn.calls for turn in turns), "requests with tool_use blocks must define tools")
    require(tools or "tool_choice" not in body, "tool_choice may only be specified while providing tools")
    require(
        reader.marks <= MARKS, f"a maximum of {MARKS} blocks with cache_control may be provided, found {reader.marks}"
    )
    return Talk(told, tuple(turns), unique(tools, "tools"))


def _combine_turns(first: Turn, second: Turn) -> Turn:
    text = "\n".join(filter(None, (first.text, second.text)))
    return Turn(first.role, text, first.calls + second.calls, first.results + second.results)


def check_pairs(turns: list[Turn], made: ProviderMemory) -> None:
    """Every call has its result in the next turn, and every result has its call in the one before."""
    ids: list[str] = []
    for before, turn in zip([Turn("user"), *turns], [*turns, Turn("user")], strict=True):
        asked, answered = [call.id for call in before.calls], [call for call, _ in turn.results]
        unique(answered, "tool_result ids")
        for each in asked:
            require(each in answered, f"the call {each} has no result immediately after it")
        for each in answered:
            require(each in asked, f"the result of {each} has no call in the message before it")
        for call in turn.calls:
            made.check(call)
        ids += (call.id for call in turn.calls)
    unique(ids, "tool_use ids")


class _Anthropic:
    """Blocks, and how many of them carry a mark."""

    def __init__(self, made: ProviderMemory) -> None:
        self._made = made
        self.marks = 0

    def tool(self, value: Any, where: str) -> str:
        fields(value, where, "name description input_schema cache_control type", "name input_schema")
        self._mark(value, where)
        schema(value["input_schema"], where)
        return check_name(value["name"], where)

    def texts(self, blocks: Any, where: str, *, empty: bool = False) -> str:
        require(type(blocks) is list and (blocks or empty), f"{where}: should be a list")
        return "\n".join(self._text(each, f"{where}.{number}") for number, each in enumerate(blocks))

    def message(self, value: Any, where: str) -> Turn:
        fields(value, where, "role content", "role content")
        role, content = value["role"], value["content"]
        require(role in ("user", "assistant"), f"{where}: unexpected role {role!r}")
        if type(content) is str:
            return Turn(role, check_text(content, where))
        texts: list[str] = []
        calls: list[Call] = []
        results: list[tuple[str, str]] = []
        for number, block in enumerate(check_list(content, where)):
            at = f"{where}.content.{number}"
            kind = block.get("type")
            if kind == "text":
                texts.append(self._text(block, at))
            elif kind in ("image", "document") and role == "user":
                texts.append(self._picture(block, at))
            elif kind == "tool_use" and role == "assistant":
                calls.append(self._call(block, at))
            elif kind == "tool_result" and role == "user":
                require(not texts, f"{at}: tool_result blocks come first")
                results.append(self._result(block, at))
            elif kind == "thinking" and role == "assistant":
                fields(block, at, "type thinking signature", "thinking signature")
                require(not texts and not calls, f"{at}: a thinking block comes first")
                self._made.check_thought(block["signature"], block["thinking"])
            else:
                raise RequestRefused(f"{at}: a {role} message has no {kind!r} block")
        require(texts or calls or results, f"{where}: the final block in an assistant message cannot be thinking")
        return Turn(role, "\n".join(texts), tuple(calls), tuple(results))

    def _text(self, block: Any, where: str) -> str:
        fields(block, where, "type text cache_control", "type")
        require(block["type"] == "text", f"{where}: should be a text block")
        self._mark(block, where)
        return check_text(block.get("text"), where)

    def _call(self, block: dict[str, Any], where: str) -> Call:
        fields(block, where, "type id name input cache_control caller", "id name")
        require(type(block.get("input")) is dict, f"{where}.input: should be an object")
        require(IDS["anthropic"].fullmatch(block["id"]), f"{where}.id: should match {IDS['anthropic'].pattern}")
        self._mark(block, where)
        return Call(block["id"], check_name(block["name"], where), block["input"])

    def _result(self, block: dict[str, Any], where: str) -> tuple[str, str]:
        fields(block, where, "type tool_use_id content is_error cache_control", "tool_use_id")
        self._mark(block, where)
        content = block.get("content", "")
        if type(content) is list:
            shown = [each for each in content if each.get("type") in ("image", "document")]
            require(not shown or not block.get("is_error"), f"{where}: all content must be text if is_error is true")
            texts = [each for each in content if each not in shown]
            text = "\n".join([*(self._picture(each, where) for each in shown), self.texts(texts, where, empty=True)])
        else:
            text = str(content)
        require(text or not block.get("is_error"), f"{where}: content cannot be empty if is_error is true")
        return block["tool_use_id"], text

    def _picture(self, block: dict[str, Any], where: str) -> str:
        fields(block, where, "type source title context citations cache_control", "source")
        self._mark(block, where)
        source = block["source"]
        kind = source.get("type")
        if kind == "url":
            require(str(source.get("url")).startswith("https://"), f"{where}: only HTTPS URLs are supported")
        elif kind == "base64" and block["type"] == "image":
            picture(source.get("media_type"), source.get("data"), where)
        else:
            require(block["type"] == "document", f"{where}: unknown source {kind!r}")
            check_text(source.get("data"), where)
        return f"[{block['type']}]"

    def _mark(self, block: dict[str, Any], where: str) -> None:
        mark = block.get("cache_control")
        if mark is not None:
            require(fields(mark, where, "type ttl")["type"] == "ephemeral", f"{where}: another mark")
            require(block.get("text", "x").strip(), f"{where}: cache_control cannot be set for empty text blocks")
            self.marks += 1


# OpenAI: chat completions


CHAT = (
    "model messages tools tool_choice max_completion_tokens max_tokens temperature parallel_tool_calls store stream"
    " stream_options response_format"
)


def chat(body: dict[str, Any], made: ProviderMemory) -> Talk:
    fields(body, "request", CHAT, "model messages")
    if "max_completion_tokens" in body:
        check_int(body["max_completion_tokens"], "max_completion_tokens", 1)
    if "response_format" in body:
        _chat_format(body["response_format"])
    tools = [_chat_tool(each, f"tools.{number}") for number, each in enumerate(body.get("tools", []))]
    system: list[str] = []
    turns: list[Turn] = []
    for number, message in enumerate(check_list(body["messages"], "messages")):
        where = f"messages.{number}"
        role = message.get("role")
        if role in ("system", "developer"):
            fields(message, where, "role content name", "content")
            system.append(_chat_text(message["content"], where))
        elif role == "tool":
            fields(message, where, "role content tool_call_id", "tool_call_id")
            require(turns and (turns[-1].calls or turns[-1].results), f"{where}: must follow a message with tool_calls")
            results = ((message["tool_call_id"], _chat_text(message.get("content"), where, empty=True)),)
            turn = Turn("user", results=results)
            turns.append(_combine_turns(turns.pop(), turn) if turns[-1].results else turn)
        elif role == "assistant":
            turns.append(_chat_reply(message, where))
        else:
            require(role == "user", f"{where}: unexpected role {role!r}")
            fields(message, where, "role content name", "content")
            speaker = message.get("name", "x")
            require(SPEAKER.fullmatch(speaker), f"{where}.name: does not match the pattern")
            turn = Turn("user", _chat_text(message["content"], where, pictures=True))
            joins = turns and turns[-1].role == "user"
            turns.append(_combine_turns(turns.pop(), turn) if joins else turn)
    check_pairs(turns, made)
    require("tools" not in body or tools, "tools: should not be empty")
    require(len(tools) <= CALLS, "tools: array too long")
    require(tools or "tool_choice" not in body, "tool_choice is only allowed when tools are specified")
    return Talk("\n".join(system), tuple(turns), unique(tools, "tools"))


def _chat_format(value: Any) -> None:
    fields(value, "response_format", "type json_schema", "type")
    require(value["type"] in ("text", "json_object", "json_schema"), "response_format.type: unknown")
    if value["type"] == "json_schema":
        inner = fields(value["json_schema"], "json_schema", "name description schema strict", "name schema")
        check_name(inner["name"], "json_schema.name")
        schema(inner["schema"], "json_schema.schema")
        require(
            not inner.get("strict") or _is_strict(inner["schema"]), "json_schema.schema: required must name every key"
        )


def _is_strict(node: Any) -> bool:
    if type(node) is list:
        return all(map(_is_strict, node))
    if type(node) is not dict:
        return True
    closed = node.get("additionalProperties") is False and {*node.get("required", ())} == {*node.get("properties", {})}
    return (node.get("type") != "object" or closed) and all(map(_is_strict, node.values()))


def _chat_tool(value: Any, where: str) -> str:
    require(fields(value, where, "type function", "type function")["type"] == "function", f"{where}: unknown type")
    function = fields(value["function"], where, "name description parameters strict", "name")
    schema(function.get("parameters"), where, properties=True)
    return check_name(function["name"], where)


def _chat_text(content: Any, where: str, *, empty: bool = False, pictures: bool = False) -> str:
    if type(content) is list:
        return "\n".join(_chat_part(each, where, pictures) for each in check_list(content, where))
    return content if empty and type(content) is str else check_text(content, where)


def _chat_part(part: Any, where: str, pictures: bool) -> str:
    kind = part.get("type")
    if kind == "image_url":
        require(pictures, f"{where}: image_url is only allowed in messages of the user")
        address(fields(part["image_url"], where, "url detail", "url")["url"], where)
        return "[image]"
    return check_text(fields(part, where, "type text", "type text")["text"], where)


def _chat_reply(message: dict[str, Any], where: str) -> Turn:
    fields(message, where, "role content tool_calls refusal name")
    calls: list[Call] = []
    for number, each in enumerate(check_list(message["tool_calls"], where) if "tool_calls" in message else []):
        at = f"{where}.tool_calls.{number}"
        require(fields(each, at, "id type function", "id function").get("type") == "function", f"{at}: unknown type")
        require(IDS["chat"].fullmatch(each["id"]), f"{at}.id: too long")
        function = fields(each["function"], at, "name arguments", "name")
        raw = function.get("arguments")
        calls.append(Call(each["id"], check_name(function["name"], at), parse_arguments(raw, at), str(raw)))
    require(len(calls) <= CALLS, f"{where}.tool_calls: array too long")
    content = message.get("content")
    require(content is not None or calls, f"{where}.content: expected a string, got null")
    return Turn("assistant", "" if content is None else _chat_text(content, where), tuple(calls))


# OpenAI: responses


RESPONSES = (
    "model input instructions tools tool_choice max_output_tokens temperature parallel_tool_calls store include stream "
    "stream_options"
)
PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


def responses(body: dict[str, Any], made: ProviderMemory) -> Talk:
    fields(body, "request", RESPONSES, "model input")
    if "max_output_tokens" in body:
        check_int(body["max_output_tokens"], "max_output_tokens", 16)
    instructions = body.get("instructions")
    require(instructions is None or type(instructions) is str, "instructions: should be a string")
    tools = [_responses_tool(each, f"tools.{number}") for number, each in enumerate(body.get("tools", []))]
    items = body["input"]
    items = [{"role": "user", "content": items}] if type(items) is str else check_list(items, "input")
    turns: list[Turn] = []
    system = [instructions] if instructions else []
    alone = ""
    ids: list[str] = []
    for number, item in enumerate(items):
        where = f"input.{number}"
        kind = item.get("type", "message")
        own = item.get("id")
        require(own is None or own.startswith(PREFIXES.get(kind, "")), f"{where}.id: expected another prefix")
        require(own is None or own not in ids, f"duplicate item found with id {own}")
        made_by = str(own).split("_")[1] if own is not None else ""
        missing = kind != "reasoning" and made_by in made.reasoned and f"rs_{made_by}" not in ids
        require(not missing, f"the item {own} was provided without its required reasoning item")
        ids += [own] if own is not None else []
        if kind == "reasoning":
            require(not alone, f"the item {alone} of type reasoning was provided without its required following item")
            fields(item, where, "type id summary encrypted_content content status", "id encrypted_content")
            made.check_thought(item["encrypted_content"])
            alone = item["id"]
            continue
        turn = _item(item, kind, where)
        require(
            not alone or turn.role == "assistant",
            f"the item {alone} of type reasoning was provided without its required following item",
        )
        alone = ""
        if turn.role in ("system", "developer"):
            system.append(turn.text)
        else:
            joins = turns and turns[-1].role == turn.role
            turns.append(_combine_turns(turns.pop(), turn) if joins else turn)
    require(not alone, f"the item {alone} of type reasoning was provided without its required following item")
    check_pairs(turns, made)
    require(tools or body.get("tool_choice", "auto") in ("auto", "none"), "tool_choice: there are no tools")
    return Talk("\n".join(system), tuple(turns), unique(tools, "tools"))


def _responses_tool(value: Any, where: str) -> str:
    fields(value, where, "type name description parameters strict", "type name")
    require(value["type"] == "function", f"{where}: unknown type")
    require(type(value.get("strict")) is bool, f"{where}.strict: field required")
    schema(value.get("parameters"), where, properties=True)
    return check_name(value["name"], where)


def _item(item: dict[str, Any], kind: str, where: str) -> Turn:
    if kind == "function_call":
        fields(item, where, "type id call_id name arguments status", "call_id name")
        require(IDS["responses"].fullmatch(item["call_id"]), f"{where}.call_id: too long")
        raw = item.get("arguments")
        call = Call(item["call_id"], check_name(item["name"], where), parse_arguments(raw, where), str(raw))
        return Turn("assistant", calls=(call,))
    if kind == "function_call_output":
        fields(item, where, "type id call_id output status", "call_id")
        output = item.get("output")
        if type(output) is list:
            output = "\n".join(_part(each, "input_text", where, pictures=True) for each in check_list(output, where))
        require(type(output) is str, f"{where}.output: should be a string")
        return Turn("user", results=((item["call_id"], str(output)),))
    require(kind == "message", f"{where}: unknown type {kind!r}")
    fields(item, where, "type id role content status phase", "role content")
    role, content = item["role"], item["content"]
    require(role in ("user", "assistant", "system", "developer"), f"{where}: unexpected role {role!r}")
    if type(content) is str:
        return Turn(role, check_text(content, where))
    part = "output_text" if role == "assistant" else "input_text"
    pictures = role == "user"
    return Turn(role, "\n".join(_part(each, part, where, pictures=pictures) for each in check_list(content, where)))


def _part(part: Any, kind: str, where: str, *, pictures: bool) -> str:
    if part.get("type") == "input_image" and pictures:
        address(fields(part, where, "type image_url detail", "image_url")["image_url"], where)
        return "[image]"
    fields(part, where, "type text annotations logprobs", "type text")
    require(part["type"] == kind, f"{where}: expected {kind}, got {part['type']}")
    return check_text(part["text"], where)


PARSED: dict[str, Callable[[dict[str, Any], ProviderMemory], Talk]] = {
    "anthropic": anthropic,
    "chat": chat,
    "responses": responses,
}


# What they answer


def format_reply(
    protocol: str, number: int, body: dict[str, Any], reply: Reply, calls: list[Call], sealed: str
) -> dict[str, Any]:
    """A reply in the words of a protocol. What the request took is reckoned by its length."""
    taken, given = len(json.dumps(body)) // 4, len(json.dumps(reply)) // 4
    if reply.stop:
        calls = [*calls[:-1], *(each._replace(raw=each.raw[: len(each.raw) // 2]) for each in calls[-1:])]
    return _FORMATTERS[protocol](number, body["model"], reply, calls, sealed, taken, given, body.get("stream") is True)


def _as_anthropic(
    number: int, model: str, reply: Reply, calls: list[Call], sealed: str, taken: int, given: int, streams: bool
) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if sealed:
        content.append({"type": "thinking", "thinking": reply.thought, "signature": sealed})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    content += ({"type": "tool_use", "id": call.id, "name": call.name, "input": call.args} for call in calls)
    if calls and reply.stop:
        content[-1]["input"] = calls[-1].raw if streams else {}
    about = {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": model, "content": content}
    usage = {"input_tokens": taken, "output_tokens": given}
    stop = STOPS["anthropic"].get(reply.stop) or ("tool_use" if calls else "end_turn")
    return {**about, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _as_chat(
    number: int, model: str, reply: Reply, calls: list[Call], sealed: str, taken: int, given: int, streams: bool
) -> dict[str, Any]:
    refused = reply.stop == "refusal"
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if refused:
        message |= {"content": None, "refusal": reply.text or "No."}
    if calls and not refused:
        message["tool_calls"] = [
            {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.raw}}
            for each in calls
        ]
    stop = STOPS["chat"].get(reply.stop) or ("tool_calls" if calls else "stop")
    choice = {"index": 0, "finish_reason": stop, "message": message, "logprobs": None}
    about = {"id": f"chatcmpl-{number:04}", "object": "chat.completion", "created": 1, "model": model}
    usage = {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given}
    return {**about, "choices": [choice], "usage": usage}


def _as_response(
    number: int, model: str, reply: Reply, calls: list[Call], sealed: str, taken: int, given: int, streams: bool
) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if sealed:
        output.append({"type": "reasoning", "id": f"rs_{number:04}", "summary": [], "encrypted_content": sealed})
    refused = reply.stop == "refusal"
    if reply.text or refused:
        text: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
        if refused:
            text = {"type": "refusal", "refusal": reply.text or "No."}
        about = {"type": "message", "id": f"msg_{number:04}", "role": "assistant", "status": "completed"}
        output.append({**about, "content": [text]})
    for place, call in enumerate([] if refused else calls):
        spelled = {"call_id": call.id, "name": call.name, "arguments": call.raw, "status": "completed"}
        output.append({"type": "function_call", "id": f"fc_{number:04}_{place}", **spelled})
    head = {"id": f"resp_{number:04}", "object": "response", "created_at": 1.0, "model": model, "status": "completed"}
    request = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    usage = {
        "input_tokens": taken,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": given,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": taken + given,
    }
    if why := STOPS["responses"].get(reply.stop):
        head |= {"status": "incomplete", "incomplete_details": {"reason": why}}
    return {**head, **request, "output": output, "usage": usage}


_FORMATTERS: dict[str, Callable[..., dict[str, Any]]] = {
    "anthropic": _as_anthropic,
    "chat": _as_chat,
    "responses": _as_response,
}
