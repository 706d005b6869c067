"""Holdfast by MCP: tools named as an agent thinks, resources, and tasks on frames. It needs the extra `mcp`.

`routes` is the part of the server at /mcp, `http` the endpoint for an application of your own, `stdio` serves one client.
`tasks` is the extension for other servers of MCP, and `task_client` its client.
"""

PATH = "/mcp"
"""Where a server has MCP."""
