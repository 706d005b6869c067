"""Who may use a store through a server or by MCP, and what of it: keys, tokens, rights and limits."""
