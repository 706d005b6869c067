"""Who the server takes a caller for: what a client asks first."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from holdfast.api.parts import CallerDocument
from holdfast.server.native.calls import Answer, Call


async def describe_caller(call: Call) -> Response:
    """The tenant, the principal, the rights, and the user of the key, if it is one of a user."""
    access = call.access
    document = CallerDocument(
        tenant=access.tenant,
        principal=access.principal,
        rights=tuple(sorted(access.rights)),
        actor=access.actor,
        user=None if access.identity is None else access.identity.user_id,
    )
    return Answer(msgspec.json.encode(document))
