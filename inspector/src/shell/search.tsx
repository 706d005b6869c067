// The search palette: one box over sessions, views, calls, messages, facts, frames and commands.
//
// Laws: a search that is typed over is cancelled; nothing is asked before a pause in typing; a group that fails leaves the
// others as they are. What is found is text.

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { Dialog, showText } from "../components";
import { bindings } from "../keys";
import { go } from "../router";
import { findCommands, findViews, SOURCES, type Found } from "./search_sources";
import "./search.css";

export const isSearchOpen = signal(false);

const PAUSE_MS = 160;
const GROUP_ITEMS = 8;

interface Group {
  name: string;
  items: Found[];
}

/** A text with the words that were searched for marked. */
export function Highlight({ text, words }: { text: string; words: readonly string[] }): JSX.Element {
  const parts: ComponentChildren[] = [];
  const low = text.toLowerCase();
  let end = 0;
  while (low.length === text.length && end < text.length) {
    let start = -1;
    let length = 0;
    for (const word of words) {
      const at = low.indexOf(word, end);
      if (at >= 0 && (start < 0 || at < start)) [start, length] = [at, word.length];
    }
    if (start < 0) break;
    parts.push(showText(text.slice(end, start)), <mark>{showText(text.slice(start, start + length))}</mark>);
    end = start + length;
  }
  parts.push(showText(text.slice(end)));
  return <bdi>{parts}</bdi>;
}

function useGroups(query: string): { groups: Group[]; isBusy: boolean } {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const local = useMemo(() => [
    { name: "Views", items: findViews(words) },
    { name: "Commands", items: words.length ? findCommands(words, bindings.value) : [] },
  ], [query, bindings.value]);
  const [found, setFound] = useState<{ query: string; groups: Group[]; left: number }>({ query: "", groups: [], left: 0 });
  useEffect(() => {
    const control = new AbortController();
    const sources = SOURCES.filter((source) => source.isThere() && (words.length > 0 || source.isListed));
    const timer = window.setTimeout(() => {
      setFound((now) => ({ query, groups: now.groups, left: sources.length }));
      const results = new Map<string, Found[]>();
      for (const source of sources) {
        source.find(query.trim(), words, control.signal).catch(() => []).then((items) => {
          if (control.signal.aborted) return;
          results.set(source.name, items.slice(0, GROUP_ITEMS));
          const groups = sources.filter((each) => results.has(each.name)).map((each) => ({ name: each.name, items: results.get(each.name)! }));
          setFound({ query, groups, left: sources.length - results.size });
        }, () => undefined);
      }
    }, words.length ? PAUSE_MS : 0);
    return () => {
      window.clearTimeout(timer);
      control.abort();
    };
  }, [query]);
  const groups = [...found.groups, ...local].filter((group) => group.items.length);
  return { groups: words.length ? groups : [...local.filter((group) => group.items.length), ...found.groups.filter((group) => group.items.length)], isBusy: found.query !== query || found.left > 0 };
}

function Palette(): JSX.Element {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const { groups, isBusy } = useGroups(query);
  const flat = groups.flatMap((group) => group.items);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const picked = Math.min(at, flat.length - 1);
  useEffect(() => {
    list.current?.querySelector(`[aria-selected="true"]`)?.scrollIntoView({ block: "nearest" });
  }, [picked, groups.length]);

  function open(item: Found | undefined): void {
    if (!item) return;
    isSearchOpen.value = false;
    if (item.address) go(item.address);
    else item.run?.();
  }
  function press(event: KeyboardEvent): void {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    const by = moves[event.key] ?? (event.ctrlKey && event.key === "n" ? 1 : event.ctrlKey && event.key === "p" ? -1 : 0);
    if (by) setAt(Math.max(0, Math.min(flat.length - 1, picked + by)));
    else if (event.key === "Enter") open(flat[picked]);
    else return;
    event.preventDefault();
  }
  let index = -1;
  return (
    <div class="palette">
      <input
        class="palette-input" type="text" autofocus value={query} placeholder="Sessions, calls, messages, facts, frames, commands" aria-label="Search everything"
        role="combobox" aria-expanded="true" aria-controls={`${id}-list`} aria-autocomplete="list" aria-activedescendant={flat.length ? `${id}-${picked}` : undefined}
        spellcheck={false} autocomplete="off" onKeyDown={press}
        onInput={(event) => { setQuery(event.currentTarget.value); setAt(0); }}
      />
      <div class="palette-list" id={`${id}-list`} role="listbox" aria-label="Found" ref={list}>
        {groups.map((group) => (
          <div key={group.name} role="group" aria-label={group.name}>
            <div class="palette-group" aria-hidden="true">{group.name}</div>
            {group.items.map((item) => {
              index += 1;
              const here = index;
              return (
                <div
                  key={item.id} id={`${id}-${here}`} role="option" aria-selected={here === picked} class="palette-item"
                  onMouseMove={() => here !== picked && setAt(here)} onClick={() => open(item)}
                >
                  <span class="palette-title truncate"><Highlight text={item.title} words={words} /></span>
                  {item.text && <span class="palette-text truncate"><Highlight text={item.text} words={words} /></span>}
                  {item.hint && <span class="palette-hint">{item.isKey ? <kbd>{item.hint}</kbd> : item.hint}</span>}
                </div>
              );
            })}
          </div>
        ))}
      </div>
      <p class="palette-foot" role="status">
        <span>{isBusy && words.length ? "Searching…" : flat.length ? `${flat.length} found` : words.length ? "Nothing found" : ""}</span>
        <span class="spacer" />
        <span aria-hidden="true"><kbd>↑</kbd> <kbd>↓</kbd> choose · <kbd>Enter</kbd> open · <kbd>Esc</kbd> close</span>
      </p>
    </div>
  );
}

export function SearchPalette(): JSX.Element {
  return (
    <Dialog open={isSearchOpen.value} onClose={() => (isSearchOpen.value = false)} title="Search" class="palette-dialog">
      <Palette />
    </Dialog>
  );
}
