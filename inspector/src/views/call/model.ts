// What the view of a call computes from a pack: rows of candidates, rows of the conversation, parts of the bar.

import type { BarPart, Tone } from "../../components";
import { SECTIONS, type Fate, type HistoryItem, type HistoryView, type Manifest, type ManifestEntry, type Message, type Redaction, type Section } from "../../data";
import { formatNumber, formatShare, plural } from "../../format";

export const SECTION_NAMES: Record<Section, string> = {
  system: "System", identity: "Identity", invariants: "Rules", tools: "Tools", history: "History", notes: "Notes",
  environment: "Environment", situation: "Situation", facts: "Facts", working_set: "Working set", recall: "Recall",
  handles: "Handles", breadcrumbs: "Frames", query: "Query",
};

export function sectionName(section: string): string {
  return SECTION_NAMES[section as Section] ?? section;
}

const SHOWN: readonly Fate[] = ["included", "reduced"];

export function isShown(entry: ManifestEntry): boolean {
  return SHOWN.includes(entry.fate);
}

export interface SectionGroup {
  section: Section;
  entries: ManifestEntry[];
  /** The tokens in the pack. */
  tokens: number;
  /** The tokens that the omitted ones would have taken. */
  omitted: number;
  counts: Partial<Record<Fate, number>>;
}

/** The candidates by section, in the order of the pack. */
export function groupSections(manifest: Manifest): SectionGroup[] {
  const groups = new Map<Section, ManifestEntry[]>();
  for (const entry of manifest.entries) {
    const entries = groups.get(entry.section);
    if (entries) entries.push(entry);
    else groups.set(entry.section, [entry]);
  }
  for (const section of Object.keys(manifest.tokens.breakdown) as Section[]) if (!groups.has(section)) groups.set(section, []);
  const order = (section: Section) => (SECTIONS.indexOf(section) + SECTIONS.length + 1) % (SECTIONS.length + 1);
  return [...groups]
    .sort(([a], [b]) => order(a) - order(b))
    .map(([section, entries]) => {
      const counts: Partial<Record<Fate, number>> = {};
      for (const entry of entries) counts[entry.fate] = (counts[entry.fate] ?? 0) + 1;
      const omitted = entries.reduce((sum, entry) => sum + (isShown(entry) ? 0 : (entry.tokens ?? 0)), 0);
      return { section, entries, tokens: manifest.tokens.breakdown[section] ?? 0, omitted, counts };
    });
}

/** The parts of the bar: for each section what is included, and what is reduced. */
export function barParts(groups: readonly SectionGroup[], budget: number): BarPart[] {
  return groups.flatMap((group) => {
    const reduced = group.entries.reduce((sum, entry) => sum + (entry.fate === "reduced" ? (entry.tokens ?? 0) : 0), 0);
    const share = Math.min(group.tokens, reduced);
    const name = sectionName(group.section);
    const about = (tokens: number, word: string) => `${name}: ${plural(tokens, "token")} ${word}, ${formatShare(tokens, budget)} of the budget`;
    const parts: BarPart[] = [];
    if (share > 0) parts.push({ key: `${group.section} reduced`, label: name, value: share, tone: "reduced", title: about(share, "reduced") });
    if (group.tokens > share) parts.push({ key: group.section, label: share > 0 ? "" : name, value: group.tokens - share, tone: "included", title: about(group.tokens - share, "included") });
    return parts;
  });
}

export type ReadRow =
  | { key: string; kind: "message"; section: Section; message: Message; group: readonly Message[] }
  | { key: string; kind: "summary"; item: Extract<HistoryItem, { type: "summary" }> }
  | { key: string; kind: "tools"; names: string[] }
  | { key: string; kind: "tail"; text: string; section: Section }
  | { key: string; kind: "heading"; section: string; text: string };

const TAIL_STARTS: [string, Section][] = [
  ["Now:", "environment"], ["Environment", "environment"], ["Situation:", "situation"], ["Current facts", "facts"], ["Working set", "working_set"],
  ["Recalled", "recall"], ["Selected content", "handles"], ["Work in progress", "breadcrumbs"], ["Notes", "notes"],
];

export function tailSection(text: string): Section {
  return TAIL_STARTS.find(([start]) => text.startsWith(start))?.[1] ?? "query";
}

/** The conversation as the model read it, as rows. A message whose results answer the calls before it is shown with them. */
export function readRows(history: HistoryView, tools: readonly { name: string }[]): ReadRow[] {
  const rows: ReadRow[] = [];
  const systemSections: Record<string, Section> = { brief: "system", identity: "identity", invariants: "invariants" };
  history.system.forEach((message, index) => {
    rows.push({ key: `system-${index}`, kind: "message", section: systemSections[message.id] ?? "system", message, group: [message] });
  });
  if (tools.length) rows.push({ key: "tools", kind: "tools", names: tools.map((tool) => tool.name) });
  history.items.forEach((item, index) => {
    if (index === history.frozen && index > 0) rows.push({ key: "boundary", kind: "heading", section: "history", text: "since the last boundary" });
    if (item.type === "summary") {
      rows.push({ key: `summary-${item.seq}-${item.first}`, kind: "summary", item });
      return;
    }
    for (const message of item.messages) {
      if (message.role === "tool" && message.tool_results.length && item.messages.length > 1) continue;
      rows.push({ key: `m${message.seq}`, kind: "message", section: "history", message, group: item.messages });
    }
  });
  history.tail.forEach((text, index) => {
    if (text.startsWith("<holdfast-context>") || text.startsWith("</holdfast-context>")) return;
    rows.push({ key: `tail-${index}`, kind: "tail", text, section: tailSection(text) });
  });
  return rows;
}

/** Where a section begins among the rows. */
export function rowOfSection(rows: readonly ReadRow[], section: string): string | undefined {
  const found = rows.find((row) => {
    if (row.kind === "summary") return section === "history";
    if (row.kind === "tools") return section === "tools";
    return row.section === section;
  });
  return found?.key;
}

/** Redactions by the message or summary that they are in. */
export function groupRedactions(redactions: readonly Redaction[]): Map<number, Redaction[]> {
  const groups = new Map<number, Redaction[]>();
  for (const redaction of redactions) groups.set(redaction.at, [...(groups.get(redaction.at) ?? []), redaction]);
  return groups;
}

export const MODE_TONES: Record<Redaction["mode"], Tone> = { redacted: "plain", annotated: "reduced", exposed: "danger" };

export function describeUse(used: number, budget: number): string {
  return `${formatNumber(used)} of ${plural(budget, "token")}`;
}
