"""Fresh processes whose threads all decode at once what nobody has decoded before; run by a test, in a process of its own.

Prints how each process ended, 0 for well, on one line.
"""

from __future__ import annotations

import os
import sys
import threading

from holdfast import codec
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.state import SessionState

THREADS = 8


MESSAGE = b'{"role":"user","content":[],"tokens":1,"counter":"c"}'


def decode_at_once() -> None:
    sys.setswitchinterval(1e-6)
    gate = threading.Barrier(THREADS)
    good: list[bool] = []

    def decode() -> None:
        gate.wait()
        good.append(
            codec.decode(MESSAGE, MessageRecorded).tokens == 1 and codec.decode(b"{}", SessionState).version == 0
        )

    threads = [threading.Thread(target=decode) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0 if good == [True] * THREADS else 1)


if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        child = os.fork()
        if child == 0:
            decode_at_once()
        print(os.waitpid(child, 0)[1], end=" ", flush=True)
