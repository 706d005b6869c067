"""The messages of LiteLLM: a chat of OpenAI, with what LiteLLM needs for other providers.

Differences: the tail is a message of the user, since LiteLLM moves messages of the developer to the front, where they
would invalidate the prompt cache; so is a system message inside the conversation, in the fence. Thinking blocks, and what
else a provider needs back, are in the fields in which LiteLLM returned them. No text is blank, and no result is empty:
LiteLLM passes them on, and Anthropic and Bedrock refuse them. For models of Anthropic, messages have cache marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.model.history.views import HistoryView
from holdfast.model.names import check_whole
from holdfast.providers.fields import LITELLM
from holdfast.providers.messages import LITELLM_FIELDS, OPENAI_FIELDS
from holdfast.render import entries
from holdfast.render.anthropic import BREAKPOINTS
from holdfast.render.bedrock import NO_OUTPUT
from holdfast.render.entries import NO_BODIES, AnsweredMessage, CallAnswer, RenderEntry, tail_text
from holdfast.render.openai import ChatMessages
from holdfast.text.fence import SEPARATOR, fence_system_message

_MARK = {"type": "ephemeral"}


def uses_cache_marks(model: str | None) -> bool:
    """Whether a model reads cache marks and does nothing else with them: LiteLLM makes other caches of them for Gemini."""
    return model is not None and "claude" in model.lower()


def render_litellm(
    history: HistoryView, bodies: Mapping[str, bytes] = NO_BODIES, breakpoints: int = 0
) -> list[dict[str, Any]]:
    """The `messages` of `litellm.completion`. `bodies` has the bytes of images and files by their digest. `breakpoints` is
    the most messages that have a cache mark, for models of Anthropic."""
    check_whole("breakpoints", breakpoints, 0, BREAKPOINTS)
    chat = _LiteLLMMessages(bodies)
    chat.add_history(history)
    _set_marks(chat, breakpoints)
    if tail := tail_text(history):
        chat.messages.append({"role": "user", "content": tail})
    return chat.messages


class _LiteLLMMessages(ChatMessages):
    issuer = LITELLM
    side_fields = OPENAI_FIELDS | LITELLM_FIELDS

    def _content_parts(self, entry: RenderEntry, *, pictures: bool) -> list[dict[str, Any]]:
        parts = super()._content_parts(entry, pictures=pictures)
        return [part for part in parts if part["type"] != self.text_type or part["text"].strip()]

    def turn(self, turn: AnsweredMessage) -> None:
        """Add a message, and the results of its calls."""
        if turn.message.role != "system":
            super().turn(turn)
            return
        content = entries.content_entries(turn.message, self.issuer, self._bodies)
        texts = [part["text"] for entry in content for part in self._content_parts(entry, pictures=False)]
        if texts:
            self.messages.append({"role": "user", "content": fence_system_message(SEPARATOR.join(texts))})

    def _add_result(self, call: str, answer: CallAnswer) -> list[dict[str, Any]]:
        beside = super()._add_result(call, answer)
        self.messages[-1]["content"] = self.messages[-1]["content"] or NO_OUTPUT
        return beside


def _set_marks(chat: ChatMessages, breakpoints: int) -> None:
    """Mark the ends of what the next request shows again, as for Anthropic. A reply has no mark: what led to it has."""
    messages = chat.messages
    last_reply = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=0)
    system = sum(message["role"] == "system" for message in messages)
    ends = [_find_end(messages, stop) for stop in (len(messages), system, chat.boundary, last_reply)]
    for at in list(dict.fromkeys(end for end in ends if end is not None))[:breakpoints]:
        content = messages[at]["content"]
        if isinstance(content, str):
            messages[at]["cache_control"] = dict(_MARK)
        else:
            content[-1] = {**content[-1], "cache_control": dict(_MARK)}


def _find_end(messages: list[dict[str, Any]], stop: int) -> int | None:
    """The last message before a position that may have a mark."""
    return next(
        (at for at in range(stop - 1, -1, -1) if messages[at]["role"] != "assistant" and messages[at]["content"]), None
    )
