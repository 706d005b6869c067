// A list of any length: only what is in view is in the document.
//
// Laws: heights are measured, never assumed; a row that changes its height above the view does not move what is in view.
// Rows are named by keys, so that a height outlives its index.

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";

export interface VirtualHandle {
  /** Bring a row to the top of the view (or its middle). */
  scrollTo: (key: string, place?: "start" | "center") => void;
}

const OVERSCAN_PX = 600;

interface Memory {
  heights: Map<string, number>;
  anchor: { key: string; offset: number } | null;
  wanted: { key: string; place: "start" | "center"; rounds: number } | null;
}

/** The index of the row at a height. */
function indexAt(offsets: Float64Array, top: number): number {
  let low = 0;
  let high = offsets.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle]! <= top) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}

/**
 * A scrolling list. `keys` are the rows in order; `estimate` is the height of a row that was never measured; `onView` is
 * told which rows are drawn. `focusKey` is a row that is brought into view when it changes.
 */
export function VirtualList({ keys, estimate, render, onView, handle, label, class: extra = "", role = "list" }: {
  keys: readonly string[];
  estimate: (key: string, index: number) => number;
  render: (key: string, index: number) => ComponentChildren;
  onView?: (first: number, last: number) => void;
  handle?: { current: VirtualHandle | null };
  label: string;
  class?: string;
  role?: "list" | "feed";
}): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((value: number) => value + 1, 0);
  const memory = useRef<Memory>({ heights: new Map(), anchor: null, wanted: null }).current;
  const measured = useRef(0);
  const offsets = useMemo(() => {
    const sums = new Float64Array(keys.length + 1);
    for (let index = 0; index < keys.length; index += 1) {
      const key = keys[index]!;
      sums[index + 1] = sums[index]! + (memory.heights.get(key) ?? estimate(key, index));
    }
    return sums;
  }, [keys, measured.current]);
  const indexes = useMemo(() => new Map(keys.map((key, index) => [key, index])), [keys]);
  const view = place.current;
  const top = view?.scrollTop ?? 0;
  const height = view?.clientHeight || 800;
  const first = keys.length ? indexAt(offsets, Math.max(0, top - OVERSCAN_PX)) : 0;
  const last = keys.length ? indexAt(offsets, top + height + OVERSCAN_PX) : -1;

  const observer = useRef<ResizeObserver | null>(null);
  observer.current ??= new ResizeObserver((entries) => {
    let isChanged = false;
    for (const entry of entries) {
      const key = (entry.target as HTMLElement).dataset.key;
      const size = entry.borderBoxSize[0]?.blockSize ?? 0;
      if (!key || !size || !entry.target.isConnected) continue;
      if (Math.abs((memory.heights.get(key) ?? -1) - size) > 0.5) {
        memory.heights.set(key, size);
        isChanged = true;
      }
    }
    if (isChanged) {
      measured.current += 1;
      redraw(0);
    }
  });

  // What was at the top of the view stays there when rows above it change.
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const { anchor, wanted } = memory;
    if (wanted) {
      const index = indexes.get(wanted.key);
      if (index !== undefined) {
        const size = offsets[index + 1]! - offsets[index]!;
        const space = wanted.place === "center" ? Math.max(0, (element.clientHeight - size) / 2) : 8;
        const target = Math.max(0, offsets[index]! - space);
        if (Math.abs(element.scrollTop - target) > 1) element.scrollTop = target;
        wanted.rounds -= 1;
        if (wanted.rounds <= 0 || memory.heights.has(wanted.key)) memory.wanted = null;
        remember(element.scrollTop);
        redraw(0);
        return;
      }
    }
    if (!anchor) return;
    const index = indexes.get(anchor.key);
    if (index === undefined) return;
    const target = offsets[index]! + anchor.offset;
    if (Math.abs(element.scrollTop - target) > 1) element.scrollTop = target;
  }, [offsets]);

  useLayoutEffect(() => {
    onView?.(first, last);
  }, [first, last, keys]);

  useLayoutEffect(() => {
    const element = place.current!;
    const resized = new ResizeObserver(() => redraw(0));
    resized.observe(element);
    return () => {
      resized.disconnect();
      observer.current?.disconnect();
    };
  }, []);

  function remember(scrollTop: number): void {
    const index = indexAt(offsets, scrollTop);
    const key = keys[index];
    memory.anchor = key === undefined || scrollTop <= 0 ? null : { key, offset: scrollTop - offsets[index]! };
  }

  if (handle) {
    handle.current = {
      scrollTo: (key, where = "start") => {
        memory.wanted = { key, place: where, rounds: 4 };
        measured.current += 1;
        redraw(0);
      },
    };
  }

  const rows: JSX.Element[] = [];
  for (let index = first; index <= last; index += 1) {
    const key = keys[index]!;
    rows.push(<VirtualRow key={key} name={key} observer={observer.current} role={role === "list" ? "listitem" : "article"} position={index + 1} size={keys.length}>{render(key, index)}</VirtualRow>);
  }
  return (
    <div
      class={`virtual ${extra}`} ref={place} tabIndex={0} role="region" aria-label={label}
      onScroll={(event) => {
        remember(event.currentTarget.scrollTop);
        redraw(0);
      }}
    >
      <div class="virtual-space" role={role} aria-label={label} style={{ height: `${offsets[keys.length] ?? 0}px` }}>
        <div class="virtual-rows" role="presentation" style={{ transform: `translateY(${offsets[first] ?? 0}px)` }}>{rows}</div>
      </div>
    </div>
  );
}

function VirtualRow({ name, observer, children, role, position, size }: {
  name: string;
  observer: ResizeObserver;
  children: ComponentChildren;
  role: "listitem" | "article";
  position: number;
  size: number;
}): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const target = element.current!;
    observer.observe(target);
    return () => observer.unobserve(target);
  }, []);
  return <div class="virtual-row" ref={element} data-key={name} role={role} aria-posinset={position} aria-setsize={size}>{children}</div>;
}
