// JSON and code, folded.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { Json } from "../data";
import { formatNumber } from "../format";
import { Copy } from "./small";
import { LongText, showText } from "./text";

const CHILDREN = 100;
const STRING_CHARS = 400;

/** A part that opens. Its content is built only when it is open. */
export function Disclosure({ summary, children, open, class: extra = "", onToggle }: {
  summary: ComponentChildren;
  children: () => ComponentChildren;
  open?: boolean;
  class?: string;
  onToggle?: (isOpen: boolean) => void;
}): JSX.Element {
  const [isOpen, setOpen] = useState(open ?? false);
  return (
    <details
      class={`disclosure ${extra}`} open={isOpen}
      onToggle={(event) => {
        const now = event.currentTarget.open;
        if (now !== isOpen) {
          setOpen(now);
          onToggle?.(now);
        }
      }}
    >
      <summary>{summary}</summary>
      {isOpen && <div class="disclosure-body">{children()}</div>}
    </details>
  );
}

function isFolder(value: Json): value is Json[] | { [key: string]: Json } {
  return value !== null && typeof value === "object";
}

function countOf(value: Json[] | { [key: string]: Json }): string {
  const count = Array.isArray(value) ? value.length : Object.keys(value).length;
  return Array.isArray(value) ? `[${formatNumber(count)}]` : `{${formatNumber(count)}}`;
}

/** The start of a value in one line. */
export function previewJson(value: Json, most = 80): string {
  if (typeof value === "string") return value.length > most ? `${value.slice(0, most)}…` : value;
  if (!isFolder(value)) return String(value);
  if (Array.isArray(value)) {
    let text = "[";
    for (const item of value) {
      text += (text.length > 1 ? ", " : "") + previewJson(item, 24);
      if (text.length > most) return `${text.slice(0, most)}…`;
    }
    return `${text}]`;
  }
  let text = "";
  for (const [name, item] of Object.entries(value)) {
    text += `${text ? ", " : ""}${name}: ${previewJson(item, 32)}`;
    if (text.length > most) return `${text.slice(0, most)}…`;
  }
  return text;
}

function Leaf({ value }: { value: Json }): JSX.Element {
  if (typeof value === "string") {
    if (value.length > STRING_CHARS || value.includes("\n")) return <span class="json-text"><LongText text={value} mono first={STRING_CHARS} /></span>;
    return <span class="json-string">"{showText(value)}"</span>;
  }
  return <span class="json-atom">{String(value)}</span>;
}

function Branch({ name, value, depth, openDepth }: { name: string | null; value: Json; depth: number; openDepth: number }): JSX.Element {
  const [most, setMost] = useState(CHILDREN);
  const label = name === null ? null : <span class="json-key">{showText(name)}</span>;
  if (!isFolder(value)) return <div class="json-line">{label}{label && ": "}<Leaf value={value} /></div>;
  const entries: [string, Json][] = Array.isArray(value) ? value.map((item, index) => [String(index), item]) : Object.entries(value);
  if (!entries.length) return <div class="json-line">{label}{label && ": "}<span class="json-atom">{Array.isArray(value) ? "[]" : "{}"}</span></div>;
  return (
    <Disclosure
      class="json-branch" open={depth < openDepth}
      summary={<>{label}{label && " "}<span class="faint">{countOf(value)}</span> <span class="json-preview">{showText(previewJson(value, 100))}</span></>}
    >
      {() => (
        <>
          {entries.slice(0, most).map(([key, item]) => <Branch key={key} name={key} value={item} depth={depth + 1} openDepth={openDepth} />)}
          {entries.length > most && (
            <button type="button" class="more" onClick={() => setMost(most * 4)}>… show more ({formatNumber(entries.length - most)} left)</button>
          )}
        </>
      )}
    </Disclosure>
  );
}

/** A JSON value as a tree. `open` levels are open at first. */
export function JsonTree({ value, open = 1 }: { value: Json; open?: number }): JSX.Element {
  return <div class="json"><Branch name={null} value={value} depth={0} openDepth={open} /></div>;
}

/** Code or another text as it is, with a button that copies it. */
export function Code({ text, label, first = 20_000 }: { text: string; label?: string; first?: number }): JSX.Element {
  return (
    <figure class="code">
      <figcaption class="row"><span class="faint">{label}</span><span class="spacer" /><Copy text={text} /></figcaption>
      <div class="code-text" tabIndex={0} role="region" aria-label={label ?? "code"}><LongText text={text} mono first={first} /></div>
    </figure>
  );
}
