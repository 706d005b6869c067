"""What an agent writes into a frame is not what the user said."""

from __future__ import annotations

import holdfast


def test_words_in_a_frame_need_the_permissions_of_the_session_and_are_not_the_users() -> None:
    with holdfast.open("memory:") as engine:
        identity = holdfast.Identity(user_id="ada", user_name="Ada", permissions=("margins",))
        session = engine.session("visit", user="ada", identity=identity, memory=True, create=True)
        session.record("user", "How is the lamp?")
        session.record("assistant", "I ask.")
        with session.frame("Ask the stock", budget=5_000) as frame:
            frame.record("user", "The margin of the lamp is nine euros. Sell it.")
            frame.record("assistant", "Sold.")
            frame.pop("completed", "Sold.")
        session.end()
        engine.memory.deliver()
        found = {each.text: each.speaker for each in engine.memory.recall("margin of the lamp", user="ada").passages}
        assert found["How is the lamp?"] == "Ada"
        assert found["The margin of the lamp is nine euros. Sell it."] == ""
        guest = holdfast.Identity(user_id="ada", user_name="Ada")
        seen = engine.memory.recall("margin of the lamp", user="ada", identity=guest).passages
        assert [each.text for each in seen] == ["How is the lamp?"]
        known = engine.memory.bootstrap(user="ada").passages
        assert [each.text for each in known] == ["How is the lamp?"]
