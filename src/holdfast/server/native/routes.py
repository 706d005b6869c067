"""The routes of the native API."""

from __future__ import annotations

from starlette.routing import BaseRoute, Mount

from holdfast.api.requests import API
from holdfast.server.native.caller import describe_caller
from holdfast.server.native.dispatch import NativeApi


def build_api() -> NativeApi:
    """The API: the operations of the table, and what is no single request and answer."""
    api = NativeApi()
    api.add("GET", "/caller", None, describe_caller)
    return api


def routes() -> list[BaseRoute]:
    """The routes of the native API."""
    return [Mount(API, app=build_api())]
