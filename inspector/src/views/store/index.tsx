// Store: how large it is, whether it is sound, what waits, and whose it is. Nothing is started without a click.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Await, Badge, ConfirmDialog, Empty, ErrorNote, Figure, Figures, Loading, Name, Panel, showText, showToast, Table, Time, type Tone } from "../../components";
import { access, can, exported, get, getPage, p, post, useResource, write, type Delivery, type DeliveryBacklog, type DoctorReport, type Job, type Json, type Offload, type Page, type StoreTotals, type Tenant, type VerifyReport } from "../../data";
import { formatBytes, formatDay, formatDuration, formatNumber, formatTime, plural } from "../../format";
import { link } from "../../router";
import type { View } from "../view";
import "./style.css";

const POLL_MS = 700;
const MOST_TENANTS = 200;

/** The jobs of the server, read again while one runs. */
function useJobs(): { jobs: Job[]; error: unknown; start: (what: string, full?: boolean) => Promise<void>; cancel: (id: string) => Promise<void> } {
  const found = useResource("jobs", (signal) => get<Page<Job>>("/jobs", {}, signal));
  const jobs = found.data?.items ?? [];
  const isBusy = jobs.some((job) => job.status === "running" || job.status === "waiting");
  useEffect(() => {
    if (!isBusy) return;
    const timer = window.setInterval(found.reload, POLL_MS);
    return () => window.clearInterval(timer);
  }, [isBusy]);
  return {
    jobs, error: found.error,
    start: async (what, full = false) => {
      await post("/jobs", full ? { full, what } : { what });
      found.reload();
    },
    cancel: async (id) => {
      await write("DELETE", p`/jobs/${id}`);
      found.reload();
    },
  };
}

function JobState({ job, onCancel }: { job: Job; onCancel: () => void }): JSX.Element {
  if (job.status === "running" || job.status === "waiting") {
    return (
      <div class="job-progress" role="status">
        <progress max={job.total || undefined} value={job.total ? (job.done ?? 0) : undefined} aria-label={`Progress of ${job.what}`} />
        <span class="muted">{job.status === "waiting" ? "Waiting" : job.total ? `${formatNumber(job.done ?? 0)} of ${formatNumber(job.total)} events` : "Running"}</span>
        <button type="button" class="button small" onClick={onCancel}>Cancel</button>
      </div>
    );
  }
  return <span class="muted">{formatDay(job.created_us)}, {formatTime(job.created_us)}{job.ended_us ? `, took ${formatDuration(job.ended_us - job.created_us)}` : ""}, by <Name text={job.by} /></span>;
}

function problemText(problem: Json): string {
  return typeof problem === "string" ? problem : JSON.stringify(problem);
}

function verdictOf(job: Job): { tone: Tone; text: string } {
  if (job.status === "failed") return { tone: "danger", text: "✕ failed" };
  if (job.status === "cancelled") return { tone: "omitted", text: "○ cancelled" };
  if (job.status !== "done") return { tone: "reduced", text: "◔ running" };
  if (job.what === "verify") {
    const count = (job.result as unknown as VerifyReport | null)?.problems.length ?? 0;
    return count ? { tone: "danger", text: `✕ ${plural(count, "problem")}` } : { tone: "cached", text: "✓ sound" };
  }
  const report = job.result as unknown as DoctorReport | null;
  if (!report) return { tone: "plain", text: "done" };
  return report.bad ? { tone: "danger", text: `✕ ${report.bad} bad` } : report.warn ? { tone: "reduced", text: `◔ ${plural(report.warn, "warning")}` } : { tone: "cached", text: "✓ well" };
}

function JobPanel({ title, about, action, what, jobs, start, cancel, children }: {
  title: string;
  about: string;
  action: string;
  what: string;
  jobs: readonly Job[];
  start: (what: string) => Promise<void>;
  cancel: (id: string) => Promise<void>;
  children: (job: Job) => ComponentChildren;
}): JSX.Element {
  const [error, setError] = useState<unknown>();
  const job = jobs.find((each) => each.what === what);
  const isBusy = job?.status === "running" || job?.status === "waiting";
  const attempt = (work: Promise<void>): void => void work.then(() => setError(undefined), setError);
  const verdict = job && verdictOf(job);
  return (
    <Panel
      title={<>{title} {verdict && <Badge tone={verdict.tone}>{verdict.text}</Badge>}</>}
      aside={<button type="button" class="button small" disabled={isBusy} onClick={() => attempt(start(what))}>{action}</button>}
    >
      <div class="panel-body stack">
        <p class="muted">{about}</p>
        {job && <JobState job={job} onCancel={() => attempt(cancel(job.id))} />}
        {job?.error && <ErrorNote error={new Error(`${job.error.title ?? ""} ${job.error.detail ?? ""}`)} />}
        {error !== undefined && <ErrorNote error={error} />}
      </div>
      {job?.status === "done" && children(job)}
    </Panel>
  );
}

