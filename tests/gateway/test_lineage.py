"""Which recorded conversation a request goes on with, against a plain model: lists of messages, compared one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.gateway.lineage import Node, build_chain, count_fixed, count_shared, find_match
from holdfast.gateway.model import ClientMessage, ClientPiece, Slice

Spec = tuple[str, int]
"""A role, and which of several messages of that role it is."""
ROLES = {"u": "user", "a": "assistant", "c": "assistant", "t": "user", "s": "system"}
"""A user's text, a reply, a reply with a call, the result of a call, and a system message."""
specs = st.tuples(st.sampled_from("uacts"), st.integers(0, 2))
lists = st.lists(specs, min_size=1, max_size=8)


def build(spec: Spec) -> ClientMessage:
    kind, number = spec
    call = f"call-{number}" if kind in "ct" else ""
    piece = ClientPiece(at=Slice(0, 0), kind="call" if kind == "c" else "result" if kind == "t" else "text", call=call)
    return ClientMessage(
        at=Slice(0, 0),
        role=ROLES[kind],  # type: ignore[arg-type]
        pieces=(piece,),
        digest=f"{kind}{number}".encode(),
    )


def record(messages: list[Spec], *, has_reply: bool) -> list[Node]:
    """The branch of a list; its last message may be the reply that was recorded for the others."""
    nodes: list[Node] = []
    built = list(map(build, messages))
    for index, (name, message) in enumerate(zip(build_chain(built), built, strict=True)):
        is_reply = has_reply and index == len(messages) - 1 and message.role == "assistant"
        calls = tuple(piece.call for piece in message.pieces if piece.call)
        nodes.append(Node(name, message.role, calls, is_reply))
    return nodes


def count_common(one: list[Spec], other: list[Spec]) -> int:
    pairs = zip(one, other, strict=False)
    return next((number for number, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


@given(lists, lists)
def test_shared_beginnings_are_found_by_their_hashes(one: list[Spec], other: list[Spec]) -> None:
    chain = build_chain(map(build, one))
    assert count_shared(chain, record(other, has_reply=False)) == count_common(one, other)


@given(lists, st.lists(st.tuples(lists, st.booleans()), max_size=4))
def test_a_match_shares_as_much_as_any_branch(messages: list[Spec], recorded: list[tuple[list[Spec], bool]]) -> None:
    branches = {str(number): record(*each[:1], has_reply=each[1]) for number, each in enumerate(recorded)}
    built = list(map(build, messages))
    match = find_match(build_chain(built), built, branches)
    assert match.shared == max((count_common(messages, each) for each, _ in recorded), default=0)
    assert (match.relation == "new") == (not recorded)
    if match.branch:
        branch, _ = recorded[int(match.branch)]
        assert count_common(messages, branch) == match.shared


@given(lists, lists)
def test_a_list_that_extends_a_branch_continues_it(messages: list[Spec], more: list[Spec]) -> None:
    built = list(map(build, [*messages, *more]))
    match = find_match(build_chain(built), built, {"one": record(messages, has_reply=False)})
    assert match == ("continue", "one", len(messages))


@given(lists, st.integers(0, 2))
def test_a_repeated_request_finds_its_place(messages: list[Spec], reply: int) -> None:
    built = list(map(build, messages))
    answered = record([*messages, ("a", reply)], has_reply=True)
    assert find_match(build_chain(built), built, {"one": answered}) == ("retry", "one", len(messages))
    unanswered = record(messages, has_reply=False)
    assert find_match(build_chain(built), built, {"one": unanswered}) == ("retry", "one", len(messages))


@given(lists)
def test_an_edited_reply_with_the_same_calls_is_a_revision(messages: list[Spec]) -> None:
    recorded = record([*messages, ("u", 9), ("c", 1)], has_reply=True)
    edited = ClientMessage(
        at=Slice(0, 0),
        role="assistant",
        pieces=(ClientPiece(at=Slice(0, 0), kind="call", call="call-1"),),
        digest=b"another text, the same call",
    )
    built = [*map(build, [*messages, ("u", 9)]), edited, build(("t", 1))]
    assert find_match(build_chain(built), built, {"one": recorded}) == ("revise", "one", len(messages) + 1)


@given(lists, st.integers(3, 5))
def test_a_reply_with_other_calls_is_a_fork(messages: list[Spec], call: int) -> None:
    recorded = record([*messages, ("u", 9), ("c", 1)], has_reply=True)
    built = list(map(build, [*messages, ("u", 9), ("c", call), ("t", call)]))
    assert find_match(build_chain(built), built, {"one": recorded}) == ("fork", "one", len(messages) + 1)


@given(lists, st.lists(specs, min_size=2, max_size=4))
def test_another_question_where_the_client_went_on_is_a_fork(messages: list[Spec], more: list[Spec]) -> None:
    recorded = [*messages, ("u", 9), ("a", 9), *more, ("u", 8)]
    built = list(map(build, [*messages, ("u", 7)]))
    assert find_match(build_chain(built), built, {"one": record(recorded, has_reply=False)}).relation == "fork"


@given(lists)
def test_a_replaced_reminder_is_a_revision(messages: list[Spec]) -> None:
    recorded = record([*messages, ("u", 9), ("s", 1), ("a", 1)], has_reply=True)
    built = list(map(build, [*messages, ("u", 9), ("s", 2), ("a", 1), ("u", 8)]))
    assert find_match(build_chain(built), built, {"one": recorded}) == ("revise", "one", len(messages) + 1)


@given(lists, lists)
def test_a_list_without_anything_known_is_an_epoch(messages: list[Spec], fresh: list[Spec]) -> None:
    shortened = [("u", 100), *fresh]
    built = list(map(build, shortened))
    match = find_match(build_chain(built), built, {"one": record([("u", 50), *messages], has_reply=False)})
    assert match == ("epoch", "one", 0)


@given(lists, lists)
def test_a_branch_that_was_begun_takes_a_list_without_anything_known(messages: list[Spec], fresh: list[Spec]) -> None:
    built = list(map(build, [("u", 100), *fresh]))
    branches = {"one": record([("u", 50), *messages], has_reply=False), "two": []}
    assert find_match(build_chain(built), built, branches) == ("continue", "two", 0)


@given(lists, st.booleans())
def test_what_the_client_repeated_is_fixed(messages: list[Spec], has_reply: bool) -> None:
    nodes = record(messages, has_reply=has_reply)
    fixed = count_fixed(nodes)
    behind = nodes[fixed:]
    assert behind, "the last message is open"
    rest = [node for node in behind[1:] if not node.is_reply]
    assert all(node.role == "system" for node in rest)
