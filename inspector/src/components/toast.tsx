import { signal } from "@preact/signals";
import type { JSX } from "preact";

const SHOWN_MS = 2_400;
const toast = signal<{ text: string; tone: "plain" | "danger" } | null>(null);
let timer = 0;

/** Say something for a moment; screen readers hear it. */
export function showToast(text: string, tone: "plain" | "danger" = "plain"): void {
  toast.value = { text, tone };
  window.clearTimeout(timer);
  timer = window.setTimeout(() => {
    toast.value = null;
  }, SHOWN_MS);
}

export function Toast(): JSX.Element {
  return (
    <div class="toast-place" role="status" aria-live="polite">
      {toast.value && <div class={`toast tone-${toast.value.tone}`}>{toast.value.text}</div>}
    </div>
  );
}
