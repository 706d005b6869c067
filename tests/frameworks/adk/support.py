"""A scripted model, and short ways to run an app of ADK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.genai import types
from pydantic import PrivateAttr

T = TypeVar("T")
Reply = str | types.Part | Sequence[types.Part | str] | Exception | Callable[[LlmRequest], Any]
USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=100, candidates_token_count=7, thoughts_token_count=3, cached_content_token_count=60
)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


class ScriptedModel(BaseLlm):
    """Answers with the next reply of a script, and keeps what it was sent."""

    model: str = "scripted"
    _script: list[Any] = PrivateAttr(default_factory=list)
    _requests: list[LlmRequest] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, *script: Reply) -> ScriptedModel:
        made = cls()
        made._script = list(script)
        return made

    @property
    def requests(self) -> list[LlmRequest]:
        return self._requests

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._requests.append(llm_request.model_copy(update={"contents": list(llm_request.contents)}))
        reply = self._script.pop(0) if self._script else "Fine."
        if callable(reply) and not isinstance(reply, types.Part):
            reply = reply(llm_request)
        if isinstance(reply, Exception):
            raise reply
        given = [reply] if isinstance(reply, str | types.Part) else list(reply)
        parts = [types.Part(text=each) if isinstance(each, str) else each for each in given]
        if stream and all(part.text for part in parts):
            for part in parts:
                content = types.Content(role="model", parts=[types.Part(text=part.text)])
                yield LlmResponse(content=content, partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=USAGE)


def call(name: str, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def text_event(text: str, author: str = "user", **fields: Any) -> Event:
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(author=author, content=content, **{"invocation_id": "i1", **fields})


def state_event(delta: dict[str, Any], **fields: Any) -> Event:
    return Event(author="user", actions=EventActions(state_delta=delta), **{"invocation_id": "i1", **fields})


async def ask(runner: Runner, text: str, session: str = "s1", user: str = "ada", **options: Any) -> list[Event]:
    """Send a message of the user, and return all events."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [event async for event in runner.run_async(user_id=user, session_id=session, new_message=message, **options)]


def build_runner(agent: Any, service: BaseSessionService, *plugins: Any, **services: Any) -> Runner:
    app = App(name="desk", root_agent=agent, plugins=list(plugins), **services.pop("app", {}))
    return Runner(app=app, session_service=service, **services)


async def create(service: BaseSessionService, session: str = "s1", user: str = "ada", **options: Any) -> Session:
    return await service.create_session(app_name="desk", user_id=user, session_id=session, **options)


async def load(service: BaseSessionService, session: str = "s1", user: str = "ada", **options: Any) -> Session:
    found = await service.get_session(app_name="desk", user_id=user, session_id=session, **options)
    assert found is not None
    return found


def show(request: LlmRequest) -> list[str]:
    """What the model was sent, line by line: the role and each part."""
    lines = []
    for content in request.contents:
        for part in content.parts or []:
            if part.text is not None:
                shown = part.text
            elif part.function_call:
                shown = f"call {part.function_call.name} {part.function_call.args}"
            elif part.function_response:
                shown = f"result {part.function_response.name} {part.function_response.response}"
            else:
                shown = "data"
            lines.append(f"{content.role}: {shown}")
    return lines
