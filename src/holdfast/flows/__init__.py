"""What the engine does, as generators that yield what they need and never wait themselves.

One logic, two worlds: `runtime.drive` answers the same effects blocking or awaited.
"""
