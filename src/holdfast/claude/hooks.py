"""Hooks of the Claude Agent SDK: intents before tools, outcomes after them, and the facts that hold now.

Laws: a hook never stops the agent for a failure of the store, except before a tool: if the start of a tool cannot be
stored, the tool does not run. A tool that was started before under the same id does not run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, cast

from claude_agent_sdk.types import (
    HookContext,
    HookEvent,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    PostToolUseFailureHookInput,
    PostToolUseHookInput,
    PreCompactHookInput,
    PreToolUseHookInput,
    SessionKey,
    StopHookInput,
    SubagentStopHookInput,
    UserPromptSubmitHookInput,
)

from holdfast.claude.facts import describe_facts, note_given, read_given
from holdfast.errors import HoldfastError, OutcomeUnknown
from holdfast.frameworks.claude_agents import name_agent
from holdfast.frameworks.claude_entries import COMPACTION_KIND, INTENT_KIND, OUTCOME_KIND
from holdfast.frameworks.claude_lines import is_machine_text
from holdfast.frameworks.claude_logs import ClaudeLog
from holdfast.frameworks.engines import run_blocking
from holdfast.frameworks.tool_runs import describe_unknown

_POLL_S = 0.02
_PATIENCE = 3
"""After so many calls that were not stored in time, no tool waits any more."""
_KEPT = 256
"""Sessions of which it is known what their models were shown last."""
_REPEAT = 20
"""The facts are given with every so many prompts, also if none has changed."""

logger = logging.getLogger(__name__)


class _ShownFacts:
    """The facts that a model was given last. They stay in its context, so the same ones again would only make it longer."""

    def __init__(self, facts: str) -> None:
        self._lines = sorted(facts.splitlines())
        self._prompts = 0

    def has(self, facts: str) -> bool:
        """Whether the facts are the same, and were given not long ago. The order depends on the prompt."""
        self._prompts += 1
        return self._prompts < _REPEAT and sorted(facts.splitlines()) == self._lines


class SessionHooks:
    """The hooks of a store: `HoldfastSessionStore.hooks()` gives them to the SDK."""

    def __init__(
        self, open_log: Callable[[SessionKey], ClaudeLog], *, context: bool, budget: int, wait_s: float
    ) -> None:
        self._open_log = open_log
        self._context = context
        self._budget = budget
        self._wait_s = wait_s
        self._misses = 0
        self._shown: OrderedDict[str, _ShownFacts] = OrderedDict()

    def matchers(self) -> dict[HookEvent, list[HookMatcher]]:
        """The hooks, as ClaudeAgentOptions takes them."""
        callbacks: dict[HookEvent, Any] = {
            "UserPromptSubmit": self.submit_prompt,
            "PreToolUse": self.start_tool,
            "PostToolUse": self.finish_tool,
            "PostToolUseFailure": self.fail_tool,
            "PreCompact": self.note_compaction,
            "Stop": self.settle,
            "SubagentStop": self.settle_subagent,
        }
        return {event: [HookMatcher(hooks=[callback])] for event, callback in callbacks.items()}

    async def submit_prompt(self, given: HookInput, _call: str | None, _context: HookContext) -> HookJSONOutput:
        """Record the prompt and its facts. With `context`, return the facts that hold now, unless the model has them."""
        prompt = cast("UserPromptSubmitHookInput", given)
        try:
            text = await run_blocking(self._submit, prompt)
        except HoldfastError as error:  # the line of the prompt comes in any case
            logger.warning("The prompt was not recorded: %s", error)
            return {}
        if not text:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}

    def _submit(self, prompt: UserPromptSubmitHookInput) -> str:
        log = self._open_log(_key_of(prompt))
        text = prompt["prompt"]
        log.follow()
        prompt_id = prompt.get("prompt_id")
        if prompt_id and text.strip() and not is_machine_text(text):
            log.record_prompt(prompt_id, text)
        session = log.session()
        if session is None or not self._context:
            return ""
        given = read_given(session)
        facts = describe_facts(session, text, self._budget, given)
        shown = self._shown.get(prompt["session_id"])
        if shown is not None and shown.has(facts.text):
            return ""
        note_given(session, given, facts.names)
        self._shown[prompt["session_id"]] = _ShownFacts(facts.text)
        while len(self._shown) > _KEPT:
            self._shown.popitem(last=False)
        return facts.text

    async def start_tool(self, given: HookInput, _call: str | None, _context: HookContext) -> HookJSONOutput:
        """Store that a tool starts, before it runs."""
        tool = cast("PreToolUseHookInput", given)
        try:
            log = await run_blocking(self._find_log, tool)
            if not await self._start(log, tool["tool_use_id"]):
                intent = {"call": tool["tool_use_id"], "name": tool["tool_name"], "input": tool["tool_input"]}
                await run_blocking(log.note, INTENT_KIND, tool["tool_use_id"], intent)
        except OutcomeUnknown as error:
            return _deny(describe_unknown(error))
        except HoldfastError as error:
            return _deny(f"The start of the tool could not be stored, so it did not run: {error}")
        return {}

    async def _start(self, log: ClaudeLog, call: str) -> bool:
        """Start the call as soon as its line is stored. False if it is not in time."""
        end = time.monotonic() + (self._wait_s if self._misses < _PATIENCE else 0)
        while True:
            if await run_blocking(log.start_call, call) is not None:
                self._misses = 0
                return True
            if time.monotonic() >= end:
                self._misses += 1
                if self._misses == _PATIENCE:
                    logger.warning(
                        "Tool calls are not stored before their tools run, so their starts are stored as entries. "
                        'Set session_store_flush="eager" in ClaudeAgentOptions.'
                    )
                return False
            await asyncio.sleep(_POLL_S)

    async def finish_tool(self, given: HookInput, _call: str | None, _context: HookContext) -> HookJSONOutput:
        """Store the outcome of a tool."""
        tool = cast("PostToolUseHookInput", given)
        return await self._finish(tool, {"result": tool.get("tool_response"), "is_error": False})

    async def fail_tool(self, given: HookInput, _call: str | None, _context: HookContext) -> HookJSONOutput:
        """Store that a tool failed."""
        tool = cast("PostToolUseFailureHookInput", given)
        return await self._finish(tool, {"result": tool["error"], "is_error": True})

    async def _finish(
        self, tool: PostToolUseHookInput | PostToolUseFailureHookInput, outcome: dict[str, Any]
    ) -> HookJSONOutput:
        with _log_failure("outcome of a tool"):
            log = await run_blocking(self._find_log, tool)
            await run_blocking(log.note, OUTCOME_KIND, tool["tool_use_id"], outcome)
        return {}

    async def note_compaction(self, given: HookInput, _call: str | None, _context: HookContext) -> HookJSONOutput:
        """Store that Claude Code compacts its context. The session keeps all messages."""
        compaction = cast("PreCompactHookInput", given)
        self._shown.pop(compaction["session_id"], None)
        body = {"trigger": compaction["trigger"], "instructions": compaction.get("custom_instructions")}
        log = self._open_log(_key_of(compaction))
        with _log_failure("compaction"):
            await run_blocking(log.note, COMPACTION_KIND, str(time.time_ns()), body)
        return {}

    async def settle(self, given: HookInput, _call: str | None, _context: HookContext) -> HookJSONOutput:
        """Record what is stored and not recorded yet, at the end of a turn."""
        with _log_failure("end of a turn"):
            await run_blocking(self._open_log(_key_of(cast("StopHookInput", given))).follow)
        return {}

    async def settle_subagent(self, given: HookInput, _call: str | None, _context: HookContext) -> HookJSONOutput:
        """Record what a sub-agent said, and end its frame."""
        with _log_failure("end of a sub-agent"):
            log = await run_blocking(self._find_log, cast("SubagentStopHookInput", given))
            await run_blocking(log.end)
        return {}

    def _find_log(self, given: Any) -> ClaudeLog:
        """The log of the session, or of the sub-agent, that a hook is called for. A hook names a sub-agent by its id; the
        log of one that a workflow started is in a folder of that workflow."""
        log, agent = self._open_log(_key_of(given)), given.get("agent_id")
        if not agent or log.has_lines():
            return log
        paths = log.list_agents()
        return next((log.agent(path) for path in paths if name_agent(path) == agent), log)


def _key_of(given: Any) -> SessionKey:
    """The key of the session, or of the sub-agent, that a hook is called for."""
    key: SessionKey = {"project_key": PurePath(given["transcript_path"]).parent.name, "session_id": given["session_id"]}
    if given.get("agent_id"):
        key["subpath"] = f"subagents/agent-{given['agent_id']}"
    return key


def _deny(reason: str) -> HookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


class _log_failure(contextlib.AbstractContextManager[None]):  # noqa: N801 - used as a function
    """Log an error of the store, and go on: the lines of the log come in any case."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if not isinstance(error, HoldfastError):
            return False
        logger.warning("The %s was not stored: %s", self._what, error)
        return True
