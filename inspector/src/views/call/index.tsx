// What the model saw: one call.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { calls, findCall, loadAround, loadNewer, loadNewest, loadOlder, neighbour, reportsCache, seqOf, splitPrompt } from "../../calls";
import { Badge, Bar, Empty, ErrorNote, Figure, Figures, Loading, Name, Segmented, Tabs, Time } from "../../components";
import { ApiError, exported, get, isAbsent, list, p, useResource, type Manifest, type ModelCall, type PackDocument, type Redaction } from "../../data";
import { formatMoney, formatNumber, formatShare, plural } from "../../format";
import { useKeys } from "../../keys";
import { linkToCall, linkToMessage } from "../../links";
import { go, link, route, scopeKey, scopeQuery } from "../../router";
import { ReportCard } from "../home/report";
import type { View } from "../view";
import { CandidateList, type FateFilter } from "./candidates";
import { CandidateDetail } from "./detail";
import { barParts, describeUse, groupSections, sectionName, type SectionGroup } from "./model";
import { MessageOnly } from "./message_only";
import { RawPane } from "./raw";
import { ReadPane } from "./read";
import { CallStrip } from "./strip";
import "./style.css";

const NARROW = window.matchMedia("(max-width: 900px)");

function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const update = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", update);
    return () => NARROW.removeEventListener("change", update);
  }, []);
  return isNarrow;
}

/** Go to another part of the same call, or to the same part of another one. */
function show(call: string, query: Record<string, string | undefined>, options: { replace?: boolean } = { replace: true }): void {
  go(link("call", [call], { ...route.value.query, ...query }), options);
}

/** Whether the pack was made again from the log with the same bytes. */
function SameBytes({ pack, error, stored }: { pack: PackDocument | undefined; error: unknown; stored: string }): JSX.Element | null {
  if (pack) {
    const isSame = pack.manifest.context_hash === stored;
    return isSame
      ? <Badge tone="cached" title={exported ? `Made again from the log, byte for byte, when the file was made (SHA-256 ${stored}). What the file redacts was replaced afterwards.` : `Made again from the log, byte for byte: SHA-256 ${stored}`}>✓ same bytes</Badge>
      : <Badge tone="danger" title={`Stored ${stored}, made ${pack.manifest.context_hash}`}>✕ other bytes</Badge>;
  }
  if (error instanceof ApiError) return <Badge tone="danger" title={error.message}>✕ cannot be made again</Badge>;
  return null;
}

function CallHeader({ call, badges }: { call: ModelCall; badges: ComponentChildren }): JSX.Element {
  const before = neighbour(call.id, -1);
  const after = neighbour(call.id, 1);
  const split = splitPrompt(call);
  const cache = call.cache;
  const isBroken = !!cache?.previous && !cache.kept && !["first", "kept"].includes(cache.cause ?? "");
  return (
    <>
      <div class="row call-title">
        <h1>Call <span class="mono">{call.id}</span></h1>
        {badges}
        <span class="spacer" />
        <div class="row">
          <a class="button small" aria-disabled={!before} href={before ? linkToCall(before.id, route.value.query) : undefined} title="The call before (k)">← Before</a>
          <a class="button small" aria-disabled={!after} href={after ? linkToCall(after.id, route.value.query) : undefined} title="The next call (j)">After →</a>
        </div>
      </div>
      <p class="call-about muted">
        {call.model ? <strong><Name text={call.model} /></strong> : "Model unknown"}{call.provider ? <> at <Name text={call.provider} /></> : null}
        {" · "}<Time us={call.started_us || call.time_us} />
        {call.reply ? <> · answered by <a href={linkToMessage(call.reply)}>m{call.reply}</a></> : <> · no reply</>}
        {call.frame ? <> · in frame <span class="mono">{call.frame}</span></> : null}
        {call.pack?.query ? <> · “<Name text={call.pack.query} />”</> : null}
      </p>
      <Figures>
        {call.budget ? <Figure label="Pack" note={`of ${formatNumber(call.budget)} tokens`}>{formatNumber(call.used)}</Figure> : null}
        <Figure label="Prompt, as billed" note={split.read ? <span class="tone-text-cached">● {formatShare(split.read, split.total)} from cache</span> : reportsCache(call) ? "none from cache" : "cache not reported"}>{formatNumber(call.usage?.input_tokens)}</Figure>
        <Figure label="Output">{formatNumber(call.usage?.output_tokens)}</Figure>
        <Figure label="Cost" note={call.cost?.rewritten ? <span class="tone-text-danger">{formatMoney(call.cost.rewritten)} paid again</span> : null}>{formatMoney(call.cost?.total)}</Figure>
        <Figure label="Against the call before" note={<a href={link("timeline", [call.id])}>difference</a>}>
          <span class="counts"><span class="count-add">+{formatNumber(call.added ?? 0)}</span> <span class="count-gone">−{formatNumber(call.gone ?? 0)}</span> <span class="count-change">~{formatNumber(call.changed ?? 0)}</span></span>
        </Figure>
      </Figures>
      {isBroken && <p class="break-note"><span aria-hidden="true">⌁ </span><strong>The cached prefix broke.</strong> <Name text={cache.why ?? ""} /></p>}
    </>
  );
}

