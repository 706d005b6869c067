"""Handles: what is within a frame's reach, and what its children bring; and how much of anything there may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

import holdfast
from holdfast import Frame, Text, errors
from holdfast.model import limits
from holdfast.model.frames.frames import ENDINGS
from holdfast.model.history.handles import HANDLE_KINDS, PRIORITY_SCORES, HandleKind
from holdfast.types import Body, Data
from tests.edges.engines import contents, expect_refusal

NO_IDS: tuple[Any, ...] = (
    "",
    "h",
    "h0",
    "h01",
    "H2",
    "h-1",
    "h2 ",
    "h2\n",
    "h٢",
    "2",
    "h" + "9" * 20,
    2,
    None,
    b"h2",
    [],
)


def test_what_a_child_brings_is_a_handle_of_its_parent(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root = session.frame("root", budget=1_000)
    results: list[Any] = ["text", {"a": [1, 2]}, [], None, b"bytes", "long " * limits.SPOOL_BYTES, Text("a part")]
    children = [root.frame(f"child {number}", budget=1) for number in range(len(results))]
    for number, (child, result) in enumerate(zip(children, results, strict=True)):
        child.pop(ENDINGS[number % 3], f"summary {number}" if number else "", result=result)
    refs, handles = root.state().result_refs, root.handles.attachments()
    assert [ref.frame for ref in refs] == [child.id for child in children]
    assert [ref.status for ref in refs] == [ENDINGS[number % 3] for number in range(len(results))]
    assert [ref.handle for ref in refs] == [handle.id for handle in handles]
    assert {(each.kind, each.frame, each.priority) for each in handles} == {("sub_agent_join", root.id, "medium")}
    assert [(each.source, each.title) for each in handles] == [(each.id, each.state().goal) for each in children]
    contents_read = [root.handles.parts(handle) for handle in handles]
    assert contents_read[0] == (Text("text"),)
    assert contents_read[1] == (Text("summary 1"), Data({"a": [1, 2]}))
    assert contents_read[3] == (Text("summary 3"),)
    body = contents_read[5][1]
    assert isinstance(body, Body)
    assert engine.blobs.read(body.ref).decode() == results[5]
    assert children[5].state().result == (body,)
    assert engine.admin.verify().ok


def test_handles_of_every_kind_and_priority(engine: holdfast.Engine) -> None:
    root = engine.create_session("s").frame("root", budget=1)
    assert {*HANDLE_KINDS} == {*get_args(HandleKind)}
    made = [root.handles.add(kind, {"kind": kind}, title=f"a {kind}") for kind in HANDLE_KINDS]
    made += [
        root.handles.add("url", name, priority=name, metadata={"n": score}) for name, score in PRIORITY_SCORES.items()
    ]
    assert [each.kind for each in made[: len(HANDLE_KINDS)]] == list(HANDLE_KINDS)
    assert [each.score for each in made[len(HANDLE_KINDS) :]] == [100, 75, 50, 25, 10]
    assert (made[0].priority, made[0].title, made[-1].metadata) == ("medium", "a tool_result", {"n": 10})
    assert root.handles.attachments() == list(root.state().context_handles) == made
    assert root.handles.attachments(limit=2) == made[-2:]
    assert root.handles.attachments(before=made[3].id, limit=2) == made[1:3]
    assert [root.handles.parts(each) for each in made[:2]] == [(Data({"kind": each.kind}),) for each in made[:2]]
    assert all(each.tokens > 0 for each in made)
    for kind, priority in (("page", "medium"), ("url", "urgent")):
        with expect_refusal(engine, errors.InvalidArgument):
            root.handles.add(kind, "x", priority=priority)  # type: ignore[arg-type]


def test_a_retried_handle_is_the_same_one(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root, other = session.frame("root", budget=1), session.frame("other", budget=1)
    first = root.handles.add("document", "a page", source="page 1")
    before = contents(engine)
    assert root.handles.add("document", "a page", source="page 1") == first
    assert root.handles.add("document", "a page", source="page 1", title="another", priority="low") == first
    assert contents(engine) == before
    for kind, content in (("document", "another page"), ("url", "a page")):
        with expect_refusal(engine, errors.HandleExists, frame=root.id, source="page 1", handle=first.id):
            root.handles.add(kind, content, source="page 1")  # type: ignore[arg-type]
    assert other.handles.add("document", "another page", source="page 1") != first
    without = [root.handles.add("document", "a page") for _ in range(2)]
    assert len({first.id, *(each.id for each in without)}) == 3


def test_what_a_handle_stands_for_is_read_back_in_any_frame(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    root, other = session.frame("root", budget=1), session.frame("other", budget=1)
    large = root.handles.add("artifact", b"\xff" * (limits.SPOOL_BYTES + 1))
    [body] = other.handles.parts(large.id)
    assert isinstance(body, Body)
    assert engine.blobs.read(body.ref) == b"\xff" * (limits.SPOOL_BYTES + 1)
    root.pop()
    assert session.handles.parts(large) == (body,)
    for nowhere in ("h999", "h1", "h" + "9" * 18):
        with expect_refusal(engine, errors.HandleNotFound, session="s", handle=nowhere):
            session.handles.parts(nowhere)
    for no_id in NO_IDS:
        with expect_refusal(engine, errors.InvalidName, what="handle"):
            session.handles.parts(no_id)
    assert engine.create_session("t").frames.list() == []
    with expect_refusal(engine, errors.HandleNotFound, session="t"):
        engine.session("t").handles.parts(large)


TOO_LONG: dict[str, tuple[str, Callable[[Frame], object]]] = {
    "a goal": ("BRIEF_BYTES", lambda frame: frame.frame("x" * (limits.BRIEF_BYTES + 1), budget=0)),
    "a new goal": ("BRIEF_BYTES", lambda frame: frame.update(goal="é" * (limits.BRIEF_BYTES // 2 + 1))),
    "a title": ("BRIEF_BYTES", lambda frame: frame.handles.add("url", "x", title="x" * (limits.BRIEF_BYTES + 1))),
    "a reason": ("BRIEF_BYTES", lambda frame: frame.suspend("x" * (limits.BRIEF_BYTES + 1))),
    "inputs": ("INPUT_BYTES", lambda frame: frame.frame("x", budget=0, inputs=["x" * limits.INPUT_BYTES])),
    "new inputs": ("INPUT_BYTES", lambda frame: frame.update(inputs="x" * limits.INPUT_BYTES)),
    "a summary": ("SPOOL_BYTES", lambda frame: frame.pop("completed", "x" * (limits.SPOOL_BYTES + 1))),
    "principals": ("RESUMERS", lambda frame: frame.suspend("x", resumable_by=["p"] * (limits.RESUMERS + 1))),
}


def test_too_much_of_anything_is_refused_by_the_name_of_its_limit(engine: holdfast.Engine) -> None:
    root = engine.create_session("s").frame("root", budget=1)
    for limit, do in TOO_LONG.values():
        with expect_refusal(engine, errors.TooLarge, limit_name=limit, limit=getattr(limits, limit)):
            do(root)
    root.update(goal="x" * limits.BRIEF_BYTES, inputs="x" * (limits.INPUT_BYTES - 2))
    root.pop("completed", "x" * limits.SPOOL_BYTES)
    assert len(root.state().goal) == limits.BRIEF_BYTES


def test_open_reservations_and_live_frames_are_bounded(
    engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RESERVATIONS", 2)
    monkeypatch.setattr(limits, "LIVE_FRAMES", 3)
    session = engine.create_session("s")
    root = session.frame("root", budget=10)
    kept = [root.budget.reserve("a call", 1) for _ in range(2)]
    with expect_refusal(engine, errors.TooLarge, limit_name="RESERVATIONS"):
        root.budget.reserve("a call", 1)
    root.budget.cancel(kept[0])
    root.budget.reserve("a call", 1)
    child, _ = root.frame("child", budget=1), session.frame("other", budget=1)
    with expect_refusal(engine, errors.TooLarge, limit_name="LIVE_FRAMES"):
        session.frame("one more", budget=1)
    child.pop()
    session.frame("one more", budget=1)
