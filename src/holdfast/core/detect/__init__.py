"""Reading plain text for what it changes: the default detector, by rules alone."""

from __future__ import annotations

from holdfast.core.detect.rules import Rules

__all__ = ["Rules"]
