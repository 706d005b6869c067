// Changes of candidates, grouped by section, with the reason of each.

import type { JSX } from "preact";
import { FateMark, Name, showText } from "../../components";
import { SECTIONS, type PackChange, type Section } from "../../data";
import { formatNumber } from "../../format";
import { sectionName } from "../call/model";

export const SIGNS: Record<PackChange["what"], { sign: string; word: string; tone: string }> = {
  added: { sign: "+", word: "new", tone: "add" },
  gone: { sign: "−", word: "gone", tone: "gone" },
  changed: { sign: "~", word: "shown differently", tone: "change" },
  in: { sign: "›", word: "now in", tone: "add" },
  out: { sign: "‹", word: "now left out", tone: "gone" },
};

function TokenChange({ change }: { change: PackChange }): JSX.Element | null {
  const now = change.what === "gone" ? 0 : (change.entry.tokens ?? 0);
  const old = change.before?.tokens ?? 0;
  if (change.before && change.what === "changed" && now !== old) return <span class="num faint">{formatNumber(old)} → {formatNumber(now)}</span>;
  const shown = now || old;
  return shown ? <span class="num faint">{formatNumber(shown)}</span> : null;
}

/** A list of changes. `hrefOf` leads to the candidate in its call. */
export function ChangeList({ changes, hrefOf }: { changes: readonly PackChange[]; hrefOf?: (change: PackChange) => string }): JSX.Element {
  const groups = new Map<Section, PackChange[]>();
  for (const change of changes) groups.set(change.entry.section, [...(groups.get(change.entry.section) ?? []), change]);
  const ordered = [...groups].sort(([a], [b]) => SECTIONS.indexOf(a) - SECTIONS.indexOf(b));
  return (
    <div class="changes">
      {ordered.map(([section, items]) => (
        <section key={section} aria-label={sectionName(section)}>
          <h3 class="changes-section">{sectionName(section)} <span class="faint">{formatNumber(items.length)}</span></h3>
          <ul>
            {items.map((change, index) => {
              const { sign, word, tone } = SIGNS[change.what];
              const isSwitched = change.before && change.before.fate !== change.entry.fate && change.what !== "gone";
              return (
                <li key={`${change.entry.id} ${index}`} class={`change is-${tone}`}>
                  <span class={`change-sign count-${tone}`} title={word}><span aria-hidden="true">{sign}</span><span class="visually-hidden">{word}</span></span>
                  <span class="change-id mono">{hrefOf ? <a href={hrefOf(change)}><Name text={change.entry.id} /></a> : <Name text={change.entry.id} />}</span>
                  <span class="change-why muted">
                    {isSwitched && <><FateMark fate={change.before!.fate} /> → <FateMark fate={change.entry.fate} />{" · "}</>}
                    {showText(change.why)}
                    {change.entry.source && parseKey(change.entry.source) ? <span class="faint"> · {showText(parseKey(change.entry.source))}</span> : null}
                  </span>
                  <TokenChange change={change} />
                </li>
              );
            })}
          </ul>
        </section>
      ))}
    </div>
  );
}

function parseKey(source: string): string {
  return source.split(", ")[0] ?? "";
}
