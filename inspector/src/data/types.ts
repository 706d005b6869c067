// The JSON of /api, as far as the inspector reads it. Times are microseconds, money micro-dollars (1_000_000 = $1).
// Fields with a default can be absent where the server omits defaults; those are optional here.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Page<T> {
  items: T[];
  next?: string;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  attributes?: Record<string, Json>;
}

export interface Access {
  tenant: string;
  actor: string | null;
  principal: string;
  rights: string[];
  user: string | null;
  is_local: boolean;
}

export interface SessionRow {
  tenant: string;
  actor: string;
  session: string;
  thread: string;
  status: string;
  version: number;
  messages: number;
  tokens: number;
  open_calls: number;
  input_tokens: number;
  cache_read_tokens: number;
  output_tokens: number;
  created_us: number;
  updated_us: number;
  parent: string;
}

export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
}

export interface SessionState {
  version: number;
  status: string;
  created_us: number;
  updated_us: number;
  messages: number;
  tokens: number;
  turns?: number;
  usage?: Usage;
  identity?: { user_name?: string; user_id?: string; authority?: string };
  [other: string]: unknown;
}

export interface BlobRef {
  digest: string;
  size: number;
  media_type?: string | null;
}

export type Part =
  | { type: "text"; text: string }
  | { type: "data"; value: Json }
  | { type: "body"; ref: BlobRef; preview?: string; tokens?: number; tail?: number }
  | { type: "image"; ref?: BlobRef | null; url?: string | null }
  | { type: "file"; ref: BlobRef; name?: string | null }
  | { type: "opaque"; issuer: string; body: string | BlobRef };

export interface ToolCall {
  id: string;
  name: string;
  args: Json;
  provider_id?: string | null;
}

export interface ToolResult {
  tool_call_id: string;
  content: Part[];
  is_error?: boolean;
}

export interface Message {
  id: string;
  seq: number;
  role: "system" | "user" | "assistant" | "tool";
  content: Part[];
  tool_calls: ToolCall[];
  tool_results: ToolResult[];
  tokens: number;
  usage: Usage | null;
  source: { provider?: string | null; model?: string | null; id?: string | null; stop?: string | null } | null;
  time_us: number;
  principal: string;
  frame: string | null;
  late?: string;
  skipped?: string | null;
  withdrawn?: number;
}

export type Section =
  | "system" | "identity" | "invariants" | "tools" | "history" | "notes" | "environment" | "situation"
  | "facts" | "working_set" | "recall" | "handles" | "breadcrumbs" | "query";

export const SECTIONS: readonly Section[] = [
  "system", "identity", "invariants", "tools", "history", "notes", "environment", "situation",
  "facts", "working_set", "recall", "handles", "breadcrumbs", "query",
];

export type Fate = "included" | "reduced" | "omitted" | "missing" | "withheld";

export interface ManifestEntry {
  id: string;
  section: Section;
  fate: Fate;
  reason: string;
  tokens?: number;
  source?: string;
  authority?: string;
  priority?: string;
  score?: number;
  rank?: number;
  at?: number;
  to?: number;
  digest?: string;
  share?: number;
}

export interface Exposure {
  at: number;
  fact: string;
  ledger: string[];
  key: string;
}

export interface Manifest {
  scope: { tenant: string; actor: string; session: string; thread: string | null };
  frame: string | null;
  version: number;
  ledgers: [{ tenant: string; kind: string; names: string[] }, number][];
  request: {
    query?: string;
    budget: number;
    effective: number;
    model?: string;
    max_output?: number | null;
    strategy?: string | null;
    profile: { name: string; [other: string]: Json };
    guard?: string;
    as_of_us: number;
    [other: string]: unknown;
  };
  boundary: number;
  entries: ManifestEntry[];
  exposed: Exposure[];
  tokens: { budget: number; used: number; breakdown: Partial<Record<Section, number>>; level?: string; counted?: number; messages?: number };
  counter: string;
  renderer: string;
  policy: string;
  context_hash: string;
}

export interface Tool {
  name: string;
  description?: string;
  parameters?: Json;
}

export interface Brief {
  prompt?: string;
  invariants?: string[];
  working_context?: string;
  tools?: Tool[];
}

export type HistoryItem =
  | { type: "summary"; seq: number; first: number; last: number; messages: number; text: string; tokens: number; replaced?: number; made_by?: string }
  | { type: "group"; messages: Message[]; open: boolean };

