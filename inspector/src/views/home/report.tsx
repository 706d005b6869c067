// The report on a log: how often the agent was shown dead values, where its cache broke, what that cost, and what Holdfast
// would have sent.

import type { JSX } from "preact";
import { Disclosure, Figure, Figures, Name, Panel, showText } from "../../components";
import { exported, get, isAbsent, list, p, useResource, type DeadValue, type Json, type LogFigures, type LogReport } from "../../data";
import { formatMoney, formatNumber, formatShare, formatShort, plural } from "../../format";
import { linkToMessage } from "../../links";
import { link, route, scopeQuery, type Scope } from "../../router";

const MOST_ROWS = 5;
const MOST_COLUMNS = 400;
/** From so many columns on, there is no room between them. */
const MANY_COLUMNS = 100;
const KINDS: Record<string, string> = {
  "claude-code": "Claude Code", "openai-chat": "OpenAI chat", "openai-responses": "OpenAI responses", anthropic: "Anthropic", langgraph: "LangGraph", holdfast: "Holdfast",
};

async function findReport(scope: Scope, signal: AbortSignal): Promise<LogReport | null> {
  const path = p`/sessions/${scope.session}/entries`;
  try {
    if (exported) return (await get<{ body: Json }>(`${path}/report`, scopeQuery(scope), signal)).body as unknown as LogReport;
    const found = await list<{ key: string; body: Json }>(path, { ...scopeQuery(scope), kind: "log-report", limit: 1 }, 1, signal);
    return (found[0]?.body ?? null) as unknown as LogReport | null;
  } catch (error) {
    if (isAbsent(error)) return null;
    throw error;
  }
}

/** The report of the session that is shown (or of `of`), if it has one. */
export function ReportCard({ of, compact }: { of?: Scope; compact?: boolean }): JSX.Element | null {
  const scope = of ?? route.value.scope;
  const report = useResource(scope ? `report ${JSON.stringify(scope)}` : null, (signal) => findReport(scope!, signal), { frozen: true });
  if (!report.data || !scope) return null;
  return <Report report={report.data} scope={scope} compact={!!compact} />;
}

/** What was sent. Without prices, tokens are the figure; without usage in the log, it is an estimate. */
function Sent({ report }: { report: LogReport }): JSX.Element {
  const estimated = report.estimated ?? 0;
  const how = !estimated ? "" : estimated === report.calls ? ", estimated: the log has no usage" : `, ${formatNumber(estimated)} estimated`;
  const calls = `in ${plural(report.calls, "call")}${how}`;
  if (!report.is_priced) return <Figure label="Sent" note={`tokens ${calls}; no prices: name a model`}>{formatShort(report.sent.tokens)}</Figure>;
  return <Figure label="Sent" note={`${formatShort(report.sent.tokens)} tokens ${calls}`}>{formatMoney(report.sent.cost)}</Figure>;
}

/** What Holdfast would have sent, against the log in the same ideal cache: a real cache against an ideal one says nothing. */
function WithHoldfast({ report, ours }: { report: LogReport; ours: LogFigures }): JSX.Element {
  if (!report.is_priced) return <Figure label="With Holdfast" note="tokens">{formatShort(ours.tokens)}</Figure>;
  const cost = ours.cost ?? 0;
  const base = report.sent.modelled_cost ?? 0;
  const against = base > 0 && cost !== base ? `${formatShare(Math.abs(base - cost), base)} ${cost < base ? "less" : "more"} than the log in the same ideal cache (${formatMoney(base)})` : `the log in the same ideal cache: ${formatMoney(base)}`;
  return <Figure label="With Holdfast" tone={cost < base ? "cached" : undefined} note={`${formatShort(ours.tokens)} tokens; ${against}`}>{formatMoney(cost)}</Figure>;
}

/** Two prompts of each call side by side: as sent, and as Holdfast would have sent it. */
function Columns({ report, scope }: { report: LogReport; scope: Scope }): JSX.Element | null {
  const details = report.calls_detail ?? [];
  if (details.length < 2) return null;
  const step = Math.ceil(details.length / MOST_COLUMNS);
  const shown = details.filter((_, index) => index % step === 0);
  const most = Math.max(1, ...shown.map((call) => Math.max(call.sent_tokens, call.holdfast_tokens)));
  return (
    <figure class="report-chart" aria-label="Prompt tokens of each call: as sent, and as Holdfast would have sent them">
      {/* For the pointer only: the timeline has the same calls, by keyboard. */}
      <div class={`report-columns ${shown.length > MANY_COLUMNS ? "is-dense" : ""}`} aria-hidden="true">
        {shown.map((call) => (
          <a key={call.reply} class="report-column" href={link("call", [`m${call.reply}`], {}, scope)} tabIndex={-1} title={`m${call.reply}: sent ${formatNumber(call.sent_tokens)}, Holdfast ${formatNumber(call.holdfast_tokens)}${call.dead ? `, ${plural(call.dead, "dead value")}` : ""}${call.break ? ", cache broke" : ""}`}>
            <span class="report-sent" style={{ height: `${(100 * call.sent_tokens) / most}%` }} />
            <span class="report-ours" style={{ height: `${(100 * call.holdfast_tokens) / most}%` }} />
            {call.dead ? <span class="report-dead" /> : null}
          </a>
        ))}
      </div>
      <figcaption class="row faint"><span><i class="swatch report-sent-fill" />sent</span><span><i class="swatch fill-included" />Holdfast</span><span><i class="swatch report-dead-fill" />shown a dead value</span><span class="spacer" /><span>{formatShort(most)} tokens at most, {plural(details.length, "call")}</span></figcaption>
    </figure>
  );
}

