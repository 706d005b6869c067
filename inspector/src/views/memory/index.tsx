// Memory: ask what long-term memory would recall of a user, and see why; what is known of them; how much there is.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Await, Badge, Empty, ErrorNote, Figure, Figures, Loading, LongText, Name, Panel, Time, Tokens, type Mark } from "../../components";
import { can, exported, get, isAbsent, p, post, useResource, type DeliveryBacklog, type Fact, type MemoryAnswer, type Passage, type PassageTotals, type SessionState, type UserKnowledge } from "../../data";
import { formatBytes, formatDay, formatNumber, plural } from "../../format";
import { useKeys } from "../../keys";
import { go, link, route, scopeKey, scopeQuery, type Scope } from "../../router";
import { FactBadges, Value } from "../facts/marks";
import type { View } from "../view";
import "./style.css";

const BUDGETS = [500, 1_000, 2_000, 4_000, 8_000];

function scopeOf(passage: Passage): Scope {
  const [actor = "main", , thread = ""] = passage.stream.key;
  return { session: passage.session, actor: actor === "main" ? "" : actor, thread };
}

/** The words that a passage was found by, as its reason names them. */
function markWords(passage: Passage): Mark[] {
  const list = /has ([^;]+)/.exec(passage.reason)?.[1];
  if (!list) return [];
  const text = passage.text.toLowerCase();
  const marks: Mark[] = [];
  for (const word of list.split(",").map((each) => each.trim().toLowerCase()).filter(Boolean).slice(0, 20)) {
    for (let at = text.indexOf(word); at >= 0 && marks.length < 60; at = text.indexOf(word, at + word.length)) {
      if (text.length === passage.text.length && !marks.some((mark) => at < mark.end && at + word.length > mark.start)) marks.push({ start: at, end: at + word.length, render: (part) => <mark class="memory-mark">{part}</mark> });
    }
  }
  return marks;
}

function PassageRow({ passage, best }: { passage: Passage; best: number }): JSX.Element {
  return (
    <article class="passage" aria-label={`${passage.id}`}>
      {best > 0 && (
        <div class="passage-score" title={`Score ${passage.score}`}>
          <span class="figure">{passage.score.toFixed(3)}</span>
          <span class="score-bar" aria-hidden="true"><span style={{ width: `${(100 * passage.score) / best}%` }} /></span>
        </div>
      )}
      <div class="passage-body">
        <LongText text={passage.text} marks={markWords(passage)} first={500} />
        <div class="passage-origin">
          <a href={link("messages", [passage.seq], {}, scopeOf(passage))}><Name text={passage.session} />, m{passage.seq}</a>
          <span>{passage.speaker ? <Name text={passage.speaker} /> : passage.role}</span>
          <span title={new Date(passage.time_us / 1000).toISOString()}>{formatDay(passage.time_us)}</span>
          <span><Tokens count={passage.tokens} /> tok</span>
          {passage.reason && <span class="passage-reason">{passage.reason}</span>}
        </div>
      </div>
    </article>
  );
}

function Recalled({ user, query, budget }: { user: string; query: string; budget: number }): JSX.Element {
  const answer = useResource(`recall ${user} ${budget} ${query}`, (signal) => post<MemoryAnswer>("/memory/recall", { budget, query, user }, {}, signal));
  if (answer.error !== undefined && exported && isAbsent(answer.error)) return <Empty title="A file answers no new question">Open the store itself with <code>holdfast inspect</code> to ask its memory.</Empty>;
  return (
    <Await of={answer}>
      {(data) => {
        const best = Math.max(0, ...data.passages.map((each) => each.score));
        const used = data.passages.reduce((sum, each) => sum + each.tokens, 0);
        return (
          <>
            <p class="panel-note" role="status">{plural(data.passages.length, "passage")}, {formatNumber(used)} of {formatNumber(data.budget)} tokens. As they were said: a pack shows them without superseded values.</p>
            {data.passages.length ? <div class="passages">{data.passages.map((each) => <PassageRow key={each.id} passage={each} best={best} />)}</div> : <Empty title="Nothing is recalled">No passage of this user has these words or stands near one that does.</Empty>}
          </>
        );
      }}
    </Await>
  );
}

function KnownFact({ fact }: { fact: Fact }): JSX.Element {
  return (
    <div class="known-fact">
      <span class="mono"><Name text={fact.key} /></span>
      <Value fact={fact} />
      <span class="row"><FactBadges fact={fact} /></span>
    </div>
  );
}

