"""Which framework is installed here."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = Path(sys.prefix)
ENVIRONMENT = _FOLDER.name if _FOLDER.parent.name == ".venv-frameworks" else ""
"""The name of the environment that `make frameworks` made; empty in any other."""

PAGES = {
    "adk": ("google-adk",),
    "anthropic": ("anthropic-memory",),
    "claude": ("claude-agent-sdk",),
    "langgraph": ("langgraph", "langchain"),
    "providers": ("gemini", "bedrock", "litellm"),
}
"""The pages of an environment, where they are not named as it is."""


def list_pages(environment: str) -> tuple[str, ...]:
    """The pages whose examples run in an environment."""
    return tuple(f"{page}.md" for page in PAGES.get(environment, (environment.replace("_", "-"),)))


EXAMPLES = list_pages(ENVIRONMENT)
