// The words that said a fact: the messages that it came from, with the place marked.

import type { JSX } from "preact";
import { ErrorNote, Loading, LongText, Name, ROLE_NAMES, Time, textOfParts, unitIndex, type Mark } from "../../components";
import { useResource, type Fact, type Mention, type Message } from "../../data";
import { formatDuration } from "../../format";
import { link, route, scopeKey, type Scope } from "../../router";
import { ledgerOf, loadMessage, valueText } from "./model";

const QUOTED_CHARS = 600;

interface Origin {
  scope: Scope;
  seq: number;
  mention?: Mention;
  /** The ledger does not say which session; it is taken to be this one. */
  isGuess: boolean;
}

/** The messages that a fact names, as far as they can be found. */
export function originsOf(fact: Fact, scope: Scope): { origins: Origin[]; others: string[] } {
  const origins: Origin[] = [];
  const others: string[] = [];
  for (const mention of fact.mentions ?? []) {
    if (mention.seq) origins.push({ scope: { session: mention.session, actor: mention.actor, thread: mention.thread ?? "" }, seq: mention.seq, mention, isGuess: false });
  }
  const isOwn = ledgerOf(fact).kind === "session";
  for (const id of fact.provenance ?? []) {
    const seq = Number(/^m(\d+)$/.exec(id)?.[1] ?? 0);
    if (!seq) others.push(id);
    else if (!origins.some((origin) => origin.seq === seq)) origins.push({ scope, seq, isGuess: !isOwn });
  }
  const turn = fact.source?.turn;
  if (turn && !origins.some((origin) => origin.seq === turn)) origins.push({ scope, seq: turn, isGuess: !isOwn });
  return { origins, others };
}

/** The place in the text that states the value: as the fact says, or where its value occurs. */
function findPlace(text: string, fact: Fact, mention?: Mention): { start: number; end: number } | null {
  if (mention && mention.end > mention.start) return { start: unitIndex(text, mention.start), end: unitIndex(text, mention.end) };
  const value = valueText(fact.value, 500);
  const start = value ? text.toLowerCase().indexOf(value.toLowerCase()) : -1;
  return start < 0 ? null : { start, end: start + value.length };
}

function Quote({ fact, origin }: { fact: Fact; origin: Origin }): JSX.Element {
  const key = `message ${scopeKey.value} ${JSON.stringify(origin.scope)} ${origin.seq}`;
  const found = useResource<Message | null>(key, (signal) => loadMessage(origin.scope, origin.seq, signal), { frozen: true });
  if (found.error !== undefined) return <ErrorNote error={found.error} />;
  if (found.data === undefined) return <Loading />;
  const message = found.data;
  if (!message) return <p class="muted">Message m{origin.seq} cannot be read here.</p>;
  const text = textOfParts(message.content);
  const distance = (fact.at_us ?? 0) - message.time_us;
  const place = findPlace(text, fact, origin.mention);
  const from = place && place.start > QUOTED_CHARS / 2 ? place.start - QUOTED_CHARS / 2 : 0;
  const marks: Mark[] = place ? [{ start: place.start - from, end: place.end - from, render: (words) => <mark class="fact-mark">{words}</mark> }] : [];
  return (
    <figure class="quote">
      <blockquote>{from > 0 && <span class="faint">… </span>}<LongText text={text.slice(from)} marks={marks} first={QUOTED_CHARS} /></blockquote>
      <figcaption class="row">
        <a href={link("messages", [origin.seq], {}, origin.scope)}>{ROLE_NAMES[message.role] ?? message.role}, m{origin.seq}</a>
        <Time us={message.time_us} ago />
        {!!message.withdrawn && <span class="faint">withdrawn since</span>}
        {origin.isGuess && <span class="faint">The fact names m{origin.seq}, not its session: this one was recorded {distance >= 0 ? `${formatDuration(distance)} before` : "after"} it.</span>}
        {!place && <span class="faint">The value is not in these words.</span>}
      </figcaption>
    </figure>
  );
}

export function Words({ fact }: { fact: Fact }): JSX.Element {
  const scope = route.value.scope!;
  const { origins, others } = originsOf(fact, scope);
  return (
    <>
      {origins.map((origin) => <Quote key={`${origin.scope.session} ${origin.seq}`} fact={fact} origin={origin} />)}
      {others.length > 0 && <p class="muted">It came from {others.slice(0, 20).map((each, index) => <>{index > 0 && ", "}<span class="mono"><Name text={each} /></span></>)}.</p>}
      {!origins.length && !others.length && (
        <p class="muted">It names no message: {fact.source?.name ? <Name text={fact.source.name} /> : "a program"} wrote it, and nobody said it in a conversation.</p>
      )}
    </>
  );
}
