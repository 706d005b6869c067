"""Packs between processes: a pack as a document, and what a reply names of the pack that it answers.

Law: a pack that was received renders the same bytes as the one that was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.model.frames.frames import Reservation
from holdfast.model.history.views import HistoryView
from holdfast.model.names import check_choice
from holdfast.model.packs.pack import Brief, Manifest, PackRequest, TokenSummary
from holdfast.model.tools.tool import Tool
from holdfast.render.pack import Pack


class PackReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What identifies a pack, to record a reply with it: its manifest, its brief and its reservation."""

    manifest: Manifest
    brief: Brief = Brief()
    reservation: Reservation | None = None


class PackDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole pack: all that it takes to render it elsewhere."""

    manifest: Manifest
    brief: Brief = Brief()
    history: HistoryView
    tools: tuple[Tool, ...] = ()
    bodies: dict[str, bytes] = {}
    """Images, files and large parts that it shows, by their digests."""
    max_output: int | None = None
    reservation: Reservation | None = None
    rendered: Any = None
    """If the request said `to`: the request to that provider, or the text."""


class _ReceivedPack(NamedTuple):
    """What a pack needs of the material that it was assembled from, to render it."""

    history: HistoryView
    tokens: TokenSummary
    tools: tuple[Tool, ...]
    request: PackRequest


PackFormat: TypeAlias = Literal["anthropic", "bedrock", "gemini", "litellm", "openai", "openai-responses", "text"]
_RENDERERS: dict[PackFormat, Callable[[Pack], Any]] = {
    "anthropic": Pack.anthropic,
    "bedrock": Pack.bedrock,
    "gemini": Pack.gemini,
    "litellm": Pack.litellm,
    "openai": Pack.openai,
    "openai-responses": Pack.openai_responses,
    "text": lambda pack: pack.text,
}


def describe_pack(pack: Pack, to: str | None = None) -> PackDocument:
    """Return a pack as a document; with `to`, also rendered for a provider or as text."""
    chosen = None if to is None else check_choice("to", to, tuple(_RENDERERS))
    return PackDocument(
        manifest=pack.manifest,
        brief=pack.brief,
        history=pack.history,
        tools=pack.tools,
        bodies={**pack._bodies},
        max_output=pack.max_output,
        reservation=pack.reservation,
        rendered=None if chosen is None else _RENDERERS[chosen](pack),
    )


def receive_pack(document: PackDocument) -> Pack:
    """Build a pack from its document."""
    manifest = document.manifest
    received = _ReceivedPack(document.history, manifest.tokens, document.tools, manifest.request)
    pack = Pack(
        received,  # type: ignore[arg-type]  # the rest of the material stays where the pack was assembled
        brief=document.brief,
        bodies=document.bodies,
        max_output=document.max_output,
        reservation=document.reservation,
    )
    pack.__dict__["manifest"] = manifest
    return pack


def write_receipt(pack: Pack) -> PackReceipt:
    """Return what a reply names of a pack."""
    return PackReceipt(manifest=pack.manifest, brief=pack.brief, reservation=pack.reservation)


def read_receipt(receipt: PackReceipt) -> Pack:
    """Return the pack of a receipt. It can be recorded and compared, and shows nothing."""
    manifest = receipt.manifest
    history = HistoryView(scope=manifest.scope, frame=manifest.frame, version=manifest.version)
    return receive_pack(
        PackDocument(manifest=manifest, brief=receipt.brief, history=history, reservation=receipt.reservation)
    )
