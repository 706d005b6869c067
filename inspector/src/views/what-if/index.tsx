// What if: the stored pack, made again from the log with other options. No model is asked, and nothing is stored.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { calls, findCall, loadAround, loadNewest } from "../../calls";
import { Badge, Bar, Code, Empty, ErrorNote, Figure, Figures, Loading, Segmented, Tabs } from "../../components";
import { canonicalPath, exported, get, list, p, post, useResource, type Json, type Manifest, type PackDocument, type Redaction } from "../../data";
import { formatNumber, formatShare, plural } from "../../format";
import { useKeys } from "../../keys";
import { linkToCall } from "../../links";
import { go, link, route, scopeKey, scopeQuery } from "../../router";
import { barParts, describeUse, groupSections } from "../call/model";
import { ReadPane } from "../call/read";
import { CallStrip } from "../call/strip";
import { ChangeList } from "../timeline/changes";
import { compareManifests } from "../timeline/diff";
import type { View } from "../view";
import "./style.css";

const DELAY_MS = 180;
const LEAST_BUDGET = 500;
const OPTIONS = ["budget", "profile", "guard", "policy", "model", "max_output", "query"] as const;
type Option = (typeof OPTIONS)[number];
const NUMBERS: readonly Option[] = ["budget", "max_output"];
const CHOICES: Partial<Record<Option, readonly string[]>> = {
  profile: ["high_stakes", "balanced", "comprehensive"],
  guard: ["redact", "annotate", "off"],
  policy: ["faithful", "frugal", "classic"],
};

type Changes = Partial<Record<Option, string>>;

function readChanges(): Changes {
  const query = route.value.query;
  return Object.fromEntries(OPTIONS.filter((option) => query[option]).map((option) => [option, query[option]])) as Changes;
}

function toBody(changes: Changes): { [key: string]: Json } {
  return Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, NUMBERS.includes(name as Option) ? Number(value) : value]));
}

function change(pack: string, changes: Changes): void {
  const { show } = route.value.query;
  go(link("what-if", [pack], { ...changes, show }), { replace: true });
}

function storedValue(manifest: Manifest, option: Option): string {
  const { request } = manifest;
  switch (option) {
    case "budget": return String(request.budget);
    case "profile": return request.profile.name;
    case "guard": return request.guard ?? "redact";
    case "model": return request.model ?? "";
    case "max_output": return request.max_output ? String(request.max_output) : "";
    case "query": return request.query ?? "";
    case "policy": return "";
  }
}

/** The varied pack, asked for when the options have been still for a moment. An older request is cancelled. */
function useVaried(pack: string, changes: Changes): { data?: PackDocument; error?: unknown; isBusy: boolean } {
  const scope = route.value.scope!;
  const [state, setState] = useState<{ key: string; data?: PackDocument; error?: unknown }>({ key: "" });
  const key = JSON.stringify([pack, changes]);
  const isEmpty = !Object.keys(changes).length;
  useEffect(() => {
    if (isEmpty || exported) return;
    const control = new AbortController();
    const timer = window.setTimeout(() => {
      post<PackDocument>(p`/sessions/${scope.session}/packs/${pack}/vary`, toBody(changes), scopeQuery(scope), control.signal).then(
        (data) => setState({ key, data }),
        (error: unknown) => !control.signal.aborted && setState((before) => ({ key, data: before.data, error })),
      );
    }, DELAY_MS);
    return () => {
      window.clearTimeout(timer);
      control.abort();
    };
  }, [key]);
  return { data: isEmpty ? undefined : state.data, error: state.key === key ? state.error : undefined, isBusy: !isEmpty && !exported && state.key !== key };
}

