"""Jobs: long work of a server, and its files.

Laws: a request starts a job and does not wait for it. A job works in a thread and stops at its next step once it is
cancelled, or once the server stops. Files go through a folder that is removed with the job into the blob store, so every
replica can send them. An export has the tenants and not what the server stores for itself: keys, audit and jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import logging
import os
import tarfile
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response

import holdfast
from holdfast.access import access as rules
from holdfast.access.access import SYSTEM_TENANT, Access, engine_for
from holdfast.access.system import now_us
from holdfast.api.parts import Job, JobDemand, JobName
from holdfast.api.problems import build_problem
from holdfast.api.requests import API, STREAM_TYPE, unquote_name
from holdfast.api.signatures import IDEMPOTENCY_HEADER
from holdfast.errors import Absent, HoldfastError, InvalidArgument
from holdfast.model.content import BlobRef
from holdfast.model.names import check_name
from holdfast.runtime import doctor, transfer
from holdfast.runtime.checks import Check
from holdfast.runtime.store_features import find_index
from holdfast.server.context import whole_engine
from holdfast.server.native.calls import Answer, Call
from holdfast.server.native.job_records import (
    JobEnd,
    JobOrder,
    JobProgress,
    JobRecord,
    create_job,
    find_job,
    list_jobs,
)
from holdfast.server.native.streams import answer_body
from holdfast.server.native.turns import read_demand

BEAT_S = 5.0
"""How often a job says that it is alive, and looks whether it was cancelled."""
WORKERS = 2
"""Jobs of one process that work at the same time; others wait."""
STOP_S = 10.0
"""How long the end of the server waits for its jobs to stop."""
_ADMIN: frozenset[JobName] = frozenset({"verify", "rebuild", "doctor", "export", "import", "backup"})
_WITH_FILE: dict[JobName, str] = {"export": "jsonl", "backup": "tar", "export_transcript": "jsonl"}
Outcome: TypeAlias = tuple[Any, str | None]
"""The result of a job, and the file that it made."""
_log = logging.getLogger("holdfast.server")


class JobStopped(Exception):
    """Raised in the thread of a job that was cancelled, at its next step."""


class RunningJob:
    """A job of this process."""

    def __init__(self, record: JobRecord, engine: holdfast.AsyncEngine, store: str) -> None:
        self.record = record
        self._engine = engine
        self._store = store
        self.demand = record.order.demand
        self.is_stopped = False
        self._status: Any = "waiting"
        self._done = self._total = 0

    def advance(self, done: int, total: int) -> None:
        """Called by the work, in its thread."""
        if self.is_stopped:
            raise JobStopped
        self._done, self._total = done, total

    async def run(self, places: asyncio.Semaphore) -> None:
        """Work, and store the end."""
        beats = asyncio.create_task(self._beat())
        try:
            async with places:
                self._status = "running"
                end = await self._work()
        finally:
            beats.cancel()
            await asyncio.wait([beats])
        await self._say()
        await self.record.end(end)

    async def _work(self) -> JobEnd:
        with tempfile.TemporaryDirectory(prefix="holdfast-job-") as folder:
            try:
                self.advance(0, 0)
                result, path = await _WORK[self.demand.what](self, folder)
                file = None if path is None else await self._keep(path)
                return JobEnd(status="done", at_us=now_us(), result=result, file=file)
            except JobStopped:
                return JobEnd(status="cancelled", at_us=now_us())
            except HoldfastError as error:
                return JobEnd(status="failed", at_us=now_us(), error=build_problem(error, self.record.id))
            except Exception as error:  # noqa: BLE001 - whatever it was, the job has ended
                _log.exception("job %s failed", self.record.id)
                return JobEnd(status="failed", at_us=now_us(), error=build_problem(error, self.record.id))

    async def _beat(self) -> None:
        while True:
            try:
                if not await self._say():
                    self.is_stopped = True
            except HoldfastError as error:
                _log.warning("job %s: its progress is not stored: %s", self.record.id, type(error).__name__)
            await asyncio.sleep(BEAT_S)

    async def _say(self) -> bool:
        progress = JobProgress(status=self._status, done=self._done, total=self._total, at_us=now_us())
        return await self.record.beat(progress)

    async def _keep(self, path: str) -> BlobRef:
        """Put the file of the job where every replica finds it."""
        system = self._engine.acting_as(tenant=SYSTEM_TENANT)._engine

        def put() -> BlobRef:
            with open(path, "rb") as file:
                return system.blobs.put(file, media_type=STREAM_TYPE)

        return await self._engine.store.call(put)

    async def fetch(self, folder: str) -> str:
        """The file that the job reads, from the blob store of the caller's tenant."""
        ref, path = self.demand.body, os.path.join(folder, "source")
        assert ref is not None, "checked when the job was started"

        def copy() -> None:
            with open(path, "wb") as file:
                for chunk in self._engine._engine.blobs.chunks(ref):
                    file.write(chunk)
                    self.advance(file.tell(), ref.size)

        await self._engine.store.call(copy)
        return path

    async def export(self, path: str) -> int:
        """Export the tenants, without what the server stores for itself: another server has its own."""
        admin = self._engine._engine.admin
        count = admin._count_events(self.advance)
        index, without = find_index(admin._store), frozenset({SYSTEM_TENANT})
        export = functools.partial(transfer.export, admin._drive, admin._blob_store, path, count, index, without)
        return await self._engine.store.call(export)

    @property
    def admin(self) -> Any:
        return self._engine.admin

    async def examine(self) -> list[Check]:
        """Run the checks of the doctor."""
        engine = self._engine._engine

        def verify() -> Any:
            return engine.admin.verify(progress=self.advance)

        def run() -> list[Check]:
            tenant = self.record.order.tenant
            return list(doctor.check_store(engine, self._store, tenant, self.demand.full, verify))

        return await self._engine.store.call(run)


