"""Clients as plain models: lists of messages that grow, are forked, edited, retried and shortened, in every dialect."""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from holdfast.gateway.model import Dialect
from tests.gateway.upstreams.messages_rules import MID_SYSTEM_BETA
from tests.gateway.upstreams.seals import Sealer

Block = dict[str, Any]
ClientMessage = dict[str, Any]
TOOLS = [{"name": "Read", "description": "Read a file.", "input_schema": {"type": "object"}}]
SYSTEM = "You are an agent."
MARK = {"type": "ephemeral"}
LONG_MARK = {"type": "ephemeral", "ttl": "1h"}
FAMILY = "3fb2c91e-1111-2222-3333-444455556666"
SEALER = Sealer()


class ModelClient(ABC):
    """What a client keeps of one conversation. Every message has a word that no other has."""

    dialect: ClassVar[Dialect]
    field: ClassVar[str] = "messages"
    """The list in a request."""

    def __init__(self, seed: int, *, family: str = FAMILY, agent: str = "", parent: str = "") -> None:
        self.random = random.Random(seed)
        self.family, self.agent, self.parent = family, agent, parent
        self.messages: list[ClientMessage] = []
        self.words = 0
        self.calls = 0
        self.begin()

    def begin(self) -> None:
        self.ask()

    def word(self) -> str:
        self.words += 1
        return f"w{self.words}{self.agent.replace('-', '')}x"

    def text(self, words: int = 60) -> str:
        filler = " ".join(self.random.choices("alpha beta gamma delta src/app.py handler".split(), k=words))
        return f"{self.word()} {filler}."

    def call_id(self, prefix: str) -> str:
        self.calls += 1
        return f"{prefix}_{self.agent}{self.calls}"

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def choose_calls(self) -> int:
        """The calls of the next reply."""
        return self.random.choice((0, 1, 1, 1, 2, 3))

    def count_tokens(self) -> int:
        return sum(len(json.dumps(message)) for message in self.messages) // 4

    # By dialect

    @abstractmethod
    def build_question(self) -> ClientMessage: ...

    @abstractmethod
    def build_reply(self, calls: int | None = None) -> dict[str, Any]:
        """A reply of the provider in one piece, with up to three calls."""

    @abstractmethod
    def echo(self, reply: dict[str, Any], *, edit: bool) -> list[ClientMessage]:
        """The reply as the client sends it back."""

    @abstractmethod
    def build_results(self, calls: list[Any]) -> list[ClientMessage]: ...

    @abstractmethod
    def read_calls(self, messages: list[ClientMessage]) -> list[Any]: ...

    def is_question(self, message: ClientMessage) -> bool:
        return message.get("role") == "user"

    @abstractmethod
    def build_request(self) -> dict[str, Any]: ...

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("x-session-id", self.family), ("authorization", "Bearer secret"))

    # Moves

    def ask(self) -> None:
        self.messages.append(self.build_question())

    def take(self, reply: dict[str, Any], *, edit: bool = False) -> None:
        """Go on with a reply: answer its calls, in any order, or ask something else."""
        echoed = self.echo(reply, edit=edit)
        self.messages += echoed
        calls = self.read_calls(echoed)
        self.random.shuffle(calls)
        if calls:
            self.messages += self.build_results(calls)
        else:
            self.ask()

    def rewind(self) -> None:
        """Go back to an earlier question, and ask another one."""
        questions = [index for index, message in enumerate(self.messages) if self.is_question(message)]
        del self.messages[self.random.choice(questions) :]
        self.ask()

    def compact(self) -> None:
        """Replace the list by a summary, as clients do by themselves."""
        self.messages = []
        self.begin()

    def request(self) -> bytes:
        """The bytes of the next request."""
        return json.dumps(self.build_request()).encode()


