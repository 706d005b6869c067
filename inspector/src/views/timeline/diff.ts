// The difference of two packs: from the server, or from their manifests where only these are there (an exported file).

import { get, isAbsent, p, post, type Manifest, type ManifestEntry, type ModelCall, type PackChange, type PackDiff, type PackRecord, type PackDocument } from "../../data";
import { scopeQuery, type Scope } from "../../router";

function isIn(entry: ManifestEntry): boolean {
  return entry.fate === "included" || entry.fate === "reduced";
}

/** The changes of candidates between two manifests. */
export function compareManifests(first: Manifest, second: Manifest): { changes: PackChange[]; same: number } {
  const before = new Map(first.entries.map((entry) => [entry.id, entry]));
  const after = new Set(second.entries.map((entry) => entry.id));
  const changes: PackChange[] = [];
  let same = 0;
  for (const entry of second.entries) {
    const old = before.get(entry.id);
    if (!old) changes.push({ entry, before: null, what: "added", why: `is new: ${entry.reason}` });
    else if (isIn(old) !== isIn(entry)) changes.push({ entry, before: old, what: isIn(entry) ? "in" : "out", why: entry.reason });
    else if (old.fate !== entry.fate || (old.digest ?? "") !== (entry.digest ?? "")) changes.push({ entry, before: old, what: "changed", why: `is shown differently: ${entry.reason}` });
    else same += 1;
  }
  for (const entry of first.entries) if (!after.has(entry.id)) changes.push({ entry, before: entry, what: "gone", why: "is no longer a candidate" });
  return { changes, same };
}

async function readManifest(scope: Scope, pack: string, signal: AbortSignal): Promise<Manifest> {
  const path = p`/sessions/${scope.session}/packs/${pack}`;
  try {
    return (await get<PackDocument>(path, scopeQuery(scope), signal)).manifest;
  } catch (error) {
    if (signal.aborted) throw error;
    return get<Manifest>(`${path}/manifest`, scopeQuery(scope), signal);
  }
}

export async function readDiff(scope: Scope, first: PackRecord, second: ModelCall, signal: AbortSignal): Promise<PackDiff> {
  const to = second.pack!;
  try {
    return await post<PackDiff>(p`/sessions/${scope.session}/packs/diff`, { first: first.id, second: to.id }, scopeQuery(scope), signal);
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
  const [old, now] = await Promise.all([readManifest(scope, first.id, signal), readManifest(scope, to.id, signal)]);
  const kept = second.cache?.previous === first.id ? !!second.cache.kept : null;
  return { first, second: to, ...compareManifests(old, now), prefix_kept: kept };
}
