// The conversation as the model read it. Superseded values are struck through, with a way to the fact that ended them.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Badge, LongText, MessageView, Name, pairResults, previewJson, unitIndex, VirtualList, type FindMarks, type Mark, type VirtualHandle } from "../../components";
import { useResource, type Fact, type PackDocument, type Redaction } from "../../data";
import { formatNumber, plural } from "../../format";
import { linkToFact, linkToMessage } from "../../links";
import { route, scopeKey } from "../../router";
import { ledgerOf, loadFacts, stateOf } from "../facts/model";
import { groupRedactions, readRows, rowOfSection, sectionName, type ReadRow } from "./model";

const MARKER = /\[outdated: ([^\]\n]{1,200})\]/g;

/** A superseded value where the model would have read it. */
export function DeadValue({ redaction, shown }: { redaction: Redaction; shown: string }): JSX.Element {
  const value = previewJson(redaction.value, 120);
  const now = redaction.current === null || redaction.current === undefined ? "" : previewJson(redaction.current, 80);
  const verb = redaction.ended || "superseded";
  const title = `${redaction.key}: "${value}" was ${verb}${redaction.ended_by ? ` by ${redaction.ended_by}` : ""}${now ? `; now "${now}"` : ""}. The model read: ${shown}`;
  const href = linkToFact(redaction.ledger, redaction.ended_by?.startsWith("k") ? redaction.ended_by : redaction.fact);
  if (redaction.mode === "exposed") {
    return (
      <span class="dead is-exposed" title={title}>
        <span class="dead-shown">{value && shown !== value ? shown : shown || value}</span>
        <a class="dead-chip" href={href}><span aria-hidden="true">! </span>still shown: {redaction.key}<span class="visually-hidden"> {verb}</span></a>
      </span>
    );
  }
  return (
    <span class={`dead is-${redaction.mode}`} title={title}>
      {redaction.mode === "annotated" ? <span class="dead-note">{shown}</span> : value ? <s class="dead-value"><Name text={value} /></s> : <span class="dead-note">{shown}</span>}
      <a class="dead-chip" href={href}><span aria-hidden="true">⊘ </span>{redaction.key}{now ? <> → <Name text={now} /></> : null}</a>
    </span>
  );
}

/** The facts of a key that had ended before a call, the last one first, and the one that holds now. */
interface Ended {
  ended: Fact[];
  current?: Fact;
}

type FindEnded = (key: string) => Ended | undefined;

/** What the markers of older summaries stand for: the summary has lost the values, the ledgers have not. */
function useEnded(rows: readonly ReadRow[], beforeUs: number): FindEnded {
  const scope = route.value.scope!;
  const hasMarkers = useMemo(() => rows.some((row) => row.kind === "summary" && row.item.text.includes("[outdated: ")), [rows]);
  const facts = useResource(hasMarkers ? `ended facts ${scopeKey.value}` : null, async (signal) => {
    const [dead, live] = await Promise.all([loadFacts(scope, "dead", signal), loadFacts(scope, "live", signal)]);
    return { dead: dead.flatMap((each) => each.facts), live: live.flatMap((each) => each.facts) };
  });
  return useMemo(() => {
    const byKey = new Map<string, Ended>();
    for (const fact of facts.data?.dead ?? []) {
      if (fact.ended_us && fact.ended_us > beforeUs) continue;
      const known = byKey.get(fact.key) ?? { ended: [] };
      known.ended.push(fact);
      known.ended.sort((a, b) => (b.at_us ?? 0) - (a.at_us ?? 0));
      byKey.set(fact.key, known);
    }
    for (const fact of facts.data?.live ?? []) {
      const known = byKey.get(fact.key);
      if (known && !fact.against) known.current = fact;
    }
    return (key) => byKey.get(key);
  }, [facts.data, beforeUs]);
}

/** A marker of a summary. It is a value that is known if the key had only one before; else it leads to all of them. */
function Marker({ shown, name, known }: { shown: string; name: string; known?: Ended }): JSX.Element {
  const last = known?.ended[0];
  if (!known || !last) return <span class="dead is-redacted" title="A superseded value was here; the model read this marker"><span class="dead-note">{shown}</span></span>;
  const { kind, names } = ledgerOf(last);
  const ledger = [kind, ...names];
  if (known.ended.length === 1) {
    const redaction: Redaction = {
      at: 0, start: 0, end: 0, mode: "redacted", ledger, fact: last.id, key: name, value: last.value,
      ended: stateOf(last), ended_by: last.superseded_by ?? "", current: known.current?.value,
    };
    return <DeadValue redaction={redaction} shown={shown} />;
  }
  return (
    <span class="dead is-redacted" title={`One of ${known.ended.length} values of ${name} was here; the model read this marker`}>
      <span class="dead-note">{shown}</span>
      <a class="dead-chip" href={linkToFact(ledger, last.id)}><span aria-hidden="true">⊘ </span>{plural(known.ended.length, "earlier value")}</a>
    </span>
  );
}