function VerifyResult({ job }: { job: Job }): JSX.Element {
  const report = job.result as unknown as VerifyReport;
  return (
    <div class="panel-body job-result">
      <p>{plural(report.events, "event")} in {plural(report.streams, "stream")}: {report.problems.length ? <strong class="danger-text">{plural(report.problems.length, "problem")}</strong> : "no damage"}.</p>
      {report.problems.length > 0 && <ul class="problems">{report.problems.slice(0, 200).map((each, index) => <li key={index}>{showText(problemText(each))}</li>)}</ul>}
    </div>
  );
}

const VERDICTS: Record<string, { tone: Tone; text: string }> = { ok: { tone: "cached", text: "✓ ok" }, warn: { tone: "reduced", text: "◔ look" }, bad: { tone: "danger", text: "✕ bad" } };

function DoctorResult({ job }: { job: Job }): JSX.Element {
  const report = job.result as unknown as DoctorReport;
  const order = ["bad", "warn", "ok"];
  const checks = [...report.checks].sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict));
  return (
    <Table
      caption="Checks of the doctor" rows={checks} keyOf={(check) => check.name}
      columns={[
        { key: "verdict", label: "Verdict", render: (check) => <Badge tone={VERDICTS[check.verdict]?.tone ?? "plain"}>{VERDICTS[check.verdict]?.text ?? check.verdict}</Badge> },
        { key: "name", label: "Check", render: (check) => <span class="nowrap">{check.name}</span> },
        { key: "found", label: "Found", render: (check) => <><div class="check-found">{showText(check.found)}</div>{check.advice && <div class="muted check-advice">{showText(check.advice)}</div>}</> },
      ]}
    />
  );
}

function nameScope(offload: Offload): JSX.Element {
  const { session, actor, thread } = offload.scope;
  return <a href={link("call", [], {}, { session, actor: actor === "main" ? "" : actor, thread: thread ?? "" })}><Name text={session} /></a>;
}

