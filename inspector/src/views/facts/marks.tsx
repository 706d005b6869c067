// How a fact is shown in lists and chains.

import type { JSX } from "preact";
import { Badge, Name, showText, type Tone } from "../../components";
import type { Fact } from "../../data";
import { linkToFact, stateOf, valueText, type FactState } from "./model";

const STATES: Record<FactState, { tone: Tone; mark: string; text: string; title: string }> = {
  holds: { tone: "included", mark: "●", text: "holds", title: "It holds now" },
  claim: { tone: "reduced", mark: "◔", text: "claim", title: "A statement of lower authority than the fact that it contradicts" },
  superseded: { tone: "danger", mark: "⊘", text: "superseded", title: "Another fact replaced it" },
  retracted: { tone: "danger", mark: "⊘", text: "retracted", title: "It was taken back" },
  expired: { tone: "danger", mark: "⊘", text: "expired", title: "Its time is over" },
  ended: { tone: "danger", mark: "⊘", text: "ended", title: "It has ended" },
};

export function StateBadge({ fact }: { fact: Fact }): JSX.Element {
  const known = STATES[stateOf(fact)];
  return <Badge tone={known.tone} title={known.title}><span aria-hidden="true">{known.mark}</span> {known.text}</Badge>;
}

/** The other things that are to be known of a fact, as badges. */
export function FactBadges({ fact }: { fact: Fact }): JSX.Element {
  const state = stateOf(fact);
  return (
    <>
      {state !== "holds" && <StateBadge fact={fact} />}
      {fact.is_constraint && <Badge title="A rule: packs always show it">constraint</Badge>}
      {fact.review && <Badge tone="reduced" title={`It needs a review: ${fact.review} has ended`}>◔ review</Badge>}
      {!!fact.disputes?.length && <Badge tone="reduced" title="Someone without the authority tried to retract it">◔ disputed</Badge>}
      {!!fact.requires?.length && <Badge tone="withheld" title={`Only for readers with: ${fact.requires.join(", ")}`}>▨ {fact.requires.join(", ").slice(0, 40)}</Badge>}
      {fact.scope && fact.scope !== "global" && <Badge title="The scope that it holds in">{fact.scope} {fact.scope_id}</Badge>}
    </>
  );
}

/** The value in a line; struck through once it has ended. */
export function Value({ fact, most = 200 }: { fact: Fact; most?: number }): JSX.Element {
  const state = stateOf(fact);
  const text = valueText(fact.value, most);
  const shown = showText(text.length > most ? `${text.slice(0, most)}…` : text);
  return state === "holds" || state === "claim" ? <bdi class="fact-value">{shown}</bdi> : <del class="fact-value"><bdi>{shown}</bdi></del>;
}

/** A fact in one line, with a link to its page. */
export function FactLine({ fact }: { fact: Fact }): JSX.Element {
  return (
    <div class="fact-line">
      <a href={linkToFact(fact)} class="mono"><Name text={fact.key} /></a>
      <Value fact={fact} most={120} />
      <span class="fact-line-marks"><FactBadges fact={fact} /> <span class="faint mono">{fact.id}</span></span>
    </div>
  );
}