/** Marks of a text: those of the API, and markers in the text that it does not name (of an older summary, say). */
function marksOf(text: string, redactions: readonly Redaction[] | undefined, find: FindEnded): Mark[] | undefined {
  const marks: Mark[] = (redactions ?? []).map((redaction) => ({
    start: unitIndex(text, redaction.start),
    end: unitIndex(text, redaction.end),
    render: (shown) => <DeadValue redaction={redaction} shown={shown} />,
  }));
  for (const match of text.matchAll(MARKER)) {
    const start = match.index;
    const end = start + match[0].length;
    if (marks.some((mark) => mark.start < end && start < mark.end)) continue;
    const name = match[1]!;
    const render = (shown: string): ComponentChildren => <Marker shown={shown} name={name} known={find(name)} />;
    marks.push({ start, end, render });
  }
  return marks.length ? marks : undefined;
}

function SummaryRow({ row, redactions, find }: { row: Extract<ReadRow, { kind: "summary" }>; redactions?: readonly Redaction[]; find: FindEnded }): JSX.Element {
  const { item } = row;
  const text = item.text;
  return (
    <article class="message role-summary" aria-label={`Summary of ${item.messages} messages`}>
      <header class="message-head">
        <span class="message-role">Summary</span>
        <Badge tone="reduced">◐ {plural(item.messages, "message")}</Badge>
        <a class="message-seq mono" href={linkToMessage(item.first)}>m{item.first}</a><span class="faint">to</span><a class="message-seq mono" href={linkToMessage(item.last)}>m{item.last}</a>
        <span class="faint">made by {item.made_by ?? "rule"} at event {item.seq}</span>
        <span class="spacer" />
        <span class="faint message-meta">{formatNumber(item.tokens)} tok{item.replaced ? ` instead of ${formatNumber(item.replaced)}` : ""}</span>
      </header>
      <div class="message-body"><LongText text={text} marks={marksOf(text, redactions, find)} /></div>
    </article>
  );
}

function Row({ row, redactions, find }: { row: ReadRow; redactions: Map<number, Redaction[]>; find: FindEnded }): JSX.Element {
  switch (row.kind) {
    case "heading":
      return <div class="read-boundary"><span>{row.text}</span></div>;
    case "tools":
      return (
        <article class="message role-system" aria-label="Tools">
          <header class="message-head"><span class="message-role">Tools</span><span class="faint">{plural(row.names.length, "tool")}</span></header>
          <div class="message-body tool-names mono">{row.names.map((name) => <span key={name} class="tool-name"><Name text={name} /></span>)}</div>
        </article>
      );
    case "summary":
      return <SummaryRow row={row} redactions={redactions.get(row.item.seq) ?? redactions.get(row.item.first)} find={find} />;
    case "tail":
      return (
        <article class="message role-tail" aria-label={`Context: ${sectionName(row.section)}`}>
          <header class="message-head"><span class="message-role">{sectionName(row.section)}</span><span class="faint">written for this call</span></header>
          <div class="message-body"><LongText text={row.text} marks={marksOf(row.text, undefined, find)} /></div>
        </article>
      );
    case "message": {
      const results = pairResults(row.group);
      const marks: FindMarks = (part, call, text) => {
        const seq = call ? (results.get(call)?.seq ?? row.message.seq) : row.message.seq;
        const here = redactions.get(seq)?.filter((each) => (each.part ?? 0) === part && (each.call ?? "") === call);
        return marksOf(text, here, find);
      };
      const unpaired = row.message.tool_results.filter((result) => row.group.length === 1 || !row.group.some((each) => each.tool_calls.some((call) => call.id === result.tool_call_id)));
      return <MessageView message={row.message} results={results} marks={marks} unpaired={unpaired} />;
    }
  }
}

export function ReadPane({ pack, redactions, target }: { pack: PackDocument; redactions: readonly Redaction[]; target: { section: string; round: number } | null }): JSX.Element {
  const rows = useMemo(() => readRows(pack.history, pack.tools ?? pack.brief?.tools ?? []), [pack]);
  const byKey = useMemo(() => new Map(rows.map((row) => [row.key, row])), [rows]);
  const keys = useMemo(() => rows.map((row) => row.key), [rows]);
  const groups = useMemo(() => groupRedactions(redactions), [redactions]);
  const find = useEnded(rows, pack.manifest.request?.as_of_us || Infinity);
  const handle = useRef<VirtualHandle | null>(null);
  useEffect(() => {
    const key = target && (target.section.startsWith("m") && byKey.has(target.section) ? target.section : rowOfSection(rows, target.section));
    if (key) handle.current?.scrollTo(key);
  }, [target, rows]);
  return <VirtualList keys={keys} estimate={() => 96} handle={handle} label="The conversation as the model read it" render={(key) => <Row row={byKey.get(key)!} redactions={groups} find={find} />} />;
}
