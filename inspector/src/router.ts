// Routes in the fragment: #/s/<session>/<view>/<rest…>?actor=…&thread=…&…
//
// Law: everything that can be pointed at has an address. A name is percent-encoded; an address never holds a key.

import { computed, signal } from "@preact/signals";
import { canonicalPath, exported, hasExported, p, type Query } from "./data";

export interface Scope {
  session: string;
  actor: string;
  thread: string;
}

export interface Route {
  /** null on the pages of the store. */
  scope: Scope | null;
  /** The name of the view: "home", "store", or a view of a session. */
  view: string;
  /** What follows the view in the path. */
  rest: string[];
  /** Other parts of the query than actor and thread. */
  query: Record<string, string>;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parseHash(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#/, "").split("?", 2);
  const names = path.split("/").filter(Boolean).map(decode);
  const query = Object.fromEntries(new URLSearchParams(search));
  if (names[0] !== "s" || !names[1]) return { scope: null, view: names[0] ?? "home", rest: names.slice(1), query };
  const { actor = "", thread = "", ...others } = query;
  return { scope: { session: names[1], actor, thread }, view: names[2] ?? "call", rest: names.slice(3), query: others };
}

export const route = signal<Route>(parseHash(location.hash));
/** The scope as one text: changes only if another session is shown. */
export const scopeKey = computed(() => JSON.stringify(route.value.scope));

window.addEventListener("hashchange", () => {
  route.value = parseHash(location.hash);
});

/** The address of a route. Names that are not given are those of the current session. */
export function link(view: string, rest: (string | number)[] = [], query: Query = {}, scope: Scope | null = route.value.scope): string {
  const isStore = scope === null || view === "home" || view === "store";
  const names = isStore ? (view === "home" ? [] : [view, ...rest]) : ["s", scope.session, view, ...rest];
  const all: Query = isStore ? query : { actor: scope.actor, thread: scope.thread, ...query };
  const pairs = Object.entries(all)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`);
  return `#/${names.map((name) => encodeURIComponent(String(name))).join("/")}${pairs.length ? `?${pairs.join("&")}` : ""}`;
}

export function go(address: string, options: { replace?: boolean } = {}): void {
  if (options.replace) {
    history.replaceState(null, "", address);
    route.value = parseHash(address);
  } else {
    location.hash = address;
  }
}

/** actor and thread, as /api takes them. */
export function scopeQuery(scope: Scope): Query {
  return { actor: scope.actor, thread: scope.thread };
}

/** The session of an exported file. */
function exportedScope(): Scope | null {
  const of = exported?.session;
  if (!of) return null;
  return typeof of === "string" ? { session: of, actor: "", thread: "" } : { session: of.session, actor: of.actor ?? "", thread: of.thread ?? "" };
}

/** A file that is opened without a place in it shows its session; one with the report on a log, the report. */
export function openExported(): void {
  const scope = exportedScope();
  if (!scope || !/^#?\/?$/.test(location.hash)) return;
  const hasReport = hasExported(canonicalPath(p`/sessions/${scope.session}/entries/report`, scopeQuery(scope)));
  history.replaceState(null, "", hasReport ? "#/" : link("call", [], {}, scope));
}
