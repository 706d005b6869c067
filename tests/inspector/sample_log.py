"""A log of Claude Code for the pictures: an afternoon on a shop, with files that change, an answer that the user corrects,
and a pause that is longer than the cache lives."""

from __future__ import annotations

from pathlib import Path

from tests.inspector.logs import ClaudeLines, write_lines

RATES = "/srv/shop/rates.py"
CART = "/srv/shop/cart.py"
TEST = "/srv/shop/tests/test_cart.py"
ROUNDS, LATE_STEP, CORRECTED_STEP = 3, 10, 4
PAUSE_S = 4_000
LINES, CHARS_PER_TOKEN = 400, 3
STEPS = (
    ("The test of the cart fails. Find out why.", TEST, "assert total == 119", "assert total == 121"),
    ("Round to whole cents, please.", CART, "total * rate", "round(total * rate, 2)"),
    ("Add the rate of Portugal.", RATES, '"DE": 19', '"DE": 19, "PT": 23'),
    ("The cart should refuse negative amounts.", CART, "def add(", "def add_checked("),
    ("Give each rate a date.", RATES, '"PT": 23', '"PT": (23, "2026-01-01")'),
    ("And a test for that.", TEST, "def test_total", "def test_rates_have_dates"),
)


def build_source(name: str, version: int) -> str:
    """The text of a file, as a tool returns it. Every version of it has other lines."""
    head = [f"# {name}", 'RATES = {"FR": 20, "DE": 19}', "def add(cart, item, amount):", "    return total * rate"]
    return "\n".join([*head, *(f"    step_{number} = compute({number}, {version})" for number in range(LINES))])


def write_sample_log(path: Path) -> Path:
    log = ClaudeLines()
    log.say("My address is 12 Elm Street. Use it for the sample order.")
    log.text("I put it into the sample order.")
    for number, (question, file, old, new) in enumerate(STEPS * ROUNDS):
        is_late = number == LATE_STEP
        log.seconds += PAUSE_S if is_late else 0
        log.say(question)
        source = build_source(file, number)
        log.call("Read", source, read=0 if is_late else None, file_path=file)
        log.prompt += len(source) // CHARS_PER_TOKEN
        log.call("Edit", "The file was changed.", file_path=file, old_string=old, new_string=new)
        log.call("Bash", "3 passed in 0.4 s", command=f"pytest {TEST}")
        log.text("It is done, and the tests pass.")
        if number == CORRECTED_STEP:
            log.say("Actually my address is 7 Mill Lane now.")
            log.text("I changed the sample order.")
    return write_lines(path, log.lines)
