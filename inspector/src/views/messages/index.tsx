// The transcript: every message, with its calls and their results folded together. Any place is reached at once.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Await, Empty, ErrorNote, MessageView, pairResults, VirtualList, type VirtualHandle } from "../../components";
import { get, liveVersion, p, useResource, type Message, type SessionState } from "../../data";
import { formatDay, formatNumber, plural } from "../../format";
import { useKeys } from "../../keys";
import { linkToCall } from "../../links";
import { go, link, route, scopeKey, scopeQuery } from "../../router";
import type { View } from "../view";
import { STRETCH, Transcript } from "./pages";
import "./style.css";

/** The height of a message that was never drawn. */
const ROW_PX = 96;

interface Row {
  stretch: number;
  message?: Message;
  /** The messages near it: results are found there. */
  near?: readonly Message[];
  day?: string;
}

/** The rows of all stretches: messages where they are loaded, else a gap. */
function buildRows(transcript: Transcript): Map<string, Row> {
  const rows = new Map<string, Row>();
  let day = "";
  for (let index = 0; index < transcript.size; index += 1) {
    const messages = transcript.messagesOf(index);
    if (!messages) {
      rows.set(`gap ${index}`, { stretch: index });
      day = "";
      continue;
    }
    const known = new Set(messages.flatMap((message) => message.tool_calls.map((call) => call.id)));
    const near = [...messages, ...(transcript.messagesOf(index + 1) ?? [])];
    for (const message of messages) {
      const isFolded = message.role === "tool" && message.tool_results.length > 0 && message.tool_results.every((result) => known.has(result.tool_call_id));
      if (isFolded) continue;
      const today = formatDay(message.time_us);
      rows.set(`m${message.seq}`, { stretch: index, message, near, day: today === day ? undefined : today });
      day = today;
    }
  }
  return rows;
}

/** The row of a message: its own, or that of the call whose result it is. */
function rowOf(transcript: Transcript, rows: Map<string, Row>, seq: number): string | undefined {
  if (rows.has(`m${seq}`)) return `m${seq}`;
  const near = transcript.messagesOf(transcript.stretchOf(seq));
  if (!near) return undefined;
  const results = near.find((message) => message.seq === seq)?.tool_results.map((result) => result.tool_call_id) ?? [];
  const caller = near.find((message) => message.tool_calls.some((call) => results.includes(call.id)));
  if (caller) return `m${caller.seq}`;
  const before = near.filter((message) => message.seq <= seq && rows.has(`m${message.seq}`)).at(-1) ?? near.find((message) => rows.has(`m${message.seq}`));
  return before && `m${before.seq}`;
}

function MessageRow({ row, isPicked }: { row: Row; isPicked: boolean }): JSX.Element {
  const message = row.message!;
  const own = row.near!.filter((each) => each.seq >= message.seq);
  const unpaired = message.tool_results;
  const toCall = message.role === "assistant" ? <a class="to-call" href={linkToCall(`m${message.seq}`)}>what the model saw</a> : null;
  return (
    <>
      {row.day && <div class="day"><span>{row.day}</span></div>}
      <MessageView message={message} results={message.tool_calls.length ? pairResults(own) : undefined} unpaired={unpaired} isPicked={isPicked} extra={toCall} />
    </>
  );
}

