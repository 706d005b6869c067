"""Checkpoints of workflows of the Agent Framework, as entries of a session.

A long list of messages in the state of a workflow is stored once for all checkpoints that contain it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value

import holdfast
from holdfast.codec import check_json
from holdfast.errors import EntryConflict, InvalidInput
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.types import Entry, shorten_name

_PAGE = 1_000


class HoldfastCheckpointStorage:
    """Stores the checkpoints of workflows: a `CheckpointStorage` of the framework. Threads can share it.

    All checkpoints are entries of one session, `session`. `allowed_checkpoint_types` are those of the framework's file
    storage: types of your own, as "module:qualname", that a checkpoint may contain."""

    def __init__(
        self,
        engine: holdfast.Engine,
        session: str = "checkpoints",
        *,
        actor: str = "main",
        allowed_checkpoint_types: Sequence[str] = (),
    ) -> None:
        self._session = check_engine(engine).session(shorten_name(session), actor=actor, create=True)
        self._allowed = frozenset(allowed_checkpoint_types)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint, and return its id. Another checkpoint with this id is replaced."""
        return await run_blocking(self._save, checkpoint)

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """A checkpoint by its id. Raises WorkflowCheckpointException if there is none."""
        entry = await run_blocking(self._find, checkpoint_id)
        if entry is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decode(entry)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """The checkpoints of a workflow, in the order in which they were stored."""
        return [self._decode(entry) for entry in await run_blocking(self._list, workflow_name, bodies=True)]

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint. Returns False if there is none with this id."""
        return await run_blocking(self._delete, checkpoint_id)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The newest checkpoint of a workflow that no other one follows; None if there is none."""
        return await run_blocking(self._find_latest, workflow_name)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """The ids of the checkpoints of a workflow, in the order in which they were stored."""
        return [entry.key for entry in await run_blocking(self._list, workflow_name, bodies=False)]

    def _save(self, checkpoint: WorkflowCheckpoint) -> str:
        body = self._encode(checkpoint)
        name, kind = checkpoint.checkpoint_id, _kind_of(checkpoint.workflow_name)
        try:
            self._session.entries.append(kind, name, body, parent=checkpoint.previous_checkpoint_id)
        except EntryConflict:
            self._session.entries.delete([name], reason="replaced by another checkpoint with the same id")
            self._session.entries.append(kind, name, body, parent=checkpoint.previous_checkpoint_id)
        return name

    def _find(self, checkpoint_id: str) -> Entry | None:
        try:
            return self._session.entries.get(checkpoint_id)
        except InvalidInput:  # no entry has such a key
            return None

    def _list(self, workflow_name: str, *, bodies: bool) -> list[Entry]:
        entries: list[Entry] = []
        before: int | None = None
        kind = _kind_of(workflow_name)
        while page := self._session.entries.list(kind=kind, before=before, limit=_PAGE, bodies=bodies):
            entries += page
            before = page[-1].seq
        return entries[::-1]

    def _delete(self, checkpoint_id: str) -> bool:
        if self._find(checkpoint_id) is None:
            return False
        self._session.entries.delete([checkpoint_id], reason="the checkpoint was deleted")
        return True

    def _find_latest(self, workflow_name: str) -> WorkflowCheckpoint | None:
        listed = self._list(workflow_name, bodies=False)
        followed = {entry.parent for entry in listed}
        ends = [entry.key for entry in listed if entry.key not in followed] or [entry.key for entry in listed]
        found = [entry for entry in map(self._session.entries.get, ends) if entry is not None]
        decoded = [(self._decode(entry), entry.seq) for entry in found]
        return max(decoded, key=lambda each: (each[0].timestamp, each[1]))[0] if decoded else None

    def _encode(self, checkpoint: WorkflowCheckpoint) -> Any:
        """A checkpoint as JSON; as escaped text if it has a value that no entry takes, such as an integer of thirty digits.
        Raises WorkflowCheckpointException if it could not be loaded again."""
        try:
            encoded = encode_checkpoint_value(checkpoint.to_dict())
            decode_checkpoint_value(encoded, allowed_types=self._allowed)
        except WorkflowCheckpointException:
            raise
        except Exception as error:
            reason = f"The checkpoint {checkpoint.checkpoint_id} cannot be encoded, or could not be loaded again"
            raise WorkflowCheckpointException(f"{reason}: {error}") from error
        try:
            return check_json("the checkpoint", encoded)
        except InvalidInput:
            return json.dumps(encoded)

    def _decode(self, entry: Entry) -> WorkflowCheckpoint:
        encoded = json.loads(entry.body) if isinstance(entry.body, str) else entry.body
        return WorkflowCheckpoint.from_dict(decode_checkpoint_value(encoded, allowed_types=self._allowed))


def _kind_of(workflow_name: str) -> str:
    return f"agent_framework.checkpoint/{workflow_name}"
