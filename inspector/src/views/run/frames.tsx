// The tree of frames, each with its budget.

import type { JSX } from "preact";
import { Name, Time } from "../../components";
import type { FrameState } from "../../data";
import { plural } from "../../format";
import { link } from "../../router";
import { BudgetBar, StatusBadge } from "./marks";

function FrameRow({ frame, isPicked }: { frame: FrameState; isPicked: boolean }): JSX.Element {
  return (
    <div class={`frame-row ${isPicked ? "is-picked" : ""}`}>
      <div class="row frame-title">
        <a href={link("run", [frame.id])} aria-current={isPicked ? "true" : undefined}><Name text={frame.goal} /></a>
        <span class="spacer" />
        <StatusBadge status={frame.status ?? "active"} />
      </div>
      {frame.budget && (frame.budget.total ?? 0) > 0 && <BudgetBar budget={frame.budget} label={`Budget of ${frame.id}`} />}
      <div class="faint frame-meta">
        <span class="mono">{frame.id}</span>
        <Time us={frame.created_us} ago />
        {!!frame.messages && <span>{plural(frame.messages, "message")}</span>}
        {!!frame.tool_calls && <span>{plural(frame.tool_calls, "tool call")}</span>}
        {frame.reservations?.map((each) => <span key={each.id}>reserved for <Name text={each.purpose} /></span>)}
      </div>
      {frame.suspension && (
        <p class="frame-rest">
          <Name text={frame.suspension.reason} />. {frame.suspension.resumable_by?.length ? <>May be resumed by <strong><Name text={frame.suspension.resumable_by.join(", ")} /></strong></> : "May be resumed by whoever has the token"}{frame.suspension.expires_us ? <>, until <Time us={frame.suspension.expires_us} /></> : ", at any time"}.
        </p>
      )}
    </div>
  );
}

export function FrameTree({ frames, picked }: { frames: readonly FrameState[]; picked: string }): JSX.Element {
  if (!frames.length) return <p class="muted">None. A frame is a nested unit of work with a budget of tokens: <code>session.frame(goal, budget=…)</code>.</p>;
  const ids = new Set(frames.map((frame) => frame.id));
  const children = Map.groupBy(frames, (frame) => (frame.parent && ids.has(frame.parent) ? frame.parent : ""));
  const branch = (parent: string): JSX.Element | null => {
    const own = children.get(parent);
    if (!own) return null;
    return <ul class={parent ? "frame-branch" : "frame-tree"}>{own.map((frame) => <li key={frame.id}><FrameRow frame={frame} isPicked={frame.id === picked} />{branch(frame.id)}</li>)}</ul>;
  };
  return branch("")!;
}
