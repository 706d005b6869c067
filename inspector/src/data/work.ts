// More JSON of /api: facts, frames, suspended work, memory, and the work of a store.

import type { Json, Usage } from "./types";

export interface LedgerId {
  tenant: string;
  kind: string;
  names: string[];
}

export interface FactSource {
  type?: string;
  name?: string;
  identity?: string;
  authority?: string;
  turn?: number | null;
  event?: number | null;
}

export interface Mention {
  actor: string;
  session: string;
  seq: number;
  /** In code points of the text of the message. */
  start: number;
  end: number;
  thread?: string;
}

export interface Fact {
  id: string;
  key: string;
  value: Json;
  ledger?: LedgerId | null;
  ref?: string;
  source?: FactSource;
  memory_type?: string;
  scope?: string;
  scope_id?: string;
  at_us?: number;
  valid_from_us?: number;
  expires_us?: number | null;
  status?: string;
  against?: string;
  supersedes?: string[];
  superseded_by?: string | null;
  depends_on?: string[];
  derived_facts?: string[];
  review?: string;
  disputes?: { by: string; authority: string; at_us?: number }[];
  is_constraint?: boolean;
  constraint_type?: string | null;
  requires?: string[];
  provenance?: string[];
  mentions?: Mention[];
  reason?: string;
  ended_us?: number | null;
  rule?: string | null;
  why?: string;
}

export interface FactExplanation {
  key: string;
  current: Fact | null;
  chain: Fact[];
  claims: Fact[];
  depends_on: Fact[];
  derived: Fact[];
  story: { time_us: number; fact: string; what: string }[];
}

export interface FactMatch {
  fact: Fact;
  ledger: LedgerId;
  score: number;
}

export interface OpenProposal {
  id: string;
  ledger: string[];
  message: number;
  proposal: {
    change: string;
    rule: string;
    reason: string;
    confidence: number;
    fact?: string | null;
    key?: string;
    value?: Json;
    origin?: string;
    new?: { seq: number; start: number; end: number } | null;
  };
}

export interface FrameBudget {
  total?: number;
  used?: number;
  reserved?: number;
  delegated?: number;
}

export interface Suspension {
  reason: string;
  by: string;
  at_us: number;
  holder?: string;
  expires_us?: number | null;
  resumable_by?: string[];
}

export interface FrameState {
  id: string;
  parent?: string | null;
  root?: string;
  goal: string;
  status?: string;
  depth?: number;
  budget?: FrameBudget;
  usage?: Usage;
  reservations?: { id: string; purpose: string; amount: number }[];
  children?: number;
  tool_calls?: number;
  messages?: number;
  created_us: number;
  completed_us?: number | null;
  suspension?: Suspension | null;
}

export interface OpenCall {
  id: string;
  name: string;
  provider_id?: string | null;
  frame?: string | null;
  key?: string | null;
  attempts?: number;
}

export interface SuspendedFrame {
  scope: { tenant: string; actor: string; session: string; thread: string | null };
  frame: string;
  reason: string;
  by: string;
  at_us: number;
  expires_us: number | null;
  resumable_by: string[];
  status: string;
}

export interface Recovery {
  frame_stack: FrameState[];
  pending_work: { kind: string; frame?: string | null; description: string; call?: string | null; key?: string | null }[];
  frames_recovered: number;
  last_event_seq: number;
  recovery_ms: number;
}

export interface Withdrawal {
  seq: number;
  messages?: number[] | number;
  grown?: boolean;
  [other: string]: unknown;
}

export interface Passage {
  id: string;
  text: string;
  score: number;
  reason: string;
  kind: string;
  role: string;
  speaker: string;
  session: string;
  time_us: number;
  tokens: number;
  stream: { tenant: string; kind: string; key: string[] };
  seq: number;
  part: number;
  handle: string;
  start: number;
}

export interface MemoryAnswer {
  query: string;
  budget: number;
  passages: Passage[];
  facts?: Fact[];
  [other: string]: unknown;
}

export interface UserKnowledge {
  user: string;
  facts: Fact[];
  passages: Passage[];
  [other: string]: unknown;
}

export interface PassageTotals {
  passages: number;
  sessions: number;
  text_bytes: number;
  oldest_us: number | null;
  newest_us: number | null;
}

export interface Offload {
  scope: { tenant: string; actor: string; session: string; thread: string | null };
  entry: number;
  why: string;
  first: number;
  last: number;
  at_us: number;
  key: string;
}

export interface Delivery {
  offload: Offload;
  owner?: string;
  until_us?: number;
  attempts?: number;
  next_us?: number;
  error?: string;
  is_set_aside?: boolean;
}

export interface DeliveryBacklog {
  waiting: Delivery[];
  set_aside: Delivery[];
}

export interface StoreTotals {
  streams: number;
  events: number;
  keys: number;
  bytes_on_disk: number;
  entries?: number;
  entry_bytes?: number;
}

export interface Job {
  id: string;
  what: string;
  status: "waiting" | "running" | "done" | "failed" | "cancelled";
  by: string;
  created_us: number;
  done?: number;
  total?: number;
  ended_us?: number | null;
  result?: Json;
  error?: { title?: string; detail?: string } | null;
}

export interface DoctorReport {
  ok: boolean;
  bad: number;
  warn: number;
  checks: { name: string; verdict: "ok" | "warn" | "bad" | string; found: string; advice: string }[];
}

export interface VerifyReport {
  events: number;
  streams: number;
  problems: Json[];
}
