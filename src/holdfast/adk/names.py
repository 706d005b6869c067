"""The names of ADK as names of Holdfast, and the sessions behind them.

| ADK | Holdfast |
|---|---|
| app and user | the actor, and the user of the ledger: `desk/ada` |
| session | the session, with the id as its name |
| branch, isolation scope | a thread of that session |
| state of a user or an app, memory, artifacts | sessions with a thread that begins with `#` |

Law: two names of ADK never become the same name of Holdfast. The tenant is that of the engine, so a server's key decides
it.

A destroyed session of Holdfast keeps its name for good. ADK may use an id again after a deletion: the next session with
that id has the thread `#2`, then `#3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import holdfast
from holdfast.errors import SessionDestroyedError, SessionNotFound
from holdfast.types import SessionRow, shorten_name

_UNSAFE = re.compile("[%\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNSAFE_IN_APP = re.compile("[%/\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_GENERATION = re.compile(r"#([1-9][0-9]*)")
_PAGE = 1_000
STATE_THREAD = "#state"
MEMORY_THREAD = "#memory"
ARTIFACT_THREAD = "#artifacts"


def escape_app(app_name: str) -> str:
    """The name of an app, without the sign that separates it from the user."""
    return _UNSAFE_IN_APP.sub(_percent, app_name)


def escape_name(name: str) -> str:
    """A name of ADK without characters that a name of Holdfast cannot have."""
    return _UNSAFE.sub(_percent, name)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def actor_of(app_name: str, user_id: str) -> str:
    """The actor for a user of an app: also the user whose ledger the sessions read."""
    return shorten_name(f"{escape_app(app_name)}/{escape_name(user_id)}")


def clean_id(session_id: str | None) -> str:
    """The id of a session without padding; empty for none."""
    return session_id.strip() if session_id else ""


def thread_of(branch: str, generation: int) -> str | None:
    """The thread of a branch, in a generation of the session. The main conversation has the empty branch."""
    name = escape_name(branch).replace("#", "%23")
    if generation > 1:
        return shorten_name(f"#{generation}:{name}") if name else f"#{generation}"
    return shorten_name(name) if name else None


class Conversations:
    """Opens the sessions of Holdfast for those of ADK. With `memory`, sessions that it creates have a long-term memory."""

    def __init__(self, engine: holdfast.Engine, *, memory: bool = False) -> None:
        self.engine = engine
        self._memory = memory

    def find(self, app_name: str, user_id: str, session_id: str) -> tuple[holdfast.Session | None, int]:
        """The session with this id that was not deleted, and its generation; None if there is none yet."""
        name, actor = shorten_name(escape_name(session_id)), actor_of(app_name, user_id)
        generation = 1
        while True:
            try:
                opened = self.engine.session(name, actor=actor, thread=thread_of("", generation))
            except SessionDestroyedError:
                generation += 1
            except SessionNotFound:
                return None, generation
            else:
                return opened, generation

    def ensure(self, app_name: str, user_id: str, session_id: str) -> tuple[holdfast.Session, int]:
        """The same; it is created if there is none."""
        opened, generation = self.find(app_name, user_id, session_id)
        return opened or self._create(app_name, user_id, session_id, thread_of("", generation)), generation

    def branch(self, app_name: str, user_id: str, session_id: str, branch: str) -> holdfast.Session:
        """The conversation of a branch; the empty one is the main conversation."""
        main, generation = self.ensure(app_name, user_id, session_id)
        return self._create(app_name, user_id, session_id, thread_of(branch, generation)) if branch else main

    def _create(self, app_name: str, user_id: str, session_id: str, thread: str | None) -> holdfast.Session:
        actor = actor_of(app_name, user_id)
        name = shorten_name(escape_name(user_id)) if user_id else ""
        return self.engine.session(
            shorten_name(escape_name(session_id)),
            actor=actor,
            thread=thread,
            user=actor,
            identity=holdfast.Identity(user_id=actor, user_name=name),
            create=True,
            memory=self._memory,
            metadata={"adk": {"app": escape_name(app_name), "user": escape_name(user_id)}},
        )

    def beside(self, name: str, actor: str, thread: str, *, create: bool = False) -> holdfast.Session | None:
        """A session for what is not a conversation: state, memory or artifacts; None if there is none."""
        try:
            return self.engine.session(name, actor=actor, thread=thread, user=actor, create=create)
        except SessionNotFound:
            return None

    def rows(self, app_name: str, user_id: str | None) -> Iterator[SessionRow]:
        """The rows of the main conversations of an app, or of one user of it."""
        actor = None if user_id is None else actor_of(app_name, user_id)
        prefix = f"{escape_app(app_name)}/"
        for row in self._pages(actor):
            is_main = not row.thread or _GENERATION.fullmatch(row.thread)
            if is_main and row.actor.startswith(prefix):
                yield row

    def destroy(self, app_name: str, user_id: str, session_id: str) -> None:
        """Destroy the session with this id, its forks and its branches. If there is none, nothing happens."""
        opened, generation = self.find(app_name, user_id, session_id)
        if opened is None:
            return
        name, actor = shorten_name(escape_name(session_id)), actor_of(app_name, user_id)
        opened.destroy("deleted in ADK", offload=False, forks="destroy")
        for row in [each for each in self._pages(actor) if each.session == name and each.thread]:
            if _is_branch(row.thread, generation):
                branch = self.engine.session(name, actor=actor, thread=row.thread)
                branch.destroy("deleted in ADK", offload=False, forks="destroy")

    def _pages(self, actor: str | None) -> Iterator[SessionRow]:
        last: SessionRow | None = None
        while page := self.engine.sessions(actor=actor, after=last, limit=_PAGE):
            yield from page
            last = page[-1]
            if len(page) < _PAGE:
                return


def _is_branch(thread: str, generation: int) -> bool:
    """Whether a thread is a branch of this generation of the session."""
    return thread.startswith(f"#{generation}:") if generation > 1 else not thread.startswith("#")
