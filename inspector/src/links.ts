// Addresses of the things that views point at.

import { link, type Scope } from "./router";

export function linkToCall(id: string, query: Record<string, string> = {}): string {
  return link("call", [id], query);
}

export function linkToMessage(seq: number): string {
  return link("messages", [seq]);
}

export function linkToSession(scope: Scope): string {
  return link("call", [], {}, scope);
}

/** A ledger in one text, as manifests name it: "user maya", "session main/trip-1". */
export function ledgerName(ledger: string | readonly string[]): string {
  if (typeof ledger === "string") return ledger;
  const [kind = "", ...names] = ledger;
  return `${kind} ${names.join("/")}`;
}

/** The page of a fact. In the address, the ledger is one name: "user maya". */
export function linkToFact(ledger: string | readonly string[], fact: string): string {
  return link("facts", [ledgerName(ledger), fact]);
}

/** The ledger and the fact in the id of a candidate such as "k2@user maya". */
export function parseFactId(id: string): { fact: string; ledger: string } | null {
  const match = /^(k\d+)@(.+)$/s.exec(id);
  return match ? { fact: match[1]!, ledger: match[2]! } : null;
}
