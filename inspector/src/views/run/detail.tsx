// One span in words: when, how long, whose, and where it leads.

import type { ComponentChildren, JSX } from "preact";
import { Copy, Name, Time, Tokens } from "../../components";
import { can, exported, type Activity } from "../../data";
import { formatDay, formatDuration, formatTime } from "../../format";
import { link } from "../../router";
import type { Action } from "./actions";
import { BudgetBar, KINDS, StatusBadge } from "./marks";
import { durationOf, messageOf } from "./model";

function Property({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  return <div class="property"><dt>{label}</dt><dd>{children}</dd></div>;
}

/** What to do about a tool call whose outcome is unknown. */
export function UnknownNotice({ span }: { span: { label: string; key?: string | null; id: string } }): JSX.Element {
  return (
    <div class="unknown-notice">
      <p><strong>Its outcome is unknown.</strong> <span class="mono"><Name text={span.label} /></span> was started and has no result. It may have taken effect.</p>
      {span.key && <div class="row"><span class="faint">Idempotency key</span> <code class="key">{span.key}</code> <Copy text={span.key} label="Copy key" /></div>}
      <ol class="steps">
        <li>Ask the other system what it knows under this key.</li>
        <li>If it took effect, record the result: <code>session.result("{span.id}", …)</code>.</li>
        <li>If not, start it again with the same key: a system that knows the key does it once.</li>
      </ol>
    </div>
  );
}

export function SuspensionNotice({ reason, by, until, frame, onAct }: { reason: string; by: readonly string[]; until: number | null | undefined; frame: string; onAct: (action: Action) => void }): JSX.Element {
  return (
    <div class="rest-notice">
      <p><strong>Suspended:</strong> <Name text={reason} />.</p>
      <p>{by.length ? <>It may be resumed by <strong><Name text={by.join(", ")} /></strong></> : "It may be resumed by whoever has its token"}{until ? <>, until {formatDay(until)}, {formatTime(until)}</> : ", at any time"}.</p>
      {can("write") && !exported && <div class="row"><button type="button" class="button small" onClick={() => onAct({ kind: "resume", frame, by })}>Resume…</button></div>}
    </div>
  );
}

function Links({ span }: { span: Activity }): JSX.Element {
  const seq = messageOf(span);
  return (
    <div class="row detail-links">
      {span.kind === "model" && <a class="button small" href={link("call", [span.id])}>What the model saw</a>}
      {seq > 0 && <a class="button small" href={link("messages", [seq])}>{span.kind === "tool" ? "The reply that called it" : "Message"} m{seq}</a>}
      {span.kind === "tool" && !!span.end_seq && span.status !== "unknown" && <a class="button small" href={link("messages", [span.end_seq])}>Result m{span.end_seq}</a>}
      {span.kind === "turn" && !!span.end_seq && span.end_seq !== seq && <a class="button small" href={link("messages", [span.end_seq])}>Answer m{span.end_seq}</a>}
      {span.kind === "boundary" && <a class="button small" href={link("timeline")}>Timeline</a>}
      {span.frame && span.kind !== "frame" && <a class="button small" href={link("run", [span.frame])}>Frame {span.frame}</a>}
    </div>
  );
}

export function Detail({ span, onAct }: { span: Activity; onAct: (action: Action) => void }): JSX.Element {
  const length = durationOf(span);
  const seq = messageOf(span);
  const mayWrite = can("write") && !exported;
  return (
    <section class="detail" aria-label={`${KINDS[span.kind]?.name ?? span.kind} ${span.id}`}>
      <div class="row detail-head">
        <span class="faint">{KINDS[span.kind]?.name ?? span.kind}</span><span class="mono faint">{span.id}</span>
        <span class="spacer" />
        <StatusBadge status={span.status} />
        <a class="button small" href={link("run")} aria-label="Close the details"><span aria-hidden="true">✕</span></a>
      </div>
      <h2 class="detail-title"><Name text={span.label || KINDS[span.kind]?.name || span.kind} /></h2>
      {span.kind === "tool" && span.status === "unknown" && <UnknownNotice span={span} />}
      {span.kind === "suspension" && span.status === "suspended" && <SuspensionNotice reason={span.label} by={span.resumable_by ?? []} until={span.expires_us} frame={span.frame ?? ""} onAct={onAct} />}
      {span.budget && <BudgetBar budget={span.budget} label={`Budget of ${span.id}`} />}
      <dl class="properties">
        <Property label="Began">{formatDay(span.start_us)}, <Time us={span.start_us} /></Property>
        {length !== 0 && <Property label="Took">{length === null ? <span class="open-text">still open</span> : formatDuration(length)}</Property>}
        {!!span.tokens && <Property label="Tokens"><Tokens count={span.tokens} /></Property>}
        {span.owner && <Property label="Worker"><Name text={span.owner} /></Property>}
        {span.key && span.status !== "unknown" && <Property label="Idempotency key"><code class="key">{span.key}</code></Property>}
        {span.note && <Property label="Note"><Name text={span.note} /></Property>}
      </dl>
      <Links span={span} />
      {mayWrite && seq > 0 && (
        <div class="row detail-links">
          {!span.frame && <button type="button" class="button small" onClick={() => onAct({ kind: "fork", seq })}>Fork at m{seq}…</button>}
          <button type="button" class="button small" onClick={() => onAct({ kind: "withdraw", seq, frame: span.frame ?? null })}>Withdraw from m{seq} on…</button>
        </div>
      )}
    </section>
  );
}