function BudgetBar({ groups, manifest, call, onPick, picked }: { groups: readonly SectionGroup[]; manifest: Manifest; call: ModelCall; picked: string; onPick: (section: string) => void }): JSX.Element {
  const [hover, setHover] = useState<string | null>(null);
  const { used, budget } = manifest.tokens;
  const parts = useMemo(() => barParts(groups, budget), [groups]);
  const omitted = groups.filter((group) => group.omitted > 0);
  const left = omitted.reduce((sum, group) => sum + group.omitted, 0);
  const split = splitPrompt(call);
  const scale = Math.max(budget, used, 1);
  const share = split.total ? used / split.total : 0;
  const shown = groups.find((group) => hover?.startsWith(group.section));
  return (
    <div class="budget">
      <Bar parts={parts} limit={budget} height={32} label={`The pack by section: ${describeUse(used, budget)}`} picked={picked} onPick={(key) => onPick(key.split(" ")[0]!)} onHover={setHover} />
      {split.total > 0 && (split.read > 0 || split.written > 0) && (
        <div class="cache-line" role="img" aria-label={`${formatNumber(split.read)} tokens read from the cache, ${formatNumber(split.written)} written`}>
          <span class="fill-cached" style={{ width: `${(100 * split.read * share) / scale}%` }} title={`read from the cache: ${formatNumber(split.read)}`} />
          <span class="fill-written" style={{ width: `${(100 * split.written * share) / scale}%` }} title={`written to the cache: ${formatNumber(split.written)}`} />
        </div>
      )}
      <div class="row budget-legend" aria-live="polite">
        {shown ? (
          <span><strong>{sectionName(shown.section)}</strong> {plural(shown.tokens, "token")}, {formatShare(shown.tokens, budget)} of the budget, {plural(shown.entries.length, "candidate")}</span>
        ) : (
          <>
            <span><i class="swatch fill-included" />included</span>
            <span><i class="swatch fill-reduced" />reduced</span>
            {split.read > 0 && <span><i class="swatch fill-cached" />read from cache {formatNumber(split.read)}</span>}
            {split.written > 0 && <span><i class="swatch fill-written" />written to cache {formatNumber(split.written)}</span>}
            {left > 0 && <span><i class="swatch fill-omitted" />left out {formatNumber(left)}</span>}
          </>
        )}
        <span class="spacer" />
        <span class="muted">{describeUse(used, budget)} · {formatShare(used, budget)}</span>
      </div>
    </div>
  );
}

