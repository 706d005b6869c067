// The model calls whose packs had a fact as a candidate. It is read on demand: one manifest for each call.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ErrorNote, FateMark, Table, Time, Tokens } from "../../components";
import { get, getPage, p, type Fact, type Manifest, type ManifestEntry, type ModelCall } from "../../data";
import { plural } from "../../format";
import { link, route, scopeQuery } from "../../router";
import { ledgerName, ledgerOf } from "./model";

const CALLS = 30;
const AT_ONCE = 4;

interface Row {
  call: ModelCall;
  entry: ManifestEntry;
}

interface Progress {
  rows: Row[];
  read: number;
  next?: string;
  isBusy: boolean;
  isDone: boolean;
  error?: unknown;
}

export function ShownIn({ fact }: { fact: Fact }): JSX.Element {
  const scope = route.value.scope!;
  const [state, setState] = useState<Progress>({ rows: [], read: 0, isBusy: false, isDone: false });
  const control = useRef<AbortController | null>(null);
  useEffect(() => () => control.current?.abort(), []);
  const id = `${fact.id}@${ledgerName(ledgerOf(fact))}`;

  async function look(): Promise<void> {
    control.current = new AbortController();
    const { signal } = control.current;
    setState((now) => ({ ...now, isBusy: true, error: undefined }));
    try {
      const page = await getPage<ModelCall>(p`/sessions/${scope.session}/model-calls`, { ...scopeQuery(scope), limit: CALLS, page: state.next }, signal);
      const waiting = page.items.filter((call) => call.pack);
      const found: Row[] = [];
      while (waiting.length) {
        const some = waiting.splice(0, AT_ONCE);
        const manifests = await Promise.all(some.map((call) => get<Manifest>(p`/sessions/${scope.session}/packs/${call.pack!.id}/manifest`, scopeQuery(scope), signal)));
        manifests.forEach((manifest, index) => {
          const entry = manifest.entries.find((each) => each.id === id);
          if (entry) found.push({ call: some[index]!, entry });
        });
        setState((now) => ({ ...now, read: now.read + some.length }));
      }
      setState((now) => ({ ...now, rows: [...now.rows, ...found], next: page.next, isBusy: false, isDone: !page.next }));
    } catch (error) {
      if (!signal.aborted) setState((now) => ({ ...now, isBusy: false, error }));
    }
  }

  return (
    <div class="stack">
      {state.rows.length > 0 && (
        <Table
          caption="Calls whose packs had this fact" rows={state.rows} keyOf={(row) => row.call.id}
          columns={[
            { key: "call", label: "Call", render: (row) => <a href={link("call", [row.call.id])}>{row.call.id}</a> },
            { key: "when", label: "When", render: (row) => <Time us={row.call.time_us} ago /> },
            { key: "fate", label: "Fate", render: (row) => <FateMark fate={row.entry.fate} /> },
            { key: "reason", label: "Reason", render: (row) => row.entry.reason },
            { key: "tokens", label: "Tokens", number: true, render: (row) => <Tokens count={row.entry.tokens ?? 0} /> },
          ]}
        />
      )}
      {state.error !== undefined && <ErrorNote error={state.error} />}
      <div class="row shown-in-tools" role="status">
        {state.read > 0 && <span class="muted">{plural(state.rows.length, "call")} of the last {state.read} had it.</span>}
        {!state.isDone && <button type="button" class="button small" disabled={state.isBusy} onClick={() => void look()}>{state.isBusy ? "Reading…" : state.read ? "Look in older calls" : `Look in the last ${CALLS} calls`}</button>}
      </div>
    </div>
  );
}
