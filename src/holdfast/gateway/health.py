"""What a gateway says of itself, and how others ask for it."""

from __future__ import annotations

import http.client

import msgspec

from holdfast.gateway.upstream import is_loopback, split_url

HEALTH_PATH = "/holdfast/health"
SERVICE = "holdfast-gateway"
_WAIT_S = 0.5
_ANSWER_BYTES = 1_000


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a gateway that runs."""

    status: str = "ok"
    service: str = ""


def is_gateway(url: str) -> bool:
    """Whether a gateway listens at an address of this machine. Something that does not say so at once is none."""
    parts = split_url(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or not is_loopback(host):
        return False
    connection = http.client.HTTPConnection(host, parts.port or 80, timeout=_WAIT_S)
    try:
        connection.request("GET", HEALTH_PATH)
        answer = connection.getresponse().read(_ANSWER_BYTES)
        return msgspec.json.decode(answer, type=HealthReport).service == SERVICE
    except (OSError, http.client.HTTPException, msgspec.MsgspecError):
        return False
    finally:
        connection.close()
