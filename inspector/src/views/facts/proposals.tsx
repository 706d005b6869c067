// Proposals that wait for a decision: what a message or a fork seems to change.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, ConfirmDialog, Name, showText, showToast } from "../../components";
import { can, p, post, type OpenProposal } from "../../data";
import { formatShare } from "../../format";
import { link, route, scopeQuery } from "../../router";
import { valueText } from "./model";

const CHANGES: Record<string, string> = { supersede: "replace", assert: "add", retract: "take back", expire: "end" };

export function ProposalRow({ proposal: open, onDone }: { proposal: OpenProposal; onDone: () => void }): JSX.Element {
  const [asked, setAsked] = useState<"accept" | "decline" | null>(null);
  const scope = route.value.scope!;
  const { proposal } = open;
  const [kind = "", ...names] = open.ledger;
  const what = CHANGES[proposal.change] ?? proposal.change;
  const subject = <strong class="mono"><Name text={proposal.key || proposal.fact || "a new fact"} /></strong>;
  async function decide(): Promise<boolean> {
    await post(p`/sessions/${scope.session}/facts/proposals/${open.id}/${asked!}`, {}, scopeQuery(scope));
    showToast(asked === "accept" ? "Accepted" : "Declined");
    onDone();
    return true;
  }
  return (
    <div class="proposal">
      <div class="proposal-text">
        <div class="row">
          <Badge tone="reduced">◔ proposal</Badge>
          <span>{what} {proposal.fact ? <a href={link("facts", [`${kind} ${names.join("/")}`, proposal.fact])}>{subject}</a> : subject}</span>
          {proposal.value !== undefined && proposal.value !== null && <span>→ <span class="fact-value">{showText(valueText(proposal.value))}</span></span>}
        </div>
        <div class="faint">{showText(proposal.reason)}{proposal.confidence < 1 && <> · confidence {formatShare(proposal.confidence, 1)}</>}{open.message > 1 && <> · <a href={link("messages", [open.message])}>m{open.message}</a></>}</div>
      </div>
      {can("write") && (
        <div class="row">
          <button type="button" class="button small" onClick={() => setAsked("accept")}>Accept</button>
          <button type="button" class="button small" onClick={() => setAsked("decline")}>Decline</button>
        </div>
      )}
      {asked && (
        <ConfirmDialog title={asked === "accept" ? "Accept this proposal?" : "Decline this proposal?"} action={asked === "accept" ? "Accept" : "Decline"} run={decide} onClose={() => setAsked(null)}>
          {asked === "accept" ? (
            <p>The change is applied to {subject} in the ledger <span class="mono"><Name text={open.ledger.join(" ")} /></span>, with the authority of the identity of this session. The value before stays in the chain of the fact. If that authority is too low, the new value becomes a claim.</p>
          ) : (
            <p>No fact changes. The proposal is closed, and the decision is in the log of the session.</p>
          )}
        </ConfirmDialog>
      )}
    </div>
  );
}