class MessagesClient(ModelClient):
    """Claude Code on Anthropic's API."""

    dialect = "anthropic"

    def build_question(self) -> ClientMessage:
        return {"role": "user", "content": [{"type": "text", "text": self.text()}]}

    def build_reply(self, calls: int | None = None) -> dict[str, Any]:
        content = [*self.build_thoughts(), {"type": "text", "text": self.text(20)}]
        for _ in range(self.choose_calls() if calls is None else calls):
            path = f"src/{self.random.choice('abc')}.py"
            call = {"type": "tool_use", "id": self.call_id("toolu"), "name": "Read", "input": {"file_path": path}}
            content.append(call)
        return {
            "id": f"msg_{self.words}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": content,
            "stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "cache_read_input_tokens": self.count_tokens(), "output_tokens": 9},
        }

    def build_thoughts(self) -> Iterator[Block]:
        if self.happens(0.3):
            text = self.text(10)
            yield {"type": "thinking", "thinking": text, "signature": SEALER.sign(text)}

    def echo(self, reply: dict[str, Any], *, edit: bool) -> list[ClientMessage]:
        content = [dict(block) for block in reply["content"]]
        if edit:
            content = [{**block, "text": self.text(5)} if block["type"] == "text" else block for block in content]
        return [{"role": "assistant", "content": content}]

    def read_calls(self, messages: list[ClientMessage]) -> list[Any]:
        return [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]

    def build_results(self, calls: list[Any]) -> list[ClientMessage]:
        blocks = [self.build_result(call) for call in calls]
        if self.happens(0.2):
            blocks.append({"type": "text", "text": self.text(8)})
        return [{"role": "user", "content": blocks}]

    def build_result(self, call: str) -> Block:
        return {"type": "tool_result", "tool_use_id": call, "content": self.text(200)}

    def is_question(self, message: ClientMessage) -> bool:
        content = message["content"]
        return message["role"] == "user" and (isinstance(content, str) or content[0]["type"] != "tool_result")

    def build_request(self) -> dict[str, Any]:
        """With a cache mark on the system prompt, and on the last block."""
        request = self.build_plain_request()
        for block in (request["system"][0], request["messages"][-1]["content"][-1]):
            block["cache_control"] = MARK
        return request

    def build_plain_request(self) -> dict[str, Any]:
        request = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 1_000,
            "stream": True,
            "system": [{"type": "text", "text": SYSTEM}],
            "tools": TOOLS,
            "messages": self.messages,
        }
        copied: dict[str, Any] = json.loads(json.dumps(request))
        return copied

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        ids = [("x-claude-code-session-id", self.family)]
        ids += [("x-claude-code-agent-id", self.agent)] * bool(self.agent)
        ids += [("x-claude-code-parent-agent-id", self.parent)] * bool(self.parent)
        return (*ids, ("x-api-key", "secret"), ("anthropic-beta", MID_SYSTEM_BETA))


class OddMessagesClient(MessagesClient):
    """A client of Anthropic's API with everything that it takes: system messages in the conversation, reminders that the
    next request has no more, strings, images, documents, tools of the provider, blocks of a newer API, and any marks."""

    def begin(self) -> None:
        self.marks = self.random.choice(("none", "last", "all", "automatic", "long", "mixed"))
        super().begin()

    def build_question(self) -> ClientMessage:
        text: Block = {"type": "text", "text": self.text()}
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
        document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": self.text(20)}}
        upload = {"type": "container_upload", "file_id": f"file_{self.word()}"}
        reminder = {"type": "text", "text": f"<system-reminder>{self.text(9)}</system-reminder>"}
        shapes: list[Any] = [text["text"], [text], [text], [reminder, text], [image, text], [document, text]]
        shapes += [[text, upload]] if self.happens(0.2) else [[text, reminder]]
        return {"role": "user", "content": self.random.choice(shapes)}

    def build_thoughts(self) -> Iterator[Block]:
        yield from super().build_thoughts()
        if self.happens(0.1):
            yield {"type": "redacted_thinking", "data": SEALER.seal(self.text(5), "Eo")}
        if self.happens(0.1):
            yield from self._run_provider_tool()
        if self.happens(0.1):  # a client drops it, as it would be refused
            yield {"type": "text", "text": "", "citations": None}
        if self.happens(0.03):
            yield {"type": "novelty", "state": self.word(), "items": [1, None, {"text": self.word()}]}

    def _run_provider_tool(self) -> Iterator[Block]:
        call = self.call_id("srvtoolu")
        if self.happens(0.5):
            yield {"type": "server_tool_use", "id": call, "name": "web_search", "input": {"query": self.word()}}
            found = {
                "type": "web_search_result",
                "url": "https://x.test",
                "title": self.word(),
                "encrypted_content": "E",
            }
            yield {"type": "web_search_tool_result", "tool_use_id": call, "content": [found]}
        else:
            yield {"type": "mcp_tool_use", "id": call, "name": "find", "server_name": "s", "input": {"q": self.word()}}
            text = {"type": "text", "text": self.text(20), "citations": None}
            yield {"type": "mcp_tool_result", "tool_use_id": call, "is_error": False, "content": [text]}

    def echo(self, reply: dict[str, Any], *, edit: bool) -> list[ClientMessage]:
        (message,) = super().echo(reply, edit=False)
        if edit:  # only the words: thinking is signed
            for block in message["content"]:
                if block.get("type") == "text" and block["text"]:
                    block["text"] = self.text(5)
        message["content"] = [
            {key: value for key, value in block.items() if value is not None}
            for block in message["content"]
            if block.get("text") != ""
        ]
        return [message]

    def build_result(self, call: str) -> Block:
        text = {"type": "text", "text": self.text(200)}
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
        result: Block = {"type": "tool_result", "tool_use_id": call}
        shapes: list[Any] = [text["text"], text["text"], [text], [text, image], "", None, [text, text]]
        if self.happens(0.05):
            shapes = [[{"type": "tool_reference", "tool_name": "Read"}]]
        content = self.random.choice(shapes)
        if content is not None:
            result["content"] = content
        if self.happens(0.3):
            result["is_error"] = self.happens(0.5)
        return result

    def take(self, reply: dict[str, Any], *, edit: bool = False) -> None:
        super().take(reply, edit=edit)
        if self.happens(0.15):
            content = self.text(10) if self.happens(0.5) else [{"type": "text", "text": self.text(10)}]
            self.messages.append({"role": "system", "content": content})

    def rewind(self) -> None:
        super().rewind()
        if len(self.messages) > 1 and self.messages[-2]["role"] == "user":  # a question that was interrupted
            del self.messages[-2]

    def build_request(self) -> dict[str, Any]:
        request = self.build_plain_request()
        messages = request["messages"]
        if messages[-1]["role"] == "user" and self.happens(0.2):  # not in the next request
            if isinstance(messages[-1]["content"], list) and self.happens(0.5):
                messages[-1]["content"].append({"type": "text", "text": f"<system-reminder>{self.word()}"})
            else:
                messages.append({"role": "system", "content": f"Reminder: {self.text(9)}"})
        self._set_marks(request)
        return request

    def _set_marks(self, request: dict[str, Any]) -> None:
        marks = self.marks if self.happens(0.9) else "last"
        if marks == "automatic":
            request["cache_control"] = MARK
        elif marks == "last":
            _list_blocks(request["messages"][-1])[-1]["cache_control"] = MARK
        elif marks != "none":
            ends = [_list_blocks(request["messages"][at])[at] for at in (0, -1)]
            places = [request["tools"][0], request["system"][0], *ends]
            for number, place in enumerate(places if marks == "all" else places[1:]):
                place["cache_control"] = LONG_MARK if marks == "long" or (marks == "mixed" and number < 1) else MARK


