// Texts from data. All of it is hostile: it becomes text nodes only, and characters that hide or reorder are made visible.

import { Fragment, type ComponentChildren, type JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { formatNumber } from "../format";

/** Control characters without tab and newline, bidirectional controls, invisible and tag characters. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
const FIRST_CHARS = 4_000;
const MORE_FACTOR = 8;

function codeOf(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The text as nodes, with hidden characters shown as their code points. */
export function showText(text: string): ComponentChildren {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const code = codeOf(match[0]);
    parts.push(text.slice(end, match.index), <span class="hidden-char" title={`hidden character ${code}`}>{code}</span>);
    end = match.index + match[0].length;
  }
  if (!parts.length) return text;
  parts.push(text.slice(end));
  return <>{parts}</>;
}

/** A short text of data within a line: a name, a key, a reason. Its direction cannot leave it. */
export function Name({ text, class: extra = "" }: { text: string; class?: string }): JSX.Element {
  return <bdi class={extra}>{showText(text.length > 300 ? `${text.slice(0, 300)}…` : text)}</bdi>;
}

export interface Mark {
  /** In UTF-16 units of the text. */
  start: number;
  end: number;
  render: (text: string) => ComponentChildren;
}

/** The index in UTF-16 units of a character, which the API counts in code points. */
export function unitIndex(text: string, codePoints: number): number {
  let index = 0;
  for (let left = codePoints; left > 0 && index < text.length; left -= 1) index += text.codePointAt(index)! > 0xffff ? 2 : 1;
  return index;
}

function showMarked(text: string, from: number, to: number, marks: readonly Mark[]): ComponentChildren {
  const parts: ComponentChildren[] = [];
  let end = from;
  for (const mark of marks) {
    if (mark.start < end || mark.start >= to) continue;
    const stop = Math.min(mark.end, to);
    parts.push(showText(text.slice(end, mark.start)), mark.render(text.slice(mark.start, stop)));
    end = stop;
  }
  parts.push(showText(text.slice(end, to)));
  return parts.map((part, index) => <Fragment key={index}>{part}</Fragment>);
}

/** A text of any length. A long one is cut, and the rest can be shown. */
export function LongText({ text, marks, mono, first = FIRST_CHARS }: { text: string; marks?: readonly Mark[]; mono?: boolean; first?: number }): JSX.Element {
  const [most, setMost] = useState(first);
  const sorted = useMemo(() => [...(marks ?? [])].sort((a, b) => a.start - b.start), [marks]);
  const isCut = text.length > most * 1.2;
  const end = isCut ? most : text.length;
  return (
    <div class={mono ? "long-text mono" : "long-text"} dir="auto">
      {showMarked(text, 0, end, sorted)}
      {isCut && (
        <button type="button" class="more" onClick={() => setMost(most * MORE_FACTOR)}>
          … show more ({formatNumber(text.length - end)} characters left)
        </button>
      )}
    </div>
  );
}
