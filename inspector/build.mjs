// Builds the inspector: node build.mjs OUTPUT writes index.html, inspector.js and inspector.css into the folder OUTPUT.
//
// Laws: the same sources give the same bytes on every machine: no times, no paths, no source maps. Each built file has
// the digest of the sources, so that a test without Node can tell whether the built files are those of the sources.
//
// The digest is the SHA-256, in hex, over the files `build.mjs`, `package-lock.json`, `package.json`, `tsconfig.json` and
// everything below `src`, in the order of their paths (compared as bytes), where a path is relative to this folder, with
// slashes. Each file adds its path in UTF-8, a zero byte, its bytes, and a zero byte.
//
// In the built files, the digest follows the words `holdfast-sources`: <meta name="holdfast-sources" content="…"> in the
// page, and /* holdfast-sources … */ as the first line of the script and the style.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const TARGETS = ["chrome123", "firefox121", "safari17.5"];
const SCRIPT_BYTES = 250_000;

function listFiles(folder) {
  const entries = readdirSync(join(HERE, folder), { withFileTypes: true });
  return entries.flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    return entry.isDirectory() ? listFiles(path) : [path];
  });
}

export function digestSources() {
  const paths = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json", ...listFiles("src")];
  paths.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const hash = createHash("sha256");
  for (const path of paths) hash.update(path).update("\0").update(readFileSync(join(HERE, path))).update("\0");
  return hash.digest("hex");
}

async function main(output) {
  const digest = digestSources();
  const result = await build({
    absWorkingDir: HERE,
    entryPoints: { inspector: "src/main.tsx" },
    outdir: "built",
    write: false,
    bundle: true,
    minify: true,
    format: "esm",
    target: TARGETS,
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "ascii",
    legalComments: "none",
    logLevel: "warning",
  });
  if (result.warnings.length) throw new Error(`${result.warnings.length} warnings: nothing is built from sources with warnings`);
  mkdirSync(output, { recursive: true });
  const sizes = [];
  for (const file of result.outputFiles) {
    const name = file.path.endsWith(".css") ? "inspector.css" : "inspector.js";
    const text = `/* holdfast-sources ${digest} */\n${file.text.trimEnd()}\n`;
    const zipped = gzipSync(text, { level: 9 }).length;
    if (name === "inspector.js" && zipped > SCRIPT_BYTES) throw new Error(`${name}: ${zipped} bytes gzipped is above ${SCRIPT_BYTES}`);
    writeFileSync(join(output, name), text);
    sizes.push(`${name} ${text.length} bytes, ${zipped} gzipped`);
  }
  const page = readFileSync(join(HERE, "src/index.html"), "utf8").replace("__DIGEST__", digest);
  writeFileSync(join(output, "index.html"), page);
  console.log(sizes.join("\n"));
}

if (process.argv.length !== 3) throw new Error("usage: node build.mjs OUTPUT");
await main(resolve(process.argv[2]));
