// One candidate: why it is in the pack or not, its text, and where it came from.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Await, Code, Empty, FateMark, JsonTree, LongText, MessageView, Name, pairResults, showText } from "../../components";
import { get, p, useResource, type Json, type ManifestEntry, type Message, type PackDocument, type Page } from "../../data";
import { formatNumber, formatShare } from "../../format";
import { linkToFact, linkToMessage, parseFactId } from "../../links";
import { link, route, scopeKey, scopeQuery } from "../../router";
import { isShown, sectionName, tailSection } from "./model";

const MOST_MESSAGES = 20;

/** The lines of the pack that state a candidate of the tail: by its id or its key. */
function findLines(pack: PackDocument, entry: ManifestEntry): string {
  const words = [entry.id, entry.source?.split(", ")[0] ?? "", parseFactId(entry.id) ? "" : entry.id.split("/")[0]!].filter((word) => word.length > 1);
  const lines = pack.history.tail.filter((text) => tailSection(text) === entry.section).flatMap((text) => text.split("\n").slice(1));
  const found = lines.filter((line) => words.some((word) => line.includes(word)));
  return (found.length ? found : lines).slice(0, 40).join("\n");
}

function PackText({ pack, entry }: { pack: PackDocument; entry: ManifestEntry }): JSX.Element | null {
  const system = pack.history.system.find((message) => message.id === entry.id);
  if (system) return <MessageView message={system} />;
  if (entry.section === "tools") return <JsonTree value={(pack.tools ?? []) as unknown as Json} open={1} />;
  if (entry.section !== "history") {
    const lines = isShown(entry) ? findLines(pack, entry) : "";
    return lines ? <Code text={lines} label="As it is in the pack" /> : null;
  }
  const from = entry.at ?? 0;
  const to = entry.to || from;
  const summary = pack.history.items.find((item) => item.type === "summary" && item.first === from);
  if (summary?.type === "summary") return <Code text={summary.text} label={`Summary of ${summary.messages} messages`} />;
  const messages = pack.history.items.flatMap((item) => (item.type === "group" ? item.messages.filter((message) => message.seq >= from && message.seq <= to) : []));
  const results = pairResults(messages);
  if (!messages.length) return null;
  return (
    <div class="detail-messages">
      {messages.slice(0, MOST_MESSAGES).filter((message) => message.role !== "tool").map((message) => <MessageView key={message.seq} message={message} results={results} />)}
      {messages.length > MOST_MESSAGES && <p class="faint">{formatNumber(messages.length - MOST_MESSAGES)} more in the conversation.</p>}
    </div>
  );
}

/** The message that a candidate came from. */
function Origin({ seq }: { seq: number }): JSX.Element {
  const scope = route.value.scope!;
  const message = useResource(
    `message ${scopeKey.value} ${seq}`,
    (signal) => get<Page<Message>>(p`/sessions/${scope.session}/messages`, { ...scopeQuery(scope), before: seq + 1, limit: 1 }, signal),
    { frozen: true },
  );
  return (
    <Await of={message}>
      {(page) => {
        const found = page.items.find((each) => each.seq === seq);
        return found ? <MessageView message={found} results={pairResults([found])} /> : <p class="faint">Event {formatNumber(seq)} is not a message.</p>;
      }}
    </Await>
  );
}

function originSeq(entry: ManifestEntry): number {
  const own = /^m(\d+)/.exec(entry.id)?.[1] ?? /^h(\d+)_/.exec(entry.id)?.[1];
  return own ? Number(own) : (entry.at ?? 0);
}

/** The session and the message that a recalled passage came from: "trip-2026-oslo/m4". */
function RecallLink({ entry }: { entry: ManifestEntry }): JSX.Element | null {
  const match = entry.section === "recall" ? /^(.*)\/m(\d+)$/s.exec(entry.id) : null;
  if (!match) return null;
  const scope = { session: match[1]!, actor: route.value.scope!.actor, thread: "" };
  return <a href={link("messages", [match[2]!], {}, scope)}>the message in {match[1]!.slice(0, 80)}</a>;
}

export function CandidateDetail({ pack, entry }: { pack: PackDocument | undefined; entry: ManifestEntry | undefined }): JSX.Element {
  const facts = useMemo(() => (entry ? parseFactId(entry.id) : null), [entry]);
  if (!entry) return <Empty title="No candidate is picked">Pick one on the left to see why it is in the pack or not.</Empty>;
  const seq = originSeq(entry);
  const rows: [string, JSX.Element | string | null][] = [
    ["Section", sectionName(entry.section)],
    ["Tokens", entry.tokens ? `${formatNumber(entry.tokens)}${isShown(entry) ? "" : " if it were shown"}` : null],
    ["Shown", entry.share !== undefined && isShown(entry) ? formatShare(entry.share, 1) : null],
    ["Source", entry.source ? <Name text={entry.source} /> : null],
    ["Authority", entry.authority ? <Name text={entry.authority} /> : null],
    ["Priority", entry.priority ?? null],
    ["Score", entry.score ? entry.score.toFixed(3) : null],
    ["Rank", entry.rank ? `#${entry.rank}` : null],
    ["Events", entry.at ? (entry.to && entry.to !== entry.at ? <><a href={linkToMessage(entry.at)}>m{entry.at}</a> to <a href={linkToMessage(entry.to)}>m{entry.to}</a></> : <a href={linkToMessage(entry.at)}>m{entry.at}</a>) : null],
    ["Fact", facts ? <a href={linkToFact(facts.ledger, facts.fact)}><Name text={`${facts.fact} of ${facts.ledger}`} /></a> : null],
    ["Origin", <RecallLink entry={entry} />],
    ["Digest", entry.digest ? <span class="mono">{entry.digest}</span> : null],
  ];
  return (
    <div class="detail">
      <div class="row"><h2 class="mono"><Name text={entry.id} /></h2><FateMark fate={entry.fate} /></div>
      <p class="detail-reason"><LongText text={entry.reason} /></p>
      <dl class="detail-list">
        {rows.filter(([label, value]) => value !== null && (label !== "Origin" || entry.section === "recall")).map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}
      </dl>
      {pack && isShown(entry) && <PackText pack={pack} entry={entry} />}
      {!isShown(entry) && entry.fate !== "withheld" && seq > 0 && (
        <section><h3>Its message</h3><Origin seq={seq} /></section>
      )}
      {entry.fate === "withheld" && <p class="muted">{showText("This reader may not know its content.")}</p>}
    </div>
  );
}
