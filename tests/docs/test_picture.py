"""The picture of `holdfast pack` is what the command prints."""

from __future__ import annotations

from tools import pack_picture


def test_the_picture_of_a_pack_is_what_the_command_prints() -> None:
    assert pack_picture.PICTURE.read_text() == pack_picture.draw_picture(), "run `make picture`"
