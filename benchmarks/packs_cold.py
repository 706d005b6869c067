"""A new process, to its first pack: open, recover, pack. `python -m benchmarks.packs_cold FILE` prints what it took."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.packs_histories import SESSION, build_pack, open_engine


def main(path: Path) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    with open_engine(path) as engine:
        session = engine.session(SESSION)
        session.recover()
        build_pack(session)
        print(time.perf_counter() - wall, time.process_time() - cpu)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