/** What was outdated: of a fact, its value in the words that said it. Of a tool, its result: the name of a file is not. */
function DeadText({ value }: { value: DeadValue }): JSX.Element {
  if (value.kind === "stale_read") return <Name text={value.what} />;
  const [words, dead] = [value.words ?? "", value.value ?? ""];
  const at = dead ? words.indexOf(dead) : -1;
  if (at < 0) return <><Name text={value.what} />{words && <> “<Name text={words} />”</>}</>;
  return <><Name text={value.what} class="muted" />: “<Name text={words.slice(0, at)} /><s class="dead-value"><Name text={dead} /></s><Name text={words.slice(at + dead.length)} />”</>;
}

function Report({ report, scope, compact }: { report: LogReport; scope: Scope; compact: boolean }): JSX.Element {
  const dead = [...(report.dead ?? [])].sort((a, b) => b.calls - a.calls);
  const breaks = [...(report.cache_breaks ?? [])].sort((a, b) => b.cost - a.cost);
  const times = dead.reduce((sum, each) => sum + each.calls, 0);
  const lost = breaks.reduce((sum, each) => sum + each.cost, 0);
  const values = Math.max(report.dead_values ?? 0, dead.length);
  const isUnknown = !!report.calls && report.estimated === report.calls;
  const source = [KINDS[report.source.kind] ?? report.source.kind, report.source.file?.split("/").at(-1), report.source.lines ? plural(report.source.lines, "line") : ""].filter(Boolean).join(", ");
  const details = (
    <>
      <Columns report={report} scope={scope} />
      <div class="report-lists">
        {dead.length > 0 && (
          <section>
            <h3>Dead values that the model was shown</h3>
            <ol class="report-list">
              {dead.slice(0, MOST_ROWS).map((each, index) => (
                <li key={index}>
                  <span class="report-count tone-text-danger">{formatNumber(each.calls)}×</span>
                  <span><DeadText value={each} /> <a href={linkWithin(scope, each.at)}>m{each.at}</a><br /><span class="muted">{each.kind === "stale_read" ? "outdated by " : ""}{showText(each.by)} <a href={linkWithin(scope, each.died_at)}>m{each.died_at}</a></span></span>
                  <span class="num">{formatMoney(each.cost)}</span>
                </li>
              ))}
            </ol>
            {dead.length > MOST_ROWS && <p class="faint">and {plural(dead.length - MOST_ROWS, "other")}</p>}
          </section>
        )}
        {breaks.length > 0 && (
          <section>
            <h3>Where the cache broke</h3>
            <ol class="report-list">
              {breaks.slice(0, MOST_ROWS).map((each, index) => (
                <li key={index}>
                  <span class="report-count"><span aria-hidden="true">⌁</span></span>
                  <span><a href={link("call", [`m${each.reply}`], {}, scope)}>m{each.reply}</a> {showText(each.why || each.cause)}<br /><span class="muted">{plural(each.tokens_rewritten, "token")} paid again</span></span>
                  <span class="num">{formatMoney(each.cost)}</span>
                </li>
              ))}
            </ol>
            {breaks.length > MOST_ROWS && <p class="faint">and {plural(breaks.length - MOST_ROWS, "other")}</p>}
          </section>
        )}
      </div>
      {!!report.assumptions?.length && (
        <Disclosure summary={<span class="muted">What these figures rest on</span>}>{() => <ul class="report-notes">{report.assumptions!.map((text, index) => <li key={index}>{showText(text)}</li>)}</ul>}</Disclosure>
      )}
    </>
  );
  return (
    <Panel class="report" title={<>Report on <Name text={source} /></>} aside={report.model ? <span class="faint"><Name text={report.model} /></span> : null}>
      <div class="report-body">
        <Figures>
          <Figure label="Dead values shown" tone={times ? "danger" : undefined} note={values ? plural(values, "value") : ""}>{formatNumber(times)}×</Figure>
          <Figure label="Cache breaks" tone={breaks.length ? "reduced" : undefined} note={isUnknown ? "the log has no usage" : lost ? `${formatMoney(lost)} paid again` : ""}>{isUnknown ? "–" : formatNumber(breaks.length)}</Figure>
          <Sent report={report} />
          {report.holdfast && <WithHoldfast report={report} ours={report.holdfast} />}
        </Figures>
        {compact ? <Disclosure summary={<span class="muted">Details</span>}>{() => details}</Disclosure> : details}
      </div>
    </Panel>
  );
}

function linkWithin(scope: Scope, seq: number): string {
  return route.value.scope ? linkToMessage(seq) : link("messages", [seq], {}, scope);
}
