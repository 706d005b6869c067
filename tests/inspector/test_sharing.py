"""What is shared in a file is read back as it was, whatever is in it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.inspector.shared_parts import Pool, Sharing, read_shared

NAMES = st.sampled_from(["$ref", "$join", "$real", "$part", "__proto__", "constructor", "", "a"]) | st.text(max_size=4)
LONG = st.sampled_from(["x" * 120, "𝄞é\u2028" * 400, "y" * 1_500, "y" * 1_500 + "z", "y" * 900 + "𝄞" + "y" * 800])
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -0.5]) | st.text(max_size=6) | LONG
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=14) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=40,
)


def write(answers: dict[str, Any]) -> dict[str, Any]:
    """Answers as a file has them."""
    pool = Pool()
    shared = {name: pool.share(each) for name, each in answers.items()}
    sharing = Sharing(pool)
    for each in shared.values():
        sharing.add(each)
    written = {name: sharing.write(each) for name, each in shared.items()}
    document: dict[str, Any] = json.loads(json.dumps({"shared": sharing.table, "answers": written}))
    return document


def check(answers: dict[str, Any]) -> None:
    document = write(answers)
    read = read_shared(document["shared"], document["answers"])
    assert json.dumps(read) == json.dumps(answers)


@given(VALUES, VALUES)
def test_any_value_is_read_as_it_was_written(one: Any, other: Any) -> None:
    grown = [*one, other] if isinstance(one, list) else one
    check({"one": one, "other": [other, one, {"again": [one, other]}], "grown": grown, "last": [other, grown]})


@given(st.lists(VALUES, min_size=8, max_size=12), st.lists(VALUES, max_size=3), st.integers(0, 8))
def test_a_list_that_continues_another_is_read_as_it_was(items: list[Any], added: list[Any], at: int) -> None:
    check({"first": items, "second": items + added, "third": items[:at] + added + items[at:], "fourth": items})


def test_names_of_the_format_are_content_like_any_other() -> None:
    hostile: list[Any] = [
        {"$ref": 0},
        {"$ref": "0"},
        {"$join": [{"$part": [0, 0, 1]}]},
        {"$real": {"$ref": 0}},
        {"$part": [0, 0, 9]},
        {"$real": 1, "x": {"$ref": {"$ref": 1}}},
        {"__proto__": {"polluted": "yes" * 50}},
    ]
    check({"one": hostile, "two": [hostile, hostile], "three": {"deep": hostile}})


def test_a_history_that_grows_takes_the_room_of_what_is_new() -> None:
    messages = [{"role": "user", "content": f"message {number} " + "text " * 40} for number in range(200)]
    texts = ["".join(each["content"] for each in messages[:count]) for count in range(20, 200)]
    answers: dict[str, Any] = {f"/packs/p{count}": {"messages": messages[:count]} for count in range(20, 200)}
    answers |= {f"/packs/p{number}?to=text": {"rendered": text} for number, text in enumerate(texts)}
    check(answers)
    assert len(json.dumps(write(answers))) < 4 * len(json.dumps(messages))
    assert len(json.dumps(answers)) > 100 * len(json.dumps(messages))
