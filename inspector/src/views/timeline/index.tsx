// Timeline: a rail of calls, what changed from one to the next, where the cached prefix broke, and what that cost.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { callBefore, calls, findCall, loadAround, loadNewer, loadNewest, loadOlder, neighbour, reportsCache, splitPrompt } from "../../calls";
import { Await, Badge, Bar, Empty, ErrorNote, Figure, Figures, Loading, Name, Segmented, showText, Time, VirtualList, type VirtualHandle } from "../../components";
import { useResource, type Boundary, type ModelCall } from "../../data";
import { formatMoney, formatNumber, formatShare, formatShort, plural } from "../../format";
import { useKeys } from "../../keys";
import { linkToCall } from "../../links";
import { go, link, route, scopeKey } from "../../router";
import type { View } from "../view";
import { ChangeList } from "./changes";
import { readDiff } from "./diff";
import "./style.css";

/** Calls that are loaded for the totals without being asked for. */
const TOTAL_CALLS = 500;

const CAUSES: Record<string, string> = {
  brief: "the brief changed", tools: "the tools changed", boundary: "the history was compacted", guard: "superseded values were redacted",
  withdrawal: "messages were withdrawn", request: "the request shows the history in another way", model: "another model was asked",
  idle: "nothing was asked for too long", provider: "the provider lost it", unknown: "unknown",
};

export function isBroken(call: ModelCall): boolean {
  return !!call.cache?.previous && !call.cache.kept && !["first", "kept"].includes(call.cache.cause ?? "");
}

function Totals({ items, isAll }: { items: readonly ModelCall[]; isAll: boolean }): JSX.Element {
  const sums = useMemo(() => {
    const total = { prompt: 0, read: 0, written: 0, output: 0, cost: 0, lost: 0, breaks: 0, priced: 0, exposed: 0, reported: 0 };
    for (const call of items) {
      const split = splitPrompt(call);
      total.prompt += split.total;
      total.read += split.read;
      total.written += split.written;
      total.reported += reportsCache(call) ? 1 : 0;
      total.output += call.usage?.output_tokens ?? 0;
      total.cost += call.cost?.total ?? 0;
      total.lost += call.cost?.rewritten ?? 0;
      total.priced += call.cost ? 1 : 0;
      total.breaks += isBroken(call) ? 1 : 0;
      total.exposed += call.exposed ?? 0;
    }
    return total;
  }, [items]);
  return (
    <div class="timeline-totals">
      <Figures>
        <Figure label="Calls" note={isAll ? "" : "newest; more below"}>{formatNumber(items.length)}</Figure>
        <Figure label="Prompt tokens" note={sums.output ? `${formatShort(sums.output)} out` : ""}>{formatShort(sums.prompt)}</Figure>
        {sums.reported
          ? <Figure label="Read from cache" tone={sums.read ? "cached" : undefined} note={sums.written ? `${formatShort(sums.written)} written` : ""}>{formatShare(sums.read, sums.prompt)}</Figure>
          : <Figure label="Read from cache" note="not reported">–</Figure>}
        <Figure label="Cost" note={sums.priced < items.length ? `${formatNumber(sums.priced)} of ${formatNumber(items.length)} have a price` : ""}>{sums.priced ? formatMoney(sums.cost) : "–"}</Figure>
        <Figure label="Paid again after breaks" tone={sums.lost ? "danger" : undefined} note={plural(sums.breaks, "break")}>{formatMoney(sums.lost)}</Figure>
        {sums.exposed > 0 && <Figure label="Dead values shown" tone="danger">{formatNumber(sums.exposed)}×</Figure>}
      </Figures>
    </div>
  );
}

function BoundaryRow({ boundary }: { boundary: Boundary }): JSX.Element {
  const { before = 0, after = 0 } = boundary;
  return (
    <div class="boundary">
      <span class="boundary-kind"><span aria-hidden="true">◆ </span>{boundary.kind}</span>
      <span class="boundary-text">
        {boundary.why ? showText(boundary.why) : null}
        <span class="faint">
          {boundary.messages ? ` · ${plural(boundary.messages, "message")}` : ""}
          {before || after ? ` · ${formatNumber(before)} → ${formatNumber(after)} tokens` : ""}
          {boundary.cost ? ` · costs ${formatMoney(boundary.cost)} once` : ""}
          {boundary.saves ? `, saves ${formatMoney(boundary.saves)} a call` : ""}
          {boundary.policy ? ` · ${boundary.policy}` : ""}
          {boundary.pressure && boundary.pressure !== "none" ? ` · pressure ${boundary.pressure}` : ""}
          {` · event ${formatNumber(boundary.seq)}`}
        </span>
      </span>
    </div>
  );
}

