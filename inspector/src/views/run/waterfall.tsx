// The waterfall: one row for each span, on one line of time.

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Name, VirtualList, type VirtualHandle } from "../../components";
import type { Activity } from "../../data";
import { formatDay, formatDuration, formatTime } from "../../format";
import { link } from "../../router";
import { KINDS, statusText } from "./marks";
import { buildTicks, durationOf, toneOf, type Row, type TimeLine, type Window } from "./model";

const LABEL_PX = 34;
/** A bar is drawn at least so wide. */
const LEAST_PX = 3;

function share(at: number, window: Window): number {
  return (100 * (at - window.from)) / (window.to - window.from);
}

function Scale({ line, window, pixels }: { line: TimeLine; window: Window; pixels: number }): JSX.Element {
  const ticks = buildTicks(line, window, pixels);
  let day = "";
  return (
    <div class="scale" aria-hidden="true">
      {ticks.map((tick) => {
        const today = formatDay(tick.us).replace(/ \d{4}$/, "");
        const isNew = today !== day && tick.afterUs === 0;
        day = today;
        return <span key={tick.at} class={`tick ${tick.afterUs ? "" : "is-start"}`} style={{ insetInlineStart: `${share(tick.at, window)}%` }}>{tick.afterUs ? `+${formatDuration(tick.afterUs).replace(/\.0+ /, " ")}` : `${isNew ? `${today} ` : ""}${formatTime(tick.us)}`}</span>;
      })}
    </div>
  );
}

function Folds({ line, window, pixels, hasLabels }: { line: TimeLine; window: Window; pixels: number; hasLabels?: boolean }): JSX.Element {
  const shown = line.folds.filter((fold) => fold.at + fold.width >= window.from && fold.at <= window.to);
  return (
    <div class="folds" aria-hidden="true">
      {shown.map((fold) => {
        const width = (100 * fold.width) / (window.to - window.from);
        const isWide = (width * pixels) / 100 >= LABEL_PX;
        return (
          <span key={fold.at} class="fold" style={{ insetInlineStart: `${share(fold.at, window)}%`, width: `${width}%` }} title={`Nothing happened for ${formatDuration(fold.to - fold.from)}`}>
            {hasLabels && isWide ? <span class="fold-text">{formatDuration(fold.to - fold.from).split(" ").slice(0, 2).join(" ")}</span> : null}
          </span>
        );
      })}
    </div>
  );
}

function describe(span: Activity): string {
  const length = durationOf(span);
  return `${KINDS[span.kind]?.name ?? span.kind} ${span.label}, ${statusText(span.status)}${length === null ? "" : `, ${formatDuration(length)}`}`;
}

function Track({ span, line, window, pixels }: { span: Activity; line: TimeLine; window: Window; pixels: number }): JSX.Element {
  const from = line.place(span.start_us);
  const isOpen = span.end_us === null || span.end_us === undefined;
  const to = isOpen ? line.length : line.place(span.end_us!);
  const length = durationOf(span);
  if (to < window.from) return <span class="beyond is-before" title="Before what is shown">‹</span>;
  if (from > window.to) return <span class="beyond is-after" title="After what is shown">›</span>;
  const start = Math.max(0, share(from, window));
  const end = Math.min(100, share(to, window));
  if (span.kind === "boundary" || span.kind === "recovery") {
    return <span class={`span-mark kind-${span.kind}`} style={{ insetInlineStart: `${start}%` }} title={span.note}><span class={`span-note ${start > 70 ? "is-left" : ""}`}>{span.note || span.label}</span></span>;
  }
  const wide = ((end - start) * pixels) / 100;
  const text = length === null ? (isOpen ? statusText(span.status) : "") : formatDuration(length);
  const tone = toneOf(span);
  const isInside = wide > 76 && tone !== "turn" && tone !== "frame" && span.kind !== "turn";
  const room = ((100 - end) * pixels) / 100;
  return (
    <>
      <span class={`span-bar tone-${tone} kind-${span.kind} ${isOpen ? "is-open" : ""}`} style={{ insetInlineStart: `${start}%`, width: `max(${end - start}%, ${LEAST_PX}px)` }}>
        {isInside && <span class="span-inside">{text}</span>}
      </span>
      {!isInside && text && (room > 60 || (start * pixels) / 100 > 100) && (room > 60
        ? <span class="span-text" style={{ insetInlineStart: `calc(${end}% + 6px)` }}>{text}</span>
        : <span class="span-text" style={{ insetInlineEnd: `calc(${100 - start}% + 6px)` }}>{text}</span>)}
    </>
  );
}

