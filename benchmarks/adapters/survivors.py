"""What a session of Holdfast has after its process was killed."""

from __future__ import annotations

from pathlib import Path

import holdfast
from benchmarks.adapters.workload import Survivors, question


def survey_session(path: Path, turns: int) -> Survivors:
    with holdfast.open(path) as engine:
        rows = [row for row in engine.sessions() if row.messages]
        session = engine.session(rows[0].session, actor=rows[0].actor, thread=rows[0].thread or None)
        unknown = session.recover().unknown_outcomes
        asked = any(message.text == question(turns - 1) for message in session.messages(limit=20))
        return Survivors(question=asked, call=bool(session.open_calls()), unknown=bool(unknown and unknown[0].key))
