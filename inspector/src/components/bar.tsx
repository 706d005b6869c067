// The stacked bar: parts of a whole, drawn against a limit.

import type { HTMLAttributes, JSX } from "preact";
import { useState } from "preact/hooks";
import { formatNumber } from "../format";
import type { Tone } from "./small";

export interface BarPart {
  key: string;
  label: string;
  value: number;
  tone: Tone;
  title?: string;
}

/** Parts whose share of the bar is below this have no label in it. */
const LABEL_SHARE = 0.07;

/**
 * A bar of parts, as long as `limit` (or the sum, if that is more). With `onPick` it is one control: arrows move from part to
 * part, Enter or a click picks one. Parts can be narrower than a finger, so none of them is a control by itself.
 */
export function Bar({ parts, limit, label, height = 28, picked, onPick, onHover }: {
  parts: readonly BarPart[];
  limit: number;
  label: string;
  height?: number;
  picked?: string;
  onPick?: (key: string) => void;
  onHover?: (key: string | null) => void;
}): JSX.Element {
  const [at, setAt] = useState(-1);
  const sum = parts.reduce((all, part) => all + part.value, 0);
  const most = Math.max(limit, sum, 1);
  const shown = parts.filter((part) => part.value > 0);
  const titleOf = (part: BarPart) => part.title ?? `${part.label}: ${formatNumber(part.value)}`;
  const current = shown[Math.min(at, shown.length - 1)];
  function move(to: number): void {
    const index = Math.max(0, Math.min(shown.length - 1, to));
    setAt(index);
    onHover?.(shown[index]?.key ?? null);
  }
  function onKeyDown(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -shown.length, End: shown.length }[event.key];
    if (step !== undefined) move(at + step);
    else if ((event.key === "Enter" || event.key === " ") && current) onPick!(current.key);
    else return;
    event.preventDefault();
  }
  function partAt(event: MouseEvent): string | undefined {
    return (event.target as HTMLElement).closest<HTMLElement>("[data-part]")?.dataset.part;
  }
  const control: HTMLAttributes<HTMLDivElement> = onPick
    ? {
        role: "slider", tabIndex: 0, onKeyDown,
        "aria-valuemin": 1, "aria-valuemax": Math.max(1, shown.length), "aria-valuenow": Math.max(1, at + 1),
        "aria-valuetext": current ? titleOf(current) : "no part picked",
        onFocus: () => move(Math.max(0, at)),
        onBlur: () => { setAt(-1); onHover?.(null); },
        onClick: (event) => { const key = partAt(event); if (key) onPick(key); },
        onMouseMove: (event) => onHover?.(partAt(event) ?? null),
        onMouseLeave: () => onHover?.(null),
      }
    : { role: "img" };
  return (
    <div class={onPick ? "bar is-control" : "bar"} style={{ height: `${height}px` }} aria-label={label} {...control}>
      {shown.map((part) => {
        const hasLabel = part.label && part.value / most >= LABEL_SHARE && height >= 20;
        const isMarked = current?.key === part.key || (picked !== undefined && picked === part.key);
        return (
          <span key={part.key} data-part={part.key} class={`bar-part fill-${part.tone} ${isMarked ? "is-marked" : ""}`} style={{ width: `${(100 * part.value) / most}%` }} title={titleOf(part)}>
            {hasLabel && <span class="bar-label">{part.label}</span>}
          </span>
        );
      })}
      {most > sum && <span class="bar-rest" title={`free: ${formatNumber(most - sum)}`} />}
    </div>
  );
}
