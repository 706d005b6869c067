// What can be done to a run: resume, recover, withdraw, fork. Each says exactly what will happen before it happens.

import type { ComponentChildren, JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { ConfirmDialog, Name, showToast, Table } from "../../components";
import { p, post, type Json, type Recovery, type Withdrawal } from "../../data";
import { plural } from "../../format";
import { go, link, route, scopeQuery } from "../../router";

export type Action = { kind: "resume"; frame: string; by: readonly string[] } | { kind: "recover" } | { kind: "withdraw"; seq: number; frame: string | null } | { kind: "fork"; seq: number };

function Field({ label, note, children }: { label: string; note?: ComponentChildren; children: (id: string) => ComponentChildren }): JSX.Element {
  const id = useId();
  return <div class="field"><label for={id}>{label}</label>{children(id)}{note && <span class="faint">{note}</span>}</div>;
}

interface Doing {
  onClose: () => void;
  onDone: () => void;
}

function ResumeDialog({ frame, by, onClose, onDone }: Doing & { frame: string; by: readonly string[] }): JSX.Element {
  const [token, setToken] = useState("");
  async function run(): Promise<boolean> {
    await post("/resume", { token: token.trim() });
    showToast(`Frame ${frame} goes on`);
    onDone();
    return true;
  }
  return (
    <ConfirmDialog title={`Resume frame ${frame}?`} action="Resume" ready={token.trim() !== ""} run={run} onClose={onClose}>
      <p>The frame becomes active again, and its token is used up: a token works once. Nothing is run by this; a worker goes on with the frame.</p>
      <p class="muted">The token was told once, to the program that suspended the frame. The store has only its digest, so this page cannot show it. If it is lost, <code>frame.reissue()</code> makes a new one, and the old one is void.{by.length > 0 && <> It may be used by <strong><Name text={by.join(", ")} /></strong>.</>}</p>
      <Field label="Suspension token">{(id) => <input id={id} class="input mono" type="password" autocomplete="off" spellcheck={false} autofocus value={token} onInput={(event) => setToken(event.currentTarget.value)} />}</Field>
    </ConfirmDialog>
  );
}

const PENDING: Record<string, string> = {
  tool_in_progress: "unknown outcome", tool_not_started: "not started", tool_running: "running", frame: "frame", suspended: "suspended",
};

/** What was in progress when a session was taken over. */
export function RecoveryReport({ report, onClose }: { report: Recovery; onClose: () => void }): JSX.Element {
  const unknown = report.pending_work.filter((each) => each.kind === "tool_in_progress");
  return (
    <section class="recovery-report" aria-label="What was in progress">
      <div class="row"><h2>What was in progress</h2><span class="spacer" /><button type="button" class="button small" onClick={onClose}>Close the report</button></div>
      <p>The takeover is recorded, after event {report.last_event_seq}. {plural(report.frames_recovered, "live frame")}, {plural(report.pending_work.length, "item")} of pending work.</p>
      {unknown.length > 0 && <p class="danger-text"><strong>{plural(unknown.length, "tool call")} with an unknown outcome.</strong> Check each effect by its idempotency key before it is started again.</p>}
      {report.pending_work.length > 0 && (
        <Table
          caption="Pending work" rows={report.pending_work} keyOf={(each) => `${each.kind} ${each.call ?? ""} ${each.frame ?? ""} ${each.description}`}
          columns={[
            { key: "kind", label: "What", render: (each) => PENDING[each.kind] ?? each.kind.replaceAll("_", " ") },
            { key: "text", label: "Description", render: (each) => <Name text={each.description} /> },
            { key: "frame", label: "Frame", render: (each) => each.frame ?? "–" },
            { key: "key", label: "Idempotency key", render: (each) => <span class="mono">{each.key ?? "–"}</span> },
          ]}
        />
      )}
    </section>
  );
}

function RecoverDialog({ onClose, onDone, onReport }: Doing & { onReport: (report: Recovery) => void }): JSX.Element {
  const scope = route.value.scope!;
  async function run(): Promise<boolean> {
    onReport(await post<Recovery>(p`/sessions/${scope.session}/recover`, {}, scopeQuery(scope)));
    onDone();
    return true;
  }
  return (
    <ConfirmDialog title="Recover this session?" action="Recover" run={run} onClose={onClose}>
      <p>The session is taken over after an interruption. The takeover is recorded in its log, and you get the list of what was in progress: frames, open tool calls, and those with an unknown outcome.</p>
      <p class="muted">Nothing else changes, and nothing is run again. Do this when the process that worked on the session has stopped.</p>
    </ConfirmDialog>
  );
}

function WithdrawDialog({ seq: first, frame, onClose, onDone }: Doing & { seq: number; frame: string | null }): JSX.Element {
  const scope = route.value.scope!;
  const [seq, setSeq] = useState(String(first || ""));
  const [reason, setReason] = useState("");
  const from = Number(seq);
  async function run(): Promise<boolean> {
    const place = frame ? p`/sessions/${scope.session}/frames/${frame}/withdrawals` : p`/sessions/${scope.session}/withdrawals`;
    const done = await post<Withdrawal | null>(place, { after: from - 1, reason }, scopeQuery(scope));
    showToast(done ? `Withdrawn from m${from} on; event ${done.seq} can be restored` : "There is no such message: nothing changed");
    onDone();
    return true;
  }
  return (
    <ConfirmDialog title={`Withdraw from m${seq || "…"} on?`} action="Withdraw" danger ready={Number.isInteger(from) && from > 0} run={run} onClose={onClose}>
      <p>Message m{seq || "…"} and all that came after it in {frame ? <>the frame {frame}</> : "the conversation"} are taken out of it: no view, pack or summary shows them. If a tool call is before it and its result behind it, the call goes, too. Open calls of these messages are closed.</p>
      <p class="muted">Nothing is erased: the messages stay in the transcript, marked as withdrawn, and <code>session.restore()</code> brings them back. Facts that only these messages state need a review.</p>
      <Field label="The first message to withdraw (its number)">{(id) => <input id={id} class="input mono" type="number" min={1} value={seq} onInput={(event) => setSeq(event.currentTarget.value)} />}</Field>
      <Field label="Reason (optional)">{(id) => <input id={id} class="input" value={reason} maxLength={500} onInput={(event) => setReason(event.currentTarget.value)} />}</Field>
    </ConfirmDialog>
  );
}

function ForkDialog({ seq: first, onClose, onDone }: Doing & { seq: number }): JSX.Element {
  const scope = route.value.scope!;
  const [name, setName] = useState(`${scope.session}-fork`);
  const [seq, setSeq] = useState(first ? String(first) : "");
  const at = Number(seq);
  async function run(): Promise<boolean> {
    const body: Record<string, Json> = { as_: name.trim() };
    if (at > 0) body.at = at;
    await post<Json>(p`/sessions/${scope.session}/forks`, body, scopeQuery(scope));
    onDone();
    showToast(`Forked as ${name.trim()}`);
    go(link("run", [], {}, { ...scope, session: name.trim() }));
    return true;
  }
  return (
    <ConfirmDialog title="Fork this session?" action="Fork" ready={name.trim() !== ""} run={run} onClose={onClose}>
      <p>Another session begins that shares this conversation up to {at > 0 ? <>message m{at}</> : "now"} and goes on from there. Nothing is copied, and the conversation of this session does not change: its log notes the fork. Later messages of one are not seen by the other.</p>
      <p class="muted">The fork has the facts of this session at that point in a ledger of its own. Tool calls that were open there are closed in it, and frames are cancelled.</p>
      <Field label="The last message that both share (its number; empty: everything so far)">{(id) => <input id={id} class="input mono" type="number" min={1} value={seq} onInput={(event) => setSeq(event.currentTarget.value)} />}</Field>
      <Field label="Name of the new session">{(id) => <input id={id} class="input" value={name} maxLength={256} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
    </ConfirmDialog>
  );
}

export function ActionDialog({ action, onClose, onDone, onReport }: Doing & { action: Action; onReport: (report: Recovery) => void }): JSX.Element {
  switch (action.kind) {
    case "resume":
      return <ResumeDialog frame={action.frame} by={action.by} onClose={onClose} onDone={onDone} />;
    case "recover":
      return <RecoverDialog onClose={onClose} onDone={onDone} onReport={onReport} />;
    case "withdraw":
      return <WithdrawDialog seq={action.seq} frame={action.frame} onClose={onClose} onDone={onDone} />;
    case "fork":
      return <ForkDialog seq={action.seq} onClose={onClose} onDone={onDone} />;
  }
}
