// Answers as values of a component: loading, an error, or data that stays while it is read again.

import { useEffect, useRef, useState } from "preact/hooks";

export interface Resource<T> {
  data: T | undefined;
  error: unknown;
  /** True until the first answer, and again while another key is read. */
  loading: boolean;
  reload: () => void;
}

const CACHE_ENTRIES = 200;
const cache = new Map<string, unknown>();

function remember(key: string, value: unknown): void {
  cache.delete(key);
  cache.set(key, value);
  if (cache.size > CACHE_ENTRIES) cache.delete(cache.keys().next().value as string);
}

/** Forget all answers: the key changed. */
export function clearCache(): void {
  cache.clear();
}

/**
 * Load a value. `key` names it: null loads nothing; another key loads anew. While a key is read again (reload, or another
 * `version`), the data before stays. With `frozen`, an answer is never read twice: packs and manifests do not change.
 */
export function useResource<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  options: { frozen?: boolean; version?: number } = {},
): Resource<T> {
  const [state, setState] = useState<{ key: string | null; data?: T; error?: unknown }>({ key: null });
  const [round, setRound] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  const version = options.version ?? 0;
  useEffect(() => {
    if (key === null) return;
    if (options.frozen && cache.has(key)) {
      setState({ key, data: cache.get(key) as T });
      return;
    }
    const control = new AbortController();
    loader.current(control.signal).then(
      (data) => {
        if (control.signal.aborted) return;
        remember(key, data);
        setState({ key, data });
      },
      (error: unknown) => {
        if (!control.signal.aborted) setState({ key, error });
      },
    );
    return () => control.abort();
  }, [key, round, version]);
  const isCurrent = state.key === key;
  const cached = key !== null && !isCurrent ? (cache.get(key) as T | undefined) : undefined;
  return {
    data: isCurrent ? state.data : cached,
    error: isCurrent ? state.error : undefined,
    loading: key !== null && !isCurrent && cached === undefined,
    reload: () => setRound((value) => value + 1),
  };
}
