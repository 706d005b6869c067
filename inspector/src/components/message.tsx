// A message as people read it. Tool calls are folded together with their results.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { exported, p, request, type BlobRef, type Message, type Part, type ToolCall, type ToolResult } from "../data";
import { formatBytes, formatNumber } from "../format";
import { link } from "../router";
import { Disclosure, JsonTree, previewJson } from "./json";
import { Badge, Time, Tokens } from "./small";
import { ErrorNote } from "./states";
import { LongText, Name, showText, type Mark } from "./text";

/** The marks in one part of a message: of its own content, or of the result of a call. */
export type FindMarks = (part: number, call: string, text: string) => Mark[] | undefined;

const RASTER = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);
const IMAGE_BYTES = 20_000_000;
const TEXT_BYTES = 1_000_000;

export const ROLE_NAMES: Record<string, string> = { system: "System", user: "User", assistant: "Assistant", tool: "Tool" };

async function readBlob(ref: BlobRef, most: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  if (ref.size > most) throw new Error(`The body has ${formatBytes(ref.size)}; the preview shows at most ${formatBytes(most)}.`);
  const answer = await request(p`/blobs/${ref.digest}`, { signal });
  return new Uint8Array(await answer.arrayBuffer());
}

/** A raster image of the store, as a blob: nothing of it can be a page or a script. */
function ImagePreview({ blob }: { blob: BlobRef }): JSX.Element {
  const [state, setState] = useState<{ url?: string; error?: unknown }>({});
  useEffect(() => {
    const control = new AbortController();
    let url = "";
    readBlob(blob, IMAGE_BYTES, control.signal).then(
      (bytes) => {
        url = URL.createObjectURL(new Blob([bytes], { type: blob.media_type ?? "" }));
        setState({ url });
      },
      (error: unknown) => !control.signal.aborted && setState({ error }),
    );
    return () => {
      control.abort();
      if (url) URL.revokeObjectURL(url);
    };
  }, [blob.digest]);
  if (state.error) return <ErrorNote error={state.error} />;
  return state.url ? <img class="image-preview" src={state.url} alt="" /> : <span class="faint">Loading…</span>;
}

function TextBody({ blob }: { blob: BlobRef }): JSX.Element {
  const [state, setState] = useState<{ text?: string; error?: unknown }>({});
  useEffect(() => {
    const control = new AbortController();
    readBlob(blob, TEXT_BYTES, control.signal).then(
      (bytes) => setState({ text: new TextDecoder().decode(bytes) }),
      (error: unknown) => !control.signal.aborted && setState({ error }),
    );
    return () => control.abort();
  }, [blob.digest]);
  if (state.error) return <ErrorNote error={state.error} />;
  return state.text === undefined ? <span class="faint">Loading…</span> : <LongText text={state.text} mono />;
}

function Attachment({ label, blob, isText }: { label: string; blob: BlobRef; isText?: boolean }): JSX.Element {
  const isRaster = RASTER.has(blob.media_type ?? "");
  const about = <><Badge>{label}</Badge> <span class="faint">{blob.media_type ? showText(blob.media_type) : "bytes"}, {formatBytes(blob.size)}</span></>;
  if (exported || (!isRaster && !isText)) return <div class="attachment">{about}</div>;
  return <Disclosure class="attachment" summary={about}>{() => (isRaster ? <ImagePreview blob={blob} /> : <TextBody blob={blob} />)}</Disclosure>;
}

/** One part of a message or of a result. */
export function PartView({ part, marks, mono, first }: { part: Part; marks?: readonly Mark[]; mono?: boolean; first?: number }): JSX.Element | null {
  switch (part.type) {
    case "text":
      return part.text ? <LongText text={part.text} marks={marks} mono={mono} first={first} /> : <span class="faint">(empty text)</span>;
    case "data":
      return <JsonTree value={part.value} open={1} />;
    case "body":
      return (
        <>
          {part.preview && <LongText text={part.preview} marks={marks} mono first={first} />}
          <Attachment label="stored body" blob={part.ref} isText />
        </>
      );
    case "image":
      return part.ref ? <Attachment label="image" blob={part.ref} /> : <div class="attachment"><Badge>image</Badge> <span class="mono faint">{showText(part.url ?? "")}</span></div>;
    case "file":
      return <Attachment label={part.name ? `file ${part.name.slice(0, 120)}` : "file"} blob={part.ref} />;
    case "opaque":
      return <div class="attachment"><Badge title="Kept byte for byte, shown only to its issuer">opaque</Badge> <span class="faint">of {showText(part.issuer)}, {typeof part.body === "string" ? `${formatNumber(part.body.length)} characters` : formatBytes(part.body.size)}</span></div>;
    default:
      return <JsonTree value={part as never} open={0} />;
  }
}

export function textOfParts(parts: readonly Part[]): string {
  return parts
    .map((part) => (part.type === "text" ? part.text : part.type === "body" ? (part.preview ?? "") : part.type === "data" ? previewJson(part.value, 2_000) : `[${part.type}]`))
    .join("\n");
}

