// The ledgers that a session reads, their facts, and what explains a fact.
//
// Law: an explanation comes from /facts/why; an exported file without it has the lists of facts, which say the same.

import {
  get, getPage, isAbsent, list, p,
  type Fact, type FactExplanation, type Json, type Message, type Query, type SessionState,
} from "../../data";
import { previewJson } from "../../components";
import { link, scopeQuery, type Scope } from "../../router";

/** Facts of one ledger that are loaded. Search finds the others. */
export const MOST_FACTS = 2_000;

export interface LedgerFacts {
  /** As in addresses and manifests: "user maya", "session main/trip-1". */
  name: string;
  path: string;
  facts: Fact[];
  isCut: boolean;
}

export interface LedgerRef {
  kind: string;
  names: string[];
}

export function ledgerName(ref: LedgerRef): string {
  return `${ref.kind} ${ref.names.join("/")}`;
}

export function ledgerOf(fact: Fact): LedgerRef {
  return fact.ledger ?? { kind: "session", names: [] };
}

/** How people read the name of a ledger. */
export function ledgerTitle(ref: LedgerRef, scope: Scope): string {
  if (ref.kind === "session") return ref.names.includes(scope.session) ? "This session" : `Session ${ref.names.join("/")}`;
  return `${ref.kind.charAt(0).toUpperCase()}${ref.kind.slice(1)} ${ref.names.join("/")}`;
}

export function parseLedger(name: string): LedgerRef {
  const space = name.indexOf(" ");
  return space < 0 ? { kind: name, names: [] } : { kind: name.slice(0, space), names: [name.slice(space + 1)] };
}

/** Where the facts of a ledger are below /api, as the session sees them. */
export function ledgerPath(scope: Scope, ref: LedgerRef): string {
  return ref.kind === "session" ? p`/sessions/${scope.session}` : wholePath(scope, ref);
}

/** Where one fact and the reviews of a ledger are. */
export function wholePath(scope: Scope, ref: LedgerRef): string {
  const name = ref.kind === "session" ? scope.session : ref.names.join("/");
  return p`/sessions/${scope.session}/ledgers/${ref.kind}/${name}`;
}

export function linkToFact(fact: Fact): string {
  return link("facts", [ledgerName(ledgerOf(fact)), fact.id]);
}

/** The ledgers of a session: its own, then those that it reads. */
export function ledgersOf(scope: Scope, state: SessionState): LedgerRef[] {
  const read = Array.isArray(state.ledgers) ? (state.ledgers as string[][]) : [];
  const own: LedgerRef = { kind: "session", names: [scope.actor || "main", scope.session, ...(scope.thread ? [scope.thread] : [])] };
  return [own, ...read.map(([kind = "", ...names]) => ({ kind, names }))];
}

export async function loadFacts(scope: Scope, status: "live" | "dead", signal: AbortSignal): Promise<LedgerFacts[]> {
  const state = await get<SessionState>(p`/sessions/${scope.session}`, scopeQuery(scope), signal);
  const query: Query = { ...scopeQuery(scope), within: "any", ...(status === "dead" ? { status } : {}) };
  return Promise.all(
    ledgersOf(scope, state).map(async (ref) => {
      const path = ledgerPath(scope, ref);
      let facts: Fact[];
      try {
        facts = await list<Fact>(`${path}/facts`, { ...query, limit: 500 }, MOST_FACTS, signal);
      } catch (error) {
        if (!isAbsent(error)) throw error;
        facts = [];
      }
      const first = facts[0];
      return { name: ledgerName(first ? ledgerOf(first) : ref), path, facts, isCut: facts.length >= MOST_FACTS };
    }),
  );
}

export interface FactPage {
  fact: Fact;
  why: FactExplanation;
  /** Facts that hold, and rest on an earlier value of the key. */
  overtaken: Fact[];
}

/** A fact and what explains it. */
export async function loadFact(scope: Scope, ledger: LedgerRef, id: string, signal: AbortSignal): Promise<FactPage> {
  const path = ledgerPath(scope, ledger);
  const query = scopeQuery(scope);
  try {
    const fact = await get<Fact>(`${wholePath(scope, ledger)}/facts/fact`, { ...query, fact: id }, signal);
    const why = await askWhy(scope, path, fact, signal);
    return { fact, why, overtaken: why.chain.length ? findOvertaken(await listLive(path, query, signal), why) : [] };
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return explain(scope, path, id, error, signal);
  }
}

