"""Logs of requests and responses: every request repeats the conversation, and only what is new in it becomes an entry.

Laws: a message that was read before is no new entry. Where a request no longer begins with what was sent before, the
next entry says what is still in the context. Requests that share no beginning are different conversations.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.inspector.logs.entries import LogEntry, ModelFigures, clean_name
from holdfast.inspector.logs.messages import find_time, read_figures, read_long_writes, read_message, read_usage

CONVERSATIONS = 64
"""Conversations of one log that are told apart; what begins after them is taken as one more."""
_REQUEST_LISTS = ("messages", "input")
_NESTED = ("request", "body", "kwargs", "inputs", "params")
_ANSWERS = ("response", "output", "outputs", "result", "completion")


class LogExchange(msgspec.Struct, kw_only=True):
    """What an object of a log has: the messages of a request, the reply, or both."""

    sent: list[Any] | None = None
    """The messages of the request; None if it has none."""
    system: str = ""
    tools: str = ""
    model: str = ""
    reply: LogEntry | None = None
    time_us: int = 0


def read_exchange(record: dict[str, Any], line: int) -> LogExchange | None:
    """The request and the response in an object; None if it is a single message or something else."""
    request = _find_request(record)
    response = next((record[name] for name in _ANSWERS if type(record.get(name)) is dict), None)
    if request is None and response is None:
        response = record
    reply = _read_response(response, line) if response is not None else None
    if request is None and reply is None:
        return None
    exchange = LogExchange(reply=reply, time_us=find_time(record))
    if request is not None:
        exchange.sent = _list_messages(request)
        system = request.get("system", request.get("instructions"))
        exchange.system = _digest(system) if system is not None else ""
        exchange.tools = _digest(request["tools"]) if request.get("tools") is not None else ""
        exchange.model = clean_name(request.get("model"), "")
        exchange.time_us = exchange.time_us or find_time(request)
    return exchange


def _find_request(record: dict[str, Any]) -> dict[str, Any] | None:
    for name in _NESTED:
        inner = record.get(name)
        if type(inner) is dict and (found := _find_request(inner)) is not None:
            return found
    has_list = any(type(record.get(name)) is list for name in _REQUEST_LISTS)
    is_message = "role" in record or record.get("object") == "response"
    return record if has_list and not is_message else None


def _list_messages(request: dict[str, Any]) -> list[Any]:
    system = request.get("system", request.get("instructions"))
    first = [{"role": "system", "content": system}] if type(system) in (str, list) else []
    sent: list[Any] = next(request[name] for name in _REQUEST_LISTS if type(request.get(name)) is list)
    return first + sent


def _read_response(response: dict[str, Any], line: int) -> LogEntry | None:
    """The reply of a chat completion, of Anthropic's messages or of OpenAI's responses."""
    response = response["body"] if type(response.get("body")) is dict else response
    choices = response.get("choices")
    if type(choices) is list and choices and type(choices[0]) is dict:
        message = choices[0].get("message")
        entry = read_message(message, line) if type(message) is dict else None
    elif type(response.get("output")) is list:
        entry = join_items([read_message(each, line) for each in response["output"] if type(each) is dict])
    elif response.get("type") == "message" and response.get("role") == "assistant" and "usage" in response:
        entry = read_message(response, line)
    else:
        return None
    if entry is None:
        return None
    entry.figures = read_figures(response)
    usage = response.get("usage")
    if type(response.get("output")) is list and type(usage) is dict:
        usage = {**usage, "input_tokens_details": usage.get("input_tokens_details", {})}
        entry.figures = msgspec.structs.replace(entry.figures, usage=read_usage(usage))
    entry.figures = msgspec.structs.replace(entry.figures, long_writes=read_long_writes(usage))
    entry.time_us = find_time(response)
    return entry


def join_items(entries: list[LogEntry | None]) -> LogEntry | None:
    """The items of a reply as one entry."""
    items = [entry for entry in entries if entry is not None and entry.kind == "reply"]
    if not items:
        return None
    first = items[0]
    first.text = "\n".join(item.text for item in items if item.text)
    first.calls = [call for item in items for call in item.calls]
    return first


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


class _SentMessages:
    """What was sent last, by the digests of its entries, and the index of each among the entries of the thread."""

    def __init__(self, thread: str) -> None:
        self.thread = thread
        self.sent: list[str] = []
        self.indexes: list[int] = []
        self.entries = 0
        self.known: set[str] = set()
        """Of all its entries but those of the system, which many conversations share."""

    def count_shared(self, digests: list[str]) -> int:
        pairs = zip(self.sent, digests, strict=False)
        return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(self.sent), len(digests)))


class RequestReader:
    """Turns exchanges into entries."""

    def __init__(self) -> None:
        self._conversations: list[_SentMessages] = []
        self._last: _SentMessages | None = None
        self._figures = ModelFigures()

    def read(self, exchange: LogExchange, line: int) -> Iterator[LogEntry]:
        """The new entries of an exchange."""
        if exchange.sent is not None:
            yield from self._read_request(exchange, line)
        if exchange.reply is not None:
            conversation = self._last or self._open()
            reply = exchange.reply
            figures = reply.figures
            reply.figures = msgspec.structs.replace(
                self._figures, model=figures.model or self._figures.model, usage=figures.usage,
                long_writes=figures.long_writes, reply=figures.reply,
            )  # fmt: skip
            reply.time_us = reply.time_us or exchange.time_us
            yield self._add(conversation, reply)

    def _read_request(self, exchange: LogExchange, line: int) -> Iterator[LogEntry]:
        found = [read_message(each, line) for each in exchange.sent or () if type(each) is dict]
        entries = list(_group_replies(found))
        digests = [entry.digest for entry in entries]
        spoken = [digest for entry, digest in zip(entries, digests, strict=True) if entry.kind != "system"]
        conversation = self._find(spoken)
        shared = conversation.count_shared(digests)
        self._figures = ModelFigures(model=exchange.model, system=exchange.system, tools=exchange.tools)
        keep: list[int] | None = None
        if shared < len(conversation.sent):
            keep, entries = _match_rest(conversation, entries, digests, shared)
            rest = set(keep)
            pairs = zip(conversation.sent, conversation.indexes, strict=True)
            kept = [(digest, index) for digest, index in pairs if index in rest]
            conversation.sent, conversation.indexes = [each for each, _ in kept], [each for _, each in kept]
        else:
            entries = entries[shared:]
        for entry in entries:
            entry.keep, keep = keep, None
            entry.time_us = entry.time_us or exchange.time_us
            if entry.kind == "reply":
                entry.figures = msgspec.structs.replace(self._figures, usage=None)
            yield self._add(conversation, entry)

    def _find(self, digests: list[str]) -> _SentMessages:
        """The conversation that a request goes on with: the one that shares the most messages with it."""
        new = {*digests}
        shares = [(len(new & each.known), each) for each in self._conversations]
        shared, best = max(shares, key=lambda pair: pair[0], default=(0, None))
        if best is None or (not shared and best.known):
            best = self._open()
        self._last = best
        return best

    def _open(self) -> _SentMessages:
        number = len(self._conversations) + 1
        if number > CONVERSATIONS:
            return self._conversations[-1]
        conversation = _SentMessages("" if number == 1 else f"conversation-{number}")
        self._conversations.append(conversation)
        self._last = conversation
        return conversation

    def _add(self, conversation: _SentMessages, entry: LogEntry) -> LogEntry:
        entry.thread = conversation.thread
        digest = entry.digest
        conversation.sent.append(digest)
        if entry.kind != "system":
            conversation.known.add(digest)
        conversation.indexes.append(conversation.entries)
        conversation.entries += 1
        return entry


def _match_rest(
    conversation: _SentMessages, entries: list[LogEntry], digests: list[str], shared: int
) -> tuple[list[int], list[LogEntry]]:
    """What of the context a changed request still has, by index, and its new entries."""
    later: dict[str, list[int]] = {}
    for digest, index in zip(conversation.sent[shared:], conversation.indexes[shared:], strict=True):
        later.setdefault(digest, []).append(index)
    keep, new = conversation.indexes[:shared], []
    for entry, digest in zip(entries[shared:], digests[shared:], strict=True):
        if later.get(digest):
            keep.append(later[digest].pop(0))
        else:
            new.append(entry)
    return sorted(keep), new


def _group_replies(entries: list[LogEntry | None]) -> Iterator[LogEntry]:
    """Items of OpenAI's responses that follow each other are one reply."""
    reply: LogEntry | None = None
    for entry in entries:
        if entry is None:
            continue
        if entry.kind == "reply" and reply is not None:
            reply.text = "\n".join(filter(None, (reply.text, entry.text)))
            reply.calls = [*reply.calls, *entry.calls]
            continue
        if reply is not None:
            yield reply
        reply = entry if entry.kind == "reply" else None
        if reply is None:
            yield entry
    if reply is not None:
        yield reply