export function Waterfall({ rows, line, window, picked, handle, onView, onWheel }: {
  rows: readonly Row[];
  line: TimeLine;
  window: Window;
  picked: string;
  handle: { current: VirtualHandle | null };
  onView: (first: number, last: number) => void;
  onWheel: (factor: number, at: number) => void;
}): JSX.Element {
  const scale = useRef<HTMLDivElement>(null);
  const [pixels, setPixels] = useState(800);
  useLayoutEffect(() => {
    const observer = new ResizeObserver((entries) => setPixels(entries[0]?.contentRect.width ?? 800));
    observer.observe(scale.current!);
    return () => observer.disconnect();
  }, []);
  const keys = useKeysOf(rows);
  return (
    <div class="waterfall" onWheel={(event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = scale.current!.getBoundingClientRect();
      onWheel(event.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)));
    }}>
      <div class="waterfall-head">
        <span class="waterfall-what">What</span>
        <div class="waterfall-scale" ref={scale}><Folds line={line} window={window} pixels={pixels} hasLabels /><Scale line={line} window={window} pixels={pixels} /></div>
      </div>
      <div class="waterfall-rows">
        <div class="waterfall-back" aria-hidden="true"><span /><div class="waterfall-scale"><Folds line={line} window={window} pixels={pixels} /></div></div>
        <VirtualList
          label="Spans" keys={keys} handle={handle} onView={onView} estimate={() => 28}
          render={(_key, index) => {
            const { span, depth } = rows[index]!;
            const kind = KINDS[span.kind] ?? { mark: "?", name: span.kind };
            return (
              <a class={`span-row kind-${span.kind} status-${span.status} ${span.id === picked ? "is-picked" : ""}`} href={link("run", [span.id])} aria-label={describe(span)} aria-current={span.id === picked ? "true" : undefined}>
                <span class="span-label" style={{ paddingInlineStart: `${13 + Math.min(depth, 8) * 14}px` }}>
                  <span class="span-kind" title={kind.name}>{kind.mark}</span>
                  <span class="truncate"><Name text={span.label || kind.name.toLowerCase()} /></span>
                  {toneOf(span) === "danger" && <span class="danger-text" title={statusText(span.status)}>✕</span>}
                </span>
                <span class="span-track"><Track span={span} line={line} window={window} pixels={pixels} /></span>
              </a>
            );
          }}
        />
      </div>
    </div>
  );
}

function useKeysOf(rows: readonly Row[]): readonly string[] {
  const last = useRef<{ rows: readonly Row[]; keys: string[] }>({ rows: [], keys: [] });
  if (last.current.rows !== rows) {
    const keys = rows.map((row) => row.span.id);
    const isSame = keys.length === last.current.keys.length && keys.every((key, index) => key === last.current.keys[index]);
    last.current = { rows, keys: isSame ? last.current.keys : keys };
  }
  return last.current.keys;
}

/** The whole line in a strip: where something happened, where the window is. */
export function Overview({ rows, line, window, onPick }: { rows: readonly Row[]; line: TimeLine; window: Window; onPick: (at: number) => void }): JSX.Element {
  const width = 1_000;
  const x = (at: number): number => (width * at) / line.length;
  const marks = rows.length > 3_000 ? rows.filter((row) => row.depth === 0) : rows;
  return (
    <svg class="overview" viewBox={`0 0 ${width} 20`} preserveAspectRatio="none" role="img" aria-label="All of the time, idle stretches folded; the window that is shown"
      onPointerDown={(event) => { const box = event.currentTarget.getBoundingClientRect(); onPick(((event.clientX - box.left) / box.width) * line.length); }}
      onPointerMove={(event) => { if (event.buttons !== 1) return; const box = event.currentTarget.getBoundingClientRect(); onPick(((event.clientX - box.left) / box.width) * line.length); }}>
      {line.folds.map((fold) => <rect key={`f${fold.at}`} class="overview-fold" x={x(fold.at)} y={0} width={Math.max(0.6, x(fold.width) * 0.5)} height={20} />)}
      {marks.map(({ span }) => {
        if (span.kind === "frame" || span.kind === "suspension") return null;
        const from = line.place(span.start_us);
        const to = span.end_us ? line.place(span.end_us) : from;
        const y = span.kind === "turn" ? 2 : span.kind === "tool" ? 14 : 8;
        return <rect key={span.id} class={`overview-span tone-${toneOf(span)}`} x={x(from)} y={span.status === "unknown" ? 0 : y} width={Math.max(1.2, x(to - from))} height={span.status === "unknown" ? 20 : 4} />;
      })}
      <rect class="overview-window" x={Math.max(0.5, x(window.from))} y={0.75} width={Math.max(4, Math.min(width - 1, x(window.to)) - Math.max(0.5, x(window.from)))} height={18.5} />
    </svg>
  );
}