async def _verify(job: RunningJob, _folder: str) -> Outcome:
    return msgspec.to_builtins(await job.admin.verify(progress=job.advance)), None


async def _rebuild(job: RunningJob, _folder: str) -> Outcome:
    return await job.admin.rebuild(progress=job.advance), None


async def _examine(job: RunningJob, _folder: str) -> Outcome:
    found = await job.examine()
    bad, warn = (sum(check.verdict == verdict for check in found) for verdict in ("bad", "warn"))
    checks = [
        {"name": each.name, "verdict": each.verdict, "found": each.finding, "advice": each.advice} for each in found
    ]
    return {"ok": not bad, "bad": bad, "warn": warn, "checks": checks}, None


async def _export(job: RunningJob, folder: str) -> Outcome:
    path = os.path.join(folder, "export.jsonl")
    return await job.export(path), path


async def _import(job: RunningJob, folder: str) -> Outcome:
    return await job.admin.import_(await job.fetch(folder), progress=job.advance), None


async def _backup(job: RunningJob, folder: str) -> Outcome:
    path = os.path.join(folder, "agent.db")
    await job.admin.backup(path, progress=job.advance)

    def pack() -> str:
        target = os.path.join(folder, "backup.tar")
        with tarfile.open(target, "w") as tar:
            for name in sorted(os.listdir(folder)):
                if name != "backup.tar":
                    tar.add(os.path.join(folder, name), name)
        return target

    return None, await asyncio.to_thread(pack)


async def _import_transcript(job: RunningJob, folder: str) -> Outcome:
    demand = job.demand
    options = {} if demand.actor is None else {"actor": demand.actor}
    session = await job.admin.import_transcript(
        await job.fetch(folder), demand.session, thread=demand.thread, metadata=demand.metadata, **options
    )
    return msgspec.to_builtins(session.scope), None


async def _export_transcript(job: RunningJob, folder: str) -> Outcome:
    demand = job.demand
    path = os.path.join(folder, "transcript.jsonl")
    options = {} if demand.actor is None else {"actor": demand.actor}
    return await job.admin.export_transcript(path, demand.session, thread=demand.thread, **options), path


_WORK: dict[JobName, Callable[[RunningJob, str], Awaitable[Outcome]]] = {
    "verify": _verify,
    "rebuild": _rebuild,
    "doctor": _examine,
    "export": _export,
    "import": _import,
    "backup": _backup,
    "import_transcript": _import_transcript,
    "export_transcript": _export_transcript,
}


