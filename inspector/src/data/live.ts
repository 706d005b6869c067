// The feed of a session, read with fetch, since EventSource cannot send a key.
//
// Law: the feed says that something happened; views read the API again. Nothing is built from events.

import { signal } from "@preact/signals";
import { exported, request } from "./source";

export type LiveState = "off" | "connecting" | "live" | "waiting";

export interface LiveEvent {
  id: string;
  type: string;
  data: unknown;
}

/** How the connection is. */
export const liveState = signal<LiveState>("off");
/** Grows when the session that is followed changed; read it to load again. */
export const liveVersion = signal(0);
/** The type of the last event. */
export const lastEvent = signal<LiveEvent | null>(null);

const QUIET_MS = 250;
const RETRY_MS = [1_000, 2_000, 5_000, 15_000, 30_000];

let stop: (() => void) | null = null;

/** Follow the feed at a path such as /sessions/trip-1/feed?after=now. Another call follows another one. */
export function follow(path: string | null): void {
  stop?.();
  stop = null;
  liveState.value = "off";
  if (path === null || exported) return;
  const control = new AbortController();
  stop = () => control.abort();
  void run(path, control.signal);
}

async function run(path: string, signal: AbortSignal): Promise<void> {
  let cursor = "";
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    liveState.value = "connecting";
    try {
      const headers: Record<string, string> = cursor ? { "Last-Event-ID": cursor } : {};
      const answer = await request(path, { signal, headers });
      liveState.value = "live";
      attempt = 0;
      for await (const event of readEvents(answer)) {
        cursor = event.id || cursor;
        announce(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      const status = (error as { status?: number }).status ?? 0;
      if (status >= 400 && status < 500) {
        liveState.value = "off";
        return;
      }
    }
    if (signal.aborted) return;
    liveState.value = "waiting";
    await pause(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)] ?? 30_000, signal);
  }
}

let timer = 0;

function announce(event: LiveEvent): void {
  lastEvent.value = event;
  if (timer) return;
  timer = window.setTimeout(() => {
    timer = 0;
    liveVersion.value += 1;
  }, QUIET_MS);
}

async function* readEvents(answer: Response): AsyncGenerator<LiveEvent> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      const event = readEvent(buffer.slice(0, end));
      buffer = buffer.slice(end + 2);
      if (event) yield event;
    }
  }
}

function readEvent(block: string): LiveEvent | null {
  let id = "";
  let type = "";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("event: ")) type = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data) return null;
  try {
    return { id, type, data: JSON.parse(data) as unknown };
  } catch {
    return null;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const handle = window.setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      window.clearTimeout(handle);
      resolve();
    });
  });
}