function Control({ label, stored, isChanged, onReset, children, id }: { label: string; stored: string; isChanged: boolean; onReset: () => void; children: ComponentChildren; id?: string }): JSX.Element {
  return (
    <div class={`control ${isChanged ? "is-changed" : ""}`}>
      <div class="row control-head">
        {id ? <label for={id}>{label}</label> : <span class="control-label">{label}</span>}
        <span class="spacer" />
        {isChanged ? <button type="button" class="more" onClick={onReset} title={`Stored: ${stored || "none"}`}>reset to {stored ? (stored.length > 20 ? `${stored.slice(0, 20)}…` : stored) : "none"}</button> : null}
      </div>
      {children}
    </div>
  );
}

function Controls({ manifest, changes, pack }: { manifest: Manifest; changes: Changes; pack: string }): JSX.Element {
  const id = useId();
  const models = useMemo(() => [...new Set(calls.value.items.map((call) => call.model).filter(Boolean))] as string[], [calls.value.items]);
  const set = (option: Option, value: string) => {
    const next = { ...changes };
    if (value === "" || value === storedValue(manifest, option)) delete next[option];
    else next[option] = value;
    change(pack, next);
  };
  const now = (option: Option) => changes[option] ?? storedValue(manifest, option);
  const control = (option: Option, label: string, inputs: (id: string) => ComponentChildren) => (
    <Control key={option} label={label} id={CHOICES[option] ? undefined : `${id}-${option}`} stored={storedValue(manifest, option)} isChanged={!!changes[option]} onReset={() => set(option, "")}>{inputs(`${id}-${option}`)}</Control>
  );
  const pick = (option: Option, label: string, names?: Record<string, string>) =>
    control(option, label, () => <Segmented label={label} picked={now(option)} onPick={(value) => set(option, value)} options={CHOICES[option]!.map((key) => ({ key, label: names?.[key] ?? key }))} />);
  const budget = Number(now("budget"));
  const most = Math.max(4 * manifest.request.budget, budget, 4_000);
  return (
    <form class="controls" aria-label="Options" onSubmit={(event) => event.preventDefault()}>
      {control("budget", "Budget", (name) => (
        <div class="control-pair">
          <input type="range" aria-label="Budget" min={LEAST_BUDGET} max={most} step={50} value={budget} disabled={!!exported} onInput={(event) => set("budget", event.currentTarget.value)} />
          <input id={name} class="input num" type="number" min={LEAST_BUDGET} step={100} value={budget} disabled={!!exported} onInput={(event) => set("budget", event.currentTarget.value)} />
        </div>
      ))}
      {pick("profile", "Profile", { high_stakes: "high stakes" })}
      {pick("guard", "Guard")}
      {pick("policy", "Policy")}
      {control("model", "Model", (name) => (
        <>
          <input id={name} class="input mono" list={`${id}-models`} value={now("model")} disabled={!!exported} spellcheck={false} onChange={(event) => set("model", event.currentTarget.value)} />
          <datalist id={`${id}-models`}>{models.map((model) => <option key={model} value={model} />)}</datalist>
        </>
      ))}
      {control("max_output", "Longest answer", (name) => <input id={name} class="input num" type="number" min={1} placeholder="as the model allows" value={now("max_output")} disabled={!!exported} onInput={(event) => set("max_output", event.currentTarget.value)} />)}
      {control("query", "Query", (name) => <textarea id={name} class="input" rows={3} value={now("query")} disabled={!!exported} onInput={(event) => set("query", event.currentTarget.value)} />)}
    </form>
  );
}

function PackBar({ label, manifest, limit, badge }: { label: string; manifest: Manifest; limit: number; badge?: ComponentChildren }): JSX.Element {
  const groups = useMemo(() => groupSections(manifest), [manifest]);
  const parts = useMemo(() => barParts(groups, manifest.tokens.budget), [groups]);
  const { used, budget } = manifest.tokens;
  return (
    <div class="pack-bar">
      <div class="row"><strong>{label}</strong>{badge}<span class="spacer" /><span class="muted">{describeUse(used, budget)} · {formatShare(used, budget)}</span></div>
      <div class="pack-bar-place"><div style={{ width: `${(100 * Math.max(budget, used)) / limit}%` }}><Bar parts={parts} limit={budget} height={28} label={`${label}: ${describeUse(used, budget)}`} /></div></div>
    </div>
  );
}

