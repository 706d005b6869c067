// Every candidate of the pack in its order, with its fate and the reason. What was left out is there as a ghost.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { FateMark, Name, showText, Tokens, VirtualList, type VirtualHandle } from "../../components";
import type { Fate, ManifestEntry } from "../../data";
import { formatNumber, formatShare } from "../../format";
import { isShown, sectionName, type SectionGroup } from "./model";

export type FateFilter = "all" | Fate;

type Row = { kind: "section"; group: SectionGroup } | { kind: "entry"; entry: ManifestEntry; most: number; heading: string };

function describeCounts(group: SectionGroup): string {
  return (["included", "reduced", "omitted", "missing", "withheld"] as const)
    .filter((fate) => group.counts[fate])
    .map((fate) => `${formatNumber(group.counts[fate])} ${fate}`)
    .join(", ");
}

export function CandidateRow({ entry, most, isPicked, onPick, heading }: { entry: ManifestEntry; most: number; isPicked: boolean; heading?: string; onPick: (entry: ManifestEntry) => void }): JSX.Element {
  const tokens = entry.tokens ?? 0;
  return (
    <button type="button" class={`candidate fate-${entry.fate} ${isPicked ? "is-picked" : ""}`} aria-pressed={isPicked} onClick={() => onPick(entry)}>
      <span class="candidate-fate"><FateMark fate={entry.fate} short /></span>
      <span class="candidate-id truncate">{heading && <span class="candidate-section">{heading} </span>}<span class="mono"><Name text={entry.id} /></span></span>
      <span class="candidate-tokens num">{tokens ? <Tokens count={tokens} /> : <span class="faint">0</span>}</span>
      <span class="candidate-reason">
        {showText(entry.reason)}
        {entry.source && entry.source !== entry.id && <span class="faint"> · {showText(entry.source)}</span>}
      </span>
      <span class="candidate-rank faint num">
        {entry.share !== undefined && entry.share < 1 && entry.fate === "reduced" ? `${formatShare(entry.share, 1)} shown` : entry.score ? `score ${entry.score.toFixed(2)}` : entry.rank ? `#${entry.rank}` : ""}
      </span>
      <span class="candidate-meter" aria-hidden="true"><span class={isShown(entry) ? `fill-${entry.fate}` : "fill-omitted"} style={{ width: `${(100 * tokens) / Math.max(1, most)}%` }} /></span>
    </button>
  );
}

export function CandidateList({ groups, filter, picked, onPick, target, onSection }: {
  groups: readonly SectionGroup[];
  filter: FateFilter;
  picked: string;
  onPick: (entry: ManifestEntry) => void;
  target: { section: string; round: number } | null;
  onSection: (section: string) => void;
}): JSX.Element {
  const rows = useMemo(() => {
    const found = new Map<string, Row>();
    const most = Math.max(1, ...groups.flatMap((group) => group.entries.map((entry) => entry.tokens ?? 0)));
    for (const group of groups) {
      const entries = group.entries.filter((entry) => filter === "all" || entry.fate === filter);
      if (!entries.length && filter !== "all") continue;
      const isAlone = entries.length === 1 && group.entries.length === 1;
      const heading = isAlone ? sectionName(group.section) : "";
      if (isAlone) {
        found.set(`section ${group.section}`, { kind: "entry", entry: entries[0]!, most, heading });
        continue;
      }
      found.set(`section ${group.section}`, { kind: "section", group });
      entries.forEach((entry, index) => found.set(found.has(`entry ${entry.id}`) ? `entry ${entry.id} ${index}` : `entry ${entry.id}`, { kind: "entry", entry, most, heading }));
    }
    return found;
  }, [groups, filter]);
  const keys = useMemo(() => [...rows.keys()], [rows]);
  const handle = useRef<VirtualHandle | null>(null);
  useEffect(() => {
    if (target) handle.current?.scrollTo(`section ${target.section}`);
  }, [target]);
  useEffect(() => {
    if (picked && rows.has(`entry ${picked}`)) handle.current?.scrollTo(`entry ${picked}`, "center");
  }, []);
  return (
    <VirtualList
      keys={keys} estimate={(key) => (key.startsWith("section") ? 36 : 46)} handle={handle} label="Candidates by section"
      render={(key) => {
        const row = rows.get(key)!;
        if (row.kind === "entry") return <CandidateRow entry={row.entry} most={row.most} heading={row.heading} isPicked={picked === row.entry.id} onPick={onPick} />;
        const { group } = row;
        return (
          <button type="button" class="section-head" onClick={() => onSection(group.section)} title="Show it in the conversation">
            <span class="section-name">{sectionName(group.section)}</span>
            <span class="faint truncate">{describeCounts(group)}</span>
            <span class="spacer" />
            {group.omitted > 0 && <span class="ghost-count" title={`left out: ${formatNumber(group.omitted)} tokens`}>○ {formatNumber(group.omitted)}</span>}
            <strong class="num">{formatNumber(group.tokens)}</strong>
          </button>
        );
      }}
    />
  );
}
