"""A model that keeps the situation of a conversation up to date, by the schema of `UPDATE_SITUATION`.

Law: if the model fails, the rules write the situation. What the model used is recorded either way.
"""

from __future__ import annotations

import holdfast
from holdfast.model import limits
from holdfast.model.history.views import HistoryView
from holdfast.model.situation.situations import UPDATE_SITUATION, Situation, SituationUpdate
from holdfast.models.model import Model
from holdfast.models.prompt_files import load_prompt
from holdfast.models.questions import ModelQuestion, check_model, name_author, used

_MESSAGE_CHARS = limits.MODEL_TEXT_CHARS // 3
"""The newest part of the conversation that the model reads."""


class ModelSituationUpdater:
    """Asks a model what changed in the situation of a session or a frame, and stores it.

        updater = ModelSituationUpdater(model)
        updater.update(session)

    Call it after a reply, or when a step is done. `update_async` takes the objects of an engine of open_async()."""

    def __init__(self, model: Model) -> None:
        self._model = check_model(model)
        self._prompt = load_prompt("situation")
        self.name = name_author(model, self._prompt)

    def update(self, conversation: holdfast.Session | holdfast.Frame) -> SituationUpdate:
        """Update the situation; by the rules, if the model fails."""
        facet = conversation.situation
        question = self._ask(facet.get(), facet.reasoning("deep"), conversation.context.view())
        outcome = question.ask(self._model)
        if uses := used(outcome.use):
            conversation.record_model_uses(*uses)
        return facet.refresh() if outcome.error else facet.update(outcome.value, by=self.name)

    async def update_async(self, conversation: holdfast.AsyncSession | holdfast.AsyncFrame) -> SituationUpdate:
        """Update the situation, awaited; by the rules, if the model fails."""
        facet = conversation.situation
        view = await conversation.context.view()
        question = self._ask(await facet.get(), await facet.reasoning("deep"), view)
        outcome = await question.ask_async(self._model)
        if uses := used(outcome.use):
            await conversation.record_model_uses(*uses)
        if outcome.error:
            return await facet.refresh()
        return await facet.update(outcome.value, by=self.name)

    def _ask(self, situation: Situation, reasoning: str, view: HistoryView) -> ModelQuestion:
        lines = [f"{message.role}: {message.text}" for message in view.messages if message.text.strip()]
        newest = "\n".join(lines)[-_MESSAGE_CHARS:]
        data = {"situation": dict(situation.fields), "context": {"work": reasoning, "messages": newest}}
        messages = self._prompt.ask(data, "Write what changed in the situation in the JSON above.")
        return ModelQuestion(
            purpose="situation", prompt=self._prompt, messages=messages, schema=UPDATE_SITUATION.parameters
        )
