// Where the search palette looks. Each source is one request, or a filter over what is loaded.

import { oneLine, textOfParts } from "../components";
import { can, exported, get, getPage, list, p, type FactMatch, type FrameState, type Fact, type Message, type ModelCall, type Passage, type SessionRow, type SessionState } from "../data";
import { formatAgo, formatNumber } from "../format";
import type { Binding } from "../keys";
import { link, route, scopeQuery, type Scope } from "../router";
import { VIEWS } from "../views";
import { ledgersOf, ledgerPath, linkToFact, matches, valueText } from "../views/facts/model";

export interface Found {
  id: string;
  title: string;
  text?: string;
  hint?: string;
  /** The hint is a key. */
  isKey?: boolean;
  address?: string;
  run?: () => void;
}

export interface Source {
  name: string;
  /** Also shown before anything is typed. */
  isListed?: boolean;
  isThere: () => boolean;
  find: (query: string, words: readonly string[], signal: AbortSignal) => Promise<Found[]>;
}

const SESSIONS = 200;
const CALLS = 100;
const MESSAGES = 8;

const has = (text: string, words: readonly string[]): boolean => {
  const low = text.toLowerCase();
  return words.every((word) => low.includes(word));
};

export function findViews(words: readonly string[]): Found[] {
  return VIEWS
    .filter((view) => (view.of === "store" || route.value.scope !== null) && (view.name !== "store" || (can("admin") && !exported)) && has(view.label, words))
    .map((view) => ({ id: `view ${view.name}`, title: view.label, hint: `g ${view.letter}`, isKey: true, address: link(view.name) }));
}

export function findCommands(words: readonly string[], bound: readonly Binding[]): Found[] {
  const last = new Map(bound.filter((each) => each.group !== "Go to" && each.keys !== "/").map((each) => [each.keys, each]));
  return [...last.values()].filter((each) => has(each.label, words)).map((each) => ({ id: `command ${each.keys}`, title: each.label, text: each.group, hint: each.keys, isKey: true, run: each.run }));
}

/** An address that is typed: m112, p304, k9, f200. */
function findAddress(query: string): Found[] {
  const scope = route.value.scope;
  const match = /^([mpf])(\d+)$/.exec(query);
  if (!scope || !match) return [];
  const seq = Number(match[2]);
  if (match[1] === "m") return [{ id: `go m${seq}`, title: `Message m${seq}`, hint: "go to", address: link("messages", [seq]) }, { id: `go call m${seq}`, title: `The call that m${seq} answered`, hint: "go to", address: link("call", [query]) }];
  if (match[1] === "p") return [{ id: `go ${query}`, title: `Call ${query}`, hint: "go to", address: link("call", [query]) }];
  return [{ id: `go ${query}`, title: `Frame ${query}`, hint: "go to", address: link("run", [query]) }];
}

const isInSession = (): boolean => route.value.scope !== null;

function addressOf(row: SessionRow): Scope {
  return { session: row.session, actor: row.actor === "main" ? "" : row.actor, thread: row.thread };
}

async function findSessions(_query: string, words: readonly string[], signal: AbortSignal): Promise<Found[]> {
  const page = await getPage<SessionRow>("/sessions", { order: "recent", limit: SESSIONS }, signal);
  return page.items
    .filter((row) => has(`${row.actor} ${row.session} ${row.thread}`, words))
    .map((row) => ({
      id: `session ${row.actor} ${row.session} ${row.thread}`, title: row.session,
      text: [row.actor === "main" ? "" : row.actor, row.thread, `${formatNumber(row.messages)} messages`].filter(Boolean).join(" · "),
      hint: formatAgo(row.updated_us), address: link("call", [], {}, addressOf(row)),
    }));
}

async function findCalls(_query: string, words: readonly string[], signal: AbortSignal): Promise<Found[]> {
  const scope = route.value.scope!;
  const page = await getPage<ModelCall>(p`/sessions/${scope.session}/model-calls`, { ...scopeQuery(scope), limit: CALLS }, signal);
  return page.items
    .filter((call) => has(`${call.id} ${call.model ?? ""} ${call.pack?.query ?? ""} ${call.cache?.cause ?? ""}`, words))
    .map((call) => ({ id: `call ${call.id}`, title: call.id, text: oneLine(call.pack?.query ?? call.model ?? "", 120), hint: formatAgo(call.time_us), address: link("call", [call.id]) }));
}

