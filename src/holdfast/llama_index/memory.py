"""A memory of LlamaIndex that shows packs: `FunctionAgent(…).run(…, memory=HoldfastMemory(engine, "chat-1"))`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr, create_model
from llama_index.core.memory.types import BaseMemory
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolMetadata, adapt_to_async_tool

import holdfast
from holdfast import Brief
from holdfast.errors import CallsOpen, InvalidArgument
from holdfast.frameworks.engines import check_engine
from holdfast.frameworks.shown import show_pack
from holdfast.llama_index.chat_log import ChatLog, open_chat
from holdfast.llama_index.messages import to_chat
from holdfast.llama_index.tools import observe_tool

TOOL_THREAD = "tools"


class HoldfastMemory(BaseMemory):
    """The conversation of a session, shown to the model as a pack of at most `budget` tokens.

    `get()` returns the pack: superseded values are redacted, the history is bounded, current facts are at its end.
    `get_all()` returns all messages as they were put. With `reads_handles`, packs say how to read what they show in part:
    give `read_tools()` to the agent."""

    session_id: str = Field(description="The name of the session.")
    budget: int = Field(default=24_000, description="The most tokens of a pack.")
    reads_handles: bool = Field(default=False, description="The agent has the tools of read_tools().")

    _log: Any = PrivateAttr()
    _runs: Any = PrivateAttr(default=None)
    _open: Any = PrivateAttr()
    _pack: Any = PrivateAttr(default=None)

    def __init__(
        self,
        engine: holdfast.Engine,
        session_id: str,
        *,
        budget: int = 24_000,
        user: str | None = None,
        actor: str = "main",
        observe: bool = True,
        reads_handles: bool = False,
    ) -> None:
        fields: dict[str, Any] = {"session_id": session_id, "budget": budget, "reads_handles": reads_handles}
        super().__init__(**fields)
        self._open = functools.partial(open_chat, check_engine(engine), session_id, actor, user)
        self._log = ChatLog(self._open(), observe=observe)

    @classmethod
    def class_name(cls) -> str:
        return "HoldfastMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> HoldfastMemory:
        """Create a memory: `engine` and `session_id` are required."""
        missing = {"engine", "session_id"} - kwargs.keys()
        if missing:
            raise InvalidArgument(argument=min(missing), reason="it is required")
        return cls(**kwargs)

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002 - as LlamaIndex calls it
        """Raises InvalidArgument: an engine has no serialized form. A `Context` of LlamaIndex is then stored without its
        memory; pass the memory to the run that goes on."""
        raise InvalidArgument(argument="memory", reason="it has no serialized form; pass it again to the next run")

    @property
    def session(self) -> holdfast.Session:
        """The session, for facts, packs, recovery and everything else."""
        session: holdfast.Session = self._log.session
        return session

    @property
    def tool_runs(self) -> holdfast.Session:
        """A thread beside the session, with the runs of observed tools: `tool_runs.recover()` names those that were running
        when a process died."""
        if self._runs is None:
            self._runs = self._open(thread=TOOL_THREAD)
        runs: holdfast.Session = self._runs
        return runs

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002, ARG002 - named by LlamaIndex
        """The pack of the next model call, as messages. `input` is what candidates are ranked by."""
        log: ChatLog = self._log
        log.follow_turn()
        brief = Brief(read_handle=self.reads_handles, recall_memory=self.reads_handles)
        question = str(input) if input else None
        try:
            pack = log.session.pack(question, budget=self.budget, brief=brief)
        except CallsOpen:  # LlamaIndex stores calls with their results: one without comes from a history of the caller
            log.session.close_calls("the agent went on without a result")
            pack = log.session.pack(question, budget=self.budget, brief=brief)
        self._pack = pack
        originals = {row.id: row.message for row in log.rows(None)}
        return [to_chat(shown, originals).model_copy(deep=True) for shown in show_pack(pack, log.shadow)]

    def get_all(self) -> list[ChatMessage]:
        """All messages, as they were put."""
        return [row.message.model_copy(deep=True) for row in self._log.rows(None)]

    def put(self, message: ChatMessage) -> None:
        """Append a message."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Append messages; if one is invalid, none is stored. The manifest of the pack that they answer is stored."""
        if not messages:
            return
        self._log.add(messages)
        if self._pack is not None and any(message.role == "assistant" for message in messages):
            self.session.packs.store(self._pack)
            self._pack = None

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the conversation. Messages that are the same at its beginning stay."""
        self._log.replace(messages)

    def reset(self) -> None:
        """Take all messages out of the conversation."""
        self._log.replace([])

    def erase_deleted(self) -> int:
        """Erase for good the messages that `set` and `reset` took out of the conversation. Returns how many there were."""
        log: ChatLog = self._log
        return log.erase_deleted()

    def read_tools(self) -> list[FunctionTool]:
        """The tools that packs name, if `reads_handles`: they read the rest of what is shown in part."""
        tools = [(holdfast.READ_HANDLE, self.session.handles.tool())]
        if self.session.state().has_memory:
            tools.append((holdfast.RECALL_MEMORY, self.session.recall_tool()))
        return [_build_tool(described, function) for described, function in tools]

    def observe_tools(self, tools: Sequence[Any]) -> list[AsyncBaseTool]:
        """The same tools, each run as a frame of `tool_runs`: its start is stored before it runs, its result after.

        LlamaIndex itself stores a turn when it has ended. With these tools, `tool_runs.recover()` names the calls that were
        running when a process died, with their idempotency keys: `holdfast.frameworks.current_call()` inside a tool."""
        return [observe_tool(adapt_to_async_tool(_read_tool(each)), self.tool_runs) for each in tools]


def _read_tool(tool: Any) -> BaseTool:
    """A tool, or a function as one."""
    return tool if isinstance(tool, BaseTool) else FunctionTool.from_defaults(tool)


def _build_tool(described: holdfast.Tool, function: Any) -> FunctionTool:
    """A tool of Holdfast as one of LlamaIndex."""
    properties: dict[str, Any] = described.parameters.get("properties", {})
    required = described.parameters.get("required", ())
    fields: dict[str, Any] = {name: (Any, ... if name in required else None) for name in properties}
    schema = create_model(described.name, **fields)

    def run(**given: Any) -> str:
        answer: str = function(**{name: value for name, value in given.items() if value is not None})
        return answer

    metadata = ToolMetadata(name=described.name, description=described.description, fn_schema=schema)
    return FunctionTool(fn=run, metadata=metadata)