/** Something in one line. */
export function oneLine(text: string, most = 140): string {
  const line = text.slice(0, most * 4).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** A call of a tool with its result, folded: the name, the arguments and the start of the result are in its line. */
export function CallView({ call, result, resultSeq, open, marks }: {
  call: ToolCall;
  result?: ToolResult;
  resultSeq?: number;
  open?: boolean;
  marks?: FindMarks;
}): JSX.Element {
  const hasMarks = !!marks && !!result?.content.some((part, index) => marks(index, call.id, part.type === "text" ? part.text : "")?.length);
  return (
    <Disclosure
      class={`call ${result?.is_error ? "is-error" : ""}`} open={open ?? hasMarks}
      summary={
        <>
          <span class="call-name mono"><Name text={call.name} /></span>
          <span class="call-args mono">{showText(previewJson(call.args, 90))}</span>
          {!result && <Badge tone="reduced">no result</Badge>}
          {result?.is_error && <Badge tone="danger">✕ error</Badge>}
          {result && <span class="call-result"><span aria-hidden="true">→ </span>{showText(oneLine(textOfParts(result.content)))}</span>}
        </>
      }
    >
      {() => (
        <>
          <div class="call-part"><span class="call-label">Arguments</span><JsonTree value={call.args} open={2} /></div>
          {result && (
            <div class="call-part">
              <span class="call-label">Result {resultSeq ? <a href={link("messages", [resultSeq])}>m{resultSeq}</a> : null}</span>
              {result.content.map((part, index) => (
                <PartView key={index} part={part} mono first={2_000} marks={marks?.(index, call.id, part.type === "text" ? part.text : part.type === "body" ? (part.preview ?? "") : "")} />
              ))}
            </div>
          )}
        </>
      )}
    </Disclosure>
  );
}

/** Results by the id of their call, so that a call is shown with its result. */
export function pairResults(messages: readonly Message[]): Map<string, { result: ToolResult; seq: number }> {
  const pairs = new Map<string, { result: ToolResult; seq: number }>();
  for (const message of messages) for (const result of message.tool_results) pairs.set(result.tool_call_id, { result, seq: message.seq });
  return pairs;
}

/** A message. Give it the results of its calls; results whose call is elsewhere are shown by themselves. */
export function MessageView({ message, results, marks, extra, isPicked, unpaired }: {
  message: Message;
  results?: Map<string, { result: ToolResult; seq: number }>;
  marks?: FindMarks;
  extra?: ComponentChildren;
  isPicked?: boolean;
  /** Results of this message whose calls are not shown next to it. */
  unpaired?: readonly ToolResult[];
}): JSX.Element {
  const usage = message.usage;
  return (
    <article class={`message role-${message.role} ${isPicked ? "is-picked" : ""} ${message.withdrawn ? "is-withdrawn" : ""}`} aria-label={`${ROLE_NAMES[message.role] ?? message.role}, message ${message.seq}`}>
      <header class="message-head">
        <span class="message-role">{ROLE_NAMES[message.role] ?? message.role}</span>
        {message.seq > 0 && <a class="message-seq mono" href={link("messages", [message.seq])} title="Link to this message">m{message.seq}</a>}
        {message.source?.model && <span class="faint truncate"><Name text={message.source.model} /></span>}
        {message.withdrawn ? <Badge tone="omitted" title={`Withdrawn by event ${message.withdrawn}`}>○ withdrawn</Badge> : null}
        {message.skipped ? <Badge tone="reduced" title="Recorded, but not shown to models">not shown: {message.skipped}</Badge> : null}
        {message.late ? <Badge tone="reduced">late: {message.late}</Badge> : null}
        {message.frame ? <Badge title="The frame it belongs to">{message.frame}</Badge> : null}
        {extra}
        <span class="spacer" />
        <span class="faint message-meta"><Tokens count={usage ? (usage.output_tokens ?? message.tokens) : message.tokens} /> tok{message.time_us > 0 && <> · <Time us={message.time_us} /></>}</span>
      </header>
      <div class="message-body">
        {message.content.map((part, index) => (
          <PartView key={index} part={part} marks={marks?.(index, "", part.type === "text" ? part.text : part.type === "body" ? (part.preview ?? "") : "")} />
        ))}
        {message.tool_calls.map((call) => {
          const pair = results?.get(call.id);
          return <CallView key={call.id} call={call} result={pair?.result} resultSeq={pair?.seq} marks={marks} />;
        })}
        {unpaired?.map((result) => (
          <CallView key={result.tool_call_id} call={{ id: result.tool_call_id, name: result.tool_call_id, args: {} }} result={result} resultSeq={message.seq} marks={marks} />
        ))}
        {!message.content.length && !message.tool_calls.length && !message.tool_results.length && <span class="faint">(empty message)</span>}
      </div>
    </article>
  );
}
