"""What the gateway's policies would send of recorded sessions, without a gateway: cost of the input against sending
everything, grounding, and the dearest session.

    python -m benchmarks.cost_gateway DATA
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.cost_baselines import send_everything
from benchmarks.cost_planner import PlannedSession
from benchmarks.cost_recordings import Recording, read_recordings
from benchmarks.cost_score import PREFIX_TOKENS, Score, score
from holdfast.gateway.policies import FAITHFUL, FRUGAL, plan_window
from holdfast.model.history.plans import PlanPolicy
from holdfast.model.history.prices import Prices, find_prices

MODEL = "claude-sonnet-4-6"


def replay(recording: Recording, policy: PlanPolicy, prices: Prices) -> Score:
    window = plan_window(prices, 0, 0)
    held = msgspec.structs.replace(prices, window=window + 1, max_output=1)
    return score(recording, PlannedSession(recording, policy, held, window).prompts(), window, prices)


def describe(name: str, sent: Sequence[Score], plain: Sequence[Score]) -> str:
    total, base = Score.total(sent), Score.total(plain)
    ratios = [one.cost / other.cost for one, other in zip(sent, plain, strict=True)]
    return (
        f"{name:24} {total.cost / base.cost:.3f} of plain   grounding {total.grounding:.2%}   dearest session"
        f" {max(ratios):.3f}   {total.sent // total.calls:,} tokens a call (plain {base.sent // base.calls:,})"
        f"   {total.boundaries} boundaries"
    )


def main(data: Path) -> None:
    prices = find_prices(MODEL)
    assert prices is not None, "a listed model"
    recordings = list(read_recordings(sorted(data.glob("*.jsonl"))))
    plain = [score(each, send_everything(each), prices.window, prices) for each in recordings]
    print(f"{len(recordings)} sessions, {MODEL}, {PREFIX_TOKENS:,} tokens before the conversation")
    for policy in (FAITHFUL, FRUGAL):
        sent = [replay(each, policy, prices) for each in recordings]
        for half, chosen in (("all", (False, True)), ("held out", (True,)), ("the others", (False,))):
            rows = [at for at, each in enumerate(recordings) if each.held_out in chosen]
            print(describe(f"{policy.name}, {half}", [sent[at] for at in rows], [plain[at] for at in rows]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
