"""Maintenance of the store of a server: long work is a job there. Its progress is shown here, and its files are here.

Laws: a file gets its name when it is complete and its digest is right. A job whose caller gives up is cancelled.
"""

from __future__ import annotations

import functools
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import msgspec

from holdfast.api.parts import Job, JobDemand
from holdfast.api.problems import read_problem
from holdfast.client.bodies import put_body
from holdfast.client.calls import make_key
from holdfast.client.exchanges import Download, Pause, RemoteFlow, RemoteRequest, ask, run_outside
from holdfast.client.watch import RemoteAsyncWatch, RemoteWatch, find_whole_feed
from holdfast.errors import InvalidUrl, ServerFailed, StorageCorrupt
from holdfast.flows.context import EngineContext, SessionContext
from holdfast.flows.maintain import VerificationReport
from holdfast.flows.sessions import ingest
from holdfast.model.content import BlobRef
from holdfast.model.names import Scope
from holdfast.runtime.maintenance import BLOB_FOLDER, check_path
from holdfast.storage.files import atomic_file, translate_os_errors

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
"""How often the progress of a job is asked for: less often the longer it takes."""
Progress = Callable[[int, int], None]


def run_job(demand: JobDemand, progress: Progress | None = None) -> RemoteFlow[Job]:
    """Have the server do long work, and wait for its end. Raises the error that ended it."""
    body = msgspec.json.encode(demand)
    started = RemoteRequest("POST", "/jobs", (), (("Idempotency-Key", make_key()),), body, is_safe=True)
    job = _read_job((yield from ask(started)).body)
    pause_s, shown = FIRST_PAUSE_S, (0, 0)
    try:
        while job.ended_us is None:
            yield Pause(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
            job = _read_job((yield from ask(RemoteRequest("GET", f"/jobs/{job.id}", is_safe=True))).body)
            if progress is not None and shown != (job.done, job.total):
                shown = (job.done, job.total)
                yield from run_outside(functools.partial(progress, *shown))
    except BaseException:
        yield from _remove_job(job)
        raise
    if job.error is not None:
        raise read_problem(job.error, "of Holdfast")
    if job.status != "done":
        raise ServerFailed(server="of Holdfast", reason=f"the job {job.id} was {job.status}")
    return job


def _read_job(body: bytes) -> Job:
    return msgspec.json.decode(body, type=Job)


def _remove_job(job: Job) -> RemoteFlow[None]:
    """Cancel a job, or remove the file of one that has ended."""
    yield from ask(RemoteRequest("DELETE", f"/jobs/{job.id}", is_safe=True))


def _fetch_file(job: Job, path: str) -> RemoteFlow[None]:
    """Download the file of a job, and remove it there."""
    assert job.file is not None, "this job makes a file"
    found = yield Download(RemoteRequest("GET", f"/jobs/{job.id}/file", is_safe=True), path)
    if found != (job.file.digest, job.file.size):
        raise StorageCorrupt(what=path, reason="what the server sent is not the file of the job")
    yield from _remove_job(job)


def _send_file(source: str) -> RemoteFlow[BlobRef]:
    with translate_os_errors(source), open(source, "rb") as file:
        return (yield from put_body(file, None))


def verify(progress: Progress | None) -> RemoteFlow[VerificationReport]:
    job = yield from run_job(JobDemand(what="verify"), progress)
    return msgspec.convert(job.result, VerificationReport)


def rebuild(progress: Progress | None) -> RemoteFlow[int]:
    count: int = (yield from run_job(JobDemand(what="rebuild"), progress)).result
    return count


def backup(target: Any, progress: Progress | None) -> RemoteFlow[None]:
    """Download a backup: a store, and the folder of its bodies."""
    path = check_path(target)
    if os.path.exists(path):
        raise InvalidUrl(url=path, reason="the file exists; a backup never overwrites")
    with ExitStack() as stack:
        partial = stack.enter_context(atomic_file(path))
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))))
        archive = os.path.join(folder, "backup.tar")
        job = yield from run_job(JobDemand(what="backup"), progress)
        yield from _fetch_file(job, archive)
        yield from run_outside(functools.partial(_unpack, archive, folder, partial, path + BLOB_FOLDER))


def _unpack(archive: str, folder: str, store: str, blobs: str) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    os.unlink(archive)
    for name in os.listdir(folder):
        if name.endswith(BLOB_FOLDER):
            shutil.copytree(os.path.join(folder, name), blobs, dirs_exist_ok=True)
        else:
            os.replace(os.path.join(folder, name), store)