function CallRow({ call, most, isPicked, isBase, hasPicked, onBase }: { call: ModelCall; most: number; isPicked: boolean; isBase: boolean; hasPicked: boolean; onBase: () => void }): JSX.Element {
  const split = splitPrompt(call);
  const broken = isBroken(call);
  const words = `${formatNumber(split.read)} tokens read from the cache, ${formatNumber(split.written)} written, ${formatNumber(split.fresh)} neither`;
  return (
    <>
      <div class={`rail-call ${isPicked ? "is-picked" : ""} ${isBase ? "is-base" : ""}`}>
        <a class="rail-link" href={link("timeline", [call.id])} aria-current={isPicked ? "true" : undefined}>
          <span class="rail-head">
            <span class="mono rail-id">{call.id}</span>
            <span class="faint"><Time us={call.time_us} /></span>
            {call.frame && <Badge>{call.frame}</Badge>}
            {call.exposed ? <Badge tone="danger">! {plural(call.exposed, "dead value")}</Badge> : null}
            <span class="spacer" />
            {call.pack ? <span class="counts"><span class="count-add">+{formatNumber(call.added ?? 0)}</span><span class="count-gone">−{formatNumber(call.gone ?? 0)}</span><span class="count-change">~{formatNumber(call.changed ?? 0)}</span></span> : <span class="faint">no pack</span>}
            <span class="rail-money num">{formatMoney(call.cost?.total)}</span>
          </span>
          <span class="rail-bar">
            <Bar
              height={8} limit={most} label={words}
              parts={[
                { key: "read", label: "read from cache", value: split.read, tone: "cached" },
                { key: "written", label: "written to cache", value: split.written, tone: "written" },
                { key: "fresh", label: "neither", value: split.fresh, tone: "plain" },
              ]}
            />
            <span class="faint num rail-tokens">{split.total ? formatShort(split.total) : ""}</span>
          </span>
          {broken && (
            <span class={`rail-break ${call.cache!.cause === "provider" ? "is-faint" : ""}`}>
              <span aria-hidden="true">⌁ </span>Prefix broke: {CAUSES[call.cache!.cause ?? "unknown"] ?? call.cache!.cause}{call.cost?.rewritten ? <span class="tone-text-danger">, {formatMoney(call.cost.rewritten)} paid again</span> : null}
            </span>
          )}
        </a>
        {hasPicked && !isPicked && (
          <button type="button" class="button small rail-base" aria-pressed={isBase} onClick={onBase} title="Compare the picked call with this one">{isBase ? "compared" : "compare"}</button>
        )}
      </div>
      {call.boundaries?.toReversed().map((boundary) => <BoundaryRow key={boundary.seq} boundary={boundary} />)}
    </>
  );
}

function DiffPane({ call, base }: { call: ModelCall; base: ModelCall | undefined }): JSX.Element {
  const scope = route.value.scope!;
  const canCompare = !!call.pack && !!base?.pack;
  const diff = useResource(canCompare ? `diff ${scopeKey.value} ${base!.id} ${call.id}` : null, (signal) => readDiff(scope, base!.pack!, call, signal), { frozen: true });
  const isDefault = base?.id === callBefore(call)?.id;
  const cache = call.cache;
  return (
    <div class="diff">
      <div class="row">
        <h2>{base ? <><span class="mono">{base.id}</span> → </> : null}<span class="mono">{call.id}</span></h2>
        {isDefault ? <span class="faint">against the call before</span> : <a class="button small" href={link("timeline", [call.id])}>Against the call before</a>}
        <span class="spacer" />
        <a class="button small" href={linkToCall(call.id)}>What the model saw</a>
      </div>
      <p class="muted"><Name text={call.model ?? ""} /> {call.pack?.query ? <>· “<Name text={call.pack.query} />”</> : null}</p>
      {isDefault && cache?.why ? (
        <p class={isBroken(call) ? "break-note" : "kept-note"}><span aria-hidden="true">{isBroken(call) ? "⌁ " : "✓ "}</span><Name text={cache.why} /></p>
      ) : null}
      {call.cost && <CostLine call={call} />}
      {!call.pack && <Empty title="No pack was recorded with this call">What changed is not known.</Empty>}
      {call.pack && !base && <Empty title="It is the first call of its conversation">There is nothing to compare it with.</Empty>}
      {call.pack && base && !base.pack && <Empty title={`No pack was recorded with ${base.id}`}>Pick another call to compare with.</Empty>}
      {canCompare && (
        <Await of={diff}>
          {(found) => (
            <>
              <p class="diff-summary">
                {plural(found.changes.length, "change")}, {formatNumber(found.same)} as before · {formatNumber(found.first.used)} → {formatNumber(found.second.used)} tokens ·{" "}
                {found.prefix_kept === null ? <span class="faint">a file does not know whether the prefix was kept between these two</span> : found.prefix_kept ? <Badge tone="cached">✓ prefix kept</Badge> : <Badge tone="reduced">⌁ prefix changed</Badge>}
              </p>
              {found.changes.length ? <ChangeList changes={found.changes} hrefOf={(change) => linkToCall(change.what === "gone" ? base!.id : call.id, { candidate: change.entry.id, show: "candidate" })} /> : <p class="muted">The two packs have the same candidates, shown in the same way.</p>}
            </>
          )}
        </Await>
      )}
    </div>
  );
}

