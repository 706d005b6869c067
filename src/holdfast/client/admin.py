"""Maintenance of the store of a server: long work is a job there, with progress and files."""

from __future__ import annotations

from typing import Any


class BlockingAdmin:
    """Jobs, and the feed of all tenants."""

    _drive: Any
    _context: Any


class AwaitedAdmin:
    """The same for an event loop."""

    _drive: Any
    _context: Any