function SetAside({ items, onDone }: { items: readonly Delivery[]; onDone: () => void }): JSX.Element {
  const [asked, setAsked] = useState<Delivery | null>(null);
  async function requeue(): Promise<boolean> {
    await post("/memory/requeue", { failed: asked as unknown as Json });
    showToast("It is due again");
    onDone();
    return true;
  }
  return (
    <>
      <Table
        caption="Set aside" rows={items} keyOf={(each) => `${each.offload.scope.session} ${each.offload.entry}`}
        columns={[
          { key: "session", label: "Session", render: (each) => nameScope(each.offload) },
          { key: "events", label: "Events", render: (each) => `${each.offload.first}–${each.offload.last}` },
          { key: "tries", label: "Attempts", number: true, render: (each) => formatNumber(each.attempts ?? 0) },
          { key: "error", label: "Why it failed", render: (each) => <span class="check-found">{showText(each.error ?? "")}</span> },
          ...(can("write") ? [{ key: "do", label: "", render: (each: Delivery) => <button type="button" class="button small" onClick={() => setAsked(each)}>Try again…</button> }] : []),
        ]}
      />
      {asked && (
        <ConfirmDialog title="Try this delivery again?" action="Try again" run={requeue} onClose={() => setAsked(null)}>
          <p>Events {asked.offload.first} to {asked.offload.last} of <Name text={asked.offload.scope.session} /> become due at once, as if they had never failed. The next worker delivers them to long-term memory.</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function Outbox(): JSX.Element {
  const backlog = useResource("backlog", (signal) => get<DeliveryBacklog>("/memory/backlog", {}, signal));
  const outbox = useResource("outbox", (signal) => getPage<Offload>("/admin/outbox", { limit: 100 }, signal));
  const aside = backlog.data?.set_aside ?? [];
  return (
    <Panel title={<>Outbox {aside.length > 0 && <Badge tone="danger">✕ {formatNumber(aside.length)} set aside</Badge>}</>} aside={<span class="faint">{outbox.data ? `${formatNumber(outbox.data.items.length)}${outbox.data.next ? "+" : ""} waiting` : ""}</span>}>
      <Await of={outbox}>
        {(page) => (
          <>
            {aside.length > 0 && <SetAside items={aside} onDone={() => { backlog.reload(); outbox.reload(); }} />}
            {page.items.length ? (
              <Table
                caption="Waiting for long-term memory" rows={page.items} keyOf={(each) => each.key}
                columns={[
                  { key: "session", label: "Session", render: nameScope },
                  { key: "why", label: "Why", render: (each) => showText(each.why) },
                  { key: "events", label: "Events", render: (each) => `${each.first}–${each.last}` },
                  { key: "at", label: "Since", render: (each) => <Time us={each.at_us} ago /> },
                ]}
              />
            ) : aside.length ? null : <p class="panel-note">Nothing waits for long-term memory.</p>}
          </>
        )}
      </Await>
      {backlog.error !== undefined && <ErrorNote error={backlog.error} />}
    </Panel>
  );
}

function Identity(): JSX.Element {
  const own = access.value as (typeof access.value & { version?: string }) | null;
  if (!own) return <Loading />;
  return (
    <Panel title="This key">
      <dl class="properties panel-body">
        <div class="property"><dt>Tenant</dt><dd><Name text={own.tenant} /></dd></div>
        <div class="property"><dt>Principal</dt><dd><Name text={own.principal} /></dd></div>
        <div class="property"><dt>Rights</dt><dd>{own.rights.join(", ")}</dd></div>
        <div class="property"><dt>Actor</dt><dd>{own.actor ? <Name text={own.actor} /> : "all"}</dd></div>
        {own.version && <div class="property"><dt>Holdfast</dt><dd>{own.version}</dd></div>}
      </dl>
      <p class="panel-note">The figures of the store are of all tenants; sessions and facts of others are never read.</p>
    </Panel>
  );
}

/** The tenants of the store. A key reads its own one; the others are named, so that nobody looks in vain. */
function Tenants(): JSX.Element {
  const tenants = useResource("tenants", (signal) => get<Page<Tenant>>("/admin/tenants", {}, signal));
  return (
    <Panel title="Tenants" aside={<span class="faint">{tenants.data ? formatNumber(tenants.data.items.length) : ""}</span>}>
      <Await of={tenants}>
        {(page) => (
          <>
            {page.items.length > 0 && (
              <Table
                caption="Tenants" rows={page.items.slice(0, MOST_TENANTS)} keyOf={(each) => each.name}
                columns={[
                  { key: "name", label: "Tenant", render: (each) => <Name text={each.name} /> },
                  { key: "own", label: "", render: (each) => (each.is_own ? <Badge tone="included">● shown here</Badge> : null) },
                ]}
              />
            )}
            <p class="panel-note">{page.items.length > MOST_TENANTS ? `The first ${formatNumber(MOST_TENANTS)} are listed. ` : ""}The page shows the tenant of its key. {access.value?.is_local ? <>To see another one, run <code>holdfast inspect FILE --tenant NAME</code>.</> : <>To see another one, open the page with a key of that tenant: <code>holdfast keys create NAME --tenant TENANT --right read</code>, then press your name in the header.</>}</p>
          </>
        )}
      </Await>
    </Panel>
  );
}

function StorePage(): JSX.Element {
  const totals = useResource("store totals", (signal) => get<StoreTotals>("/admin/totals", {}, signal));
  const { jobs, error, start, cancel } = useJobs();
  return (
    <div class="page store">
      <h1>Store</h1>
      <Await of={totals}>
        {(data) => (
          <Figures>
            <Figure label="Size on disk">{formatBytes(data.bytes_on_disk)}</Figure>
            <Figure label="Events">{formatNumber(data.events)}</Figure>
            <Figure label="Streams" note="sessions and ledgers">{formatNumber(data.streams)}</Figure>
            <Figure label="Idempotency keys">{formatNumber(data.keys)}</Figure>
            {!!data.entries && <Figure label="Entries of frameworks" note={formatBytes(data.entry_bytes ?? 0)}>{formatNumber(data.entries)}</Figure>}
          </Figures>
        )}
      </Await>
      {error !== undefined && <ErrorNote error={error} />}
      <div class="store-panels">
        <div class="stack store-column">
          <JobPanel title="Verify" what="verify" action="Verify now" about="Checks hash chains, stream heads, snapshots and rows against the log, and every stored body. Changes nothing." jobs={jobs} start={start} cancel={cancel}>{(job) => <VerifyResult job={job} />}</JobPanel>
          <Outbox />
          <Tenants />
          <Identity />
        </div>
        <JobPanel title="Doctor" what="doctor" action="Examine now" about="Looks at the file, the schema, open calls, reviews, suspended work and the outbox, and says what to do. Changes nothing." jobs={jobs} start={start} cancel={cancel}>{(job) => <DoctorResult job={job} />}</JobPanel>
      </div>
    </div>
  );
}

function StoreView(): JSX.Element {
  if (exported) return <div class="page"><Empty title="A file holds one session, not a store">Open the store with <code>holdfast inspect</code> to see its size and check it.</Empty></div>;
  if (!access.value) return <Loading />;
  if (!can("admin")) return <div class="page"><Empty title="This key may not see the store">It needs the right <code>admin</code>.</Empty></div>;
  return <StorePage />;
}

export const store: View = { name: "store", label: "Store", letter: "s", of: "store", component: StoreView };
