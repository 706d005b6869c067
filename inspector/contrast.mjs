// Checks that texts are readable: every pair of colours of a text and its ground has the contrast of WCAG AA (4.5) in both
// themes, and marks that mean something have 3. Run it with `npm run contrast`.

import { readFileSync } from "node:fs";

const css = readFileSync(new URL("src/styles/tokens.css", import.meta.url), "utf8");
const tokens = new Map([...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map((match) => [match[1], [match[2], match[3]]]));
const GROUNDS = ["bg", "surface", "raised", "sunken", "hover"];
const TEXTS = ["text", "text-2", "text-3", "accent", "ghost-text", "included-text", "reduced-text", "danger-text", "cached-text", "written-text"];
const SOFT = ["included", "reduced", "danger", "cached", "written"];
const MARKS = ["included", "reduced", "danger", "cached", "written", "ghost", "line-strong"];

function luminance(color) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

const pairs = [
  ...TEXTS.flatMap((text) => GROUNDS.map((ground) => [text, ground, 4.5])),
  ...SOFT.flatMap((tone) => [[`${tone}-text`, `${tone}-soft`, 4.5], ["text", `${tone}-soft`, 4.5], ["text-2", `${tone}-soft`, 4.5]]),
  ...MARKS.flatMap((mark) => ["bg", "surface"].map((ground) => [mark, ground, 3])),
  ["on-accent", "accent", 4.5],
];
const faults = [];
for (const [text, ground, least] of pairs) {
  for (const [index, theme] of ["light", "dark"].entries()) {
    if (!tokens.has(text) || !tokens.has(ground)) throw new Error(`unknown colour ${text} or ${ground}`);
    const value = contrast(tokens.get(text)[index], tokens.get(ground)[index]);
    if (value < least) faults.push(`${theme}: --${text} on --${ground} has ${value.toFixed(2)}, below ${least}`);
  }
}
console.log(faults.length ? faults.join("\n") : `${pairs.length * 2} pairs of colours are readable`);
process.exitCode = faults.length ? 1 : 0;
