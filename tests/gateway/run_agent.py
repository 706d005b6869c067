"""An agent for the tests of `holdfast run`: it calls its provider by the variables alone, and does what its arguments say.

ask N          N calls of /v1/messages, each with what it has said before; a call that fails is tried again
wait           print "ready", and wait for a signal
exit CODE
environment    print the variables as JSON
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from typing import Any

TRIES = 200


def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    tools = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 100, "tools": tools, "messages": messages}
    headers = {"x-api-key": "none", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    request = urllib.request.Request(
        f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages", json.dumps(body).encode(), headers
    )
    for _ in range(TRIES):
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)  # type: ignore[no-any-return]
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the provider cannot be reached")


def converse(turns: int) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
    for turn in range(turns):
        content = ask(messages)["content"]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": f"Go on with {turn}."}]
        sys.stdout.write(content[0]["text"] + "\n")
        sys.stdout.flush()


def wait() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda got, _: (sys.stdout.write(f"got {got}\n"), sys.exit(10 + got)))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        signal.pause()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ask", turns]:
            converse(int(turns))
        case ["wait", *_]:
            wait()
        case ["exit", code]:
            sys.exit(int(code))
        case ["environment"]:
            sys.stdout.write(json.dumps(dict(os.environ)))
        case rest:
            sys.stdout.write(json.dumps(rest))
