"""Who the server takes a caller for, and what they may do: what a client or a page asks first. And whom else it serves."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

import holdfast
from holdfast.access.access import SYSTEM_TENANT
from holdfast.api.parts import CallerDocument, TenantDocument
from holdfast.server.authentication import LOCAL_KEY_ID
from holdfast.server.background import list_tenants
from holdfast.server.context import whole_engine
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
        is_local=access.key_id == LOCAL_KEY_ID,
        version=holdfast.__version__,
    )
    return Answer(msgspec.json.encode(document))


async def get_tenants(call: Call) -> Response:
    """List the tenants, without that of the server itself."""
    names = await list_tenants(whole_engine(call.request))
    own = call.access.tenant
    tenants = [TenantDocument(name=name, is_own=name == own) for name in names if name != SYSTEM_TENANT]
    return Answer(msgspec.json.encode({"items": tenants}))
