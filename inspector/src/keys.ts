// The keyboard. A view binds keys while it is shown; the help lists what is bound.
//
// Laws: no key works while the user types, except Escape, nor while a dialog is open. A key without a modifier never overrides the browser.
// The first of two keys waits for the second as long as that takes, and the page shows it; any other key, Escape or a click ends it.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface Binding {
  /** "j", "Escape", or two in a row: "g t". */
  keys: string;
  label: string;
  group: string;
  run: () => void;
}

/** All bindings, the newest last; the newest wins. */
export const bindings = signal<readonly Binding[]>([]);

/** The first of two keys, while the second is awaited; else empty. */
export const firstKey = signal("");

export function bind(added: readonly Binding[]): () => void {
  bindings.value = [...bindings.value, ...added];
  return () => {
    bindings.value = bindings.value.filter((each) => !added.includes(each));
  };
}

/** Bind keys while a component is shown. Functions may change between renders; keys and labels may not. */
export function useKeys(group: string, map: Record<string, [label: string, run: () => void]>): void {
  const current = useRef(map);
  current.current = map;
  useEffect(
    () => bind(Object.entries(map).map(([keys, [label]]) => ({ keys, label, group, run: () => current.current[keys]?.[1]() }))),
    [],
  );
}

function isTyping(target: EventTarget | null): boolean {
  const element = target instanceof HTMLElement ? target : null;
  return !!element && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
}

function find(keys: string): Binding | undefined {
  return bindings.value.findLast((each) => each.keys === keys);
}

/** What the second key may be after a first one. */
export function listSecondKeys(first: string): Binding[] {
  return bindings.value.filter((each) => each.keys.startsWith(`${first} `));
}

window.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) && event.key !== "Escape") return;
  if (document.querySelector("dialog[open]")) return; // it closes by Escape itself
  if (event.key === "Enter" || event.key === " ") return; // controls act by themselves
  const first = firstKey.value;
  firstKey.value = "";
  if (first && event.key === "Escape") return;
  const found = (first && find(`${first} ${event.key}`)) || find(event.key);
  if (found) {
    event.preventDefault();
    found.run();
  } else if (listSecondKeys(event.key).length) {
    firstKey.value = event.key;
  }
});

window.addEventListener("pointerdown", () => (firstKey.value = ""));
