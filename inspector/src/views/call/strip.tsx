// The strip: the calls of the session as columns, as high as their prompts. One control: arrows move along it.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { calls, loadNewer, loadOlder, splitPrompt } from "../../calls";
import type { ModelCall } from "../../data";
import { formatNumber, formatTime } from "../../format";

const MOST = 240;

function describe(call: ModelCall): string {
  const broke = call.cache && !call.cache.kept && call.cache.cause !== "first" ? ", the cached prefix broke" : "";
  return `call ${call.id}, ${formatTime(call.time_us)}, ${formatNumber(splitPrompt(call).total)} tokens${broke}`;
}

function isBroken(call: ModelCall): boolean {
  return !!call.cache && !call.cache.kept && !["first", "kept", "provider", undefined].includes(call.cache.cause) && !!call.cache.previous;
}

export function CallStrip({ picked, onPick }: { picked: string; onPick: (call: ModelCall) => void }): JSX.Element | null {
  const items = calls.value.items;
  const place = useRef<HTMLDivElement>(null);
  const at = items.findIndex((call) => call.id === picked);
  // newest first in the data, oldest first on the screen
  const from = Math.max(0, Math.min(items.length - MOST, at - MOST / 2));
  const shown = items.slice(from, from + MOST).reverse();
  const index = shown.findIndex((call) => call.id === picked);
  useEffect(() => {
    place.current?.querySelector(".is-current")?.scrollIntoView({ block: "nearest", inline: "center" });
    if (at >= 0 && at > items.length - 20) void loadOlder();
    if (at >= 0 && at < 20) void loadNewer();
  }, [picked, items.length]);
  if (shown.length < 2) return null;
  const most = Math.max(1, ...shown.map((call) => splitPrompt(call).total));
  function pick(to: number): void {
    const call = shown[Math.max(0, Math.min(shown.length - 1, to))];
    if (call && call.id !== picked) onPick(call);
  }
  function onKey(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -shown.length, End: shown.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    pick(index + step);
  }
  function onClick(event: MouseEvent): void {
    const column = (event.target as HTMLElement).closest<HTMLElement>("[data-index]");
    if (column) pick(Number(column.dataset.index));
  }
  return (
    <div
      class="strip" ref={place} role="slider" tabIndex={0} aria-label="Calls of the session, oldest first" aria-orientation="horizontal"
      aria-valuemin={1} aria-valuemax={shown.length} aria-valuenow={index + 1} aria-valuetext={shown[index] ? describe(shown[index]) : ""}
      onKeyDown={onKey} onClick={onClick}
    >
      {shown.map((call, place) => {
        const { read, written, fresh, total } = splitPrompt(call);
        return (
          <span key={call.id} class={`strip-call ${call.id === picked ? "is-current" : ""}`} data-index={place} title={describe(call)}>
            <span class="strip-mark" aria-hidden="true">{call.exposed ? "!" : isBroken(call) ? "⌁" : ""}</span>
            <span class="strip-column" style={{ height: `${Math.max(6, (100 * total) / most)}%` }}>
              <span class="fill-plain" style={{ flexGrow: fresh }} />
              <span class="fill-written" style={{ flexGrow: written }} />
              <span class="fill-cached" style={{ flexGrow: read }} />
            </span>
          </span>
        );
      })}
    </div>
  );
}
