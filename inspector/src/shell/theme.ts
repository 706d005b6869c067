import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const NAME = "holdfast-theme";
const ORDER: Theme[] = ["system", "light", "dark"];

function read(): Theme {
  try {
    const stored = localStorage.getItem(NAME) as Theme | null;
    return stored && ORDER.includes(stored) ? stored : "system";
  } catch {
    return "system";
  }
}

export const theme = signal<Theme>(read());

function apply(): void {
  const root = document.documentElement;
  if (theme.value === "system") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
}

apply();

/** The next of: as the system, light, dark. */
export function nextTheme(): void {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length]!;
  try {
    localStorage.setItem(NAME, theme.value);
  } catch {
    // a file opened from disk may have no storage
  }
  apply();
}
