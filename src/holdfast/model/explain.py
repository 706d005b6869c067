"""Plans in words."""

from __future__ import annotations

from holdfast.model.plan import Faithful, Figures, Plan, label

_PICO = 10**12
_SHORT = 0.0001


def money(cost: int) -> str:
    """Picodollars as dollars, with as many digits as say something."""
    dollars = cost / _PICO
    if dollars == 0:
        return "$0"
    if abs(dollars) >= 1:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if abs(dollars) >= _SHORT else f"${dollars:.2g}"


def explained(plan: Plan) -> str:
    figures = plan.figures
    share = f"{figures.before / figures.window:.0%} of the window of {figures.window:,}" if figures.window else ""
    lines = [f"The view has {figures.before:,} tokens: {share}. Policy: {plan.policy}."]
    if plan.why is None:
        lines += _refused(plan)
    else:
        lines += [_done(plan), *_priced(plan, figures)]
    over = plan.final - figures.window
    if not plan.target_met and over <= 0:
        lines.append(
            f"It will fit, but a collapse does not reach its target: {figures.after:,} tokens stay, which are pinned,"
            " Critical, or new to the model."
        )
    elif not plan.target_met:
        lines.append(
            f"It will not fit: {over:,} tokens too many are pinned, new to the model, or stand before it. Take a larger"
            " window, or split what is new."
        )
    return "\n".join(lines)


_REASONS = {
    "pays": "it pays",
    "forced": "the window forces it, whatever it costs",
    "threshold": "the history takes more of the window than the policy allows",
    "cold": "the cache is cold",
    "idle": "nothing happened for a while",
    "asked": "it was asked for",
}


def _done(plan: Plan) -> str:
    figures = plan.figures
    steps = ", then ".join(
        f"{label(step.op)} (from item {step.first_changed_index} on, {step.before:,} to {step.after:,} tokens)"
        for step in plan.steps
    )
    most = "" if plan.fold is None or plan.fold.text else "up to "
    folded = (
        ""
        if plan.fold is None
        else f" {plan.fold.count:,} messages become a summary of {most}{plan.fold.tokens:,} tokens."
    )
    reduced = "" if not plan.reduced else f" {len(plan.reduced):,} pieces are shown in a shorter form."
    freed = figures.before - figures.after
    reason = _REASONS[plan.why or "asked"]
    return f"To do, since {reason}: {steps}.{folded}{reduced} Frees {freed:,} tokens."


def _priced(plan: Plan, figures: Figures) -> list[str]:
    if plan.prices is None:
        return []
    known = plan.prices.provider != "unknown"
    model = (
        f"{plan.prices.provider}/{plan.prices.model}" if known else "prices unknown: as if input were $1 for a million"
    )
    if figures.cold:
        cost = "The cache is cold, so writing the rest anew costs nothing extra"
    else:
        extra = money(figures.rewriting)
        cost = f"Writing {figures.rewritten:,} tokens anew costs {extra} more than reading them from the cache"
    summary = f", the summary {money(figures.summarizing)}" if figures.summarizing else ""
    lines = [f"{cost}{summary} ({model})."]
    if figures.lost:
        share = f"{figures.repeats} of {figures.results} results were asked for again so far"
        lines.append(f"Reading again what is forgotten is reckoned at {money(figures.lost)} ({share}).")
    at_once = (
        figures.earns - figures.saves * (figures.before - figures.after) // _growth(figures) if figures.cold else 0
    )
    back = max(0, figures.rewriting + figures.summarizing - max(0, at_once))
    if figures.saves > 0:
        calls = -(-back // figures.saves)
        when = "at once" if not back else f"after {calls:,} call{'' if calls == 1 else 's'}"
        lines.append(
            f"It saves {money(figures.saves)} at each call, so it pays back {when}; at {_growth(figures):,} tokens a call,"
            f" as much again will have gathered in {figures.horizon:,}."
        )
    return lines


def _growth(figures: Figures) -> int:
    return figures.grown // max(1, figures.calls)


def _refused(plan: Plan) -> list[str]:
    figures = plan.figures
    freed = figures.before - figures.after
    if not freed and plan.policy == Faithful.name and figures.before <= figures.window:
        return ["Nothing to do: the history fits, or what is old would free too little, so all of it is shown."]
    if not freed:
        return ["Nothing to do: nothing that the model has seen, outside of the last turns, would free enough."]
    lines = [f"Not now: the best that could be done would free {freed:,} tokens.", *_priced(plan, figures)]
    if figures.net > 0:
        costs, earns = money(figures.rewriting + figures.summarizing), money(figures.earns)
        lines.append(f"That costs {costs}, and {earns} would be saved until as much again has gathered: not yet.")
    return lines
