"""The gateway: a proxy on this machine between an agent and its model, which needs no change of the agent.

Laws:
- A request without a boundary leaves as it came, byte for byte. A boundary replaces slices of it, and nothing else.
- A response always arrives as it came: status, headers and bytes.
- The view of a conversation is committed before a request leaves, so a restarted gateway sends the same bytes.
- What fails here stops no request: it leaves with the last view, or as it came.
- Credentials pass through, and are never stored.
"""