function CostLine({ call }: { call: ModelCall }): JSX.Element {
  const cost = call.cost!;
  const parts = [
    { key: "read", label: "cache read", value: cost.cache_read, tone: "cached" as const },
    { key: "write", label: "cache write", value: cost.cache_write, tone: "written" as const },
    { key: "fresh", label: "fresh", value: cost.fresh, tone: "plain" as const },
    { key: "output", label: "output", value: cost.output, tone: "included" as const },
  ].filter((part) => part.value > 0);
  return (
    <div class="cost-line">
      <Bar height={10} limit={cost.total} label={`Cost: ${formatMoney(cost.total)}`} parts={parts.map((part) => ({ ...part, title: `${part.label}: ${formatMoney(part.value)}` }))} />
      <p class="row faint">{parts.map((part) => <span key={part.key}><i class={`swatch fill-${part.tone}`} />{part.label} {formatMoney(part.value)}</span>)}<span class="spacer" /><strong>{formatMoney(cost.total)}</strong></p>
    </div>
  );
}

function TimelineView(): JSX.Element {
  const id = route.value.rest[0] ?? "";
  const only = route.value.query.only ?? "all";
  const { items, isLoaded, error, hasOlder } = calls.value;
  const handle = useRef<VirtualHandle | null>(null);
  useEffect(() => {
    void (id ? loadAround(id) : loadNewest());
  }, [id]);
  useEffect(() => {
    if (isLoaded && hasOlder && items.length < TOTAL_CALLS) void loadOlder();
  }, [items.length, isLoaded]);
  const call = id ? findCall(id) : items[0];
  const base = call && (route.value.query.from ? findCall(route.value.query.from) : callBefore(call));
  const shown = useMemo(() => items.filter((each) => only === "all" || (only === "breaks" ? isBroken(each) : only === "boundaries" ? !!each.boundaries?.length : !!each.exposed)), [items, only]);
  const keys = useMemo(() => shown.map((each) => each.id), [shown]);
  const byId = useMemo(() => new Map(shown.map((each) => [each.id, each])), [shown]);
  const most = useMemo(() => Math.max(1, ...items.map((each) => splitPrompt(each).total)), [items]);
  useEffect(() => {
    if (id && byId.has(id)) handle.current?.scrollTo(id, "center");
  }, [id && byId.has(id)]);
  const step = (way: -1 | 1) => {
    const next = call && neighbour(call.id, way);
    if (!next) return;
    go(link("timeline", [next.id], { only: route.value.query.only }), { replace: true });
    handle.current?.scrollTo(next.id, "center");
  };
  useKeys("Timeline", {
    j: ["The call before (down the rail)", () => step(-1)],
    k: ["The next call (up the rail)", () => step(1)],
    o: ["What the model saw", () => call && go(linkToCall(call.id))],
  });
  if (error && !items.length) return <div class="page"><ErrorNote error={error} onRetry={() => void loadNewest()} /></div>;
  if (!isLoaded) return <Loading />;
  if (!items.length) return <div class="page"><Empty title="No model was called yet">Calls are listed here, with what changed from one to the next.</Empty></div>;
  const fit = (key: string) => {
    const each = byId.get(key);
    return 56 + (each && isBroken(each) ? 20 : 0) + 40 * (each?.boundaries?.length ?? 0);
  };
  return (
    <div class="timeline-view">
      <Totals items={items} isAll={!hasOlder} />
      <div class="timeline-panes">
        <section class="pane-box" aria-label="Calls">
          <div class="pane-head row">
            <Segmented
              label="Calls" picked={only} onPick={(key) => go(link("timeline", id ? [id] : [], { from: route.value.query.from, only: key === "all" ? undefined : key }), { replace: true })}
              options={[{ key: "all", label: "All" }, { key: "breaks", label: "Breaks" }, { key: "boundaries", label: "Boundaries" }, { key: "exposed", label: "Dead values" }]}
            />
          </div>
          {shown.length ? (
            <VirtualList
              keys={keys} handle={handle} estimate={fit} label="Calls, newest first"
              onView={(first, last) => {
                if (last >= keys.length - 10) void loadOlder();
                if (first <= 0) void loadNewer();
              }}
              render={(key) => {
                const each = byId.get(key)!;
                return <CallRow call={each} most={most} isPicked={each.id === call?.id} isBase={each.id === base?.id} hasPicked={!!call?.pack} onBase={() => call && go(link("timeline", [call.id], { ...route.value.query, from: each.id }), { replace: true })} />;
              }}
            />
          ) : <Empty title="None of the loaded calls" />}
        </section>
        <section class="pane-box" aria-label="Difference">
          <div class="pane-scroll" tabIndex={0} role="region" aria-label="Difference">{call ? <DiffPane key={`${base?.id} ${call.id}`} call={call} base={base} /> : <Empty title={`There is no call ${id}`} />}</div>
        </section>
      </div>
    </div>
  );
}

export const timeline: View = { name: "timeline", label: "Timeline", letter: "t", of: "session", component: TimelineView };
