// The help: all keys that are bound now, what colours and marks mean, and where the data of the view comes from.

import { effect, signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { Badge, Copy, Dialog, FateMark } from "../components";
import { clearReads, exported, listReads } from "../data";
import { bindings, firstKey, listSecondKeys, type Binding } from "../keys";
import { route, scopeKey } from "../router";
import "./help.css";

export const isHelpOpen = signal(false);

let shown = "";
effect(() => {
  const now = `${route.value.view} ${scopeKey.value}`;
  if (now !== shown) clearReads();
  shown = now;
});

const SHOWN_READS = 12;

/** The newest binding of each key, by group; those of the view come first. */
function groupKeys(): [string, Binding[]][] {
  const newest = new Map(bindings.value.map((each) => [each.keys, each]));
  const groups = Map.groupBy(newest.values(), (each) => each.group);
  const last = ["Everywhere", "Go to"];
  return [...groups].sort(([a], [b]) => last.indexOf(a) - last.indexOf(b));
}

function Keys(): JSX.Element {
  return (
    <div class="help-keys">
      {groupKeys().map(([group, items]) => (
        <section key={group} aria-label={group}>
          <h3>{group}</h3>
          <dl>
            {items.map((item) => (
              <div key={item.keys}><dt>{item.keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{item.label}</dd></div>
            ))}
          </dl>
        </section>
      ))}
    </div>
  );
}

const COLOURS: readonly [ComponentChildren, string][] = [
  [<FateMark fate="included" />, "Blue: shown to the model as it is; a fact that holds; work that is done."],
  [<FateMark fate="reduced" />, "Amber: shown in a shorter form; and all that waits: open calls, claims, reviews, suspended work, reserved tokens."],
  [<FateMark fate="omitted" />, "Dashed grey: left out, withdrawn, or cancelled."],
  [<FateMark fate="missing" />, "Red: missing, failed, a tool call with an unknown outcome, a superseded value, an overdrawn budget."],
  [<FateMark fate="withheld" />, "Hatched: only for readers with a permission."],
  [<Badge tone="cached">cached</Badge>, "Green: read from the prompt cache; verified."],
  [<Badge tone="written">written</Badge>, "Violet: written to the prompt cache; tokens that a frame delegated."],
  [<del>value</del>, "Struck through: superseded, retracted or expired."],
];

function Colours(): JSX.Element {
  return (
    <dl class="help-colours">
      {COLOURS.map(([mark, text]) => <div key={text}><dt>{mark}</dt><dd>{text}</dd></div>)}
    </dl>
  );
}

function buildCurl(address: string): string {
  const url = `${location.origin}/api${address}`.replaceAll("'", "%27");
  return `curl -H "Authorization: Bearer $HOLDFAST_KEY" '${url}'`;
}

function Sources(): JSX.Element {
  const reads = listReads();
  if (exported) {
    return (
      <>
        <p class="muted">This file holds the answers of <code>/api</code> to the paths below, as they were at {exported.made_at}. Redaction: {exported.redaction}.</p>
        <ul class="help-reads">{reads.slice(0, SHOWN_READS).map((read) => <li key={read}><code>{read}</code></li>)}</ul>
      </>
    );
  }
  return (
    <>
      <p class="muted">All that this view shows comes from <code>/api</code>, as JSON. The key is not in the command: set <code>HOLDFAST_KEY</code>.</p>
      <ul class="help-reads">
        {reads.slice(0, SHOWN_READS).map((read) => <li key={read}><code>/api{read}</code><Copy text={() => buildCurl(read)} label="curl" what="Copied as curl" /></li>)}
      </ul>
      {reads.length > SHOWN_READS && <p class="faint">and {reads.length - SHOWN_READS} more</p>}
    </>
  );
}

export function Help(): JSX.Element {
  return (
    <Dialog open={isHelpOpen.value} onClose={() => (isHelpOpen.value = false)} title="Help" class="help">
      {isHelpOpen.value && (
        <div class="help-parts">
          <section aria-labelledby="help-keys"><h2 id="help-keys">Keys</h2><Keys /></section>
          <section aria-labelledby="help-colours"><h2 id="help-colours">What colours and marks mean</h2><Colours /></section>
          <section aria-labelledby="help-data"><h2 id="help-data">Where this comes from</h2><Sources /></section>
        </div>
      )}
    </Dialog>
  );
}

/** The first of two keys, and what the second may be. */
export function SecondKeys(): JSX.Element {
  const first = firstKey.value;
  return (
    <div class="toast-place" role="status" aria-label="Keys">
      {first && (
        <div class="toast second-keys">
          <kbd>{first}</kbd>
          {listSecondKeys(first).map((each) => <span key={each.keys}><kbd>{each.keys.split(" ")[1]}</kbd> {each.label}</span>)}
        </div>
      )}
    </div>
  );
}