function Comparison({ pack, stored, varied, isBusy }: { pack: string; stored: PackDocument; varied: PackDocument | undefined; isBusy: boolean }): JSX.Element {
  const show = route.value.query.show ?? "moved";
  const scope = route.value.scope!;
  const redactions = useResource(`redactions ${scopeKey.value} ${pack}`, (signal) => list<Redaction>(p`/sessions/${scope.session}/packs/${pack}/redactions`, scopeQuery(scope), 10_000, signal).catch(() => []), { frozen: true });
  const difference = useMemo(() => (varied ? compareManifests(stored.manifest, varied.manifest) : null), [stored, varied]);
  const now = (varied ?? stored).manifest;
  const limit = Math.max(stored.manifest.tokens.budget, now.tokens.budget, stored.manifest.tokens.used, now.tokens.used);
  const count = (whats: string[]) => difference?.changes.filter((each) => whats.includes(each.what)).length ?? 0;
  const isSame = varied && varied.manifest.context_hash === stored.manifest.context_hash;
  const change = now.tokens.used - stored.manifest.tokens.used;
  return (
    <div class="comparison" aria-busy={isBusy}>
      <PackBar label={`Stored ${pack}`} manifest={stored.manifest} limit={limit} badge={<Badge tone="cached" title={stored.manifest.context_hash}>✓ same bytes</Badge>} />
      {!exported && <PackBar label="With these options" manifest={now} limit={limit} badge={varied ? (isSame ? <Badge tone="cached">✓ the same bytes as stored</Badge> : <Badge tone="reduced">~ other bytes</Badge>) : <Badge>nothing changed yet</Badge>} />}
      {difference && (
        <Figures>
          <Figure label="Tokens" note={`from ${formatNumber(stored.manifest.tokens.used)}`}>{change > 0 ? "+" : change < 0 ? "−" : ""}{formatNumber(Math.abs(change))}</Figure>
          <Figure label="Moved in"><span class="count-add">+{formatNumber(count(["in", "added"]))}</span></Figure>
          <Figure label="Moved out"><span class="count-gone">−{formatNumber(count(["out", "gone"]))}</span></Figure>
          <Figure label="Shown differently"><span class="count-change">~{formatNumber(count(["changed"]))}</span></Figure>
          <Figure label="Dead values shown" tone={now.exposed.length ? "danger" : undefined} note={stored.manifest.exposed.length ? `from ${formatNumber(stored.manifest.exposed.length)}` : ""}>{formatNumber(now.exposed.length)}</Figure>
        </Figures>
      )}
      <div class="pane-box comparison-box">
        <Tabs label="Result" picked={show} onPick={(key) => go(link("what-if", [pack], { ...route.value.query, show: key === "moved" ? undefined : key }), { replace: true })} tabs={[{ key: "moved", label: "What moved" }, { key: "read", label: "As the model would read it" }]}>
          {show === "read" ? <ReadPane pack={varied ?? stored} redactions={varied ? [] : (redactions.data ?? [])} target={null} /> : (
            <div class="pane-scroll" tabIndex={0} role="region" aria-label="What moved">
              {exported ? <Empty title="Nothing to compare">The pack would be made again from the log, which is not in this file.</Empty> : !difference ? <Empty title="Change an option">The pack is made again from the log at once, without a model, and nothing is stored. What moves in and out is listed here.</Empty>
                : difference.changes.length ? <><p class="muted">{plural(difference.changes.length, "change")}, {formatNumber(difference.same)} as before.</p><ChangeList changes={difference.changes} /></>
                : <Empty title="Nothing moved">All {formatNumber(difference.same)} candidates have the same fate, and are shown in the same way.</Empty>}
            </div>
          )}
        </Tabs>
      </div>
    </div>
  );
}