function List({ state }: { state: SessionState }): JSX.Element {
  const scope = route.value.scope!;
  const wanted = Number(route.value.rest[0] ?? 0);
  const transcript = useMemo(() => new Transcript(scope, state.version, state.messages), []);
  useEffect(() => () => transcript.close(), []);
  useEffect(() => {
    if (state.version !== transcript.last) transcript.grow(state.version, state.messages);
  }, [state.version]);
  const rows = useMemo(() => buildRows(transcript), [transcript.version.value, state.version]);
  const keys = useMemo(() => [...rows.keys()], [rows]);
  const handle = useRef<VirtualHandle | null>(null);
  const [arrived, setArrived] = useState(-1);
  const target = wanted || state.version;
  useEffect(() => {
    if (arrived === target) return;
    if (arrived >= 0 && !wanted) return;
    let stretch = transcript.stretchOf(target);
    while (stretch > 0 && transcript.messagesOf(stretch)?.length === 0) stretch -= 1; // of other events only
    if (!transcript.messagesOf(stretch)) {
      transcript.need(stretch);
      return;
    }
    if (rows.has(`gap ${stretch}`)) return; // loaded after these rows were drawn: the next ones have it
    const key = rowOf(transcript, rows, target) ?? rowOf(transcript, rows, transcript.messagesOf(stretch)!.at(-1)?.seq ?? 0);
    setArrived(target);
    if (!key) return;
    handle.current?.scrollTo(key, wanted ? "center" : "start");
  }, [rows, target, arrived]);
  const step = (way: 1 | -1) => {
    const at = keys.indexOf(rowOf(transcript, rows, wanted || state.version) ?? "");
    for (let index = at + way; index >= 0 && index < keys.length; index += way) {
      const message = rows.get(keys[index]!)?.message;
      if (!message) return;
      go(link("messages", [message.seq]), { replace: true });
      return;
    }
  };
  useKeys("Messages", {
    j: ["The next message", () => step(1)],
    k: ["The message before", () => step(-1)],
  });
  const pickedKey = wanted ? rowOf(transcript, rows, wanted) : "";
  const gapRows = Math.max(1, Math.round(STRETCH * transcript.density));
  if (transcript.error.value && !rows.size) return <ErrorNote error={transcript.error.value} />;
  return (
    <VirtualList
      keys={keys} handle={handle} label="Messages of the session" estimate={(key) => (key.startsWith("gap") ? gapRows * ROW_PX : ROW_PX)}
      onView={(first, last) => {
        const near = new Set<number>();
        for (let index = first; index <= last; index += 1) {
          const row = rows.get(keys[index] ?? "");
          if (row) near.add(row.stretch);
        }
        const shown = [...near].sort((a, b) => a - b);
        if (arrived >= 0 || shown.some((each) => transcript.messagesOf(each))) transcript.want(shown.length ? [...shown, shown.at(-1)! + 1, shown[0]! - 1] : []);
      }}
      render={(key) => {
        const row = rows.get(key)!;
        return row.message ? <MessageRow row={row} isPicked={key === pickedKey} /> : <div class="message-gap" style={{ height: `${gapRows * ROW_PX}px` }}><span class="faint">messages near m{formatNumber(row.stretch * STRETCH + 1)}</span></div>;
      }}
    />
  );
}

function MessagesView(): JSX.Element {
  const scope = route.value.scope!;
  const state = useResource(`state ${scopeKey.value}`, (signal) => get<SessionState>(p`/sessions/${scope.session}`, scopeQuery(scope), signal), { version: liveVersion.value });
  function jump(event: Event): void {
    event.preventDefault();
    const value = new FormData(event.currentTarget as HTMLFormElement).get("seq");
    const seq = Number(String(value ?? "").replace(/^m/, ""));
    if (Number.isInteger(seq) && seq > 0) go(link("messages", [seq]));
  }
  return (
    <div class="messages-view">
      <Await of={state}>
        {(found) => (
          <>
            <div class="row messages-head">
              <h1>Messages</h1>
              <span class="muted">{plural(found.messages, "message")}, {formatNumber(found.tokens)} tokens</span>
              <span class="spacer" />
              <form class="row" onSubmit={jump}>
                <label class="muted" for="seq">Go to</label>
                <input id="seq" name="seq" class="input mono" placeholder={`m${found.version}`} autocomplete="off" />
                <a class="button small" href={link("messages", [1])}>First</a>
                <a class="button small" href={link("messages", [found.version])}>Last</a>
              </form>
            </div>
            {found.messages ? <div class="messages-list pane-box"><List state={found} /></div> : <Empty title="There are no messages yet">They are listed here as soon as a program records one.</Empty>}
          </>
        )}
      </Await>
    </div>
  );
}

export const messages: View = { name: "messages", label: "Messages", letter: "m", of: "session", component: MessagesView };