export interface HistoryView {
  version: number;
  system: Message[];
  items: HistoryItem[];
  frozen: number;
  tail: string[];
  tokens: number;
}

/** A pack made again: GET /sessions/{s}/packs/{pack}. With `?to=`, `rendered` is the request to that provider. */
export interface PackDocument {
  manifest: Manifest;
  brief?: Brief;
  history: HistoryView;
  tools?: Tool[];
  bodies?: Record<string, string>;
  max_output?: number | null;
  rendered?: Json;
}

export interface PackRecord {
  id: string;
  seq: number;
  frame: string | null;
  context_hash: string;
  budget: number;
  used: number;
  level: string;
  query: string;
  reply?: number;
  time_us: number;
}

export interface PackChange {
  entry: ManifestEntry;
  before: ManifestEntry | null;
  what: "added" | "gone" | "changed" | "in" | "out";
  why: string;
}

export interface PackDiff {
  first: PackRecord;
  second: PackRecord;
  changes: PackChange[];
  same: number;
  /** null: not known, for two calls that an exported file has no answer for. */
  prefix_kept: boolean | null;
}

export interface CallCost {
  fresh: number;
  cache_read: number;
  cache_write: number;
  output: number;
  total: number;
  rewritten?: number;
  model?: string;
}

export interface CacheReport {
  previous?: string;
  kept?: boolean;
  shared?: number;
  read?: number | null;
  written?: number | null;
  rewritten?: number;
  cause?: string;
  at?: string;
  why?: string;
}

export interface Boundary {
  seq: number;
  kind: string;
  why?: string;
  before?: number;
  after?: number;
  window?: number;
  cost?: number;
  saves?: number;
  messages?: number;
  policy?: string;
  pressure?: string | number;
}

export interface ModelCall {
  id: string;
  seq?: number;
  reply?: number;
  pack?: PackRecord | null;
  frame?: string | null;
  time_us: number;
  started_us?: number;
  model?: string;
  provider?: string;
  usage?: Usage | null;
  budget?: number;
  used?: number;
  breakdown?: Partial<Record<Section, number>>;
  cost?: CallCost | null;
  cache?: CacheReport;
  added?: number;
  gone?: number;
  changed?: number;
  redacted?: number;
  exposed?: number;
  boundaries?: Boundary[];
}

export interface Redaction {
  at: number;
  part?: number;
  call?: string;
  /** In code points of the shown text of that part. */
  start: number;
  end: number;
  value: Json;
  mode: "redacted" | "annotated" | "exposed";
  ledger: string[] | string;
  fact: string;
  key: string;
  ended_by?: string;
  ended?: string;
  current?: Json;
}

export interface Activity {
  id: string;
  kind: "turn" | "model" | "tool" | "frame" | "suspension" | "boundary" | "recovery";
  parent?: string;
  label: string;
  start_us: number;
  end_us?: number | null;
  seq?: number;
  end_seq?: number;
  frame?: string | null;
  status: "done" | "running" | "not_started" | "unknown" | "failed" | "suspended" | "waiting" | "cancelled";
  key?: string;
  owner?: string;
  tokens?: number;
  budget?: { total: number; used: number; reserved: number; delegated: number; overdrawn?: number } | null;
  resumable_by?: string[];
  expires_us?: number | null;
  note?: string;
}

export interface Tenant {
  name: string;
  is_own?: boolean;
}

export interface LogFigures {
  tokens?: number;
  cache_read?: number;
  cache_write?: number;
  fresh?: number;
  output?: number;
  cost?: number;
  modelled_cost?: number;
}

export interface DeadValue {
  kind: "fact" | "stale_read";
  what: string;
  at: number;
  died_at: number;
  by: string;
  calls: number;
  tokens: number;
  cost: number;
  /** The outdated value of a fact, and the words of the message around it. */
  value?: string;
  words?: string;
}

export interface LogReport {
  source: { kind: string; file?: string; lines?: number; skipped?: number };
  model?: string;
  is_priced?: boolean;
  calls: number;
  estimated?: number;
  sent: LogFigures;
  holdfast?: LogFigures;
  dead?: DeadValue[];
  dead_values?: number;
  cache_breaks?: { reply: number; tokens_rewritten: number; cost: number; cause: string; why: string }[];
  assumptions?: string[];
  calls_detail?: {
    reply: number; sent_tokens: number; holdfast_tokens: number; dead: number; cost: number; holdfast_cost: number; break?: boolean | string;
  }[];
}
