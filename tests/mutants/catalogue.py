"""The mutants: each a mistake that somebody could make in one line.

A snippet is short, and made of what seldom changes: attributes, limits and names of events rather than local variables.
When the code around it moves, `python -m tests.mutants --check` says where it may be now; change `file` and `old`, and make
sure that `new` still is the same mistake. An id stays, so that two runs can be compared.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One planted bug."""

    id: str
    file: str
    """Where it is, from the root of the tree."""
    old: str
    """Occurs exactly once in the file."""
    new: str
    breaks: str
    """What is wrong with it, in one line."""
    near: tuple[str, ...]
    """The tests that are most likely to find it: files, or tests in them."""


_CORE = "src/holdfast/core"
_FLOWS = "src/holdfast/flows"
_TEXT = "src/holdfast/text"
_STORAGE = "src/holdfast/storage"
_RUNTIME = "src/holdfast/runtime"
_PROVIDERS = "src/holdfast/providers"
_RENDER = "src/holdfast/render"

MUTANTS = (
    # The codec and the chain
    Mutant(
        "chain-key-content",
        "src/holdfast/chain.py",
        "command_digest(salt, order) != first[0].command_digest",
        "len(command_digest(salt, order)) != len(first[0].command_digest)",
        "Another command under a key that was used before gets the events of the first one.",
        ("tests/core/test_chain.py", "tests/conformance/test_memory.py"),
    ),
    Mutant(
        "codec-whole-number",
        "src/holdfast/codec.py",
        "value.bit_length() >= limits.JSON_INT_BITS",
        "value.bit_length() > limits.JSON_INT_BITS",
        "A whole number with one bit too many is accepted.",
        ("tests/core/test_codec.py", "tests/edges/test_one_line_laws.py"),
    ),
    # Facts
    Mutant(
        "facts-same-value",
        f"{_CORE}/facts/supersession.py",
        "codec.encode(one) == codec.encode(other)",
        "one == other",
        "1, 1.0 and true are taken for the same value: a correction from one to the other changes nothing.",
        ("tests/core/test_facts.py", "tests/edges/test_fact_types.py", "tests/property/test_facts.py"),
    ),
    Mutant(
        "facts-same-time",
        f"{_CORE}/facts/decide.py",
        "each.valid_from_us > new.valid_from_us",
        "each.valid_from_us >= new.valid_from_us",
        "A statement that is valid from the same time as the current one counts as older, and is superseded at once.",
        ("tests/edges/test_one_line_laws.py", "tests/core/test_facts.py", "tests/edges/test_fact_lifecycle.py"),
    ),
    Mutant(
        "facts-depend-row",
        f"{_CORE}/facts/project.py",
        "int(fact.is_valid))",
        "1)",
        "The row of a dependency stays live when the dependent fact ends.",
        ("tests/core/test_project.py", "tests/edges/test_one_line_laws.py", "tests/property/test_facts.py"),
    ),
    # Frames
    Mutant(
        "frames-overdraw",
        f"{_CORE}/frames/decide.py",
        "amount > budget.available or",
        "amount > budget.available + 1 or",
        "A frame grants or reserves one token more than it has.",
        ("tests/core/test_frames.py", "tests/edges/test_frames.py"),
    ),
    Mutant(
        "frames-other-token",
        f"{_CORE}/frames/fold.py",
        " and suspension.holder != event.frame",
        " and not suspension.holder",
        "A token also wakes the frames below that are suspended under tokens of their own.",
        ("tests/core/test_frames.py", "tests/edges/test_suspension.py", "tests/property/test_frames.py"),
    ),
    # Sessions
    Mutant(
        "sessions-offload-stretch",
        f"{_CORE}/fold.py",
        '"offered": seq,',
        '"offered": seq - 1,',
        "The second stretch of history in the outbox begins one event too early.",
        ("tests/core/test_sessions.py", "tests/edges/test_outbox.py"),
    ),
    Mutant(
        "messages-dead-frame",
        f"{_CORE}/sessions/messages.py",
        "call.frame if call.frame in state.frames else None",
        "call.frame",
        "The result of a call is recorded in a frame that has ended.",
        ("tests/edges/test_one_line_laws.py", "tests/core/test_messages.py", "tests/property/test_frames.py"),
    ),
    # The history view
    Mutant(
        "history-stale-plan",
        f"{_CORE}/history/boundaries.py",
        "state.changed > command.version or ",
        "",
        "A plan is carried out although a summary, a reset or an erasure changed the view since.",
        ("tests/edges/test_one_line_laws.py", "tests/edges/test_erased_views.py", "tests/property/test_histories.py"),
    ),
    Mutant(
        "history-preview-bytes",
        f"{_CORE}/history/previews.py",
        "len(_GAP.encode())",
        "len(_GAP)",
        "Characters are counted for bytes: a preview is two bytes longer than its limit.",
        ("tests/core/test_previews.py", "tests/edges/test_preview_ends.py"),
    ),
    # Packs
    Mutant(
        "packs-separator",
        f"{_CORE}/packs/assembly.py",
        "self._count(text + SEPARATOR)",
        "self._count(text)",
        "What stands between two sections is not counted: a pack is larger than its budget.",
        ("tests/core/test_assembly.py", "tests/edges/test_packs.py", "tests/property/test_packs.py"),
    ),
    # The guard and the detector
    Mutant(
        "guard-line-end",
        f"{_TEXT}/guard/terms.py",
        '_JOINTS = "-‐‑–/._&@#\\\\"\n',
        '_JOINTS = "-‐‑–/._&@#\\\\\\n"\n',
        "A superseded value at the end of a line is not found if another line follows.",
        ("tests/text/test_terms.py", "tests/text/test_guard.py", "tests/property/test_guard_text.py"),
    ),
    Mutant(
        "guard-note-twice",
        f"{_TEXT}/guard/finder.py",
        "statement.note_at + 1)",
        "statement.note_at)",
        "A text that has its note already gets another one each time.",
        ("tests/text/test_guard.py", "tests/property/test_guard_text.py", "tests/edges/test_guard.py"),
    ),
    Mutant(
        "guard-off-withheld",
        f"{_CORE}/history/guard.py",
        'if one.action == "withhold" or self._input.policy != "off"',
        'if self._input.policy != "off"',
        "With the guard off, facts that the reader may not know of are shown.",
        ("tests/edges/test_guard.py", "tests/edges/test_fact_permissions.py"),
    ),
    Mutant(
        "detect-exploration",
        f"{_TEXT}/detect/scene.py",
        "(*self.previous, self.message)",
        "(self.message,)",
        "A change that is only imagined, since an earlier message, is proposed as if it were meant.",
        ("tests/text/test_detect.py", "tests/text/test_detect_truth.py"),
    ),
    Mutant(
        "detect-second-hand",
        f"{_TEXT}/detect/detector.py",
        'in {"user", "system"}',
        'in {"user", "system", "assistant"}',
        "A change that the assistant speaks of is as sure as one that the user states.",
        ("tests/text/test_detect.py", "tests/edges/test_observe_harm.py"),
    ),
    Mutant(
        "text-fence-case",
        f"{_TEXT}/fence.py",
        "_ASCII_MARK not in text.lower()",
        "_ASCII_MARK not in text",
        "The tag of the fence in capital letters is not taken out of a text.",
        ("tests/render/test_fence.py", "tests/edges/test_spoofing.py"),
    ),
    # Flows
    Mutant(
        "flows-key-first",
        f"{_FLOWS}/execute.py",
        "if batch.key is not None:",
        "if batch.key is not None and batch.expected is not None:",
        "The idempotency key is not looked up before the decision: a retry is refused because of its own first try.",
        ("tests/edges/test_engine.py", "tests/edges/test_agent_loop.py", "tests/edges/test_frames.py"),
    ),
    Mutant(
        "flows-last-event-erased",
        f"{_FLOWS}/load.py",
        "erasure.seqs[0] <= base.version",
        "erasure.seqs[0] < base.version",
        "A state in the cache keeps the content of its last event after another process erased that event.",
        ("tests/edges/test_erasure.py", "tests/property/test_concurrent_engines.py"),
    ),
    Mutant(
        "flows-replay-tail",
        f"{_FLOWS}/load.py",
        "while state.version < version:",
        "while state.version < version - 1:",
        "A replay loses the last event of a stream if it is alone on its page.",
        ("tests/edges/test_one_line_laws.py", "tests/crash/test_rebuild.py", "tests/edges/test_erasure.py"),
    ),
    Mutant(
        "flows-view-cache",
        f"{_FLOWS}/history/views.py",
        "changed <= cached.version <= state.version",
        "cached.version <= state.version",
        "After a boundary the view from before it is shown, with what came since.",
        ("tests/edges/test_view_reads.py", "tests/edges/test_strategies.py", "tests/property/test_views.py"),
    ),
    Mutant(
        "flows-frame-system",
        f"{_FLOWS}/history/views.py",
        " if message.frame in (None, frame)",
        "",
        "A frame is shown the system messages of other frames.",
        ("tests/edges/test_one_line_laws.py", "tests/edges/test_pack_frames.py", "tests/property/test_histories.py"),
    ),
    Mutant(
        "flows-hidden-fact",
        f"{_FLOWS}/facts/lookup.py",
        " and may_know(state.fact.requires, permissions)",
        "",
        "A writer changes, and learns of, facts that need permissions which the writer lacks.",
        ("tests/edges/test_fact_permissions.py", "tests/property/test_facts.py"),
    ),
    Mutant(
        "flows-suspended-tenant",
        f"{_FLOWS}/frames/suspension.py",
        '{"tenant": engine.tenant, "suspended": 1}',
        '{"suspended": 1}',
        "The list of suspended frames shows those of every tenant.",
        ("tests/edges/test_suspension.py",),
    ),
    Mutant(
        "flows-erased-quotation",
        f"{_FLOWS}/sessions/erasure.py",
        "ordered[at] <= quoted.last",
        "ordered[at] < quoted.last",
        "A summary stays that repeats an erased message, if it is the last one that the summary stands for.",
        ("tests/edges/test_one_line_laws.py", "tests/edges/test_erasure.py", "tests/edges/test_erased_views.py"),
    ),
    # Storage
    Mutant(
        "sqlite-key-tenant",
        f"{_STORAGE}/sqlite/queries.sql",
        "e.ordinal = 0 AND s.tenant = ?",
        "e.ordinal = 0 AND ?2 IS NOT NULL",
        "An idempotency key of one tenant answers the commands of another.",
        ("tests/conformance/test_sqlite.py",),
    ),
    Mutant(
        "sqlite-other-writer",
        f"{_STORAGE}/sqlite/log.py",
        "if data_version != self._data_version:",
        "if self._data_version < 0:",
        "The heads in memory are used although another process has written since.",
        ("tests/conformance/test_sqlite_processes.py", "tests/property/test_concurrent_engines.py"),
    ),
    Mutant(
        "sqlite-erased-words",
        f"{_STORAGE}/sqlite/log.py",
        "self._needs_purge |= bool(",
        "self._needs_purge &= bool(",
        "The words of erased facts stay in the search index of the file.",
        ("tests/conformance/test_sqlite_file.py", "tests/edges/test_erasure.py"),
    ),
    Mutant(
        "storage-interrupt",
        f"{_STORAGE}/group.py",
        "return self.is_finished or self.is_abandoned",
        "return self.is_finished",
        "A command whose caller was interrupted is carried out later.",
        ("tests/edges/test_one_line_laws.py", "tests/conformance/test_sqlite_writer.py"),
    ),
    Mutant(
        "memory-snapshot",
        f"{_STORAGE}/memory.py",
        "self._snapshots.pop(stream, None)",
        "self._snapshots.get(stream)",
        "A snapshot from before an erasure stays, with what was erased.",
        ("tests/conformance/test_memory.py",),
    ),
    Mutant(
        "blobs-shelf-sync",
        f"{_STORAGE}/blobs/folder.py",
        "self._disk.rename(self._partial, path)\n                self._disk.sync_folder(shelf)",
        "self._disk.rename(self._partial, path)",
        "After a power loss the name of a stored body may be gone.",
        ("tests/conformance/test_folder_blobs.py", "tests/crash/test_power_loss.py"),
    ),
    Mutant(
        "postgres-feed-gap",
        f"{_STORAGE}/postgres/queries.sql",
        "e.xid < pg_snapshot_xmin(pg_current_snapshot())",
        "e.xid < pg_snapshot_xmax(pg_current_snapshot())",
        "The feed passes over a transaction that is still open, and never shows its events.",
        ("tests/conformance/test_postgres_feed.py",),
    ),
    Mutant(
        "postgres-lost-reply",
        f"{_STORAGE}/postgres/log.py",
        "if event.command == append.command)",
        "if event.command != append.command)",
        "A command that was stored before the connection broke is not recognised, and is refused.",
        ("tests/crash/test_postgres_crash.py", "tests/crash/test_postgres_faults.py"),
    ),
    # Rendering
    Mutant(
        "render-open-call",
        f"{_RENDER}/entries.py",
        " if call.id in self._answers)",
        ")",
        "A call is rendered without its result: providers refuse the request.",
        ("tests/render/test_shapes.py", "tests/render/test_renderings.py"),
    ),
    Mutant(
        "render-heading",
        f"{_RENDER}/text.py",
        "(?:system|user|assistant|tool)",
        "(?:system|user|assistant)",
        "In plain text, a line that somebody wrote passes for the heading of a tool result.",
        ("tests/edges/test_one_line_laws.py", "tests/render/test_renderings.py", "tests/edges/test_spoofing.py"),
    ),
    # Providers
    Mutant(
        "providers-cache-tokens",
        f"{_PROVIDERS}/usage.py",
        "sum(known) if known else None",
        "known[0] if known else None",
        "The input tokens of Anthropic are told without those of the cache.",
        ("tests/core/test_providers_anthropic.py", "tests/core/test_providers_messages.py"),
    ),
    Mutant(
        "providers-half-call",
        f"{_PROVIDERS}/streams.py",
        "block.is_stopped and block.kind in",
        "block.kind in",
        "A tool call that broke off in the middle of its arguments is kept as if it were whole.",
        ("tests/core/test_providers_deltas.py",),
    ),
    # The runtime
    Mutant(
        "runtime-torn-command",
        f"{_RUNTIME}/store_copy.py",
        "return end if len(events) - end < limits.COMMAND_EVENTS else len(events)",
        "return len(events)",
        "A copy may hold the first half of a command.",
        ("tests/edges/test_copy.py",),
    ),
    Mutant(
        "turns-fence",
        f"{_CORE}/sessions/turns.py",
        "if lease.number != fence.number or not lease.owner:",
        "if not lease.owner:",
        "The owner of a turn that another one has taken over goes on writing.",
        ("tests/core/test_turns.py", "tests/edges/test_turns.py"),
    ),
    Mutant(
        "turns-ledger",
        f"{_FLOWS}/context.py",
        "if all(request.inputs.turn is None for request in fenced):",
        "if not fenced:",
        "Facts are written under a turn that is over.",
        ("tests/edges/test_turns.py",),
    ),
    Mutant(
        "runtime-cancel",
        f"{_RUNTIME}/async_driver.py",
        "await run_uncancelled(store.append(*effect.args))",
        "await store.append(*effect.args)",
        "A task that is cancelled leaves its append half way, and the next one decides on a state that is too old.",
        ("tests/edges/test_engine.py", "tests/edges/test_agent_loop.py"),
    ),
)
