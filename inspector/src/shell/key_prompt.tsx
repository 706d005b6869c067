// Asks for a key. The page itself holds no data; every answer needs a key.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { clearCache, keyWanted, loadAccess, storeKey } from "../data";

export function KeyPrompt(): JSX.Element {
  const [key, setKey] = useState("");
  const isRefused = keyWanted.value === "refused";
  function submit(event: Event): void {
    event.preventDefault();
    if (!key.trim()) return;
    clearCache();
    storeKey(key.trim());
    void loadAccess().catch(() => undefined);
  }
  return (
    <main class="key-prompt" id="main">
      <form onSubmit={submit}>
        <p class="brand"><BrandMark /> Holdfast inspector</p>
        <h1>{isRefused ? "This key is not accepted" : "Which key?"}</h1>
        <p class="muted">
          Every answer of this server needs a key. <code>holdfast inspect</code> opens this page with one; <code>holdfast serve</code> prints
          a token when the store has no keys; <code>holdfast keys create</code> makes one.
        </p>
        <div class="field">
          <label for="key">Key</label>
          <input
            id="key" class="input mono" type="password" autocomplete="off" spellcheck={false} value={key} autofocus
            aria-invalid={isRefused} aria-describedby="key-note" onInput={(event) => setKey(event.currentTarget.value)}
          />
          <span id="key-note" class="faint">It stays in this browser, for this address only.</span>
        </div>
        <button type="submit" class="button primary">Open</button>
      </form>
    </main>
  );
}

export function BrandMark(): JSX.Element {
  return (
    <svg width="18" height="18" viewBox="0 0 16 16" aria-hidden="true" class="brand-mark">
      <rect width="16" height="16" rx="4" fill="currentColor" />
      <path d="M4 5h8M4 8h8M4 11h5" stroke="var(--on-accent)" stroke-width="1.6" stroke-linecap="round" />
    </svg>
  );
}