function PackBody({ call, manifest, pack, redactions }: { call: ModelCall; manifest: Manifest; pack: PackDocument | undefined; redactions: readonly Redaction[] }): JSX.Element {
  const isNarrow = useNarrow();
  const [filter, setFilter] = useState<FateFilter>("all");
  const [target, setTarget] = useState<{ section: string; round: number } | null>(null);
  const groups = useMemo(() => groupSections(manifest), [manifest]);
  const { query } = route.value;
  const picked = query.candidate ?? "";
  const entry = manifest.entries.find((each) => each.id === picked);
  const wanted = query.show ?? (picked ? "candidate" : "");
  const tab = wanted || (isNarrow ? "candidates" : pack ? "read" : "candidate");
  const jump = (section: string) => {
    setTarget((before) => ({ section, round: (before?.round ?? 0) + 1 }));
    if (tab === "candidate" || tab === "raw") show(call.id, { show: pack ? "read" : undefined, candidate: undefined });
  };
  const fates = (["included", "reduced", "omitted", "missing", "withheld"] as const).filter((fate) => manifest.entries.some((each) => each.fate === fate));
  const candidates = (
    <div class="candidates">
      <div class="pane-head">
        <Segmented
          label="Fates" picked={filter} onPick={(key) => setFilter(key as FateFilter)}
          options={[{ key: "all", label: `All ${formatNumber(manifest.entries.length)}` }, ...fates.map((fate) => ({ key: fate, label: `${fate[0]!.toUpperCase()}${fate.slice(1)} ${formatNumber(manifest.entries.filter((each) => each.fate === fate).length)}` }))]}
        />
      </div>
      <CandidateList groups={groups} filter={filter} picked={picked} target={target} onSection={jump} onPick={(each) => show(call.id, { candidate: each.id, show: "candidate" })} />
    </div>
  );
  const tabs = [
    ...(isNarrow ? [{ key: "candidates", label: "Candidates" }] : []),
    ...(pack ? [{ key: "read", label: "As read" }] : []),
    { key: "candidate", label: "Candidate" },
    ...(pack ? [{ key: "raw", label: "Raw request" }] : []),
  ];
  return (
    <>
      <BudgetBar groups={groups} manifest={manifest} call={call} picked={target?.section ?? ""} onPick={jump} />
      <div class="call-panes">
        {!isNarrow && <section class="pane-box" aria-label="Candidates">{candidates}</section>}
        <section class="pane-box" aria-label="Content">
          <Tabs label="Content" tabs={tabs} picked={tabs.some((each) => each.key === tab) ? tab : tabs[0]!.key} onPick={(key) => show(call.id, { show: key })}>
            {tab === "candidates" && isNarrow && candidates}
            {tab === "read" && pack && <ReadPane pack={pack} redactions={redactions} target={target} />}
            {tab === "candidate" && <div class="pane-scroll" tabIndex={0} role="region" aria-label="Candidate"><CandidateDetail pack={pack} entry={entry} /></div>}
            {tab === "raw" && pack && call.pack && <div class="pane-scroll" tabIndex={0} role="region" aria-label="Raw request"><RawPane pack={call.pack.id} provider={call.provider} /></div>}
          </Tabs>
        </section>
      </div>
    </>
  );
}

