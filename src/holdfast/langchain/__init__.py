"""Holdfast in agents of LangChain: `HoldfastMiddleware` for `langchain.agents.create_agent`."""

from holdfast.frameworks.engines import require_package

require_package("langchain", "The middleware of LangChain", "langchain")

from holdfast.langchain.middleware import HoldfastMiddleware  # noqa: E402 - after the check
from holdfast.langchain.options import MiddlewareOptions  # noqa: E402 - after the check

__all__ = ["HoldfastMiddleware", "MiddlewareOptions"]