class JobRunner:
    """The jobs of this process."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(WORKERS)
        self._jobs: dict[str, tuple[RunningJob, asyncio.Task[None]]] = {}

    def start(self, job: RunningJob) -> None:
        task = asyncio.create_task(self._run(job), name=f"holdfast-job-{job.record.id}")
        self._jobs[job.record.id] = (job, task)

    async def _run(self, job: RunningJob) -> None:
        try:
            await job.run(self._places)
        except HoldfastError as error:  # its end cannot be stored: it counts as lost
            _log.warning("job %s: its end is not stored: %s", job.record.id, type(error).__name__)
        finally:
            self._jobs.pop(job.record.id, None)

    def stop(self, job_id: str) -> None:
        """Stop a job at its next step, if it is one of this process."""
        if job_id in self._jobs:
            self._jobs[job_id][0].is_stopped = True

    async def close(self) -> None:
        """Stop all jobs."""
        tasks = [task for _, task in self._jobs.values()]
        for job_id in list(self._jobs):
            self.stop(job_id)
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_S)


@contextlib.asynccontextmanager
async def run_jobs(app: Starlette) -> AsyncIterator[None]:
    """Run the jobs of an application while the block runs."""
    app.state.jobs = JobRunner()
    try:
        yield
    finally:
        await app.state.jobs.close()


# Requests


async def start_job(call: Call) -> Response:
    """Start a job."""
    demand = await read_demand(call, JobDemand)
    access, engine = call.access, whole_engine(call.request)
    demand = await check_demand(call, demand)
    key = call.header(IDEMPOTENCY_HEADER)
    job_id = uuid.uuid4().hex if key is None else _derive_id(access, unquote_name(key))
    order = JobOrder(
        demand=demand,
        tenant=access.tenant,
        principal=access.principal,
        key_id=access.key_id,
        at_us=now_us(),
        actor=access.actor,
        user="" if access.identity is None else access.identity.user_id,
    )
    record, is_new = await create_job(engine, job_id, order)
    if is_new:
        if demand.what in _ADMIN:
            audit = call.request.app.state.audit
            await audit.maintain(by=access.principal, key_id=access.key_id, operation=f"job {demand.what}")
        store = call.request.app.state.settings.store
        call.request.app.state.jobs.start(RunningJob(record, engine_for(engine, access), store))
    return _answer(await record.describe(), 202)


def _derive_id(access: Access, key: str) -> str:
    """The id of the job of an idempotency key."""
    own = access.separate_key(check_name("idempotency key", key))
    names = msgspec.json.encode([access.tenant, access.principal, own])
    return hashlib.sha256(names).hexdigest()[:32]


async def check_demand(call: Call, demand: JobDemand) -> JobDemand:
    """Check that the caller may have this work done, and that it has what it needs."""
    access = call.access
    if demand.what in _ADMIN:
        access.check("admin")
        return _check_body(demand)
    if demand.session is None:
        raise InvalidArgument(argument="session", reason="a transcript is of a session: name it")
    if demand.what == "import_transcript":
        access.check("write")
        access.check_whole_tenant()
        return _check_body(demand)
    opened = await rules.open_session(call.engine, access, demand.session, actor=demand.actor, thread=demand.thread)
    return msgspec.structs.replace(demand, actor=opened.scope.actor)


def _check_body(demand: JobDemand) -> JobDemand:
    if demand.what in ("import", "import_transcript") and demand.body is None:
        raise InvalidArgument(argument="body", reason="there is nothing to read: put the file with POST /blobs first")
    return demand


async def get_jobs(call: Call) -> Response:
    """List jobs."""
    jobs = await list_jobs(whole_engine(call.request), call.access)
    return Answer(msgspec.json.encode({"items": jobs}))


async def get_job(call: Call) -> Response:
    """Read how far a job is."""
    record = await find_job(whole_engine(call.request), call.access, call.names["job"])
    return _answer(await record.describe())


async def get_file(call: Call) -> Response:
    """Download the file of a job."""
    engine = whole_engine(call.request)
    job = await (await find_job(engine, call.access, call.names["job"])).describe()
    if job.file is None:
        raise Absent(what=f"The file of the job {job.id}")
    name = f"{job.what}-{job.id}.{_WITH_FILE[job.what]}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return await answer_body(call, job.file, STREAM_TYPE, headers, engine=engine.acting_as(tenant=SYSTEM_TENANT))


async def cancel_job(call: Call) -> Response:
    """Cancel a job; of one that has ended, remove the file."""
    engine = whole_engine(call.request)
    record = await find_job(engine, call.access, call.names["job"])
    job = await record.describe()
    if job.ended_us is None:
        await record.cancel(call.access.principal)
        call.request.app.state.jobs.stop(record.id)
        return _answer(await record.describe())
    if job.file is not None:
        remove = engine._blob_store.drop
        await engine.store.call(remove, SYSTEM_TENANT, job.file.digest, unless_put_after_s=now_us() / 1e6)
    return _answer(job)


def _answer(job: Job, status: int = 200) -> Response:
    return Answer(msgspec.json.encode(job), status, {"Location": f"{API}/jobs/{job.id}"})