def export(target: Any, progress: Progress | None) -> RemoteFlow[int]:
    return (yield from _download_export(JobDemand(what="export"), check_path(target), progress))


def _download_export(demand: JobDemand, path: str, progress: Progress | None = None) -> RemoteFlow[int]:
    with atomic_file(path) as partial:
        job = yield from run_job(demand, progress)
        yield from _fetch_file(job, partial)
    count: int = job.result
    return count


def import_(source: Any, progress: Progress | None) -> RemoteFlow[int]:
    body = yield from _send_file(check_path(source))
    count: int = (yield from run_job(JobDemand(what="import", body=body), progress)).result
    return count


def import_transcript(
    engine: EngineContext, source: Any, session: str, actor: str, thread: str | None, metadata: Any
) -> RemoteFlow[SessionContext]:
    scope = Scope.check(engine.tenant, actor, session, thread)
    path = check_path(source)
    checked = None if metadata is None else ingest.check_object("metadata", metadata)
    body = yield from _send_file(path)
    demand = JobDemand(
        what="import_transcript", body=body, session=scope.session, actor=scope.actor, thread=thread, metadata=checked
    )
    job = yield from run_job(demand)
    return SessionContext(engine, msgspec.convert(job.result, Scope))


def export_transcript(
    engine: EngineContext, target: Any, session: str, actor: str, thread: str | None
) -> RemoteFlow[int]:
    scope = Scope.check(engine.tenant, actor, session, thread)
    demand = JobDemand(what="export_transcript", session=scope.session, actor=scope.actor, thread=thread)
    return (yield from _download_export(demand, check_path(target)))


class _Admin:
    """What both worlds share: each method is a flow, and the answer of its driver."""

    _drive: Any
    _context: EngineContext
    _open: Any
    _classes: Mapping[type, type]


class BlockingAdmin(_Admin):
    """Jobs, and the feed of all tenants."""

    def verify(self, *, progress: Progress | None = None) -> Any:
        return self._drive(verify(progress))

    def rebuild(self, *, progress: Progress | None = None) -> Any:
        return self._drive(rebuild(progress))

    def backup(self, target: Any, *, progress: Progress | None = None) -> Any:
        return self._drive(backup(target, progress))

    def export(self, target: Any, *, progress: Progress | None = None) -> Any:
        return self._drive(export(target, progress))

    def import_(self, source: Any, *, progress: Progress | None = None) -> Any:
        return self._drive(import_(source, progress))

    def import_transcript(
        self, source: Any, session: str, *, actor: str = "main", thread: str | None = None, metadata: Any = None
    ) -> Any:
        return self._open(self._drive(import_transcript(self._context, source, session, actor, thread, metadata)))

    def export_transcript(self, target: Any, session: str, *, actor: str = "main", thread: str | None = None) -> Any:
        return self._drive(export_transcript(self._context, target, session, actor, thread))

    def watch(self, *, after: str | None = "", timeout_s: float | None = None) -> Any:
        return RemoteWatch(self._drive, find_whole_feed(), after, timeout_s)


class AwaitedAdmin(_Admin):
    """The same for an event loop."""

    async def verify(self, *, progress: Progress | None = None) -> Any:
        return await self._drive(verify(progress))

    async def rebuild(self, *, progress: Progress | None = None) -> Any:
        return await self._drive(rebuild(progress))

    async def backup(self, target: Any, *, progress: Progress | None = None) -> Any:
        return await self._drive(backup(target, progress))

    async def export(self, target: Any, *, progress: Progress | None = None) -> Any:
        return await self._drive(export(target, progress))

    async def import_(self, source: Any, *, progress: Progress | None = None) -> Any:
        return await self._drive(import_(source, progress))

    async def import_transcript(
        self, source: Any, session: str, *, actor: str = "main", thread: str | None = None, metadata: Any = None
    ) -> Any:
        flow = import_transcript(self._context, source, session, actor, thread, metadata)
        return self._open(await self._drive(flow))

    async def export_transcript(
        self, target: Any, session: str, *, actor: str = "main", thread: str | None = None
    ) -> Any:
        return await self._drive(export_transcript(self._context, target, session, actor, thread))

    def watch(self, *, after: str | None = "", timeout_s: float | None = None) -> Any:
        return RemoteAsyncWatch(self._drive, find_whole_feed(), after, timeout_s)
