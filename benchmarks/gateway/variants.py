"""Other courses of the recorded sessions: clients that edit replies or go back, gaps that empty the cache, and a gateway
that is killed in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from benchmarks.gateway.material import ClientTurn, ReplayCall, ReplaySession

EDITED = 5
"""One reply in so many comes back edited."""
COLD_US = 400 * 1_000_000
"""What is added to each gap, so that no cache is warm."""
Course = Callable[[ReplaySession], list[ReplayCall]]


def edit_replies(session: ReplaySession) -> list[ReplayCall]:
    """The client sends some replies back with another text, as Claude Code does with some calls."""
    edited: dict[int, ClientTurn] = {}

    def edit(index: int, turn: ClientTurn) -> ClientTurn:
        if turn.role != "assistant" or index % (2 * EDITED) != 1:
            return turn
        if index not in edited:
            text = {"type": "text", "text": "The client has edited this reply."}
            edited[index] = ClientTurn(turn.role, [text, *(each for each in turn.blocks if each["type"] != "text")])
        return edited[index]

    return [
        msgspec.structs.replace(call, turns=[edit(index, turn) for index, turn in enumerate(call.turns)])
        for call in session.calls
    ]


def go_back(session: ReplaySession) -> list[ReplayCall]:
    """At two thirds, the client goes back to one third, says something else there, and goes on from it to the end."""
    calls = session.calls
    start, end = len(calls) // 3, 2 * len(calls) // 3
    if start == end:
        return list(calls)
    at = len(calls[start].turns) - 1
    said = {"type": "text", "text": "Go on from here, another time."}
    turn = calls[start].turns[at]
    other = ClientTurn(turn.role, [*turn.blocks, said])
    shift = calls[end - 1].replied_us - calls[start].sent_us + 1_000_000
    return [*calls[:end], *(_shift(call, shift, at, other) for call in calls[start:])]


def _shift(call: ReplayCall, shift_us: int, at: int, turn: ClientTurn) -> ReplayCall:
    return msgspec.structs.replace(
        call,
        turns=[*call.turns[:at], turn, *call.turns[at + 1 :]],
        sent_us=call.sent_us + shift_us,
        replied_us=call.replied_us + shift_us,
    )


def cool_down(session: ReplaySession) -> list[ReplayCall]:
    """Before each call, the cache is lost."""
    return list(_cool(session))


def _cool(session: ReplaySession) -> Iterator[ReplayCall]:
    for number, call in enumerate(session.calls):
        shift = number * COLD_US
        yield msgspec.structs.replace(call, sent_us=call.sent_us + shift, replied_us=call.replied_us + shift)


COURSES: dict[str, Course] = {
    "every fifth reply comes back edited": edit_replies,
    "the client goes back from two thirds to one third": go_back,
    "every call is cold": cool_down,
}
