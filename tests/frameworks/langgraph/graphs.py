"""Graphs and savers for the tests of the checkpointer."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import MessagesState, add_messages

import holdfast

Reply = Callable[[list[AnyMessage]], BaseMessage | str]


def thread(name: Any, **configurable: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": name, **configurable}}


def say(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def answer(messages: list[AnyMessage]) -> str:
    return f"answer to: {messages[-1].content}"


def chat(saver: BaseCheckpointSaver[Any], reply: Reply = answer) -> Any:
    """A graph of one node that replies."""

    def respond(state: MessagesState) -> dict[str, Any]:
        said = reply(state["messages"])
        return {"messages": [AIMessage(said) if isinstance(said, str) else said]}

    builder = StateGraph(MessagesState)
    builder.add_node("respond", respond)
    builder.add_edge(START, "respond")
    builder.add_edge("respond", END)
    return builder.compile(checkpointer=saver)


class Steps(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    steps: Annotated[list[str], operator.add]


def texts(values: Any) -> list[str]:
    return [str(message.content) for message in values["messages"]]


def transcript(session: holdfast.Session) -> list[str]:
    """The conversation of a session, as a model would see it."""
    return [message.text for message in session.messages(limit=1_000) if not message.withdrawn and not message.erased]


class AwaitedSaver(BaseCheckpointSaver[Any]):
    """The blocking half of a saver behind the names that the conformance suite awaits."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=saver.serde)
        self.saver = saver

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.saver.get_tuple(config)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        for each in self.saver.list(config, **options):
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self.saver.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.saver.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        self.saver.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.saver.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.saver.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.saver.prune(thread_ids, strategy=strategy)


def ids(found: Iterator[CheckpointTuple]) -> list[str]:
    return [each.checkpoint["id"] for each in found]
