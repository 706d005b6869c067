import type { JSX } from "preact";

export interface View {
  /** Its name in the address. */
  name: string;
  label: string;
  /** The letter that leads to it after g. */
  letter: string;
  /** A view of one session, or of the store. */
  of: "session" | "store";
  component: () => JSX.Element;
}