/** The part of a text around the first word that was searched for. */
function excerpt(text: string, words: readonly string[]): string {
  const low = text.toLowerCase();
  const at = Math.max(0, Math.min(...words.map((word) => low.indexOf(word)).filter((index) => index >= 0), text.length));
  return `${at > 50 ? "…" : ""}${oneLine(text.slice(at > 50 && at < text.length ? at - 40 : 0), 140)}`;
}

async function findMessages(query: string, words: readonly string[], signal: AbortSignal): Promise<Found[]> {
  const scope = route.value.scope!;
  if (exported) {
    const messages = await list<Message>(p`/sessions/${scope.session}/messages`, scopeQuery(scope), Infinity, signal);
    return messages
      .map((message) => ({ message, text: textOfParts([...message.content, ...message.tool_results.flatMap((result) => result.content)]) }))
      .filter(({ text }) => has(text, words))
      .slice(-MESSAGES).reverse()
      .map(({ message, text }) => ({ id: `message ${message.seq}`, title: `m${message.seq}`, text: excerpt(text, words), hint: message.role, address: link("messages", [message.seq]) }));
  }
  const answer = await getPage<Passage>(p`/sessions/${scope.session}/search`, { ...scopeQuery(scope), query, limit: MESSAGES }, signal);
  const first = [...new Map(answer.items.toReversed().map((passage) => [passage.seq, passage])).values()].toReversed();
  return first.map((passage) => ({ id: `message ${passage.id}`, title: `m${passage.seq}`, text: excerpt(passage.text, words), hint: passage.role, address: link("messages", [passage.seq]) }));
}

async function findFacts(query: string, words: readonly string[], signal: AbortSignal): Promise<Found[]> {
  const scope = route.value.scope!;
  const show = (fact: Fact): Found => ({ id: `fact ${JSON.stringify(fact.ledger)} ${fact.id}`, title: fact.key, text: valueText(fact.value), hint: fact.against ? "claim" : fact.id, address: linkToFact(fact) });
  if (exported) {
    const state = await get<SessionState>(p`/sessions/${scope.session}`, scopeQuery(scope), signal);
    const lists = await Promise.all(ledgersOf(scope, state).map((ref) => list<Fact>(`${ledgerPath(scope, ref)}/facts`, { ...scopeQuery(scope), within: "any" }, Infinity, signal).catch(() => [])));
    return lists.flat().filter((fact) => matches(fact, words)).map(show);
  }
  const answer = await getPage<FactMatch>(p`/sessions/${scope.session}/facts/search`, { ...scopeQuery(scope), query, limit: 8 }, signal);
  return answer.items.map(({ fact, ledger }) => show({ ...fact, ledger }));
}

async function findFrames(_query: string, words: readonly string[], signal: AbortSignal): Promise<Found[]> {
  const scope = route.value.scope!;
  const frames = await list<FrameState>(p`/sessions/${scope.session}/frames`, scopeQuery(scope), 500, signal);
  return frames.filter((frame) => has(`${frame.id} ${frame.goal} ${frame.status ?? ""}`, words)).map((frame) => ({ id: `frame ${frame.id}`, title: frame.goal, text: frame.id, hint: frame.status ?? "active", address: link("run", [frame.id]) }));
}

export const SOURCES: readonly Source[] = [
  { name: "Go to", isThere: isInSession, find: (query) => Promise.resolve(findAddress(query)) },
  { name: "Facts", isThere: isInSession, find: findFacts },
  { name: "Messages", isThere: isInSession, find: findMessages },
  { name: "Calls", isThere: isInSession, find: findCalls },
  { name: "Frames", isThere: isInSession, find: findFrames },
  { name: "Sessions", isListed: true, isThere: () => true, find: findSessions },
];
