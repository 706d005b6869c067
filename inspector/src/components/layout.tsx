// Tabs, dialogs, panels and tables.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

export interface Tab {
  key: string;
  label: ComponentChildren;
}

/** Tabs of one panel, by the pattern of ARIA: arrows move, the picked one has the focus. */
export function Tabs({ tabs, picked, onPick, label, children }: {
  tabs: readonly Tab[];
  picked: string;
  onPick: (key: string) => void;
  label: string;
  children: ComponentChildren;
}): JSX.Element {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  function move(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const index = tabs.findIndex((tab) => tab.key === picked);
    const next = tabs[(index + step + tabs.length) % tabs.length]!;
    onPick(next.key);
    list.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(next.key)}"]`)?.focus();
  }
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
        {tabs.map((tab) => (
          <button
            key={tab.key} type="button" role="tab" id={`${id}-${tab.key}`} data-key={tab.key} aria-selected={tab.key === picked}
            aria-controls={`${id}-panel`} tabIndex={tab.key === picked ? 0 : -1} onClick={() => onPick(tab.key)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${picked}`} class="tab-panel">{children}</div>
    </>
  );
}

/** A choice of one, as a row of buttons. */
export function Segmented({ options, picked, onPick, label }: {
  options: readonly { key: string; label: ComponentChildren; title?: string }[];
  picked: string;
  onPick: (key: string) => void;
  label: string;
}): JSX.Element {
  return (
    <div class="segmented" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option.key} type="button" title={option.title} aria-pressed={option.key === picked} onClick={() => onPick(option.key)}>{option.label}</button>
      ))}
    </div>
  );
}

/** A modal dialog. Escape and a click outside close it; the focus returns to where it was. */
export function Dialog({ open, onClose, title, children, class: extra = "" }: {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ComponentChildren;
  class?: string;
}): JSX.Element | null {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    if (open && element && !element.open) element.showModal();
  }, [open]);
  if (!open) return null;
  return (
    <dialog
      ref={dialog} class={`dialog ${extra}`} aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <span class="spacer" />
        <button type="button" class="button small" onClick={onClose} aria-label="Close">✕</button>
      </div>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

/** A panel with a heading. */
export function Panel({ title, aside, children, class: extra = "" }: {
  title: ComponentChildren;
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}): JSX.Element {
  const id = useId();
  return (
    <section class={`panel ${extra}`} aria-labelledby={id}>
      <div class="panel-head"><h2 id={id}>{title}</h2><span class="spacer" />{aside}</div>
      {children}
    </section>
  );
}

export interface Column<T> {
  key: string;
  label: ComponentChildren;
  number?: boolean;
  render: (item: T) => ComponentChildren;
}

/** A plain table; it scrolls sideways by itself on narrow screens. */
export function Table<T>({ columns, rows, keyOf, caption, rowClass }: {
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  caption: string;
  rowClass?: (row: T) => string;
}): JSX.Element {
  return (
    <div class="table-place" tabIndex={0} role="region" aria-label={caption}>
      <table class="table">
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>{columns.map((column) => <th key={column.key} scope="col" class={column.number ? "num" : ""}>{column.label}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} class={rowClass?.(row) ?? ""}>
              {columns.map((column) => <td key={column.key} class={column.number ? "num" : ""}>{column.render(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
