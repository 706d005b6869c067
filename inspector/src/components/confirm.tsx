// A dialog before something is done: it says what will happen, does it once, and shows the problem if it is refused.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./layout";
import { ErrorNote } from "./states";

/** `run` returns true if the dialog is to close. */
export function ConfirmDialog({ title, action, danger, ready = true, run, onClose, children }: {
  title: string;
  action: string;
  danger?: boolean;
  /** False while a field is empty that is needed. */
  ready?: boolean;
  run: () => Promise<boolean>;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const [state, setState] = useState<{ isBusy: boolean; error?: unknown }>({ isBusy: false });
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (!ready || state.isBusy) return;
    setState({ isBusy: true });
    try {
      const isDone = await run();
      setState({ isBusy: false });
      if (isDone) onClose();
    } catch (error) {
      setState({ isBusy: false, error });
    }
  }
  return (
    <Dialog open onClose={onClose} title={title} class="confirm">
      <form class="stack" onSubmit={(event) => void submit(event)}>
        {children}
        {state.error !== undefined && <ErrorNote error={state.error} />}
        <div class="row confirm-actions">
          <button type="submit" class={`button ${danger ? "danger" : "primary"}`} disabled={!ready || state.isBusy}>{state.isBusy ? "Working…" : action}</button>
          <button type="button" class="button" onClick={onClose}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}
