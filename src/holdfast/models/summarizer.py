"""A summarizer that asks a model: `holdfast.open(summarizer=ModelSummarizer(model))`.

Laws: a summary that is empty, or longer than allowed, is refused, and the rules serve instead. After a reply,
`session.context.prepare(pack)` asks with the very messages of the pack first: the provider reads them from its cache.
"""

from __future__ import annotations

import msgspec

import holdfast
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.model.history.prices import Prices, check_prices, find_prices
from holdfast.model.history.views import Summary, SummaryDraft
from holdfast.model.sessions.model_uses import MeteredAnswer
from holdfast.models.model import Model, PromptMessage
from holdfast.models.prompt_files import Prompt, fence_order, load_prompt, quote_data
from holdfast.models.questions import ModelOutcome, ModelQuestion, check_model, used
from holdfast.ports import TokenCounter

_WORDS = (3, 5)
"""Words that so many tokens are, on the safe side."""
_SPARE = (2, 200)
"""The answer may take so many times the tokens of the summary, and so many more: models count differently."""
_LAST_CHARS = 160
"""How much of the last message to summarize is quoted, so that the model knows where to stop."""


class _SummaryAsker:
    """The questions and answers of a summarizer."""

    def __init__(self, model: Model, *, prices: Prices | None = None, counter: TokenCounter | None = None) -> None:
        """`prices` say when a compaction pays; those of known models are known. `counter` is the one of the engine."""
        self._model = check_model(model)
        self.prices = find_prices(model.name) if prices is None else check_prices(prices)
        self._counter = counter or EstimatingCounter()

    def _ask_draft(self, draft: SummaryDraft, tokens: int) -> ModelQuestion:
        prompt = load_prompt("summarize")
        data = {"conversation": draft.text, "max_words": _max_words(tokens)}
        messages = prompt.ask(data, "Write the summary of the conversation in the JSON above, and nothing else.")
        return _question(prompt, messages, tokens)

    def _ask_pack(self, draft: SummaryDraft, tokens: int, pack: holdfast.Pack) -> ModelQuestion:
        if not self._can_ride(draft, pack):
            return self._ask_draft(draft, tokens)
        prompt = load_prompt("summarize_pack")
        order = (
            f"Summarize the messages above up to the one that is quoted here as JSON, with it, in {_max_words(tokens)}"
        )
        last = msgspec.json.encode(quote_data(_last_text(draft))).decode()
        messages = [PromptMessage("user", fence_order(prompt.text, f"{order} words at most: {last}"))]
        return msgspec.structs.replace(_question(prompt, messages, tokens), pack=pack)

    def _can_ride(self, draft: SummaryDraft, pack: holdfast.Pack) -> bool:
        """Whether the pack was for this model, and shows everything that is to be summarized."""
        history = pack.history
        shown = {(type(item), item.seq) for item in history.items}
        return (
            (history.scope, history.frame) == (draft.scope, draft.frame)
            and pack.manifest.request.model in (None, "", self._model.name)
            and all((type(item), item.seq) in shown for item in draft.items)
        )

    def _read(self, outcome: ModelOutcome, tokens: int) -> MeteredAnswer[str]:
        text = outcome.value.strip() if isinstance(outcome.value, str) else ""
        error = outcome.error
        if text and self._counter.count(text) > tokens:
            text, error = "", f"the summary has more than {tokens:,} tokens"
        return MeteredAnswer(value=text, uses=used(outcome.use), error=error)


class ModelSummarizer(_SummaryAsker):
    """A summarizer that asks a model. If the model fails, the rules serve."""

    def summarize(self, draft: SummaryDraft, tokens: int) -> MeteredAnswer[str]:
        return self._read(self._ask_draft(draft, tokens).ask(self._model), tokens)

    def summarize_pack(self, draft: SummaryDraft, tokens: int, pack: holdfast.Pack) -> MeteredAnswer[str]:
        return self._read(self._ask_pack(draft, tokens, pack).ask(self._model), tokens)


class AsyncModelSummarizer(_SummaryAsker):
    """The same for an engine of open_async()."""

    async def summarize(self, draft: SummaryDraft, tokens: int) -> MeteredAnswer[str]:
        return self._read(await self._ask_draft(draft, tokens).ask_async(self._model), tokens)

    async def summarize_pack(self, draft: SummaryDraft, tokens: int, pack: holdfast.Pack) -> MeteredAnswer[str]:
        return self._read(await self._ask_pack(draft, tokens, pack).ask_async(self._model), tokens)


def _question(prompt: Prompt, messages: list[PromptMessage], tokens: int) -> ModelQuestion:
    times, more = _SPARE
    return ModelQuestion(purpose="summary", prompt=prompt, messages=messages, max_tokens=tokens * times + more)


def _max_words(tokens: int) -> int:
    return max(1, tokens * _WORDS[0] // _WORDS[1])


def _last_text(draft: SummaryDraft) -> str:
    """The beginning of the last message with a text."""
    for item in reversed(draft.items):
        texts = [item.text] if isinstance(item, Summary) else [message.text for message in reversed(item.messages)]
        for text in texts:
            if text.strip():
                return text.strip()[:_LAST_CHARS]
    return ""