function shellText(pack: string, changes: Changes): string {
  const scope = route.value.scope!;
  const path = canonicalPath(p`/sessions/${scope.session}/packs/${pack}/vary`, scopeQuery(scope));
  const body = JSON.stringify(toBody(Object.keys(changes).length ? changes : { budget: "4000" })).replaceAll("'", "'\\''");
  const origin = exported ? "http://127.0.0.1:8787" : location.origin;
  return `curl -X POST '${origin}/api${path.replaceAll("'", "%27")}' \\\n  -H "Authorization: Bearer $HOLDFAST_KEY" -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}

function Variation({ pack }: { pack: string }): JSX.Element {
  const scope = route.value.scope!;
  const stored = useResource(`pack ${scopeKey.value} ${pack}`, (signal) => get<PackDocument>(p`/sessions/${scope.session}/packs/${pack}`, scopeQuery(scope), signal), { frozen: true });
  const changes = readChanges();
  const varied = useVaried(pack, changes);
  const last = useRef<PackDocument | undefined>(undefined);
  last.current = varied.data ?? last.current;
  if (stored.error) return <ErrorNote error={stored.error} onRetry={stored.reload} />;
  if (!stored.data) return <Loading />;
  const isChanged = Object.keys(changes).length > 0;
  return (
    <div class="what-if-panes">
      <div class="panel what-if-controls">
        <div class="panel-head"><h2>Options</h2><span class="spacer" />{isChanged && <button type="button" class="button small" onClick={() => change(pack, {})}>Reset all</button>}</div>
        <Controls manifest={stored.data.manifest} changes={changes} pack={pack} />
      </div>
      <div class="stack what-if-result">
        {exported && (
          <div class="panel what-if-note">
            <p><strong>An exported file cannot make packs.</strong> <span class="muted">That takes the log: open the store with <code>holdfast inspect</code>, or ask a server:</span></p>
            <Code text={shellText(pack, changes)} label="The same by curl" />
          </div>
        )}
        {varied.error ? <ErrorNote error={varied.error} /> : null}
        <Comparison pack={pack} stored={stored.data} varied={isChanged ? (varied.data ?? (varied.isBusy ? last.current : undefined)) : undefined} isBusy={varied.isBusy} />
      </div>
    </div>
  );
}

function WhatIfView(): JSX.Element {
  const id = route.value.rest[0] ?? "";
  const { items, isLoaded, error } = calls.value;
  useEffect(() => {
    void (id ? loadAround(id) : loadNewest());
  }, [id]);
  const call = id ? findCall(id) : items.find((each) => each.pack);
  const step = (way: -1 | 1) => {
    const packs = items.filter((each) => each.pack);
    const next = packs[packs.findIndex((each) => each.id === call?.id) - way];
    if (next) go(link("what-if", [next.id], route.value.query), { replace: true });
  };
  useKeys("What if", {
    j: ["The next call", () => step(1)],
    k: ["The call before", () => step(-1)],
    x: ["Reset all options", () => call?.pack && change(call.pack.id, {})],
  });
  const pack = call?.pack?.id ?? (/^p\d+$/.test(id) ? id : "");
  if (!isLoaded) return <Loading />;
  if (error && !items.length) return <div class="page"><ErrorNote error={error} /></div>;
  if (!pack) return <div class="page"><Empty title={id ? `No pack is stored for ${id}` : "No pack is stored yet"}>A pack is stored with the reply that answers it; then it can be made again with other options.</Empty></div>;
  return (
    <div class="what-if-view">
      <CallStrip picked={pack} onPick={(next) => next.pack && go(link("what-if", [next.pack.id], route.value.query), { replace: true })} />
      <div class="row"><h1>What if, in call <span class="mono">{pack}</span></h1><span class="spacer" /><a class="button small" href={linkToCall(pack)}>What the model saw</a></div>
      <Variation key={pack} pack={pack} />
    </div>
  );
}

export const whatIf: View = { name: "what-if", label: "What if", letter: "w", of: "session", component: WhatIfView };
