"""The server: one application on an engine, with /v1 in the shapes of OpenAI, the native /api, and MCP.

Nothing of it is imported by the library. It needs the extra `server`.
"""
