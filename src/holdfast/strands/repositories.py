"""The repository of Strands' sessions, in a store of Holdfast.

An agent is a conversation: the session with the name of Strands' session, and the agent's id as thread. The agent
"default", which is the id of an agent without one, has no thread, so `engine.session(name)` is its conversation.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any

from strands.session import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import holdfast
from holdfast.errors import SessionNotFound
from holdfast.frameworks.engines import check_engine
from holdfast.strands.transcripts import AgentTranscript, append_entry, decode_body
from holdfast.types import shorten_name

if TYPE_CHECKING:
    from strands.multiagent.base import MultiAgentBase

SESSION = "strands.session"
MULTI_AGENT = "strands.multi_agent"
DEFAULT_AGENT = "default"
_TOOLS = "#tools"


class StrandsRepository(SessionRepository):
    """Strands' sessions in a store of Holdfast. Threads can share it.

    `actor` and `user` are those of engine.session()."""

    def __init__(self, engine: holdfast.Engine, *, user: str | None = None, actor: str = "main") -> None:
        self.engine = check_engine(engine)
        self._options: dict[str, Any] = {"actor": actor, "user": user}
        self._transcripts: dict[tuple[str, str], AgentTranscript] = {}
        self._lock = threading.Lock()

    def transcript(self, session_id: str, agent_id: str) -> AgentTranscript:
        """The conversation of an agent. Raises SessionException if there is none."""
        try:
            return self._open(session_id, agent_id, create=False)
        except SessionNotFound as error:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist") from error

    def tool_runs(self, session_id: str, agent_id: str) -> holdfast.Session:
        """A thread beside the conversation of an agent, for the runs of tools that are no calls of its model."""
        return self._session(session_id, f"{agent_id}{_TOOLS}", create=True)

    def create_session(self, session: Session, **_: Any) -> Session:
        """Create a session. Raises SessionException if Strands created it before."""
        body = {**session.to_dict(), "session_type": SessionType(session.session_type).value}
        opened = self._session(session.session_id, DEFAULT_AGENT, create=True)
        if opened.entries.list(kind=SESSION, limit=1):
            raise SessionException(f"Session {session.session_id} already exists")
        opened.entries.append(SESSION, f"session/{uuid.uuid4().hex}", body)
        return session

    def read_session(self, session_id: str, **_: Any) -> Session | None:
        """The session; None if Strands has not created it."""
        try:
            entries = self._session(session_id, DEFAULT_AGENT, create=False).entries.list(kind=SESSION)
        except SessionNotFound:
            return None
        if not entries:
            return None
        fields = decode_body(entries[-1].body)
        return Session.from_dict({**fields, "session_type": SessionType(fields["session_type"])})

    def create_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Create an agent in a session."""
        if self.read_session(session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")
        self._open(session_id, session_agent.agent_id, create=True).write_agent(session_agent)

    def read_agent(self, session_id: str, agent_id: str, **_: Any) -> SessionAgent | None:
        """The newest state of an agent; None if it was not created."""
        try:
            return self._open(session_id, agent_id, create=False).read_agent()
        except SessionNotFound:
            return None

    def update_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Store a newer state of an agent."""
        transcript = self.transcript(session_id, session_agent.agent_id)
        previous = transcript.read_agent()
        if previous is None:
            raise SessionException(f"Agent {session_agent.agent_id} in session {session_id} does not exist")
        session_agent.created_at = previous.created_at
        transcript.write_agent(session_agent)

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any) -> None:
        """Store a new message. Raises SessionException if another process stored one with this index."""
        self.transcript(session_id, agent_id).add_message(session_message)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **_: Any) -> SessionMessage | None:
        """A message by its index; None if there is none."""
        return self.transcript(session_id, agent_id).read_message(message_id)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any) -> None:
        """Replace a message, as a guardrail does. The conversation shows only the new one; the log keeps the old one."""
        transcript = self.transcript(session_id, agent_id)
        previous = transcript.read_message(session_message.message_id)
        if previous is None:
            raise SessionException(f"Message {session_message.message_id} does not exist")
        session_message.created_at = previous.created_at
        transcript.update_message(session_message)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_: Any
    ) -> list[SessionMessage]:
        """The messages of an agent, oldest first."""
        transcript = self.transcript(session_id, agent_id)
        if transcript.read_agent() is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        messages = transcript.read_messages()[offset:]
        return messages if limit is None else messages[:limit]

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        """Store the state of several agents that work together."""
        if self.read_session(session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")
        opened = self._session(session_id, DEFAULT_AGENT, create=False)
        key = f"multi_agent/{uuid.uuid4().hex}"
        append_entry(opened, MULTI_AGENT, key, multi_agent.serialize_state(), multi_agent.id)

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **_: Any) -> dict[str, Any] | None:
        """The newest state of several agents that work together; None if there is none."""
        try:
            entries = self._session(session_id, DEFAULT_AGENT, create=False).entries
        except SessionNotFound:
            return None
        newest = entries.list(kind=MULTI_AGENT, parent=multi_agent_id, limit=1)
        return decode_body(newest[0].body) if newest else None

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        """Store a newer state of several agents that work together."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(f"MultiAgent state {multi_agent.id} in session {session_id} does not exist")
        self.create_multi_agent(session_id, multi_agent)

    def _session(self, session_id: str, agent_id: str, *, create: bool) -> holdfast.Session:
        thread = None if agent_id == DEFAULT_AGENT else shorten_name(agent_id)
        return self.engine.session(shorten_name(session_id), thread=thread, create=create, **self._options)

    def _open(self, session_id: str, agent_id: str, *, create: bool) -> AgentTranscript:
        with self._lock:
            known = self._transcripts.get((session_id, agent_id))
            if known is None:
                known = AgentTranscript(self._session(session_id, agent_id, create=create))
                self._transcripts[session_id, agent_id] = known
            return known
