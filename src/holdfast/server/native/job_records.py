"""What every replica knows of a job: entries of a session in SYSTEM_TENANT.

Laws: a job has one beginning and one end; the first end that is stored counts. While it runs, its process says so every
few seconds; a job of which nothing was heard for LIFE_S has failed, and whoever notices stores that.
"""

from __future__ import annotations

from typing import Any

import msgspec

import holdfast
from holdfast.access.access import SYSTEM_TENANT, Access
from holdfast.access.system import find_system_session, now_us, system_session
from holdfast.api.parts import Job, JobDemand, JobStatus
from holdfast.api.problems import build_problem
from holdfast.errors import EntryConflict, JobNotFound, ServerFailed
from holdfast.model.content import BlobRef
from holdfast.model.entries.entry import Entry
from holdfast.model.rows import SessionRow

ACTOR = "jobs"
KIND = "job"
CREATED, ENDED, CANCEL = "created", "ended", "cancel"
PROGRESS = "progress"
LIFE_S = 45
"""A job of which nothing was heard for so long has failed."""
LISTED = 50
"""Jobs of a list."""
SEARCHED_PAGES = 20
"""How many pages of jobs, of all callers, are searched for those of a list."""


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of a job: who asked for what."""

    demand: JobDemand
    tenant: str
    principal: str
    key_id: str
    at_us: int
    actor: str | None = None
    """The only namespace that the caller may use."""
    user: str = ""


class JobEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a job."""

    status: JobStatus
    at_us: int
    result: Any = None
    file: BlobRef | None = None
    error: dict[str, Any] | None = None


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job is, as its process said last."""

    status: JobStatus
    done: int
    total: int
    at_us: int


class JobRecord:
    """One job, in the session of its own."""

    def __init__(self, job: str, session: holdfast.AsyncSession, order: JobOrder) -> None:
        self.id = job
        self.order = order
        self._session = session

    async def beat(self, progress: JobProgress) -> bool:
        """Say that the job is alive. Returns False once somebody has cancelled or ended it."""
        await self._session.working.set(PROGRESS, msgspec.to_builtins(progress))
        return await self._session.entries.get(CANCEL) is None and await self._read_end() is None

    async def cancel(self, by: str) -> None:
        await _append_once(self._session, CANCEL, {"by": by})

    async def end(self, end: JobEnd) -> None:
        """Store the end, unless there is one."""
        await _append_once(self._session, ENDED, msgspec.to_builtins(end))

    async def describe(self) -> Job:
        """The job now. One that is lost is ended."""
        end = await self._read_end()
        progress = await self._read_progress()
        if end is None and now_us() - progress.at_us > LIFE_S * 1_000_000:
            await self.end(build_loss())
            end = await self._read_end()
        return Job(
            id=self.id,
            what=self.order.demand.what,
            status=progress.status if end is None else end.status,
            by=self.order.principal,
            created_us=self.order.at_us,
            done=progress.done,
            total=progress.total,
            ended_us=None if end is None else end.at_us,
            result=None if end is None else end.result,
            file=None if end is None else end.file,
            error=None if end is None else end.error,
        )

    async def _read_end(self) -> JobEnd | None:
        entry = await self._session.entries.get(ENDED)
        return None if entry is None else msgspec.convert(entry.body, JobEnd)

    async def _read_progress(self) -> JobProgress:
        item = (await self._session.working.items()).get(PROGRESS)
        if item is None:
            return JobProgress(status="waiting", done=0, total=0, at_us=self.order.at_us)
        return msgspec.convert(item.value, JobProgress)


def build_loss() -> JobEnd:
    """The end of a job whose process is gone."""
    error = ServerFailed(server="of Holdfast", reason="the process that ran the job has ended")
    problem = {**build_problem(error, ""), "detail": str(error), "attributes": dict(vars(error))}
    return JobEnd(status="failed", at_us=now_us(), error=problem)


async def _append_once(session: holdfast.AsyncSession, key: str, body: dict[str, Any]) -> None:
    try:
        await session.entries.append(KIND, key, body)
    except EntryConflict:
        return  # the first one counts


async def create_job(engine: holdfast.AsyncEngine, job: str, order: JobOrder) -> tuple[JobRecord, bool]:
    """Store a job. Returns it, and whether it is new: one with this id may be there already."""
    session = await system_session(engine, job, actor=ACTOR)
    is_new = await session.entries.get(CREATED) is None
    await _append_once(session, CREATED, msgspec.to_builtins(order))
    entry = await session.entries.get(CREATED)
    assert entry is not None, "it was just appended"
    stored = msgspec.convert(entry.body, JobOrder)
    return JobRecord(job, session, stored), is_new and stored == order


async def find_job(engine: holdfast.AsyncEngine, access: Access, job: str) -> JobRecord:
    """Open a job that the caller may see. Any other one is not found."""
    session = await find_system_session(engine, job, actor=ACTOR)
    entry: Entry | None = None if session is None else await session.entries.get(CREATED)
    if session is None or entry is None:
        raise JobNotFound(job=job)
    order = msgspec.convert(entry.body, JobOrder)
    if not is_visible(order, access):
        raise JobNotFound(job=job)
    return JobRecord(job, session, order)


def is_visible(order: JobOrder, access: Access) -> bool:
    """Whether a caller may see a job: their own, or any with the right to maintain the store. Keys can share a principal
    and not what they may use: a job is of the user and the namespace, too."""
    if "admin" in access.rights:
        return True
    is_own = (order.tenant, order.principal) == (access.tenant, access.principal)
    is_part = access.actor is None or access.actor == order.actor
    return is_own and is_part and (access.identity is None or access.identity.user_id == order.user)


async def list_jobs(engine: holdfast.AsyncEngine, access: Access) -> list[Job]:
    """The last jobs that a caller may see, the newest first."""
    system = engine.acting_as(tenant=SYSTEM_TENANT)
    found: list[Job] = []
    after: SessionRow | None = None
    for _ in range(SEARCHED_PAGES):  # the jobs of others do not push out those of the caller
        page = await system.sessions(actor=ACTOR, order="recent", after=after, limit=LISTED)
        for row in page:
            try:
                found.append(await (await find_job(engine, access, row.session)).describe())
            except JobNotFound:
                continue
        if len(page) < LISTED or len(found) >= LISTED:
            break
        after = page[-1]
    return sorted(found, key=lambda job: job.created_us, reverse=True)[:LISTED]
