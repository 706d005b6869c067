// The words and marks of spans and frames.

import type { JSX } from "preact";
import { Badge, Bar, type BarPart, type Tone } from "../../components";
import type { Activity, FrameBudget } from "../../data";
import { formatNumber, formatShort } from "../../format";

export const KINDS: Record<Activity["kind"], { mark: string; name: string }> = {
  turn: { mark: "▸", name: "Turn" },
  model: { mark: "◆", name: "Model" },
  tool: { mark: "ƒ", name: "Tool" },
  frame: { mark: "▣", name: "Frame" },
  suspension: { mark: "‖", name: "Suspended" },
  boundary: { mark: "┊", name: "Boundary" },
  recovery: { mark: "↻", name: "Recovery" },
};

const STATUSES: Record<string, { tone: Tone; text: string; title: string }> = {
  done: { tone: "included", text: "● done", title: "It has ended" },
  completed: { tone: "included", text: "● completed", title: "It has ended" },
  active: { tone: "reduced", text: "◔ active", title: "Work goes on in it" },
  running: { tone: "reduced", text: "◔ running", title: "It has begun and not ended" },
  not_started: { tone: "reduced", text: "○ not started", title: "The model asked for it; no tool was started" },
  waiting: { tone: "reduced", text: "◔ waiting", title: "It waits for frames below it" },
  suspended: { tone: "reduced", text: "‖ suspended", title: "It rests until its token comes" },
  unknown: { tone: "danger", text: "✕ unknown outcome", title: "It was started and has no result: it may have taken effect" },
  failed: { tone: "danger", text: "✕ failed", title: "It ended with an error" },
  cancelled: { tone: "omitted", text: "○ cancelled", title: "It was given up" },
};

export function StatusBadge({ status }: { status: string }): JSX.Element {
  const known = STATUSES[status] ?? { tone: "plain" as Tone, text: status, title: status };
  return <Badge tone={known.tone} title={known.title}>{known.text}</Badge>;
}

export function statusText(status: string): string {
  return (STATUSES[status]?.text ?? status).replace(/^\S /, "");
}

/** The budget of a frame: used, reserved, delegated, and what is left; what is overdrawn is red. */
export function BudgetBar({ budget, label }: { budget: FrameBudget; label: string }): JSX.Element {
  const { total = 0, used = 0, reserved = 0, delegated = 0 } = budget;
  const over = Math.max(0, used + reserved + delegated - total);
  const usedWithin = Math.max(0, used - over);
  const left = Math.max(0, total - used - reserved - delegated);
  const parts: BarPart[] = [
    { key: "used", label: "used", value: usedWithin, tone: "included" },
    { key: "reserved", label: "reserved", value: reserved, tone: "reduced" },
    { key: "delegated", label: "delegated", value: delegated, tone: "written" },
    { key: "over", label: "overdrawn", value: over, tone: "danger" },
  ];
  return (
    <div class="budget">
      <Bar parts={parts} limit={total} height={10} label={`${label}: ${formatNumber(used)} used, ${formatNumber(reserved)} reserved, ${formatNumber(delegated)} delegated, ${formatNumber(left)} available of ${formatNumber(total)} tokens`} />
      <div class="budget-words" title={`of ${formatNumber(total)} tokens`}>
        <span><span class="swatch fill-included" />{formatShort(used)} used</span>
        {reserved > 0 && <span><span class="swatch fill-reduced" />{formatShort(reserved)} reserved</span>}
        {delegated > 0 && <span><span class="swatch fill-written" />{formatShort(delegated)} delegated</span>}
        {over > 0 ? <strong class="danger-text"><span class="swatch fill-danger" />{formatShort(over)} overdrawn</strong> : <span class="faint">{formatShort(left)} of {formatShort(total)} left</span>}
      </div>
    </div>
  );
}
