"""Real agents, Claude Code and Codex, with and without the gateway, against the fake providers: `make conformance`."""
