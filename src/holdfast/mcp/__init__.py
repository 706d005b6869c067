"""Holdfast by MCP: tools named as an agent thinks, resources, and tasks on frames. It needs the extra `mcp`."""