function PackView({ call }: { call: ModelCall }): JSX.Element {
  const scope = route.value.scope!;
  const id = call.pack!.id;
  const path = p`/sessions/${scope.session}/packs/${id}`;
  const query = scopeQuery(scope);
  const pack = useResource(`pack ${scopeKey.value} ${id}`, (signal) => get<PackDocument>(path, query, signal), { frozen: true });
  const manifest = useResource(pack.error ? `manifest ${scopeKey.value} ${id}` : null, (signal) => get<Manifest>(`${path}/manifest`, query, signal), { frozen: true });
  const redactions = useResource(
    `redactions ${scopeKey.value} ${id}`,
    (signal) => list<Redaction>(`${path}/redactions`, query, 10_000, signal).catch((error: unknown) => {
      if (isAbsent(error)) return [];
      throw error;
    }),
    { frozen: true },
  );
  // A call without a guard counts nothing itself: its redactions list what it showed.
  const exposed = Math.max(call.exposed ?? 0, new Set((redactions.data ?? []).filter((each) => each.mode === "exposed").map((each) => each.fact)).size);
  const found = pack.data?.manifest ?? manifest.data;
  const badges = (
    <>
      <SameBytes pack={pack.data} error={pack.error} stored={call.pack!.context_hash} />
      {exposed ? <Badge tone="danger" title="Superseded values that the model was still shown">! {plural(exposed, "dead value")} shown</Badge> : null}
      {call.redacted ? <Badge title="Superseded values that the guard hid or marked">⊘ {plural(call.redacted, "dead value")} hidden</Badge> : null}
      {call.boundaries?.length ? <Badge tone="reduced" title={call.boundaries.map((each) => `${each.kind}: ${each.why ?? ""}`).join("\n")}>{plural(call.boundaries.length, "boundary", "boundaries")} before</Badge> : null}
    </>
  );
  if (exported && isAbsent(pack.error) && isAbsent(manifest.error)) return <><CallHeader call={call} badges={<Badge tone="omitted">○ not in this file</Badge>} /><MessageOnly call={call} /></>;
  return (
    <>
      <CallHeader call={call} badges={badges} />
      {pack.error && !(pack.error instanceof ApiError && found) ? <ErrorNote error={pack.error} onRetry={pack.reload} /> : null}
      {found ? <PackBody call={call} manifest={found} pack={pack.data} redactions={redactions.data ?? []} /> : !pack.error || manifest.loading ? <Loading /> : manifest.error ? <ErrorNote error={manifest.error} /> : null}
    </>
  );
}

function CallView(): JSX.Element {
  const id = route.value.rest[0] ?? "";
  useEffect(() => {
    void (id ? loadAround(id) : loadNewest());
  }, [id]);
  const { items, isLoaded, error } = calls.value;
  const call = id ? findCall(id) : items[0];
  const step = (way: -1 | 1) => {
    const next = call && neighbour(call.id, way);
    if (next) go(linkToCall(next.id, route.value.query), { replace: true });
    else void (way < 0 ? loadOlder() : loadNewer());
  };
  useKeys("What the model saw", {
    j: ["The next call", () => step(1)],
    k: ["The call before", () => step(-1)],
    Escape: ["Close the candidate", () => call && route.value.query.candidate && show(call.id, { candidate: undefined, show: undefined })],
    a: ["As read", () => call && show(call.id, { show: "read" })],
    r: ["Raw request", () => call && show(call.id, { show: "raw" })],
  });
  if (!call && error) return <div class="page"><ErrorNote error={error} onRetry={() => void loadNewest()} /></div>;
  if (!call && !isLoaded) return <Loading />;
  if (!call && !id) return <div class="page"><ReportCard /><Empty title="No model was called yet">A call is listed here with the first reply of an assistant. <a href={link("messages")}>All messages</a></Empty></div>;
  if (!call) return seqOf(id) ? <div class="page"><Empty title={`There is no call ${id}`}><a href={link("timeline")}>All calls</a></Empty></div> : <div class="page"><Empty title="There is no such call" /></div>;
  return (
    <div class="call-view">
      {!id && <ReportCard compact />}
      <CallStrip picked={call.id} onPick={(next) => go(linkToCall(next.id, route.value.query), { replace: true })} />
      {call.pack ? <PackView key={call.id} call={call} /> : <><CallHeader call={call} badges={<Badge tone="omitted">○ no pack stored</Badge>} /><MessageOnly call={call} /></>}
    </div>
  );
}

export const call: View = { name: "call", label: "What the model saw", letter: "c", of: "session", component: CallView };
