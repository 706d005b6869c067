// All sessions, the last active first.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Badge, Empty, ErrorNote, Loading, Name, Table, Time, type Column } from "../../components";
import { exported, getPage, liveVersion, type SessionRow } from "../../data";
import { formatNumber, formatShare, formatShort, plural } from "../../format";
import { linkToSession } from "../../links";
import { type Scope } from "../../router";
import type { View } from "../view";
import { ReportCard } from "./report";
import "./style.css";

const PAGE_SIZE = 100;
/** Reports are asked for in a store with few sessions: that of a log. */
const REPORTS = 3;

interface Rows {
  items: SessionRow[];
  next?: string;
  error?: unknown;
  isLoaded: boolean;
}

function scopeOf(row: SessionRow): Scope {
  return { session: row.session, actor: row.actor === "main" ? "" : row.actor, thread: row.thread };
}

function keyOf(row: SessionRow): string {
  return JSON.stringify([row.tenant, row.actor, row.session, row.thread]);
}

const COLUMNS: readonly Column<SessionRow>[] = [
  {
    key: "session", label: "Session",
    render: (row) => (
      <div class="session-name">
        <a href={linkToSession(scopeOf(row))}><Name text={row.session} /></a>
        {row.thread && <span class="faint">thread <Name text={row.thread} /></span>}
        {row.parent && <Badge title={`A fork of ${row.parent}`}>fork</Badge>}
        {row.open_calls > 0 && <Badge tone="reduced" title="Tool calls without a result">◔ {plural(row.open_calls, "open call")}</Badge>}
        {row.status !== "open" && <Badge tone="omitted">{row.status}</Badge>}
      </div>
    ),
  },
  { key: "actor", label: "Actor", render: (row) => <span class="muted"><Name text={row.actor} /></span> },
  { key: "messages", label: "Messages", number: true, render: (row) => formatNumber(row.messages) },
  { key: "tokens", label: "Tokens", number: true, render: (row) => <span title={`${formatNumber(row.tokens)} tokens in the transcript`}>{formatShort(row.tokens)}</span> },
  { key: "input", label: "Prompts", number: true, render: (row) => (row.input_tokens ? <span title={`${formatNumber(row.input_tokens)} tokens in all prompts`}>{formatShort(row.input_tokens)}</span> : <span class="faint">–</span>) },
  {
    key: "cached", label: "Cached", number: true,
    render: (row) => (row.cache_read_tokens ? <span class="cached-share"><span class="cached-meter" aria-hidden="true"><span class="fill-cached" style={{ width: `${(100 * row.cache_read_tokens) / row.input_tokens}%` }} /></span>{formatShare(row.cache_read_tokens, row.input_tokens)}</span> : <span class="faint" title="No provider reported tokens from its cache">–</span>),
  },
  { key: "active", label: "Last active", number: true, render: (row) => <Time us={row.updated_us} ago /> },
];

/** What a bound kept out of the file, one line for each reason. */
function LeftOut({ items }: { items: readonly { path: string; why: string }[] }): JSX.Element {
  const reasons = new Map<string, string[]>();
  for (const item of items) reasons.set(item.why, [...(reasons.get(item.why) ?? []), item.path]);
  return (
    <section class="faint" aria-label="Not in this file">
      <p>Not in this file:</p>
      <ul>{[...reasons].map(([why, paths]) => <li key={why}><code><Name text={paths[0]!} /></code>{paths.length > 1 && ` and ${plural(paths.length - 1, "other answer")}`}: <Name text={why} /></li>)}</ul>
    </section>
  );
}

function HomeView(): JSX.Element {
  const [rows, setRows] = useState<Rows>({ items: [], isLoaded: false });
  const [filter, setFilter] = useState("");
  async function load(page?: string): Promise<void> {
    try {
      const answer = await getPage<SessionRow>("/sessions", { order: "recent", limit: PAGE_SIZE, page });
      setRows((before) => ({ items: page ? [...before.items, ...answer.items] : answer.items, next: answer.next, isLoaded: true }));
    } catch (error) {
      setRows((before) => ({ ...before, error, isLoaded: true }));
    }
  }
  useEffect(() => {
    void load();
  }, [liveVersion.value]);
  if (!rows.isLoaded) return <Loading />;
  if (rows.error && !rows.items.length) return <div class="page"><ErrorNote error={rows.error} onRetry={() => void load()} /></div>;
  const words = filter.toLowerCase();
  const shown = rows.items.filter((row) => !words || `${row.session} ${row.actor} ${row.thread}`.toLowerCase().includes(words));
  return (
    <div class="page">
      {rows.items.length <= REPORTS && rows.items.map((row) => <ReportCard key={keyOf(row)} of={scopeOf(row)} />)}
      <div class="row home-head">
        <h1>Sessions</h1>
        <span class="spacer" />
        {rows.items.length > 5 && <input class="input home-filter" type="search" placeholder="Filter by name" aria-label="Filter sessions by name" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />}
      </div>
      {rows.items.length ? (
        <div class="panel"><Table columns={COLUMNS} rows={shown} keyOf={keyOf} caption="Sessions, the last active first" /></div>
      ) : (
        <Empty title="There are no sessions yet">
          {exported ? "The exported file has no sessions." : <>A session is listed here as soon as a program creates one: <code>engine.session("trip-1")</code>.</>}
        </Empty>
      )}
      {shown.length === 0 && rows.items.length > 0 && <p class="muted">No session of the {formatNumber(rows.items.length)} that are loaded has this in its name.</p>}
      {rows.next && <button type="button" class="button home-more" onClick={() => void load(rows.next)}>Load more sessions</button>}
      {exported && <p class="faint">This file was made by Holdfast {exported.holdfast}. Redaction: {exported.redaction}. It holds one session as it was then: nothing in it is live, and nothing can be changed.</p>}
      {!!exported?.left_out?.length && <LeftOut items={exported.left_out} />}
    </div>
  );
}

export const home: View = { name: "home", label: "Sessions", letter: "h", of: "store", component: HomeView };
