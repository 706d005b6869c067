"""What a call cost, and what it would have cost as the client wrote it. Pure.

The price model, for both sides: the provider's own usage of what was sent, at list prices. The counterfactual takes the
same call with the tokens that the view saved. Where the prompt cache was warm, they would have been read; where it was
cold, written; where the client does not cache, they would have been input. At a boundary, the client's prompt would have
read all of its last one, if that was still warm, and written the rest.
"""

from __future__ import annotations

import msgspec

from holdfast.model.history.bills import CallBill
from holdfast.model.history.prices import Prices

ENTRY_KIND = "gateway.call"
"""The entries of a session that hold the figures of its calls."""
REFUSAL_KIND = "gateway.refusal"
"""The entry of a session whose changed request a provider refused: it is left alone from then on."""
_CACHE_STEP = 128
"""A cached beginning may be read so many tokens short of its end."""
_HEAD_MARGIN = 1.1
"""The tokens before the messages are estimated; no more than so many times of them."""
_PRIOR_TOKENS = 2_000
"""A factor of 1 counts as much as so many tokens."""


class ExchangeFigures(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The figures of one call, as an entry stores them."""

    sent_us: int
    ended_us: int
    dialect: str
    model: str
    status: int
    agent: str = ""
    side: str = ""
    """Why the call was not planned; empty for a step of a conversation."""
    sent: CallBill | None = None
    """By the provider's usage; None if it is not known."""
    plain: CallBill | None = None
    """What the client's own bytes would have taken."""
    saved: int = 0
    """Tokens that were not sent, in the provider's count."""
    counted: int = 0
    """Tokens of the messages as the client wrote them, in the engine's count."""
    pieces: int = 0
    """Of the client's list of messages."""
    view: int = 0
    """The name of the view that was sent; 0 for none."""
    head: int = 0
    """Tokens before the messages, in the provider's count."""
    head_digest: str = ""
    """Of what stands before the messages: with another one, nothing of the prompt is in the cache. Empty if not known."""
    factor: float = 1.0
    """Tokens of the provider for one of the engine's, as far as known by then."""
    is_boundary: bool = False
    was_resent: bool = False
    cost: int = 0
    """In picodollars; 0 without prices."""
    plain_cost: int = 0
    run: str = ""
    """The `holdfast run` that the call belongs to; empty for none."""


class PromptSize(msgspec.Struct, frozen=True, kw_only=True):
    """How large a prompt was."""

    sent: int
    """Tokens, in the provider's count."""
    plain: int
    """The same, as the client wrote it."""
    counted: int
    """Its messages as the client wrote them, in the engine's count."""
    cached: int = 0
    """The tokens of its beginning that the provider's cache had after it."""
    view: int = 0
    """The name of the view that was sent; 0 for none."""


def measure_prompt(
    sent: int, counted: int, saved: int, factor: float, *, before: PromptSize | None, is_boundary: bool
) -> PromptSize:
    """How large a prompt was that took `sent` tokens. `counted` and `saved` are in the engine's count.

    Between boundaries a prompt grows by the same tokens as the client's own. At one, by what is new in it. Without an
    earlier prompt, it is what was sent and what the view takes out."""
    if not saved:
        plain = sent
    elif before is None or counted < before.counted:
        plain = sent + round(saved * factor)
    elif is_boundary:
        plain = before.plain + round((counted - before.counted) * factor)
    else:
        plain = before.plain + sent - before.sent
    return PromptSize(sent=sent, plain=max(0, plain), counted=counted)


def bill_plain(
    sent: CallBill,
    plain: int,
    *,
    before: PromptSize | None,
    is_boundary: bool,
    is_warm: bool,
    is_overtaken: bool = False,
    head: int = 0,
    has_own_mark: bool = False,
) -> CallBill:
    """What the client's own bytes, of `plain` tokens, would have taken. `is_warm` says that the cache should still have
    had the last prompt; between boundaries, what was read tells that. `is_overtaken` says that the client went back to an
    earlier message, or that the reply to a later request came first: perhaps no cache had its view. `head` tokens stand
    before the messages. `has_own_mark` says that the summary has a cache mark, which the client's own bytes would not have
    had.

    What cannot be known: at a boundary, whether the provider would have found the client's last prompt."""
    if plain == sent.tokens and not has_own_mark:
        return sent
    write, long, fresh = sent.write, sent.long_write, sent.fresh
    read = sent.read
    if read == sent.tokens:  # it was sent before, and the reply was lost
        return CallBill(plain, 0, 0, 0, sent.output)
    is_shifted = _is_shifted(sent, before, is_boundary=is_boundary, is_warm=is_warm, head=head, has_own=has_own_mark)
    if is_warm and before is not None and (is_boundary or (is_overtaken and not is_shifted)):
        read = before.plain
    elif read and is_shifted:
        read = max(0, read + plain - sent.tokens)
    elif has_own_mark and head:
        read = min(read, head)
    if not write + long:
        read = min(read, plain)
        return CallBill(read, 0, 0, plain - read, sent.output)
    fresh = min(fresh, plain)
    read = min(read, plain - fresh)
    written = plain - fresh - read
    write = min(write, written) if long else written
    long = written - write
    return CallBill(read, write, long, fresh, sent.output)


def _is_shifted(
    sent: CallBill, before: PromptSize | None, *, is_boundary: bool, is_warm: bool, head: int, has_own: bool
) -> bool:
    """Whether what was read ends behind the messages that a view changes, so that as much more would have been read of the
    client's own bytes. It does if it reaches the end of the last prompt. A shorter read can be of instructions and tools,
    which other conversations keep in the cache, or end at the gateway's own mark."""
    if before is None or is_boundary:
        return is_warm
    if not before.cached or not sent.written:  # a provider that does not say what it caches
        return 2 * sent.read >= before.sent
    if sent.read + _CACHE_STEP >= before.cached:
        return True
    return not has_own and sent.read > head * _HEAD_MARGIN


def price_call(figures: ExchangeFigures, prices: Prices | None) -> ExchangeFigures:
    """The figures with their costs."""
    if prices is None or figures.sent is None or figures.plain is None:
        return figures
    return msgspec.structs.replace(figures, cost=figures.sent.price(prices), plain_cost=figures.plain.price(prices))


class TokenScale:
    """Tokens of the provider for one of the counter, learned from how prompts grow."""

    def __init__(self, factor: float = 1.0) -> None:
        self._counted = float(_PRIOR_TOKENS)
        self._provider = factor * self._counted
        self._last: tuple[int, int] | None = None

    @property
    def factor(self) -> float:
        return self._provider / self._counted

    def add(self, provider: int, counted: int) -> None:
        """Compare the tokens of a prompt with those that were counted for its messages."""
        if self._last is not None:
            grown, more = provider - self._last[0], counted - self._last[1]
            if grown > 0 and more > 0:
                self._provider += grown
                self._counted += more
        self._last = provider, counted
