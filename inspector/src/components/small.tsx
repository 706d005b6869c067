// Small things: badges, fates, figures, times, copy buttons, icons.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { Fate } from "../data";
import { formatAgo, formatIso, formatMoney, formatNumber, formatShort, formatTime } from "../format";
import { showToast } from "./toast";

export type Tone = "plain" | "included" | "reduced" | "omitted" | "danger" | "withheld" | "cached" | "written";

/** A label. Its tone has the same meaning everywhere; the text says it, too. */
export function Badge({ tone = "plain", title, children }: { tone?: Tone; title?: string; children: ComponentChildren }): JSX.Element {
  return <span class={`badge tone-${tone}`} title={title}>{children}</span>;
}

const FATES: Record<Fate, { tone: Tone; mark: string; title: string }> = {
  included: { tone: "included", mark: "●", title: "Included: shown as it is" },
  reduced: { tone: "reduced", mark: "◐", title: "Reduced: shown in a shorter form" },
  omitted: { tone: "omitted", mark: "○", title: "Omitted: left out" },
  missing: { tone: "danger", mark: "✕", title: "Missing: could not be read" },
  withheld: { tone: "withheld", mark: "▨", title: "Withheld from this reader" },
};

export function fateTone(fate: Fate): Tone {
  return FATES[fate]?.tone ?? "plain";
}

/** The fate of a candidate: a mark and a word. */
export function FateMark({ fate, short }: { fate: Fate; short?: boolean }): JSX.Element {
  const known = FATES[fate] ?? { tone: "plain", mark: "?", title: fate };
  return (
    <span class={`fate tone-${known.tone}`} title={known.title}>
      <span aria-hidden="true">{known.mark}</span>
      <span class={short ? "visually-hidden" : ""}>{fate}</span>
    </span>
  );
}

export function Money({ micro, class: extra = "" }: { micro: number | null | undefined; class?: string }): JSX.Element {
  return <span class={`figure ${extra}`}>{formatMoney(micro)}</span>;
}

export function Tokens({ count, short }: { count: number | null | undefined; short?: boolean }): JSX.Element {
  return <span class="figure" title={`${formatNumber(count)} tokens`}>{short ? formatShort(count) : formatNumber(count)}</span>;
}

/** A time: the clock, or how long ago; the title has it in full. */
export function Time({ us, ago }: { us: number; ago?: boolean }): JSX.Element {
  if (!us) return <span class="faint">–</span>;
  const iso = formatIso(us);
  return <time class="nowrap" dateTime={iso} title={iso}>{ago ? formatAgo(us) : formatTime(us)}</time>;
}

export async function copyText(text: string, what = "Copied"): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "visually-hidden";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  showToast(what);
}

function CopyIcon(): JSX.Element {
  return (
    <svg width="12" height="12" viewBox="0 0 12 12" fill="none" stroke="currentColor" stroke-width="1.2" aria-hidden="true">
      <rect x="1" y="3.5" width="7" height="7.5" rx="1.2" /><path d="M4 3.5V2.2C4 1.5 4.5 1 5.2 1h4.6c.7 0 1.2.5 1.2 1.2v5.1c0 .7-.5 1.2-1.2 1.2H8" />
    </svg>
  );
}

/** A button that copies a text. */
export function Copy({ text, label = "Copy", what }: { text: string | (() => string); label?: string; what?: string }): JSX.Element {
  const [isDone, setDone] = useState(false);
  async function copy(): Promise<void> {
    await copyText(typeof text === "string" ? text : text(), what ?? "Copied");
    setDone(true);
    window.setTimeout(() => setDone(false), 1_200);
  }
  return (
    <button type="button" class="button small" onClick={() => void copy()}>
      {isDone ? <span aria-hidden="true">✓</span> : <CopyIcon />} {label}
    </button>
  );
}

/** Figures in a row: a label above, a value below. */
export function Figures({ children }: { children: ComponentChildren }): JSX.Element {
  return <dl class="figures">{children}</dl>;
}

export function Figure({ label, children, note, tone }: { label: string; children: ComponentChildren; note?: ComponentChildren; tone?: Tone }): JSX.Element {
  return (
    <div class={`figure-cell ${tone ? `tone-${tone}` : ""}`}>
      <dt>{label}</dt>
      <dd>
        <span class="figure-value">{children}</span>
        {note !== undefined && note !== null && note !== "" && <span class="figure-note">{note}</span>}
      </dd>
    </div>
  );
}