function Known({ user }: { user: string }): JSX.Element {
  const known = useResource(`known ${user}`, (signal) => get<UserKnowledge>("/memory/known", { user }, signal));
  if (known.error !== undefined) return isAbsent(known.error) ? <p class="panel-note">Not here.</p> : <ErrorNote error={known.error} onRetry={known.reload} />;
  if (!known.data) return <Loading />;
  const { facts, passages } = known.data;
  return (
    <>
      {facts.length > 0 && <div class="known-facts">{facts.map((fact) => <KnownFact key={`${fact.ledger?.kind} ${fact.id}`} fact={fact} />)}</div>}
      {passages.length > 0 && <div class="passages is-plain">{passages.map((each) => <PassageRow key={each.id} passage={each} best={0} />)}</div>}
      {!facts.length && !passages.length && <p class="panel-note">Nothing is known of this user.</p>}
    </>
  );
}

function Totals({ user }: { user: string }): JSX.Element | null {
  const totals = useResource(`memory totals ${user}`, (signal) => get<PassageTotals>("/memory/totals", { user }, signal));
  const backlog = useResource(exported ? null : "memory backlog", (signal) => get<DeliveryBacklog>("/memory/backlog", {}, signal));
  if (!totals.data) return null;
  const data = totals.data;
  const aside = backlog.data?.set_aside.length ?? 0;
  return (
    <Figures>
      <Figure label="Passages">{formatNumber(data.passages)}</Figure>
      <Figure label="From sessions">{formatNumber(data.sessions)}</Figure>
      <Figure label="Text">{formatBytes(data.text_bytes)}</Figure>
      {data.newest_us ? <Figure label="Newest"><Time us={data.newest_us} ago /></Figure> : null}
      {backlog.data && <Figure label="Wait to be taken in">{formatNumber(backlog.data.waiting.length)}</Figure>}
      {aside > 0 && <Figure label="Set aside" tone="danger" note={can("admin") ? <a href={link("store", [], {}, null)}>why</a> : undefined}>{formatNumber(aside)}</Figure>}
    </Figures>
  );
}

function MemoryView(): JSX.Element {
  const scope = route.value.scope!;
  const state = useResource(`state ${scopeKey.value}`, (signal) => get<SessionState>(p`/sessions/${scope.session}`, scopeQuery(scope), signal));
  const { query: asked = "", budget: wanted = "1000", user: named } = route.value.query;
  const user = named ?? state.data?.identity?.user_id ?? "";
  const [query, setQuery] = useState(asked);
  const budget = Number(wanted) || 1_000;
  useEffect(() => setQuery(asked), [asked]);
  useKeys("Memory", { f: ["Ask a question", () => document.getElementById("memory-question")?.focus()] });
  const ask = (next: { query?: string; budget?: number; user?: string }): void =>
    go(link("memory", [], { query: next.query ?? asked, budget: (next.budget ?? budget) === 1_000 ? "" : (next.budget ?? budget), user: next.user ?? named }));

  if (state.data === undefined) return state.error !== undefined ? <div class="page"><ErrorNote error={state.error} onRetry={state.reload} /></div> : <Loading />;
  return (
    <div class="page memory">
      <div class="row memory-head">
        <h1>Memory{user && <> of <Name text={user} /></>}</h1>
        {state.data.has_memory === true ? <Badge tone="included">● this session recalls it</Badge> : <Badge tone="omitted" title="create_session(…, memory=True)">○ this session recalls nothing by itself</Badge>}
      </div>
      {!user ? (
        <Empty title="This session belongs to no user">
          Long-term memory is of a user. Name one:
          <form class="row" onSubmit={(event) => { event.preventDefault(); ask({ user: new FormData(event.currentTarget).get("user") as string }); }}>
            <input class="input memory-user" name="user" aria-label="User" /><button type="submit" class="button">Look</button>
          </form>
        </Empty>
      ) : (
        <>
          <Totals user={user} />
          <form class="memory-form" role="search" aria-label="Ask the memory" onSubmit={(event) => { event.preventDefault(); ask({ query: query.trim() }); }}>
            <input id="memory-question" class="input" type="search" placeholder="Ask what is remembered: which hotels did she like?" aria-label="Question" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
            <label class="row memory-budget"><span class="muted">Tokens</span>
              <select class="input" value={String(budget)} onChange={(event) => ask({ query: query.trim(), budget: Number(event.currentTarget.value) })}>{BUDGETS.map((each) => <option key={each} value={each}>{formatNumber(each)}</option>)}</select>
            </label>
            <button type="submit" class="button primary">Recall</button>
          </form>
          {asked && <Panel title={<>Recalled for “<Name text={asked} />”</>} class="recalled"><Recalled key={`${user} ${asked} ${budget}`} user={user} query={asked} budget={budget} /></Panel>}
          <Panel title="What is known at the start of a session"><Known user={user} /></Panel>
        </>
      )}
    </div>
  );
}

export const memory: View = { name: "memory", label: "Memory", letter: "e", of: "session", component: MemoryView };
