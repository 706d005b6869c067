"""Holdfast in Google's Agent Development Kit.

    runner = Runner(
        app=App(name="desk", root_agent=agent, plugins=[holdfast.adk.Plugin(engine, budget=24_000)]),
        session_service=holdfast.adk.SessionService(engine),
        memory_service=holdfast.adk.MemoryService(engine),
        artifact_service=holdfast.adk.ArtifactService(engine),
    )

Each piece works without the others.
"""

# ruff: noqa: E402 - the check of the framework comes first
from holdfast.frameworks.engines import require_package

require_package("google.adk", "holdfast.adk", "adk")

from holdfast.adk.artifact_service import ArtifactService
from holdfast.adk.memory_service import MemoryService
from holdfast.adk.plugin import Plugin, PluginOptions
from holdfast.adk.session_service import SessionService
from holdfast.adk.uris import open_uri
from holdfast.frameworks import current_call

__all__ = ["ArtifactService", "MemoryService", "Plugin", "PluginOptions", "SessionService", "current_call", "open_uri"]
