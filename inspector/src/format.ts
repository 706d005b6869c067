// Numbers, money, times and sizes as texts.

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function formatNumber(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** 12,345 as 12.3K. */
export function formatShort(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : compact.format(value);
}

/** Micro-dollars as dollars, with as many digits as they need. */
export function formatMoney(micro: number | null | undefined): string {
  if (micro === null || micro === undefined) return "–";
  const dollars = Math.abs(micro) / 1e6;
  const digits = dollars === 0 || dollars >= 1 ? 2 : dollars >= 0.01 ? 3 : dollars >= 0.0001 ? 5 : 6;
  return `${micro < 0 ? "−" : ""}$${dollars.toFixed(digits)}`;
}

export function formatShare(part: number, all: number): string {
  if (all <= 0) return "–";
  const share = (100 * part) / all;
  return `${share > 0 && share < 1 ? "<1" : Math.round(share)}%`;
}

export function formatTime(us: number): string {
  return clock.format(new Date(us / 1000));
}

export function formatDay(us: number): string {
  return day.format(new Date(us / 1000));
}

export function formatIso(us: number): string {
  return new Date(us / 1000).toISOString();
}

/** How long ago, coarsely. */
export function formatAgo(us: number, nowMs = Date.now()): string {
  const seconds = Math.max(0, nowMs / 1000 - us / 1e6);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 86400 * 30) return `${Math.floor(seconds / 86400)} d ago`;
  return formatDay(us);
}

/** A duration in microseconds. */
export function formatDuration(us: number): string {
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
  if (us < 60e6) return `${(us / 1e6).toFixed(us < 10e6 ? 2 : 1)} s`;
  if (us < 3600e6) return `${Math.floor(us / 60e6)} min ${Math.round((us % 60e6) / 1e6)} s`;
  return `${Math.floor(us / 3600e6)} h ${Math.round((us % 3600e6) / 60e6)} min`;
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${formatNumber(count)} ${count === 1 ? noun : nouns}`;
}
