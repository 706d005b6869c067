"""The tool that the gateway adds to requests of clients without a shell, and what becomes of its calls in later requests.

The tool is added from the first boundary on: before that, nothing can be read, and at a boundary the provider's cache is
written again anyway. The client's transcript never has the tool's calls. So that the model still knows what it has read,
each request gets them back where they stood, with their results: signed reasoning keeps its neighbours, and the cache its
prefix.

Laws: a request is changed by splices alone. The same request and the same reads give the same bytes. Reads that no longer
fit the client's message, because the client has edited it, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.gateway.bodies import elements, is_array, members, open_body
from holdfast.gateway.edits import Edit
from holdfast.gateway.model import ClientMessage, ClientRequest, Dialect
from holdfast.gateway.read_back import READ_TOOL
from holdfast.gateway.splitters import anthropic, chat, responses
from holdfast.gateway.splitters.base import HiddenRead, ReadReply

_encode = msgspec.json.Encoder().encode
_DESCRIPTION = (
    "Read a text of this conversation that is shown only in part, by the name in its marker, such as h12_0: all of it, "
    "lines first_line to last_line, or the lines that contain search. A long answer is cut and says how to go on."
)
_PARAMETERS = {
    "type": "object",
    "properties": {
        "handle": {"type": "string"},
        "first_line": {"type": "integer"},
        "last_line": {"type": "integer"},
        "search": {"type": "string"},
    },
    "required": ["handle"],
}
_TOOLS: dict[Dialect, bytes] = {
    "anthropic": _encode({"name": READ_TOOL, "description": _DESCRIPTION, "input_schema": _PARAMETERS}),
    "chat": _encode(
        {
            "type": "function",
            "function": {"name": READ_TOOL, "description": _DESCRIPTION, "parameters": _PARAMETERS},
        }
    ),
    "responses": _encode(
        {"type": "function", "name": READ_TOOL, "description": _DESCRIPTION, "parameters": _PARAMETERS, "strict": False}
    ),
}
_ARRAYS: dict[Dialect, str] = {"anthropic": "messages", "chat": "messages", "responses": "input"}
_STATEFUL = ("previous_response_id", "conversation", "background", "thread")
"""Fields of requests whose history is at the provider, or whose reply comes later: nobody else can continue these."""


def add_tool(dialect: Dialect, body: bytes) -> list[Edit]:
    """The splice that adds the tool at the end of the client's tools; none if the request cannot have it."""
    fields = open_body(body)
    tools, array = fields.get("tools"), fields.get(_ARRAYS[dialect])
    if not is_array(body, tools) or not is_array(body, array):
        return []
    assert tools is not None
    listed = elements(body, tools)
    if not listed or any(_encode(READ_TOOL) in body[at.start : at.end] for at in listed):
        return []
    if any(body[at.start : at.end] not in (b"null", b"false") for name in _STATEFUL if (at := fields.get(name))):
        return []
    if "n" in fields and body[slice(*fields["n"])] not in (b"1", b"null"):
        return []
    return [Edit(listed[-1].end, listed[-1].end, b"," + _TOOLS[dialect])]


def extend_request(dialect: Dialect, body: bytes, addition: bytes) -> bytes:
    """The request that was sent, with the messages behind it that a splitter gives as the answer to calls."""
    array = open_body(body)[_ARRAYS[dialect]]
    listed = elements(body, array)
    at = listed[-1].end if listed else array.start + 1
    return body[:at] + (b"," if listed else b"") + addition + body[at:]


def restore_reads(body: bytes, request: ClientRequest, index: int, reply: ReadReply) -> list[Edit]:
    """The splices that put reads back into the client's message of this number, and into the one with its results."""
    message = request.messages[index]
    calls = tuple(piece.call for piece in message.pieces if piece.kind == "call")
    if message.role != "assistant" or calls != reply.calls:
        return []
    if request.dialect == "chat":
        texts = [chat.write_calls(read.calls, read.results) + b"," for read in reply.reads]
        return [Edit(message.at.start, message.at.start, b"".join(texts))]
    if len(message.pieces) != reply.shown:
        return []
    if request.dialect == "responses":
        return _join_edits([_restore_items(message, read) for read in reply.reads])
    return _join_edits(_restore_blocks(body, request, index, reply.reads))


def _join_edits(edits: Sequence[Edit]) -> list[Edit]:
    """One edit for each place, with the texts in their order."""
    joined: dict[tuple[int, int], bytes] = {}
    for edit in edits:
        joined[edit[:2]] = joined.get(edit[:2], b"") + edit.text
    return [Edit(*at, text) for at, text in joined.items()]


def _restore_items(message: ClientMessage, read: HiddenRead) -> Edit:
    text = responses.write_calls(read.calls, read.results)
    if read.position < len(message.pieces):
        at = message.pieces[read.position].at.start
        return Edit(at, at, text + b",")
    at = message.pieces[-1].at.end
    return Edit(at, at, b"," + text)


def _restore_blocks(body: bytes, request: ClientRequest, index: int, reads: Sequence[HiddenRead]) -> list[Edit]:
    message = request.messages[index]
    content = members(body, message.at).get("content")
    if not is_array(body, content):
        return []
    edits: list[Edit] = []
    parted = set[int]()
    for read in reads:
        blocks = b",".join(map(_encode, read.calls))
        if read.is_mixed:
            results = _find_results(body, request, index)
            if results is None:
                return []
            edits += [_insert_block(message, read.position, blocks)]
            answers = anthropic.build_results(read.calls, read.results)
            edits.append(Edit(results, results, b",".join(map(_encode, answers)) + b","))
        elif read.position == 0:
            text = b'{"role":"assistant","content":[' + blocks + b"]},"
            text += anthropic.write_results(read.calls, read.results) + b","
            edits.append(Edit(message.at.start, message.at.start, text))
        elif read.position < len(message.pieces):
            before, behind = message.pieces[read.position - 1].at.end, message.pieces[read.position].at.start
            answer = anthropic.write_results(read.calls, read.results)
            text = blocks + b"]}," + answer + b',{"role":"assistant","content":['
            edits.append(Edit(before, behind, text if read.position in parted else b"," + text))
            parted.add(read.position)
    return edits


def _insert_block(message: ClientMessage, position: int, blocks: bytes) -> Edit:
    if position < len(message.pieces):
        at = message.pieces[position].at.start
        return Edit(at, at, blocks + b",")
    at = message.pieces[-1].at.end
    return Edit(at, at, b"," + blocks)


def _find_results(body: bytes, request: ClientRequest, index: int) -> int | None:
    """Where the first result stands in the message behind this one."""
    if index + 1 >= len(request.messages):
        return None
    behind = request.messages[index + 1]
    content = members(body, behind.at).get("content")
    if behind.role != "user" or not is_array(body, content) or not behind.pieces:
        return None
    return behind.pieces[0].at.start
