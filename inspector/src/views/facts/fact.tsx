// The page of one fact: its chain both ways, who said it and why, claims, disputes, and what rests on it.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Await, Badge, ConfirmDialog, Copy, Disclosure, JsonTree, LongText, Name, Panel, showText, showToast, Time } from "../../components";
import { can, liveVersion, post, useResource, type Fact, type FactExplanation, type OpenProposal } from "../../data";
import { formatDay, formatTime, plural } from "../../format";
import { link, route, scopeKey, scopeQuery } from "../../router";
import { FactBadges, FactLine, StateBadge, Value } from "./marks";
import { ledgerOf, ledgerTitle, linkToFact, loadFact, parseLedger, stateOf, whoSaid, wholePath, type FactPage } from "./model";
import { ProposalRow } from "./proposals";
import { ShownIn } from "./shown_in";
import { Words } from "./words";

const RULES: Record<string, string> = {
  implicit: "a newer value of the same key", explicit: "it was said so", temporal: "newer by its time", authority: "a source of higher authority", manual: "someone decided it",
};

function When({ us }: { us: number }): JSX.Element {
  return <span class="nowrap" title={new Date(us / 1000).toISOString()}>{formatDay(us)}, {formatTime(us)}</span>;
}

/** All values of the key, oldest first: ended ones, the current one, and claims at their time. */
function chainOf(page: FactPage): Fact[] {
  const { why, fact } = page;
  const all = [...why.chain, ...(why.current ? [why.current] : []), ...why.claims];
  if (!all.some((each) => each.id === fact.id)) all.push(fact);
  return [...new Map(all.map((each) => [each.id, each])).values()].sort((a, b) => (a.at_us ?? 0) - (b.at_us ?? 0));
}

function endingOf(fact: Fact, chain: readonly Fact[]): ComponentChildren {
  const state = stateOf(fact);
  if (state === "holds") return null;
  if (state === "claim") return <>Too low an authority to replace <a href={linkToFact({ ...fact, id: fact.against! })}>{fact.against}</a>: it stays a claim.</>;
  const next = fact.superseded_by && chain.find((each) => each.id === fact.superseded_by);
  const ended = fact.ended_us ?? fact.expires_us;
  return (
    <>
      {state === "superseded" && fact.superseded_by
        ? <>Superseded by {next ? <a href={linkToFact(next)}>{fact.superseded_by}</a> : <a href={linkToFact({ ...fact, id: fact.superseded_by })}>{fact.superseded_by}</a>}</>
        : state.charAt(0).toUpperCase() + state.slice(1)}
      {ended ? <> on <When us={ended} /></> : null}
      {fact.rule && <> ({RULES[fact.rule] ?? fact.rule})</>}
      {fact.why ? <>: “{showText(fact.why)}”</> : "."}
    </>
  );
}

function Chain({ page }: { page: FactPage }): JSX.Element {
  const chain = chainOf(page);
  return (
    <ol class="chain">
      {chain.map((each) => {
        const state = stateOf(each);
        return (
          <li key={each.id} class={`chain-step is-${state} ${each.id === page.fact.id ? "is-here" : ""}`} aria-current={each.id === page.fact.id ? "true" : undefined}>
            <div class="chain-head">
              <a class="mono" href={linkToFact(each)}>{each.id}</a>
              <Value fact={each} />
              <StateBadge fact={each} />
              {each.key !== page.fact.key && <span class="faint">under the key <span class="mono"><Name text={each.key} /></span></span>}
            </div>
            <div class="muted">
              {state === "claim" ? "Claimed" : "Said"} by <strong><Name text={whoSaid(each)} /></strong> with the authority <em>{each.source?.authority ?? "peer"}</em> on <When us={each.at_us ?? 0} />
              {!!each.provenance?.length && <> in {each.provenance.slice(0, 4).map((id, index) => <>{index > 0 && ", "}{/^m\d+$/.test(id) && ledgerOf(each).kind === "session" ? <a href={link("messages", [id.slice(1)])}>{id}</a> : <span class="mono"><Name text={id} /></span>}</>)}</>}.
              {each.reason && <> “{showText(each.reason)}”</>}
            </div>
            {state !== "holds" && <div class="chain-end">{endingOf(each, chain)}</div>}
          </li>
        );
      })}
    </ol>
  );
}

