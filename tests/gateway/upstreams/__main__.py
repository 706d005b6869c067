"""The fake provider as a process: prints its address as a line of JSON, and serves until a signal comes."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from tests.gateway.upstreams import FakeProvider, read_reply


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.upstreams", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, help="a file with a JSON list of replies")
    parser.add_argument("--tokens", choices=("estimate", "exact"), default="estimate")
    parser.add_argument("--keep", choices=("all", "digests"), default="all")
    parser.add_argument("--secret", default="fake-provider")
    parser.add_argument("--window", type=int, default=None)
    given = parser.parse_args()
    script = [read_reply(each) for each in json.loads(given.script.read_text())] if given.script else []
    options = {"tokens": given.tokens, "keep": given.keep, "secret": given.secret, "window": given.window}
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with FakeProvider(script, port=given.port, **options) as provider:
        sys.stdout.write(json.dumps({"url": provider.url, "port": provider.port}) + "\n")
        sys.stdout.flush()
        stop.wait()


if __name__ == "__main__":
    main()
