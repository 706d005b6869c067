// Run: what happened when. Turns, model calls, tools and frames on one line of time; what is open, unknown or suspended.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Badge, Empty, ErrorNote, Loading, Name, Segmented, type VirtualHandle } from "../../components";
import { can, exported, getPage, isAbsent, list, liveVersion, p, useResource, type Activity, type FrameState, type Page, type Recovery } from "../../data";
import { formatDuration, plural } from "../../format";
import { useKeys } from "../../keys";
import { go, link, route, scopeKey, scopeQuery } from "../../router";
import type { View } from "../view";
import { ActionDialog, RecoveryReport, type Action } from "./actions";
import { Detail } from "./detail";
import { FrameTree } from "./frames";
import { buildRows, buildTimeLine, clamp, firstWindow, fit, zoom, type Window } from "./model";
import { Overview, Waterfall } from "./waterfall";
import "./style.css";

const PAGE = 400;

interface Spans {
  items: Activity[];
  next?: string;
  isLoaded: boolean;
  isBusy: boolean;
  error?: unknown;
}

/** The spans that are loaded, newest first. New ones come in front; older ones on demand. */
function useSpans(): Spans & { loadOlder: () => void; reload: () => void } {
  const scope = route.value.scope!;
  const [state, setState] = useState<Spans>({ items: [], isLoaded: false, isBusy: false });
  const [round, setRound] = useState(0);
  const ask = (page: string | undefined, signal?: AbortSignal): Promise<Page<Activity>> =>
    getPage<Activity>(p`/sessions/${scope.session}/activity`, { ...scopeQuery(scope), limit: PAGE, page }, signal);
  useEffect(() => {
    const control = new AbortController();
    ask(undefined, control.signal).then(
      (page) => {
        if (control.signal.aborted) return;
        setState((now) => {
          const fresh = new Set(page.items.map((span) => span.id));
          const last = page.items.at(-1);
          const older = page.next && last ? now.items.filter((span) => !fresh.has(span.id) && (span.seq ?? 0) < (last.seq ?? 0)) : [];
          return { items: [...page.items, ...older], next: older.length ? now.next : page.next, isLoaded: true, isBusy: false };
        });
      },
      (error: unknown) => !control.signal.aborted && setState((now) => ({ ...now, error, isLoaded: true })),
    );
    return () => control.abort();
  }, [round, liveVersion.value]);
  function loadOlder(): void {
    if (!state.next || state.isBusy) return;
    setState((now) => ({ ...now, isBusy: true }));
    ask(state.next).then(
      (page) => setState((now) => {
        const known = new Set(now.items.map((span) => span.id));
        return { ...now, items: [...now.items, ...page.items.filter((span) => !known.has(span.id))], next: page.next, isBusy: false };
      }),
      (error: unknown) => setState((now) => ({ ...now, error, isBusy: false })),
    );
  }
  return { ...state, loadOlder, reload: () => setRound((value) => value + 1) };
}

/** What needs someone: unknown outcomes first, then what rests, then what is open. */
function Attention({ spans }: { spans: readonly Activity[] }): JSX.Element | null {
  const unknown = spans.filter((span) => span.kind === "tool" && span.status === "unknown");
  const suspended = spans.filter((span) => span.kind === "suspension" && span.status === "suspended");
  const open = spans.filter((span) => span.kind === "tool" && (span.status === "running" || span.status === "not_started"));
  if (!unknown.length && !suspended.length && !open.length) return null;
  const chip = (span: Activity, tone: "danger" | "reduced", text: string): JSX.Element => (
    <li key={span.id}>
      <a class={`attention tone-${tone}`} href={link("run", [span.id])}>
        <Badge tone={tone}>{text}</Badge>
        <span class="truncate"><strong><Name text={span.label} /></strong></span>
        {span.key && <code class="attention-key">{span.key}</code>}
        {!!span.resumable_by?.length && <span class="muted">for <Name text={span.resumable_by.join(", ")} /></span>}
      </a>
    </li>
  );
  return (
    <ul class="attentions" aria-label="Needs attention">
      {unknown.slice(0, 6).map((span) => chip(span, "danger", "✕ unknown outcome"))}
      {suspended.slice(0, 6).map((span) => chip(span, "reduced", "‖ suspended"))}
      {open.slice(0, 6).map((span) => chip(span, "reduced", span.status === "running" ? "◔ running" : "○ not started"))}
    </ul>
  );
}

