// Spans as rows, and time as a line: idle stretches are folded, since conversations pause for hours.

import type { Activity } from "../../data";

/** An idle stretch that is longer than this is folded. */
const IDLE_US = 20e6;
/** Room at both ends of what happened, as a share of a window. */
const MARGIN = 0.02;
/** Spans that the first window shows at most. */
const FIRST_SPANS = 24;

export interface Row {
  span: Activity;
  depth: number;
}

/** Rows in the order of time: each span is followed by those within it. */
export function buildRows(spans: readonly Activity[]): Row[] {
  const ids = new Set(spans.map((span) => span.id));
  const children = Map.groupBy(spans, (span) => (span.parent && ids.has(span.parent) && span.parent !== span.id ? span.parent : ""));
  const rows: Row[] = [];
  const add = (parent: string, depth: number): void => {
    const group = [...(children.get(parent) ?? [])].sort((a, b) => a.start_us - b.start_us || (a.seq ?? 0) - (b.seq ?? 0));
    children.delete(parent);
    for (const span of group) {
      rows.push({ span, depth });
      add(span.id, depth + 1);
    }
  };
  add("", 0);
  return rows;
}

export interface Fold {
  /** In time. */
  from: number;
  to: number;
  /** On the line. */
  at: number;
  width: number;
}

export interface TimeLine {
  start: number;
  end: number;
  /** The length of the line, with folds. */
  length: number;
  folds: Fold[];
  /** Stretches without a fold: in time, and where each begins on the line. */
  segments: { from: number; to: number; at: number }[];
  place: (us: number) => number;
}

/** Is work going on between the start and the end of a span? Turns, frames and open work may rest for days. */
function isBusy(span: Activity): boolean {
  return span.end_us !== null && span.end_us !== undefined && (span.kind === "model" || span.kind === "tool");
}

export function buildTimeLine(spans: readonly Activity[], nowUs: number): TimeLine {
  const stretches = spans.map((span) => ({ from: span.start_us, to: isBusy(span) ? span.end_us! : span.start_us }));
  for (const span of spans) if (span.end_us && !isBusy(span)) stretches.push({ from: span.end_us, to: span.end_us });
  if (spans.some((span) => span.status === "running" && span.kind !== "frame")) stretches.push({ from: nowUs, to: nowUs });
  stretches.sort((a, b) => a.from - b.from);
  const merged: { from: number; to: number; at: number }[] = [];
  for (const stretch of stretches) {
    const last = merged.at(-1);
    if (last && stretch.from - last.to <= IDLE_US) last.to = Math.max(last.to, stretch.to);
    else merged.push({ ...stretch, at: 0 });
  }
  const busy = merged.reduce((sum, each) => sum + each.to - each.from, 0);
  const width = Math.max(5e5, Math.min(4e6, busy / 80));
  const folds: Fold[] = [];
  let at = 0;
  merged.forEach((segment, index) => {
    const before = merged[index - 1];
    if (before) {
      folds.push({ from: before.to, to: segment.from, at, width });
      at += width;
    }
    segment.at = at;
    at += segment.to - segment.from;
  });
  const length = Math.max(at + width, 1e5);
  const place = (us: number): number => {
    let low = 0;
    let high = merged.length - 1;
    if (high < 0) return 0;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (merged[middle]!.from <= us) low = middle;
      else high = middle - 1;
    }
    const segment = merged[low]!;
    if (us <= segment.to) return segment.at + Math.max(0, us - segment.from);
    const next = merged[low + 1];
    const end = segment.at + segment.to - segment.from;
    if (!next) return Math.min(length, end + width * Math.min(1, (us - segment.to) / IDLE_US));
    return end + (width * (us - segment.to)) / (next.from - segment.to);
  };
  return { start: merged[0]?.from ?? 0, end: merged.at(-1)?.to ?? 0, length, folds, segments: merged, place };
}

/** What of the line is shown. */
export interface Window {
  from: number;
  to: number;
}

export const ALL: Window = { from: 0, to: Infinity };

/** The first window: the newest spans. */
export function firstWindow(rows: readonly Row[], line: TimeLine): Window {
  const some = rows.slice(-FIRST_SPANS).filter((row) => row.span.kind !== "frame" && row.span.kind !== "suspension");
  if (!some.length) return fit(0, line.length, line);
  const from = Math.min(...some.map((row) => line.place(row.span.start_us)));
  return fit(from, line.length, line);
}

export function fit(from: number, to: number, line: TimeLine): Window {
  const room = Math.max((to - from) * MARGIN, 1e4);
  return clamp({ from: from - room, to: to + room }, line);
}

/** Keep a window on the line. */
export function clamp(window: Window, line: TimeLine): Window {
  const most = line.length * (1 + 2 * MARGIN);
  const width = Math.max(2e4, Math.min(window.to - window.from, most));
  const from = Math.max(-line.length * MARGIN, Math.min(window.from, line.length * (1 + MARGIN) - width));
  return { from, to: from + width };
}

export function zoom(window: Window, factor: number, line: TimeLine, at = 0.5): Window {
  const width = (window.to - window.from) * factor;
  const middle = window.from + (window.to - window.from) * at;
  return clamp({ from: middle - width * at, to: middle + width * (1 - at) }, line);
}

const STEPS_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400];

export interface Tick {
  at: number;
  /** Since the start of the stretch; 0 for the start itself. */
  afterUs: number;
  us: number;
}

/** Marks of the scale in a window of so many pixels. */
export function buildTicks(line: TimeLine, window: Window, pixels: number): Tick[] {
  const perPixel = (window.to - window.from) / Math.max(1, pixels);
  const step = (STEPS_S.find((each) => (each * 1e6) / perPixel >= 84) ?? 86_400) * 1e6;
  const ticks: Tick[] = [];
  let free = -Infinity;
  for (const segment of line.segments) {
    const end = segment.at + segment.to - segment.from;
    if (end < window.from || segment.at > window.to) continue;
    for (let after = segment.at < window.from ? Math.ceil((window.from - segment.at) / step) * step : 0; segment.at + after <= Math.min(end, window.to); after += step) {
      const at = segment.at + after;
      const x = (at - window.from) / perPixel;
      const isCramped = after > 0 && (end - at) / perPixel < 56;
      if (x < free || x > pixels - 64 || isCramped || ticks.length > 200) continue;
      ticks.push({ at, afterUs: after, us: segment.from + after });
      free = x + (after ? 60 : 108);
    }
  }
  return ticks;
}

export function durationOf(span: Activity): number | null {
  return span.end_us === null || span.end_us === undefined ? null : span.end_us - span.start_us;
}

export type SpanTone = "done" | "tool" | "open" | "danger" | "ghost" | "turn" | "frame";

export function toneOf(span: Activity): SpanTone {
  if (span.status === "unknown" || span.status === "failed") return "danger";
  if (span.status === "cancelled") return "ghost";
  if (span.status !== "done") return "open";
  return span.kind === "turn" ? "turn" : span.kind === "frame" || span.kind === "suspension" ? "frame" : span.kind === "tool" ? "tool" : "done";
}

/** The message that a span points at: of a turn, the words; of a tool, the reply that called it; of a model, its reply. */
export function messageOf(span: Activity): number {
  if (span.kind === "turn") return span.seq ?? 0;
  const match = /^[cm](\d+)/.exec(span.id);
  if (match) return Number(match[1]);
  return 0;
}
