// Where data comes from: the server, or the file that the page was exported to.
//
// Laws: both answer the same JSON for the same path, so a view never asks which of them it reads. Paths are below /api.
// A key is sent as a header, never stored in a cookie and never put into an address.

import { signal } from "@preact/signals";
import { Sharing } from "./sharing";
import type { Json, Page, Problem } from "./types";

export type Query = Record<string, string | number | boolean | null | undefined>;

export class ApiError extends Error {
  constructor(readonly status: number, readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

export interface ExportDocument {
  format: number;
  made_at: string;
  holdfast: string;
  redaction: string;
  session: { session: string; actor?: string; thread?: string | null } | string | null;
  /** What a bound kept out of the file. */
  left_out?: { path: string; why: string; size?: number }[];
  /** Parts that stand more than once in the answers, and the answers that refer to them: see sharing.ts. */
  shared?: Json[];
  answers: Record<string, Json>;
}

/** What the page was exported with; null while it reads a server. */
export const exported: ExportDocument | null = readExport();

/** Whether the page must ask for a key, and why. */
export const keyWanted = signal<null | "none" | "refused">(null);

const KEY_NAME = "holdfast-key";
const OLDEST_FIRST = new Set(["messages", "evidence", "actions", "attachments"]);
const PAGING = new Set(["page", "limit", "before", "after", "order"]);

function readExport(): ExportDocument | null {
  const element = document.getElementById("holdfast-data");
  if (!element) return null;
  return JSON.parse(element.textContent ?? "null") as ExportDocument;
}

/** The path and its query, sorted by name and encoded, as an export names its answers. Empty values are left out. */
export function canonicalPath(path: string, query: Query = {}): string {
  const pairs = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`);
  return pairs.length ? `${path}?${pairs.join("&")}` : path;
}

/** A path of names: p`/sessions/${name}/packs` encodes each name. */
export function p(texts: TemplateStringsArray, ...names: (string | number)[]): string {
  return texts.reduce((path, text, index) => path + (index ? encodeURIComponent(String(names[index - 1])) : "") + text, "");
}

export function readKey(): string {
  return sessionStorage.getItem(KEY_NAME) ?? localStorage.getItem(KEY_NAME) ?? "";
}

/** Keep a key for this tab and, so that links open in new tabs, for this origin. */
export function storeKey(key: string): void {
  sessionStorage.setItem(KEY_NAME, key);
  localStorage.setItem(KEY_NAME, key);
  keyWanted.value = null;
}

export function forgetKey(): void {
  sessionStorage.removeItem(KEY_NAME);
  localStorage.removeItem(KEY_NAME);
  keyWanted.value = "none";
}

/** Take the key out of the fragment (#key=…), so that it is in no history and no copied link. */
export function takeKeyFromFragment(): void {
  const match = /^#key=([^&]+)(?:&to=(.*))?$/.exec(location.hash);
  if (!match) return;
  storeKey(decodeURIComponent(match[1] ?? ""));
  history.replaceState(null, "", `${location.pathname}${location.search}#${match[2] ? decodeURIComponent(match[2]) : "/"}`);
}

/** Send a request to the server as it is. For streams and bytes; everything else has get, list and post. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = readKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const answer = await fetch(`/api${path}`, { ...init, headers, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" });
  if (answer.ok) return answer;
  if (answer.status === 401) keyWanted.value = key ? "refused" : "none";
  throw new ApiError(answer.status, await readProblem(answer));
}

async function readProblem(answer: Response): Promise<Problem> {
  const unknown = { type: "Unknown", title: answer.statusText || `Status ${answer.status}`, status: answer.status, detail: "" };
  try {
    return { ...unknown, ...((await answer.json()) as Problem) };
  } catch {
    return unknown;
  }
}

function absent(path: string): ApiError {
  const detail = `An exported file holds the answers to a page, and none to ${path}. Open the store itself with "holdfast inspect" to see this.`;
  return new ApiError(404, { type: "NotExported", title: "Not in this file", status: 404, detail });
}

export function isAbsent(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 405 || error.status === 501);
}

const sharing = new Sharing(exported?.shared ?? []);
const answered = new Map<string, Json>();

/** The answer at an address of the exported file. It is read when it is first asked for. */
function readAnswer(address: string): Json | undefined {
  if (!hasExported(address)) return undefined;
  if (!answered.has(address)) answered.set(address, sharing.read(exported!.answers[address]!));
  return answered.get(address);
}

/** An answer of the exported file, or undefined. Lists are stored whole: limit, before and page are applied here. */
function findExported(path: string, query: Query): Json | undefined {
  const exact = readAnswer(canonicalPath(path, query));
  if (exact !== undefined) return exact;
  const rest = Object.fromEntries(Object.entries(query).filter(([name]) => !PAGING.has(name)));
  const whole = readAnswer(canonicalPath(path, rest)) as unknown as Page<{ seq?: number; id?: string; reply?: number }> | undefined;
  if (!whole || !Array.isArray(whole.items)) return undefined;
  return cutPage(path, query, whole.items) as unknown as Json;
}

/** Whether the exported file has an answer for an address. */
export function hasExported(address: string): boolean {
  return exported !== null && Object.hasOwn(exported.answers, address);
}

function cutPage<T extends { seq?: number; id?: string }>(path: string, query: Query, all: T[]): Page<T> {
  let items = all;
  const before = query.before;
  if (typeof before === "number") items = items.filter((item) => (item.seq ?? Infinity) < before);
  else if (typeof before === "string" && before) {
    const index = items.findIndex((item) => item.id === before);
    items = index < 0 ? [] : items.slice(index + 1);
  }
  const start = typeof query.page === "string" && query.page ? Number(query.page) : 0;
  const limit = typeof query.limit === "number" ? query.limit : items.length;
  const isOldestFirst = OLDEST_FIRST.has(path.slice(path.lastIndexOf("/") + 1));
  const end = items.length - start;
  const page = isOldestFirst ? items.slice(Math.max(0, end - limit), end) : items.slice(start, start + limit);
  const isLast = start + page.length >= items.length;
  return isLast ? { items: page } : { items: page, next: String(start + page.length) };
}

const READS = 40;
let reads: string[] = [];

/** The addresses below /api that were read since the view was opened, the first one first. */
export function listReads(): readonly string[] {
  return reads;
}

export function clearReads(): void {
  reads = [];
}

function noteRead(address: string): void {
  if (!reads.includes(address) && reads.length < READS) reads.push(address);
}

/** GET a path below /api. */
export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  noteRead(canonicalPath(path, query));
  if (exported) {
    const answer = findExported(path, query);
    if (answer === undefined) throw absent(canonicalPath(path, query));
    return answer as T;
  }
  return (await (await request(canonicalPath(path, query), { signal })).json()) as T;
}

/** One page of a list. Ask for the next with `page: answer.next`. */
export function getPage<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Page<T>> {
  return get<Page<T>>(path, query, signal);
}

/** A list, page by page until `most` items are there. */
export async function list<T>(path: string, query: Query = {}, most = 1_000, signal?: AbortSignal): Promise<T[]> {
  const items: T[] = [];
  let page: string | undefined;
  do {
    const answer: Page<T> = await getPage<T>(path, { ...query, page }, signal);
    items.push(...answer.items);
    page = answer.next;
  } while (page && items.length < most);
  return items;
}

/** POST to a path below /api. A read by POST is in an export as "POST <path> <JSON with sorted names>". */
export async function post<T>(path: string, body: Json = {}, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const address = canonicalPath(path, query);
  if (exported) {
    const answer = readAnswer(`POST ${address} ${canonicalJson(body)}`);
    if (answer === undefined) throw absent(address);
    return answer as T;
  }
  return (await (await send("POST", address, body, signal)).json()) as T;
}

/** Send a write with a JSON body: PUT, PATCH, DELETE. */
export async function write<T>(method: "POST" | "PUT" | "PATCH" | "DELETE", path: string, body?: Json, query: Query = {}): Promise<T> {
  if (exported) throw new ApiError(403, { type: "ReadOnly", title: "Read only", status: 403, detail: "An exported file cannot be changed." });
  return (await (await send(method, canonicalPath(path, query), body)).json()) as T;
}

function send(method: string, address: string, body?: Json, signal?: AbortSignal): Promise<Response> {
  const content = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return request(address, { method, signal, ...content });
}

/** JSON with sorted names and without spaces. */
export function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name] as Json)}`).join(",")}}`;
}
