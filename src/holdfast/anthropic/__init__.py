"""The memory tool of Anthropic on Holdfast: versioned files for a user or a team, and their facts as files.

memory = MemoryTool(engine, user="ada")
client.beta.messages.tool_runner(model=…, max_tokens=…, messages=[…], tools=[memory]).until_done()
"""

from holdfast.frameworks.engines import require_package

require_package("anthropic", "The memory tool", "anthropic")

from holdfast.anthropic.memory_files import FileVersion, MemoryFiles  # noqa: E402 - after the check that the package is there
from holdfast.anthropic.tool import AsyncMemoryTool, MemoryTool, MemoryToolOptions  # noqa: E402

__all__ = ["AsyncMemoryTool", "FileVersion", "MemoryFiles", "MemoryTool", "MemoryToolOptions"]