def _list_blocks(message: ClientMessage) -> list[Block]:
    """The blocks of a message; a text becomes a block, which can have a mark."""
    if isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"]}]
    blocks: list[Block] = message["content"]
    return blocks


class ChatClient(ModelClient):
    """An agent on OpenAI's Chat Completions: with the official SDK, or with dicts that it writes itself."""

    dialect = "chat"

    def begin(self) -> None:
        self.is_plain = self.happens(0.5)
        role = self.random.choice(("system", "developer"))
        self.messages.append({"role": role, "content": SYSTEM})
        super().begin()

    def build_question(self) -> ClientMessage:
        text = self.text()
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
        parts: list[Any] = [text, text, [{"type": "text", "text": text}], [{"type": "text", "text": text}, image]]
        return {"role": "user", "content": self.random.choice(parts)}

    def build_reply(self, calls: int | None = None) -> dict[str, Any]:
        count = self.choose_calls() if calls is None else calls
        message: ClientMessage = {"role": "assistant", "content": self.text(20), "refusal": None, "annotations": []}
        if count:
            message["content"] = self.random.choice((None, message["content"]))
            message["tool_calls"] = [
                {
                    "id": self.call_id("call"),
                    "type": "function",
                    "function": {"name": "Read", "arguments": json.dumps({"path": f"src/{self.random.choice('abc')}"})},
                }
                for _ in range(count)
            ]
        if self.happens(0.2):
            message["reasoning_content"] = self.text(9)
        tokens = self.count_tokens()
        return {
            "id": f"chatcmpl-{self.words}",
            "object": "chat.completion",
            "created": 1_790_000_000,
            "model": "gpt-5.6",
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": None,
                    "finish_reason": "tool_calls" if count else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": tokens,
                "completion_tokens": 30,
                "total_tokens": tokens + 30,
                "prompt_tokens_details": {"cached_tokens": tokens // 2, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
        }

    def echo(self, reply: dict[str, Any], *, edit: bool) -> list[ClientMessage]:
        message = dict(reply["choices"][0]["message"])
        message.pop("reasoning_content", None)
        if edit:
            message["content"] = self.text(5)
        if self.is_plain:
            message = {key: value for key, value in message.items() if value}
        return [message]

    def read_calls(self, messages: list[ClientMessage]) -> list[Any]:
        return [call["id"] for message in messages for call in message.get("tool_calls", ())]

    def build_results(self, calls: list[Any]) -> list[ClientMessage]:
        results: list[ClientMessage] = []
        for call in calls:
            text = self.text(200)
            content: Any = text if self.happens(0.8) else [{"type": "text", "text": text}]
            results.append({"role": "tool", "tool_call_id": call, "content": content})
        if self.happens(0.1):
            results.append({"role": "system", "content": self.text(8)})
        return results

    def build_request(self) -> dict[str, Any]:
        function = {"name": "Read", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}
        return {
            "model": "gpt-5.6",
            "messages": self.messages,
            "tools": [{"type": "function", "function": function}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }


class ItemsClient(ModelClient):
    """Codex on OpenAI's Responses, or an agent with the official SDK."""

    dialect = "responses"
    field = "input"

    def begin(self) -> None:
        self.is_codex = self.happens(0.5) or bool(self.agent)
        if self.is_codex:
            parts = [{"type": "input_text", "text": f"<permissions>{self.text(9)}</permissions>"}]
            self.messages.append({"type": "message", "role": "developer", "content": parts})
            parts = [{"type": "input_text", "text": f"<environment_context>{self.text(9)}</environment_context>"}]
            self.messages.append({"type": "message", "role": "user", "content": parts})
        super().begin()

    def build_question(self) -> ClientMessage:
        text = self.text()
        if not self.is_codex and self.happens(0.5):
            return {"role": "user", "content": text}
        parts = [{"type": "input_text", "text": text}]
        if self.happens(0.2):
            parts.append({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"})
        return {"type": "message", "role": "user", "content": parts}

    def build_reply(self, calls: int | None = None) -> dict[str, Any]:
        count = self.choose_calls() if calls is None else calls
        output: list[Block] = []
        if self.happens(0.5):
            summary = [{"type": "summary_text", "text": self.text(5)}] if self.happens(0.5) else []
            sealed = SEALER.seal(self.text(9))
            output.append(
                {"id": f"rs_{self.word()}", "type": "reasoning", "summary": summary, "encrypted_content": sealed}
            )
        if not count or self.happens(0.5):
            part = {"type": "output_text", "annotations": [], "logprobs": [], "text": self.text(20)}
            message = {"id": f"msg_{self.word()}", "type": "message", "status": "completed", "content": [part]}
            output.append({**message, "role": "assistant"})
        output += [self._build_call() for _ in range(count)]
        tokens = self.count_tokens()
        return {
            "id": f"resp_{self.words}",
            "object": "response",
            "created_at": 1_790_000_000,
            "status": "completed",
            "model": "gpt-5.6",
            "output": output,
            "store": False,
            "usage": {
                "input_tokens": tokens,
                "input_tokens_details": {"cached_tokens": tokens // 2},
                "output_tokens": 30,
                "output_tokens_details": {"reasoning_tokens": 4},
                "total_tokens": tokens + 30,
            },
        }

    def _build_call(self) -> Block:
        ids = {"id": f"fc_{self.word()}", "call_id": self.call_id("call"), "status": "completed"}
        if self.happens(0.2):
            patch = f"*** Begin Patch\n*** Update File: src/a.py\n+{self.word()}\n*** End Patch"
            return {"type": "custom_tool_call", **ids, "name": "apply_patch", "input": patch}
        command = json.dumps({"command": ["cat", f"src/{self.random.choice('abc')}.py"]})
        return {"type": "function_call", **ids, "name": "shell", "arguments": command}

    def echo(self, reply: dict[str, Any], *, edit: bool) -> list[ClientMessage]:
        items = json.loads(json.dumps(reply["output"]))
        for item in items:
            if item["type"] == "message" and edit:
                item["content"][0]["text"] = self.text(5)
            if self.is_codex:
                for name in ("id", "status"):
                    item.pop(name, None)
                if item["type"] == "message":
                    item["content"] = [{"type": "output_text", "text": part["text"]} for part in item["content"]]
        return list(items)

    def read_calls(self, messages: list[ClientMessage]) -> list[Any]:
        return [item for item in messages if item["type"] in ("function_call", "custom_tool_call")]

    def build_results(self, calls: list[Any]) -> list[ClientMessage]:
        results: list[ClientMessage] = []
        for call in calls:
            text = self.text(200)
            output: Any = text if self.happens(0.8) else [{"type": "input_text", "text": text}]
            results.append({"type": f"{call['type']}_output", "call_id": call["call_id"], "output": output})
        if self.is_codex and self.happens(0.1):
            parts = [{"type": "input_text", "text": self.text(8)}]
            results.append({"type": "message", "role": "developer", "content": parts})
        return results

    def build_request(self) -> dict[str, Any]:
        tool = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
        return {
            "model": "gpt-5.6",
            "instructions": SYSTEM,
            "input": self.messages,
            "tools": [tool, {"type": "custom", "name": "apply_patch"}],
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": self.agent or self.family,
        }

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        if not self.is_codex:
            return super().headers
        thread = self.agent or self.family
        ids = [("session-id", self.family), ("thread-id", thread), ("x-codex-window-id", f"{thread}:0")]
        ids += [("x-codex-parent-thread-id", self.parent or self.family)] * bool(self.agent)
        return (*ids, ("originator", "codex_exec"), ("authorization", "Bearer secret"))
