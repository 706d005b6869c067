"""The engine of a gateway."""

from __future__ import annotations

import holdfast
from holdfast.core.history.previews import Spooling
from holdfast.gateway.statements import UserDetector

SPOOLING = Spooling(threshold=0, result_share=1.0, message_share=1.0)
"""Requests leave as they came, so nothing counts as a preview because it is large."""
STREAMS = 64
STATE_BYTES = 2 << 20
"""What of sessions is kept in memory: a gateway runs beside other programs, and few conversations go on at once."""


def open_engine(store: str, tenant: str = "default") -> holdfast.Engine:
    """Open the store of a gateway; a new file is made."""
    return holdfast.open(
        store,
        tenant=tenant,
        principal="gateway",
        detector=UserDetector(),
        spooling=SPOOLING,
        cached_streams=STREAMS,
        cached_bytes=STATE_BYTES,
    )
