"""The main job, on SQLite files: an agent with real tools works, is killed in the middle of a turn, and goes on. Another
divides its work and its budget into frames, and is killed while it pays: nobody pays twice. A third one reads more than its
window holds: what is large goes out of the way, and what is old goes when that pays. At last, what is known changes: what
rests on it is found, and who has the say has it.

python examples/demo.py            plays it
python examples/demo.py --agent F  is the agent itself, working on the file F
python examples/demo.py --buyer F  is the other one
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

import holdfast

SOURCES = Path(holdfast.__file__).parent
SESSION, PURCHASE = "code-review", "purchase"
COLOR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
TINTS = {"system": "2", "user": "36", "assistant": "35", "tool": "33"}


def paint(code: str, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOR else text


def title(text: str) -> None:
    print("\n" + paint("1;36", f"── {text} " + "─" * max(0, 74 - len(text))), flush=True)


def say(text: str, mark: str = "·") -> None:
    print(f"  {mark} {text}", flush=True)


# The tools: they read real files, the sources of the package itself.


def list_files(folder: str) -> list[dict[str, Any]]:
    found = sorted((SOURCES / folder).rglob("*.py"))
    return [{"path": str(path.relative_to(SOURCES)), "bytes": path.stat().st_size} for path in found]


def search(pattern: str) -> str:
    hits: list[str] = []
    for path in sorted(SOURCES.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(pattern, line):
                hits.append(f"{path.relative_to(SOURCES)}:{number}: {line.strip()}")
    return "\n".join(hits)


def read_everything() -> Iterator[bytes]:
    """More than belongs into a log: it is streamed to the blob store, and the message keeps a preview."""
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.read_bytes()


def count_lines(folder: str) -> dict[str, int]:
    files = sorted((SOURCES / folder).rglob("*.py"))
    return {"files": len(files), "lines": sum(path.read_text().count("\n") for path in files)}


TOOLS: dict[str, Callable[..., object]] = {
    "list_files": list_files,
    "search": search,
    "read_everything": read_everything,
    "count_lines": count_lines,
}


# The model: what a provider would return, word for word and always the same. The nth reply follows from the transcript.


def use(number: int, name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number:02d}", "name": name, "input": args}


def reply(text: str, *calls: dict[str, Any], tokens: int) -> dict[str, Any]:
    return {
        "id": "msg_demo",
        "type": "message",
        "role": "assistant",
        "model": "scripted-1",
        "content": [{"type": "text", "text": text}, *calls],
        "stop_reason": "tool_use" if calls else "end_turn",
        "usage": {"input_tokens": tokens, "output_tokens": 40},
    }


REPLIES = [
    reply(
        "I look in three places at once.",
        use(1, "count_lines", folder="core"),
        use(2, "list_files", folder="core"),
        use(3, "search", pattern=r"^class .*Error\b|^class \w+\(Conflict"),
        tokens=180,
    ),
    reply("The core is small. For the whole picture I read all of it.", use(4, "read_everything"), tokens=2_100),
    reply("The core is pure, and every refusal has a type of its own. I would merge it.", tokens=2_900),
    reply("I run the slow check.", use(5, "search", pattern="def .*slow"), tokens=3_050),
    reply("Then I leave it. Merged as it is.", tokens=3_150),
]
QUESTIONS = ["Is the core of this package ready to merge?", "Check once more, slowly."]


def agent(path: str) -> None:
    """One loop, which looks at the transcript to see what is next. So it does not matter where the last one stopped."""
    with holdfast.open(path, principal="demo-agent") as engine:
        session = engine.session(SESSION, create=True)
        state = session.state()
        print(f"start {state.messages} {len(state.open_calls)}", flush=True)
        if not state.messages:
            session.record("system", "You review code. Look before you judge.", key="system")
        while True:
            if not step(session):
                return


def step(session: holdfast.Session) -> bool:
    """The next thing to do, under a key that says what it is: doing it again changes nothing. False if all is done."""
    state, last = session.state(), session.messages(limit=1)[-1]
    if state.open_calls:
        call = state.open_calls[0]
        if call.provider_id == "toolu_05":
            return False  # the slow one: the user will not wait for it
        args = next(each for each in calls_of(session) if each.id == call.id).args
        assert isinstance(args, dict)
        done = session.result(call, TOOLS[call.name](**args), key=f"result-{call.id}")
        print(f"done {done.seq} tool {call.name} answered", flush=True)
        return True
    if last.role == "assistant" or last.role == "system":
        if state.turns == len(QUESTIONS):
            return False
        done = session.record("user", QUESTIONS[state.turns], key=f"question-{state.turns}")
    else:
        replies = sum(message.role == "assistant" for message in session.messages())
        done = session.record(REPLIES[replies], key=f"reply-{replies}")
    print(f"done {done.seq} {done.role} {done.text.splitlines()[0]}", flush=True)
    return True


def calls_of(session: holdfast.Session) -> list[holdfast.ToolCall]:
    return [call for message in session.messages() for call in message.tool_calls]


# The buyer: a tree of frames, each with its share of the budget, and a tool that must not run twice.


def bank_of(path: str) -> Path:
    """What the bank remembers: a line for every payment, with its key."""
    return Path(f"{path}.bank")


def buyer(path: str) -> None:
    def pay(amount: int, key: str) -> str:
        with bank_of(path).open("a") as bank:
            bank.write(f"{key} {amount}\n")
        print("paid", flush=True)
        time.sleep(600)  # the bank has the money; its answer is on the way, and will find nobody
        return "thank you"

    with holdfast.open(path, principal="buyer") as engine:
        task = engine.create_session(PURCHASE).frame("Buy a keyboard for under 50", budget=8_000, timeout_s=3_600)
        reserved = task.reserve("the last word", 500)
        say(f"{task.id} has 8,000 tokens, 500 of them reserved: {task.state().budget.available:,} are available")
        for vendor, tokens in (("A", 1_460), ("B", 2_360)):
            with task.frame(f"Read the offer of vendor {vendor}", budget=2_500) as reading:
                left = task.state().budget.available
                reading.record(reply(f"Vendor {vendor} has one for {tokens // 30}.", tokens=tokens))
                reading.pop("completed", f"Vendor {vendor} takes {tokens // 30}.")
            budget = task.state().budget
            say(
                f"{reading.id} took 2,500, which left {left:,}; it used {tokens + 40:,} and gave back: {budget.available:,}"
            )
        try:
            task.frame("Read the whole web", budget=6_000)
        except holdfast.errors.InsufficientTokens as error:
            say(f"refused: {str(error).split(';')[0]}")
        task.commit(reserved, 120)
        order = task.frame("Order at vendor A", budget=1_500, max_tool_calls=2)
        (call,) = order.record(reply("I pay.", use(1, "pay", amount=48), tokens=310)).tool_calls
        order.run(call, pay, key_as="key")


# The play around it.


def run_agent(path: str, *, kill_at: str = "") -> list[int]:
    """Start the agent as a process of its own; SIGKILL it as soon as it says that this is durable."""
    child = subprocess.Popen([sys.executable, __file__, "--agent", path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    acknowledged: list[int] = []
    for line in child.stdout:
        word, number, rest = line.rstrip().split(maxsplit=2)
        if word == "start":
            say(f"agent {child.pid} opens the file: {number} messages are there, {rest} calls wait for their result")
            continue
        role, text = rest.split(maxsplit=1)
        acknowledged.append(int(number))
        say(f"{paint('32', 'durable')} {number:>3}  {paint(TINTS[role], f'{role:<9}')}  {text[:60]}", paint("32", "✓"))
        if kill_at and kill_at in text:
            child.send_signal(signal.SIGKILL)
            break
    child.stdout.close()
    if child.wait() == -signal.SIGKILL:
        say(paint("31", f"kill -9 {child.pid}: gone in the middle of a turn"), paint("31", "✗"))
    return acknowledged


def shown(message: holdfast.Message, engine: holdfast.Engine) -> str:
    calls = " ".join(f"→ {call.name}" for call in message.tool_calls)
    for result in message.tool_results:
        for part in result.content:
            if isinstance(part, holdfast.Body):
                assert sum(map(len, engine.blob_chunks(part.ref))) == part.ref.size
                return f"{result.tool_call_id}: {part.ref.size:,} bytes in the blob store, checked by their digest"
        text = str(result.value)
        return f"{result.tool_call_id}: {text.splitlines()[0][:40]}{'…' if len(text) > 40 else ''}"
    return f"{message.text.splitlines()[0][:60]} {calls}"


def show(engine: holdfast.Engine, session: holdfast.Session) -> None:
    for message in session.messages():
        role = message.role or "erased"
        print(f"  {message.seq:>3}  {paint(TINTS[role], f'{role:<9}')}  {message.tokens:>5}  {shown(message, engine)}")


def check(session: holdfast.Session, acknowledged: list[int]) -> None:
    messages = session.messages()
    lost = [seq for seq in acknowledged if seq not in {message.seq for message in messages}]
    calls = [call.id for call in calls_of(session)]
    results = [result.tool_call_id for message in messages for result in message.tool_results]
    say(f"{len(messages)} messages kept, {len(lost)} lost, {len(calls)} calls, {len(results)} results, 0 doubled")
    assert not lost
    assert len(set(results)) == len(results)
    assert set(results) <= set(calls)
    assert len([message for message in messages if message.role == "user"]) == len(QUESTIONS)


def interrupted(session: holdfast.Session) -> None:
    (call,) = session.state().open_calls
    try:
        session.record(REPLIES[4])
    except holdfast.errors.CallsOpen as error:
        say(f"the next model call is refused: {str(error).split(';')[0]}")
    session.close_open_calls("the user did not want to wait")
    late = session.result(call, "nothing slow found")
    say(f"its result came late and is kept as evidence: {late.late}")
    session.record(REPLIES[4])


def windows(session: holdfast.Session) -> None:
    state = session.state()
    for budget in (2_000, 1_000, 400):
        view = session.window(tokens=budget)
        bar = "█" * round(30 * view.tokens / budget)
        roles = " ".join(message.role or "" for unit in view.units for message in unit.messages)
        say(f"{budget:>5} tokens  {paint('34', f'{bar:·<30}')} {view.tokens:>5}  {len(view.units)} units: {roles[:44]}")
    draft = session.draft_summary(keep_turns=1)
    assert draft is not None
    session.summarize(draft, "The core was read whole and found ready to merge.")
    view = session.window(tokens=400)
    say(
        f"with a summary for {draft.tokens:,} tokens of it, all {state.live} messages are told of in {view.tokens} tokens"
    )


def ending(engine: holdfast.Engine, session: holdfast.Session) -> None:
    session.reset("a new review")
    for entry in engine.outbox():
        say(f"reset: events {entry.first} to {entry.last} wait in the outbox ({len(engine.history(entry))} messages)")
        engine.acknowledge(entry)
    session.erase([3], "the user asked for it")
    report = engine.verify()
    say(f"event 3 erased for good; {report.events} events verified, problems: {len(report.problems)}")
    assert report.ok


def command(path: str, *args: str, typed: str = "") -> None:
    """The command line, as a process of its own."""
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "holdfast", "--file", path, *args], check=True, input=typed, text=True)


def frames(path: str) -> None:
    title("A tree of frames with budgets; the buyer is killed while it pays")
    child = subprocess.Popen([sys.executable, __file__, "--buyer", path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line == "paid\n":
            child.send_signal(signal.SIGKILL)
            break
        print(line, end="", flush=True)
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    say(paint("31", f"kill -9 {child.pid}: the bank has the money, and nobody wrote that down"), paint("31", "✗"))

    title("What it was at: holdfast recover")
    command(path, "recover", PURCHASE, "--principal", "buyer")

    title("Nobody pays twice")
    with holdfast.open(path, principal="buyer") as engine:
        session = engine.session(PURCHASE)
        recovery = session.recover()
        (unknown,), current = recovery.unknown, recovery.current_frame
        assert current is not None
        assert unknown.call is not None
        order = session.get_frame(current.id)
        try:
            order.start(unknown.call)
        except holdfast.errors.OutcomeUnknown as error:
            say(f"to start it again is refused: {str(error).split('.')[0]}")
        payments = bank_of(path).read_text().splitlines()
        assert [line.split()[0] for line in payments] == [unknown.key]
        order.result(unknown.call, "paid: the bank knows this key")
        say(f"the bank is asked under its key: {len(payments)} payment, so that is the result")
        token = order.suspend("is it to be delivered?", resumable_by="boss")
        say(f"{order.id} rests until the boss agrees; the token is handed out once: {token!r}")

    title("Another process wakes it: holdfast suspended, holdfast resume")
    command(path, "suspended")
    command(path, "resume", "--principal", "boss", typed=token)
    with holdfast.open(path, principal="buyer") as engine:
        session = engine.session(PURCHASE)
        try:
            engine.resume(token)
        except holdfast.errors.TokenConsumed as error:
            say(str(error).split(".")[0])
        order, task = (session.get_frame(frame.id) for frame in reversed(session.stack()))
        order.pop("completed", "Ordered, paid once, on its way.")
        task.pop("completed", "A keyboard for 48.")
        spent = [frame.usage.input_tokens + frame.usage.output_tokens for frame in session.frames()]
        assert task.state().budget.used == sum(spent) + 120, "all that was spent, and nothing twice"
        assert engine.verify().ok

    title("What became of it: holdfast frames")
    command(path, "frames", PURCHASE)


# The context: what is large goes out of the way, and what is old goes when that pays.


def log_file() -> Iterator[bytes]:
    """Five megabytes that a tool returns, with one line in them that matters."""
    for number in range(76_000):
        done = "ERROR out of memory in worker 7" if number == 41_234 else f"GET /orders/{number} 200"
        yield f"2026-11-16T12:{number // 1_300:02d} request {number:>6} from 10.0.{number % 256}.7 {done}\n".encode()


def context(path: str) -> None:
    title("A tool returns 5 MB: it goes out of the way by itself, and can be read back")
    with holdfast.open(path, principal="on-call") as engine:
        session = engine.create_session("incident")
        session.record("user", "Checkout is down since noon. Find out why.")
        (call,) = session.record(reply("I fetch the log.", use(1, "fetch_log"), tokens=120)).tool_calls
        session.result(call, log_file())
        (piece,) = session.pieces()
        say(
            f"{piece.id}: {piece.size:,} bytes are {piece.residency}; the history has {session.history().tokens:,} tokens"
        )
        for line in session.reader()(handle=piece.id, search="error").splitlines():
            say(paint("33", line[:100]), " ")
        session.record(reply("Worker 7 ran out of memory at 12:31.", tokens=1_500))

        title("More is read and said; compacting would not pay yet, so it is refused")
        sources = sorted(SOURCES.rglob("*.py"))
        price = holdfast.Prices(
            provider="demo",
            model="scripted-1",
            input=3_000_000,
            cache_read=300_000,
            cache_write=3_750_000,
            output=15_000_000,
            window=64_000,
            max_output=4_000,
        )
        refused: holdfast.Plan | None = None
        for number, source in enumerate(sources):
            (call,) = session.record(reply("Next.", use(number, "read", file=source.name), tokens=2_000)).tool_calls
            session.result(call, source.read_text()[:6_000])
            plan = session.plan(prices=price)
            if not plan.empty:
                break
            refused = plan if plan.considered else refused
        assert refused is not None
        print("\n".join(f"    {line}" for line in refused.explain().splitlines()))

        title("Some calls later it pays, and is done: one event; the transcript stays as it is")
        before, told = session.history().tokens, len(session.messages(limit=1_000))
        done = session.compact(plan)
        print("\n".join(f"    {line}" for line in done.explain().splitlines()))
        assert done.at is not None
        assert len(session.messages(limit=1_000)) == told
        say(f"event {done.at}: from {before:,} to {session.history().tokens:,} tokens")
        assert session.plan(prices=price).empty, "and right after it there is nothing to do"
        assert "worker 7" in session.read_text(piece, search="out of memory").text
        assert engine.verify().ok

    title("Look at it: holdfast context")
    command(path, "context", "incident", "-n", "5", "--window", "60000")


def told(seen: holdfast.Observed) -> None:
    """What was said, and what came of it."""
    say(f"{paint(TINTS['user'], 'user')}: {seen.message.text}")
    for one in seen.judged:
        why = f", since {one.why}" if one.why else ""
        say(
            f"  {paint('32', one.outcome)} in the ledger of {one.ledger}: {one.proposal.key} = {one.proposal.value}{why}"
        )


def facts(path: str) -> None:
    title("What is known changes: a correction reaches what rests on it")
    with holdfast.open(path, principal="planner") as engine:
        acme, ada = engine.ledger(organization="acme"), engine.ledger(user="ada")
        acme.assert_("travel policy", "at most 120 euros a night", authority="policy", source="the handbook")
        acme.assert_("trip budget", "3,000 euros", authority="manager", source="finance")
        acme.assert_("spent", "1,200 euros", source="the bank")
        acme.assert_("remaining", "1,800 euros", depends_on=["trip budget", "spent"])
        acme.assert_("trip budget", "2,500 euros", authority="manager", source="finance", reason="the board cut it")
        (doubtful,) = acme.review()
        say(f"the budget is {fact_now(acme, 'trip budget')} now; {doubtful.key} = {doubtful.value} needs a review")

    title("Look at it: holdfast facts history, holdfast facts review")
    command(path, "facts", "history", "trip budget", "--organization", "acme")
    command(path, "facts", "review", "--organization", "acme")

    title("It is said anew; a colleague has another opinion, and may have it")
    with holdfast.open(path, principal="planner") as engine:
        acme, ada = engine.ledger(organization="acme"), engine.ledger(user="ada")
        acme.assert_("remaining", "1,300 euros", depends_on=["trip budget", "spent"])
        assert not acme.review()
        claim = acme.assert_("travel policy", "as much as it takes", authority="peer", source="a colleague")
        say(f"{claim.id} is a claim against {claim.against}: {fact_now(acme, 'travel policy')} is what holds")
        assert claim.claim

        title("In plain text: the message and what it changes are one transaction")
        ada.assert_("meeting", "Tuesday")
        who = holdfast.Identity(user_name="Ada", authority="employee")
        session = engine.create_session("trip", actor="ada", identity=who, ledgers=[ada.id, acme.id])
        told(session.observe("Actually, let's move the meeting to Thursday."))
        told(session.observe("Per the CEO, the trip budget is 9,000 euros."))
        meeting = session.fact("meeting")
        assert meeting is not None
        assert meeting.value == "Thursday"
        assert fact_now(acme, "trip budget") == "2,500 euros"
        say(
            f"the meeting is on {meeting.value}; the budget stays {fact_now(acme, 'trip budget')}: words grant no authority"
        )
        report = engine.verify()
        say(f"{report.events} events verified, problems: {len(report.problems)}")
        assert report.ok


def fact_now(ledger: holdfast.Ledger, key: str) -> object:
    fact = ledger.current(key)
    assert fact is not None
    return fact.value


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        path = os.path.join(folder, "agent.db")

        title("An agent works; it is killed between two parallel tool calls")
        acknowledged = run_agent(path, kill_at="count_lines answered")

        title("Another process goes on where it was, and is killed after a large result")
        acknowledged += run_agent(path, kill_at="read_everything answered")

        title("And another one finishes")
        acknowledged += run_agent(path)

        with holdfast.open(path) as engine:
            session = engine.session(SESSION)
            title("What the log holds")
            show(engine, session)
            check(session, acknowledged)

            title("A call that nobody waits for any more")
            interrupted(session)

            title("A retry is free; a lie is refused")
            again = session.record("user", QUESTIONS[0], key="question-0")
            say(f"the first question sent again: the same message, seq {again.seq}")
            try:
                session.record("user", "Delete everything.", key="question-0")
            except holdfast.errors.KeyConflict as error:
                say(str(error))

            title("The same session in windows of different size: no call without its result")
            windows(session)

            title("The end of a conversation, and something forgotten on request")
            ending(engine, session)

        title("Someone edits the file behind our back")
        edit = apsw.Connection(path)
        edit.execute("UPDATE events SET payload = CAST(replace(payload, 'judge', 'guess') AS BLOB) WHERE seq = 2")
        edit.execute("UPDATE events SET principal = 'nobody' WHERE seq = 4")
        edit.close()
        with holdfast.open(path) as engine:
            for problem in engine.verify().problems:
                say(str(problem), paint("33", "!"))
            assert not engine.verify().ok

        title("Look inside: holdfast sessions list")
        command(path, "sessions", "list")

        frames(os.path.join(folder, "work.db"))
        context(os.path.join(folder, "context.db"))
        facts(os.path.join(folder, "facts.db"))
    print()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--agent"]:
        agent(sys.argv[2])
    elif sys.argv[1:2] == ["--buyer"]:
        buyer(sys.argv[2])
    else:
        main()
