"""Random conversations: the model is sent what the state has, whatever happened before."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

import holdfast
from holdfast.errors import OutcomeUnknown
from holdfast.langchain import HoldfastMiddleware
from holdfast.langgraph import HoldfastSaver
from tests.frameworks.langgraph.chat_models import ScriptedModel, calls, describe
from tests.support import SHARED_MEMORY

TEXTS = st.sampled_from(["one", "two", "Where is it?", "é 🙂", "  spaces  ", "<b>"])
CALLS = st.lists(st.sampled_from(["read", "raise", "stop"]), max_size=3)


class PowerFailure(BaseException):
    """Stands for the end of a process."""


class Conversations(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(dir=SHARED_MEMORY))
        self.engine = holdfast.open(self.folder / "agent.db")
        self.memory = InMemorySaver()
        self.has_own_saver = False
        self.plan: list[list[str]] = []
        self.number = 0
        self.model = ScriptedModel(self._reply)
        self._build()

    def _build(self) -> None:
        def read(n: int) -> str:
            """Read."""
            return f"result {n}"

        def stop(n: int) -> str:
            """Stop."""
            raise PowerFailure

        def fail(n: int) -> str:
            """Raise."""
            raise ValueError(f"failed {n}")

        fail.__name__ = "raise"
        saver: Any = HoldfastSaver(self.engine) if self.has_own_saver else self.memory
        middleware = HoldfastMiddleware(self.engine, budget=100_000)
        self.agent = create_agent(self.model, [read, stop, fail], middleware=[middleware], checkpointer=saver)

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self.number += 1
        wanted = self.plan.pop(0) if self.plan else []
        if not wanted:
            return AIMessage(f"answer {self.number}")
        return calls(*((name, {"n": self.number}, f"c{self.number}-{place}") for place, name in enumerate(wanted)))

    @property
    def config(self) -> Any:
        return {"configurable": {"thread_id": "own" if self.has_own_saver else "t"}}

    @property
    def state(self) -> list[BaseMessage]:
        values: dict[str, Any] = self.agent.get_state(self.config).values
        messages: list[BaseMessage] = values.get("messages", [])
        return messages

    def _run(self, given: Any, config: Any = None) -> None:
        before = len(self.model.sent)
        try:
            self.agent.invoke(given, config or self.config)
        except (PowerFailure, ValueError, OutcomeUnknown):
            pass
        for sent in self.model.sent[before:]:
            shown = describe([each for each in sent if each.type != "system"][:-1])
            assert sent[-1].text.startswith("<holdfast-context>")
            made = [call["id"] for each in sent if isinstance(each, AIMessage) for call in each.tool_calls]
            answered = [each.tool_call_id for each in sent if each.type == "tool"]  # type: ignore[attr-defined]
            assert made == answered
            assert shown[-1][0] in ("human", "tool")
        if len(self.model.sent) > before:
            self._compare(self.model.sent[-1][:-1])

    def _compare(self, sent: list[BaseMessage]) -> None:
        """The model was sent the state before its reply. Calls that LangChain has no result for have one, what was removed
        at the front is still there, and of an interrupted tool that is not in the state any more the model is told."""
        state = self.state
        replies = [place for place, each in enumerate(state) if each.type == "ai"]
        expected = state[: replies[-1]]
        known = {each.tool_call_id for each in expected if isinstance(each, ToolMessage)}
        shown = [each for each in sent if not isinstance(each, ToolMessage) or each.tool_call_id in known]
        shown = [each for each in shown if "An earlier run was interrupted, and its messages are lost" not in each.text]
        assert describe(shown)[len(shown) - len(expected) :] == describe(expected)

    @rule(text=TEXTS, plan=st.lists(CALLS, max_size=3))
    def ask(self, text: str, plan: list[list[str]]) -> None:
        self.plan = plan
        self._run({"messages": [HumanMessage(text)]})

    @rule()
    def resume(self) -> None:
        if self.state and self.agent.get_state(self.config).next:
            self.plan = []
            self._run(None)

    @rule()
    def answer_again(self) -> None:
        history = [each for each in self.agent.get_state_history(self.config) if each.next == ("model",)]
        if history:
            self.plan = []
            self.agent.invoke(None, history[0].config)
            self._compare(self.model.sent[-1][:-1])

    @rule(data=st.data())
    def return_to_a_call(self, data: Any) -> None:
        history = [each for each in self.agent.get_state_history(self.config) if each.next == ("tools",)]
        if history:
            self.plan = []
            self._run(None, data.draw(st.sampled_from(history)).config)

    @rule()
    def remove_the_oldest(self) -> None:
        messages = self.state
        if len(messages) > 2 and messages[1].type == "ai" and not getattr(messages[1], "tool_calls", None):
            removed = [RemoveMessage(id=str(each.id)) for each in messages[:2]]
            self.agent.update_state(self.config, {"messages": removed}, as_node="model")

    @rule(text=TEXTS)
    def edit_the_newest(self, text: str) -> None:
        messages = self.state
        if messages and messages[-1].type == "ai" and not getattr(messages[-1], "tool_calls", None):
            self.agent.update_state(self.config, {"messages": [AIMessage(text, id=messages[-1].id)]}, as_node="model")

    @rule()
    def restart(self) -> None:
        self.engine.close()
        self.engine = holdfast.open(self.folder / "agent.db")
        self._build()

    @rule()
    def change_the_saver(self) -> None:
        self.has_own_saver = not self.has_own_saver
        self._build()

    def teardown(self) -> None:
        assert self.engine.admin.verify().ok
        self.engine.close()
        shutil.rmtree(self.folder)


TestConversations = Conversations.TestCase
TestConversations.settings = settings(
    max_examples=15, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
