// Facts: what holds now in the ledgers that the session reads, and the page of each fact.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Await, Empty, Name, Segmented, Time, VirtualList, type VirtualHandle } from "../../components";
import { isAbsent, list, liveVersion, p, useResource, type Fact, type OpenProposal } from "../../data";
import { formatNumber, plural } from "../../format";
import { useKeys } from "../../keys";
import { go, link, route, scopeKey, scopeQuery } from "../../router";
import type { View } from "../view";
import { FactPageView } from "./fact";
import { FactBadges, Value } from "./marks";
import { ledgerOf, ledgerTitle, linkToFact, loadFacts, matches, parseLedger, whoSaid, type LedgerFacts } from "./model";
import { ProposalRow } from "./proposals";
import "./style.css";

type Row = { key: string; ledger: LedgerFacts; count: number } | { key: string; fact: Fact };

function buildRows(ledgers: readonly LedgerFacts[], words: readonly string[]): Row[] {
  const rows: Row[] = [];
  for (const ledger of ledgers) {
    const facts = ledger.facts.filter((fact) => matches(fact, words));
    if (!facts.length && words.length) continue;
    rows.push({ key: `ledger ${ledger.name}`, ledger, count: facts.length });
    facts.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : (a.at_us ?? 0) - (b.at_us ?? 0)));
    rows.push(...facts.map((fact) => ({ key: `${ledger.name} ${fact.id}`, fact })));
  }
  return rows;
}

function LedgerHead({ ledger, count }: { ledger: LedgerFacts; count: number }): JSX.Element {
  const scope = route.value.scope!;
  const first = ledger.facts[0];
  return (
    <div class="ledger-head">
      <h2>{ledgerTitle(first ? ledgerOf(first) : parseLedger(ledger.name), scope)}</h2>
      <span class="faint">{plural(count, "fact")}{ledger.isCut && <>: the first ones. Search (/) finds the others.</>}</span>
    </div>
  );
}

function FactRow({ fact, isPicked }: { fact: Fact; isPicked: boolean }): JSX.Element {
  return (
    <a class={`fact-row ${isPicked ? "is-picked" : ""}`} href={linkToFact(fact)} aria-current={isPicked ? "true" : undefined}>
      <span class="fact-key mono truncate"><Name text={fact.key} /></span>
      <span class="fact-cell truncate"><Value fact={fact} /></span>
      <span class="fact-marks"><FactBadges fact={fact} /></span>
      <span class="fact-authority">{fact.source?.authority ?? "peer"}</span>
      <span class="fact-source truncate"><Name text={whoSaid(fact)} /></span>
      <span class="fact-since"><Time us={fact.valid_from_us || fact.at_us || 0} ago /></span>
    </a>
  );
}

function FactsView(): JSX.Element {
  const scope = route.value.scope!;
  const [ledger, id] = route.value.rest;
  const status = route.value.query.show === "ended" ? "dead" : "live";
  const [search, setSearch] = useState("");
  const handle = useRef<VirtualHandle | null>(null);
  const facts = useResource(`facts ${status} ${scopeKey.value}`, (signal) => loadFacts(scope, status, signal), { version: liveVersion.value });
  const proposals = useResource(`proposals ${scopeKey.value}`, async (signal) => {
    try {
      return await list<OpenProposal>(p`/sessions/${scope.session}/facts/proposals`, scopeQuery(scope), 200, signal);
    } catch (error) {
      if (isAbsent(error)) return [];
      throw error;
    }
  }, { version: liveVersion.value });
  const words = useMemo(() => search.toLowerCase().split(/\s+/).filter(Boolean), [search]);
  const rows = useMemo(() => buildRows(facts.data ?? [], words), [facts.data, words]);
  const keys = useMemo(() => rows.map((row) => row.key), [rows]);
  const picked = ledger && id ? `${ledger} ${id}` : "";
  const items = rows.filter((row): row is { key: string; fact: Fact } => "fact" in row);

  function step(by: number): void {
    const index = items.findIndex((row) => row.key === picked);
    const next = items[index < 0 ? 0 : Math.min(items.length - 1, Math.max(0, index + by))];
    if (next) {
      go(linkToFact(next.fact), { replace: index >= 0 });
      handle.current?.scrollTo(next.key, "center");
    }
  }
  useKeys("Facts", {
    j: ["The next fact", () => step(1)],
    k: ["The fact before", () => step(-1)],
    f: ["Filter the facts", () => document.getElementById("fact-filter")?.focus()],
    e: ["What holds now, or what has ended", () => go(link("facts", [], { show: status === "live" ? "ended" : "" }))],
    u: ["Back to all facts", () => go(link("facts"))],
  });
  useEffect(() => {
    if (picked) handle.current?.scrollTo(picked, "center");
  }, [facts.data !== undefined]);

  const open = proposals.data ?? [];
  return (
    <div class={`panes facts ${picked ? "has-fact" : ""}`}>
      <section class="pane facts-list" aria-label="All facts">
        <div class="facts-tools">
          <h1 class="visually-hidden">Facts</h1>
          <Segmented
            label="Which facts" picked={status}
            options={[{ key: "live", label: "Holds now" }, { key: "dead", label: "Ended" }]}
            onPick={(key) => go(link("facts", [], { show: key === "dead" ? "ended" : "" }))}
          />
          <input id="fact-filter" class="input" type="search" placeholder="Filter by key, value or source" aria-label="Filter the facts" value={search} onInput={(event) => setSearch(event.currentTarget.value)} onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()} />
          <span class="faint nowrap" role="status">{facts.data ? formatNumber(items.length) : ""}</span>
        </div>
        {open.length > 0 && !picked && (
          <div class="proposals" role="region" aria-label="Proposals">{open.slice(0, 20).map((each) => <ProposalRow key={each.id} proposal={each} onDone={() => { proposals.reload(); facts.reload(); }} />)}</div>
        )}
        <div class="facts-columns" aria-hidden="true"><span>Key</span><span>Value</span><span class="fact-marks" /><span class="fact-authority">Authority</span><span class="fact-source">Said by</span><span class="fact-since">Since</span></div>
        <div class="facts-rows">
          <Await of={facts}>
            {() => items.length ? (
              <VirtualList
                label="Facts" keys={keys} handle={handle} estimate={(key) => (key.startsWith("ledger ") ? 44 : 34)}
                render={(_key, index) => {
                  const row = rows[index]!;
                  return "fact" in row ? <FactRow fact={row.fact} isPicked={row.key === picked} /> : <LedgerHead ledger={row.ledger} count={row.count} />;
                }}
              />
            ) : (
              <Empty title={words.length ? "No fact matches" : status === "dead" ? "No fact has ended" : "No facts"}>
                {words.length ? "The filter looks at keys, values, sources and authorities." : "A fact is a keyed statement such as hotel = Casa do Rio. session.facts.set(key, value) states one."}
              </Empty>
            )}
          </Await>
        </div>
      </section>
      {picked && (
        <section class="pane fact-pane" aria-label="Fact" tabIndex={0}>
          <FactPageView key={picked} ledger={ledger!} id={id!} proposals={open} onChange={() => { facts.reload(); proposals.reload(); }} />
        </section>
      )}
    </div>
  );
}

export const facts: View = { name: "facts", label: "Facts", letter: "f", of: "session", component: FactsView };