function Property({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  return <div class="property"><dt>{label}</dt><dd>{children}</dd></div>;
}

function Properties({ fact }: { fact: Fact }): JSX.Element {
  const scope = route.value.scope!;
  const source = fact.source ?? {};
  return (
    <dl class="properties">
      <Property label="Ledger">{ledgerTitle(ledgerOf(fact), scope)}</Property>
      <Property label="Authority">{source.authority ?? "peer"}</Property>
      <Property label="Said by"><Name text={whoSaid(fact)} /></Property>
      <Property label="Since"><When us={fact.valid_from_us || fact.at_us || 0} /></Property>
      {fact.expires_us ? <Property label="Expires"><When us={fact.expires_us} /></Property> : null}
      {fact.is_constraint && <Property label="Constraint">{fact.constraint_type ?? "yes"}</Property>}
      {!!fact.requires?.length && <Property label="Only for readers with">{fact.requires.join(", ")}</Property>}
      {fact.scope && fact.scope !== "global" && <Property label="Scope">{fact.scope} <Name text={fact.scope_id ?? ""} /></Property>}
      {fact.ref && <Property label="Elsewhere"><Name text={fact.ref} /></Property>}
      <Property label="Id"><span class="mono">{fact.id}</span></Property>
    </dl>
  );
}

function Review({ fact, onDone }: { fact: Fact; onDone: () => void }): JSX.Element | null {
  const [isAsked, setAsked] = useState(false);
  const scope = route.value.scope!;
  if (!fact.review && !fact.disputes?.length) return null;
  async function confirm(): Promise<boolean> {
    await post(`${wholePath(scope, ledgerOf(fact))}/review/confirm`, { fact: fact.id }, scopeQuery(scope));
    showToast("Confirmed");
    onDone();
    return true;
  }
  return (
    <div class="notice tone-reduced">
      <div class="stack">
        {fact.review && (
          <p>
            <strong>It needs a review.</strong>{" "}
            {/^k\d+$/.test(fact.review) ? <>It rests on <a href={linkToFact({ ...fact, id: fact.review })}>{fact.review}</a>, which has ended.</> : <>The messages that state it were withdrawn ({showText(fact.review)}).</>}
          </p>
        )}
        {fact.disputes?.map((dispute, index) => (
          <p key={index}><strong>Disputed.</strong> <Name text={dispute.by} /> tried to take it back{dispute.at_us ? <> on <When us={dispute.at_us} /></> : null}, but has only the authority <em>{dispute.authority}</em>. The fact still holds until someone decides.</p>
        ))}
      </div>
      {can("write") && <button type="button" class="button small" onClick={() => setAsked(true)}>Confirm it</button>}
      {isAsked && (
        <ConfirmDialog title="Confirm this fact?" action="Confirm" run={confirm} onClose={() => setAsked(false)}>
          <p><strong class="mono"><Name text={fact.key} /></strong> = <Value fact={fact} /> is marked as still true. Its review ends, and disputes about it are settled. The value does not change.</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function Related({ title, facts, empty }: { title: string; facts: readonly Fact[]; empty: string }): JSX.Element {
  return (
    <Panel title={title} aside={<span class="faint">{facts.length || ""}</span>}>
      {facts.length ? <div class="panel-rows">{facts.map((each) => <FactLine key={each.id} fact={each} />)}</div> : <p class="panel-note">{empty}</p>}
    </Panel>
  );
}

function Story({ why }: { why: FactExplanation }): JSX.Element | null {
  if (!why.story.length) return null;
  return (
    <Disclosure summary={<span>Every step in the log <span class="faint">({plural(why.story.length, "step")})</span></span>} class="story">
      {() => <ul class="story-steps">{why.story.map((step, index) => <li key={index}><Time us={step.time_us} ago /> <span class="mono">{step.fact}</span> {showText(step.what)}</li>)}</ul>}
    </Disclosure>
  );
}

export function FactPageView({ ledger, id, proposals, onChange }: { ledger: string; id: string; proposals: readonly OpenProposal[]; onChange: () => void }): JSX.Element {
  const scope = route.value.scope!;
  const page = useResource(`fact ${scopeKey.value} ${ledger} ${id}`, (signal) => loadFact(scope, parseLedger(ledger), id, signal), { version: liveVersion.value });
  function change(): void {
    page.reload();
    onChange();
  }
  return (
    <Await of={page}>
      {(data) => {
        const { fact, why, overtaken } = data;
        const isText = typeof fact.value === "string" || typeof fact.value === "number" || typeof fact.value === "boolean" || fact.value === null;
        const own = proposals.filter((each) => each.proposal.fact === fact.id || (each.proposal.key === fact.key && each.ledger[0] === ledgerOf(fact).kind));
        const isEnded = !["holds", "claim"].includes(stateOf(fact));
        return (
          <article class="fact-page" aria-label={`Fact ${fact.key}`}>
            <header class="fact-head">
              <div class="row">
                <a class="fact-back" href={link("facts")}>← All facts</a>
                <span class="spacer" />
                <Copy text={() => location.href} label="Link" what="Link copied" />
              </div>
              <h1 class="mono"><Name text={fact.key} /></h1>
              <div class={`fact-now ${isEnded ? "is-ended" : ""}`}>{isText ? (isEnded ? <del><LongText text={String(fact.value)} first={1_000} /></del> : <LongText text={String(fact.value)} first={1_000} />) : <JsonTree value={fact.value} open={2} />}</div>
              <div class="row"><StateBadge fact={fact} /><FactBadges fact={stateOf(fact) === "holds" ? fact : { ...fact, status: "live", against: "", expires_us: null }} />{isEnded && why.current && <span>Now: <a href={linkToFact(why.current)}><Value fact={why.current} /></a></span>}</div>
            </header>
            {own.map((each) => <div key={each.id} class="notice tone-reduced"><ProposalRow proposal={each} onDone={change} /></div>)}
            <Review fact={fact} onDone={change} />
            <Properties fact={fact} />
            <Panel title="The words that said it"><div class="panel-body"><Words fact={fact} /></div></Panel>
            <Panel title="What it was, and what it became" aside={why.claims.length > 0 && <Badge tone="reduced">{plural(why.claims.length, "claim")} of lower authority</Badge>}>
              <div class="panel-body"><Chain page={data} /><Story why={why} /></div>
            </Panel>
            <div class="fact-two">
              <Related title="It rests on" facts={why.depends_on} empty="Nothing: it was stated by itself." />
              <Related title="Rests on it" facts={why.derived} empty="No fact depends on it." />
            </div>
            {overtaken.length > 0 && <Related title="Rests on an earlier value" facts={overtaken} empty="" />}
            <Panel title="Calls that were shown it"><div class="panel-body"><ShownIn key={`${ledger} ${id}`} fact={fact} /></div></Panel>
          </article>
        );
      }}
    </Await>
  );
}
