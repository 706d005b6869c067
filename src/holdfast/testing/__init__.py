"""The contracts of stores and memories as test suites, for authors of backends. Needs `pip install 'holdfast[testing]'`.

The contracts are loaded on first use, because they import pytest.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.testing.conformance import (
        BlobStoreContract,
        DeliveryQueueContract,
        EventStoreContract,
        MemoryContract,
        PassageIndexContract,
    )
    from holdfast.testing.strategies import store_machine

__all__ = [
    "BlobStoreContract",
    "DeliveryQueueContract",
    "EventStoreContract",
    "MemoryContract",
    "PassageIndexContract",
    "store_machine",
]

_PARTS = ("deliveries", "forks", "log", "memory", "passages", "search", "state")
"""The modules with the contracts."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = (
        f"{__name__}.{each}"
        for each in ("appends", "conformance", *(f"contract_{part}" for part in _PARTS), "strategies")
    )
    unseen = [module for module in modules if module not in sys.modules]
    importlib.import_module("pytest").register_assert_rewrite(*unseen)
    return getattr(importlib.import_module(f"{__name__}.conformance"), name)
