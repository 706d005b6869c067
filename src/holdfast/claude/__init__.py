"""Holdfast as the session store of the Claude Agent SDK.

    store = HoldfastSessionStore(engine)
    options = ClaudeAgentOptions(session_store=store, session_store_flush="eager", hooks=store.hooks())

Every session of the agent, and each of its sub-agents, is a session of the engine: with its lines as they came, and with
its messages, tool calls, results and facts.
"""

from holdfast.frameworks.engines import require_package

require_package("claude_agent_sdk", "The session store of the Claude Agent SDK", "claude")

from holdfast.claude.hooks import SessionHooks  # noqa: E402 - after the check that the package is there
from holdfast.claude.store import HoldfastSessionStore  # noqa: E402
from holdfast.frameworks.claude_logs import UnknownCall  # noqa: E402

__all__ = ["HoldfastSessionStore", "SessionHooks", "UnknownCall"]
