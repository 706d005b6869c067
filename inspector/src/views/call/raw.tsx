// The raw request, for each provider.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Await, Copy, copyText, Code, JsonTree, Segmented } from "../../components";
import { canonicalPath, exported, get, p, useResource, type Json, type PackDocument } from "../../data";
import { go, link, route, scopeKey, scopeQuery } from "../../router";
import { formatOf, PROVIDERS, toApiCurl, toCurl, toJson, toPython } from "./requests";

export function RawPane({ pack, provider }: { pack: string; provider: string | undefined }): JSX.Element {
  const scope = route.value.scope!;
  const to = route.value.query.to ?? formatOf(provider);
  const [form, setForm] = useState("tree");
  const path = p`/sessions/${scope.session}/packs/${pack}`;
  const query = { ...scopeQuery(scope), to };
  const document = useResource(`raw ${scopeKey.value} ${pack} ${to}`, (signal) => get<PackDocument>(path, query, signal), { frozen: true });
  const pick = (key: string) => go(link("call", [pack], { ...route.value.query, show: "raw", to: key }), { replace: true });
  return (
    <div class="raw">
      <div class="row raw-tools">
        <label class="row"><span class="muted">For</span>
          <select class="input" value={to} onChange={(event) => pick(event.currentTarget.value)}>
            {PROVIDERS.map((each) => <option key={each.key} value={each.key}>{each.label}</option>)}
          </select>
        </label>
        <Segmented label="Form" picked={form} onPick={setForm} options={[{ key: "tree", label: "Tree" }, { key: "text", label: "JSON" }]} />
        <span class="spacer" />
        {!exported && <button type="button" class="button small" title="Copy the request to /api that has this" onClick={() => void copyText(toApiCurl(canonicalPath(path, query)), "Copied the request to /api")}>/api</button>}
      </div>
      <Await of={document}>
        {(answer) => {
          const value: Json = answer.rendered ?? null;
          const curl = toCurl(to, value);
          const python = toPython(to, value);
          return (
            <>
              <div class="row raw-tools">
                <Copy text={() => toJson(value)} label={to === "text" ? "Copy text" : "Copy JSON"} what="Copied the request" />
                {curl && <Copy text={curl} label="Copy as curl" what="Copied as curl" />}
                {python && <Copy text={python} label="Copy as Python" what="Copied as Python" />}
              </div>
              {typeof value === "string" || form === "text" ? <Code text={toJson(value)} label="The request" /> : <div class="raw-tree"><JsonTree value={value} open={2} /></div>}
            </>
          );
        }}
      </Await>
    </div>
  );
}