function listLive(path: string, query: Query, signal: AbortSignal): Promise<Fact[]> {
  return list<Fact>(`${path}/facts`, { ...query, within: "any", limit: 500 }, MOST_FACTS, signal);
}

/** What rests on values that have ended: the current value says nothing of it. */
function findOvertaken(live: readonly Fact[], why: FactExplanation): Fact[] {
  const ended = new Set(why.chain.map((each) => each.id).filter((id) => id !== why.current?.id));
  return live.filter((each) => !each.against && each.depends_on?.some((id) => ended.has(id)));
}

function askWhy(scope: Scope, path: string, fact: Fact, signal: AbortSignal): Promise<FactExplanation> {
  const place = fact.scope && fact.scope !== "global" ? { scope: fact.scope, scope_id: fact.scope_id } : {};
  return get<FactExplanation>(`${path}/facts/why`, { ...scopeQuery(scope), name: fact.key, ...place }, signal);
}

/** Explain a fact from the lists of its ledger. */
async function explain(scope: Scope, path: string, id: string, error: unknown, signal: AbortSignal): Promise<FactPage> {
  const query: Query = { ...scopeQuery(scope), within: "any" };
  const live = await listLive(path, scopeQuery(scope), signal);
  const dead = await list<Fact>(`${path}/facts`, { ...query, status: "dead" }, MOST_FACTS, signal);
  const all = [...dead, ...live];
  const fact = all.find((each) => each.id === id);
  if (!fact) throw error;
  const why = await askWhy(scope, path, fact, signal).catch(() => null);
  if (why) return { fact, why, overtaken: findOvertaken(live, why) };
  const isSame = (each: Fact): boolean => each.key === fact.key && (each.scope ?? "") === (fact.scope ?? "") && (each.scope_id ?? "") === (fact.scope_id ?? "");
  const find = (ids: readonly string[] = []): Fact[] => ids.flatMap((each) => all.find((one) => one.id === each) ?? []);
  const current = live.find((each) => isSame(each) && !each.against) ?? null;
  const found: FactExplanation = {
    key: fact.key, current,
    chain: dead.filter(isSame).reverse(),
    claims: live.filter((each) => isSame(each) && each.against),
    depends_on: find((current ?? fact).depends_on),
    derived: all.filter((each) => each.depends_on?.includes((current ?? fact).id)),
    story: [],
  };
  return { fact, why: found, overtaken: findOvertaken(live, found) };
}

export type FactState = "holds" | "claim" | "superseded" | "retracted" | "expired" | "ended";

export function stateOf(fact: Fact, nowUs = Date.now() * 1000): FactState {
  const status = fact.status ?? "live";
  if (status !== "live") return status === "superseded" || status === "retracted" || status === "expired" ? status : "ended";
  if (fact.expires_us && fact.expires_us <= nowUs) return "expired";
  return fact.against ? "claim" : "holds";
}

export function valueText(value: Json, most = 200): string {
  return typeof value === "string" ? value : previewJson(value, most);
}

export function whoSaid(fact: Fact): string {
  const { identity, name } = fact.source ?? {};
  return identity && name ? `${identity} (${name})` : identity || name || "the program";
}

/** One message, from the list of messages, so that an exported file has it. */
export async function loadMessage(scope: Scope, seq: number, signal: AbortSignal): Promise<Message | null> {
  const page = await getPage<Message>(p`/sessions/${scope.session}/messages`, { ...scopeQuery(scope), before: seq + 1, limit: 1 }, signal);
  const message = page.items.at(-1);
  return message?.seq === seq ? message : null;
}

export function matches(fact: Fact, words: readonly string[]): boolean {
  const text = `${fact.key} ${valueText(fact.value, 2_000)} ${fact.source?.identity ?? ""} ${fact.source?.name ?? ""} ${fact.source?.authority ?? ""} ${fact.id}`.toLowerCase();
  return words.every((word) => text.includes(word));
}
