"""Holdfast for the OpenAI Agents SDK: a session, hooks and an input filter.

hf = bind(engine, "order-1", user="ada", budget=24_000)
result = await Runner.run(agent, "Where is my order?", session=hf.session, hooks=hf.hooks, run_config=hf.config())
print(hf.why())
"""

from holdfast.frameworks.engines import require_package

require_package("agents", "holdfast.openai_agents", "openai-agents")

from holdfast.openai_agents.bound_sessions import BindOptions, BoundSession, bind  # noqa: E402
from holdfast.openai_agents.filters import HoldfastInputFilter  # noqa: E402
from holdfast.openai_agents.hooks import HoldfastRunHooks  # noqa: E402
from holdfast.openai_agents.sessions import HoldfastSession, HoldfastSessionOptions  # noqa: E402

__all__ = [
    "BindOptions",
    "BoundSession",
    "HoldfastInputFilter",
    "HoldfastRunHooks",
    "HoldfastSession",
    "HoldfastSessionOptions",
    "bind",
]
