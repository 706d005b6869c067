// The model calls of the session that is shown: a stretch of them without gaps, newest first, which grows at both ends.
//
// Law: never more than a page is loaded before the first view.

import { computed, effect, signal, untracked } from "@preact/signals";
import { getPage, liveVersion, p, type ModelCall, type Page } from "./data";
import { parseHash, route, scopeKey, scopeQuery } from "./router";

export const CALLS_PAGE = 100;
const NEWER_ROUNDS = 20;
/** The key of the newest call of all. */
let newest = 0;

interface Stretch {
  scope: string;
  items: ModelCall[];
  hasOlder: boolean;
  hasNewer: boolean;
  error?: unknown;
  isLoaded: boolean;
}

const NOTHING: Stretch = { scope: "", items: [], hasOlder: false, hasNewer: false, isLoaded: false };
const stretch = signal<Stretch>(NOTHING);
const loading = new Map<string, Promise<void>>();

/** The calls that are loaded, newest first. */
export const calls = computed(() => (stretch.value.scope === scopeKey.value ? stretch.value : NOTHING));

/** The seq in the id of a call: p12 or m12. */
export function seqOf(id: string): number {
  return Number(/^[pm](\d+)$/.exec(id)?.[1] ?? 0);
}

function keyOf(call: ModelCall): number {
  return call.seq ?? seqOf(call.id);
}

function ask(before: number | undefined): Promise<Page<ModelCall>> {
  const scope = route.value.scope!;
  return getPage<ModelCall>(p`/sessions/${scope.session}/model-calls`, { ...scopeQuery(scope), before, limit: CALLS_PAGE });
}

/** Run one load of a kind at a time. */
function once(kind: string, load: (scope: string) => Promise<void>): Promise<void> {
  const scope = scopeKey.value;
  const name = `${kind} ${scope}`;
  let running = loading.get(name);
  if (!running) {
    running = load(scope)
      .catch((error: unknown) => {
        if (scopeKey.value === scope) stretch.value = { ...calls.value, scope, error, isLoaded: true };
      })
      .finally(() => loading.delete(name));
    loading.set(name, running);
  }
  return running;
}

function put(scope: string, items: ModelCall[], ends: { hasOlder: boolean; hasNewer: boolean }): void {
  if (scopeKey.value === scope) stretch.value = { scope, items, ...ends, isLoaded: true };
}

/** Load the newest calls. */
export function loadNewest(): Promise<void> {
  return once("newest", async (scope) => {
    const page = await ask(undefined);
    const now = calls.value;
    newest = page.items[0] ? keyOf(page.items[0]) : 0;
    const last = page.items.at(-1);
    const isJoined = now.items.length > 0 && !!last && keyOf(last) <= keyOf(now.items[0]!);
    if (isJoined && !now.hasNewer) {
      const fresh = new Set(page.items.map((call) => call.id));
      put(scope, [...page.items, ...now.items.filter((call) => !fresh.has(call.id) && keyOf(call) < keyOf(last))], now);
    } else if (!now.items.length || !now.hasNewer) {
      put(scope, page.items, { hasOlder: !!page.next, hasNewer: false });
    }
  });
}

/** Load the page before the oldest call. */
export function loadOlder(): Promise<void> {
  const last = calls.value.items.at(-1);
  if (!last || !calls.value.hasOlder) return Promise.resolve();
  return once("older", async (scope) => {
    const page = await ask(keyOf(last));
    const now = calls.value;
    if (now.items.at(-1)?.id === last.id) put(scope, [...now.items, ...page.items], { hasOlder: !!page.next, hasNewer: now.hasNewer });
  });
}

/** Load calls after the newest one that is loaded. Each call takes an event at least, so a page of so many events has no gap. */
export function loadNewer(): Promise<void> {
  const first = calls.value.items[0];
  if (!first || !calls.value.hasNewer) return Promise.resolve();
  return once("newer", async (scope) => {
    let added: ModelCall[] = [];
    for (let round = 1; round <= NEWER_ROUNDS && !added.length; round += 1) {
      const page = await ask(keyOf(first) + round * CALLS_PAGE);
      added = page.items.filter((call) => keyOf(call) > keyOf(first));
    }
    const now = calls.value;
    if (!added.length) put(scope, (await ask(undefined)).items, { hasOlder: true, hasNewer: false });
    else put(scope, [...added, ...now.items], { hasOlder: now.hasOlder, hasNewer: keyOf(added[0]!) < newest });
  });
}

/** Load the calls around one, if it is not there. */
export async function loadAround(id: string): Promise<void> {
  const seq = seqOf(id);
  if (!calls.value.isLoaded) await loadNewest();
  const now = calls.value;
  if (!seq || now.items.some((call) => call.id === id || call.reply === seq)) return;
  const last = now.items.at(-1);
  if (last && keyOf(last) < seq) return;
  await once(`around ${id}`, async (scope) => {
    const page = await ask(seq + CALLS_PAGE);
    put(scope, page.items, { hasOlder: !!page.next, hasNewer: !!page.items[0] && keyOf(page.items[0]) < newest });
  });
}

/** A call by its id, or by the message that answered it. */
export function findCall(id: string): ModelCall | undefined {
  const seq = seqOf(id);
  return calls.value.items.find((call) => call.id === id) ?? calls.value.items.find((call) => !!seq && call.reply === seq);
}

/** The call before another one in time (step -1), or after it (step 1). */
export function neighbour(id: string, step: -1 | 1): ModelCall | undefined {
  const index = calls.value.items.findIndex((call) => call.id === id);
  return index < 0 ? undefined : calls.value.items[index - step];
}

/** The call before in the same conversation. */
export function callBefore(call: ModelCall): ModelCall | undefined {
  if (call.cache?.previous) return findCall(call.cache.previous);
  const index = calls.value.items.indexOf(call);
  return calls.value.items.slice(index + 1).find((each) => (each.frame ?? null) === (call.frame ?? null));
}

/** What a prompt was made of, in the count of the provider: read from a cache, written to it, and neither. */
export function splitPrompt(call: ModelCall): { read: number; written: number; fresh: number; total: number } {
  const usage = call.usage;
  const total = usage?.input_tokens || call.used || 0;
  const read = Math.min(total, usage?.cache_read_tokens ?? call.cache?.read ?? 0);
  const written = Math.min(total - read, usage?.cache_write_tokens ?? call.cache?.written ?? 0);
  return { read, written, fresh: Math.max(0, total - read - written), total };
}

/** Whether the provider says what came from its cache: none from it and nothing said are not the same. */
export function reportsCache(call: ModelCall): boolean {
  const { read, written } = splitPrompt(call);
  return read > 0 || written > 0 || typeof call.cache?.read === "number";
}

// A session that changes gets its newest calls again.
effect(() => {
  const version = liveVersion.value;
  untracked(() => {
    if (version && parseHash(location.hash).scope && calls.value.isLoaded) void loadNewest();
  });
});