function RunView(): JSX.Element {
  const scope = route.value.scope!;
  const picked = route.value.rest[0] ?? "";
  const spans = useSpans();
  const frames = useResource(`frames ${scopeKey.value}`, async (signal) => {
    try {
      return await list<FrameState>(p`/sessions/${scope.session}/frames`, scopeQuery(scope), 1_000, signal);
    } catch (error) {
      if (isAbsent(error)) return [];
      throw error;
    }
  }, { version: liveVersion.value });
  const [action, setAction] = useState<Action | null>(null);
  const [report, setReport] = useState<Recovery | null>(null);
  const rows = useMemo(() => buildRows(spans.items), [spans.items]);
  const line = useMemo(() => buildTimeLine(spans.items, Date.now() * 1000), [spans.items]);
  const [window, setWindow] = useState<Window | null>(null);
  const shown = clamp(window ?? firstWindow(rows, line), line);
  const handle = useRef<VirtualHandle | null>(null);
  const isAtEnd = useRef(true);
  const isPlaced = useRef(false);
  const [isBehind, setBehind] = useState(false);
  const pane = route.value.query.show === "frames" ? "frames" : "spans";
  const span = spans.items.find((each) => each.id === picked);
  const last = rows.at(-1)?.span.id;

  // The newest is in view until the reader goes elsewhere; then new spans only say that they are there.
  useEffect(() => {
    if (!last) return;
    if (!isPlaced.current || isAtEnd.current) {
      if (!picked) handle.current?.scrollTo(last);
    } else {
      setBehind(true);
    }
    isPlaced.current = true;
  }, [last]);
  useEffect(() => {
    if (!span) return;
    handle.current?.scrollTo(span.id, "center");
    show(span);
  }, [picked, span !== undefined]);

  /** Move the window so that a span is in it. */
  function show(each: Activity): void {
    const from = line.place(each.start_us);
    const to = each.end_us ? line.place(each.end_us) : from;
    if (from >= shown.from && to <= shown.to) return;
    const width = shown.to - shown.from;
    setWindow(to - from > width ? fit(from, to, line) : clamp({ from: (from + to) / 2 - width / 2, to: (from + to) / 2 + width / 2 }, line));
  }
  function step(by: number): void {
    const index = rows.findIndex((row) => row.span.id === picked);
    const next = rows[index < 0 ? rows.length - 1 : Math.max(0, Math.min(rows.length - 1, index + by))];
    if (next) go(link("run", [next.span.id]), { replace: index >= 0 });
  }
  /** Zoom, around the span that is picked if it is in view. */
  function zoomBy(factor: number): void {
    const at = span ? (line.place(span.start_us) - shown.from) / (shown.to - shown.from) : 0.5;
    setWindow(zoom(shown, factor, line, at > 0 && at < 1 ? at : 0.5));
  }
  const pan = (by: number): void => setWindow(clamp({ from: shown.from + by * (shown.to - shown.from), to: shown.to + by * (shown.to - shown.from) }, line));
  const mayWrite = can("write") && !exported;
  useKeys("Run", {
    j: ["The next span", () => step(1)],
    k: ["The span before", () => step(-1)],
    "+": ["Zoom in", () => zoomBy(0.5)],
    "-": ["Zoom out", () => zoomBy(2)],
    h: ["Earlier", () => pan(-0.4)],
    l: ["Later", () => pan(0.4)],
    0: ["All of the time", () => setWindow(fit(0, line.length, line))],
    z: ["Zoom to the span", () => span && setWindow(fit(line.place(span.start_us), line.place(span.end_us ?? span.start_us + 1e6), line))],
    n: ["The newest", () => newest()],
    b: ["Frames, or the waterfall", () => go(link("run", picked ? [picked] : [], { show: pane === "frames" ? "" : "frames" }))],
    u: ["Close the details", () => go(link("run"))],
  });
  /** Rows that are scrolled to bring their time along. */
  function follow(first: number, end: number): void {
    isAtEnd.current = end >= rows.length - 1;
    if (isAtEnd.current && isBehind) setBehind(false);
    const middle = rows[first === 0 ? Math.min(6, rows.length - 1) : isAtEnd.current ? Math.max(0, rows.length - 6) : (first + end) >> 1]?.span;
    if (!middle || !isPlaced.current || rows.length < 24) return;
    const at = line.place(middle.start_us);
    const width = shown.to - shown.from;
    if (at < shown.from || at > shown.to) setWindow(clamp({ from: at - width * 0.4, to: at + width * 0.6 }, line));
  }
  /** A time that is picked brings its rows along. */
  function pickTime(at: number): void {
    const width = shown.to - shown.from;
    setWindow(clamp({ from: at - width / 2, to: at + width / 2 }, line));
    const near = rows.reduce<Activity | null>((best, { span: each }) => (best && Math.abs(line.place(best.start_us) - at) <= Math.abs(line.place(each.start_us) - at) ? best : each), null);
    if (near) handle.current?.scrollTo(near.id, "center");
  }
  function newest(): void {
    setBehind(false);
    setWindow(null);
    if (last) handle.current?.scrollTo(last);
  }
  const count = (kind: string): number => spans.items.filter((each) => each.kind === kind).length;
  const width = shown.to - shown.from;

  if (!spans.isLoaded) return <Loading />;
  if (spans.error !== undefined && !spans.items.length) return <div class="page">{isAbsent(spans.error) ? <Empty title="The spans of this session are not here">The server or the file has no answer for /sessions/…/activity.</Empty> : <ErrorNote error={spans.error} onRetry={spans.reload} />}</div>;
  return (
    <div class={`run shows-${pane} ${span ? "has-detail" : ""} ${!picked && !frames.data?.length && pane === "spans" ? "no-side" : ""}`}>
      <div class="run-tools">
        <h1 class="visually-hidden">Run</h1>
        <span class="run-pane-choice"><Segmented label="What to show" picked={pane} options={[{ key: "spans", label: "Waterfall" }, { key: "frames", label: `Frames${frames.data?.length ? ` ${frames.data.length}` : ""}` }]} onPick={(key) => go(link("run", picked ? [picked] : [], { show: key === "frames" ? "frames" : "" }))} /></span>
        <span class="muted run-counts">{plural(count("turn"), "turn")} · {plural(count("model"), "model call")} · {plural(count("tool"), "tool call")}{spans.next && " so far"}</span>
        {spans.next && <button type="button" class="button small" disabled={spans.isBusy} onClick={spans.loadOlder}>{spans.isBusy ? "Loading…" : "Load older"}</button>}
        <span class="spacer" />
        <span class="row run-zoom" role="group" aria-label="Zoom">
          <span class="faint run-width">{formatDuration(Math.round(width))} in view</span>
          <button type="button" class="button small" aria-label="Zoom out" title="Zoom out (-)" onClick={() => zoomBy(2)}>−</button>
          <button type="button" class="button small" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoomBy(0.5)}>+</button>
          <button type="button" class="button small" title="All of the time (0)" onClick={() => setWindow(fit(0, line.length, line))}>All</button>
        </span>
        {mayWrite && (
          <span class="row" role="group" aria-label="Actions">
            <button type="button" class="button small" onClick={() => setAction({ kind: "recover" })}>Recover…</button>
            <button type="button" class="button small" onClick={() => setAction({ kind: "fork", seq: 0 })}>Fork…</button>
          </span>
        )}
      </div>
      <div class="run-top">
        {report && <RecoveryReport report={report} onClose={() => setReport(null)} />}
        <Attention spans={spans.items} />
      </div>
      <div class="run-body">
        <section class="run-spans" aria-label="Waterfall">
          {rows.length ? (
            <>
              <Overview rows={rows} line={line} window={shown} onPick={pickTime} />
              <Waterfall
                rows={rows} line={line} window={shown} picked={picked} handle={handle}
                onView={follow}
                onWheel={(factor, at) => setWindow(zoom(shown, factor, line, at))}
              />
              {isBehind && <button type="button" class="button primary run-newer" onClick={newest}>New spans below ↓</button>}
            </>
          ) : <Empty title="Nothing has happened yet">Turns, model calls, tools and frames appear here as they happen.</Empty>}
        </section>
        <aside class="run-side" aria-label="Details and frames">
          {span && <Detail span={span} onAct={setAction} />}
          {picked && !span && spans.isLoaded && <div class="detail"><Empty title={`${picked} is not loaded`}>It is older than what is shown, or there is no such span.</Empty></div>}
          <section class="run-frames" aria-label="Frames"><h2>Frames</h2><FrameTree frames={frames.data ?? []} picked={span?.frame ?? picked} /></section>
        </aside>
      </div>
      {action && <ActionDialog action={action} onClose={() => setAction(null)} onReport={setReport} onDone={() => { spans.reload(); frames.reload(); }} />}
    </div>
  );
}

export const run: View = { name: "run", label: "Run", letter: "r", of: "session", component: RunView };
