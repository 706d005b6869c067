// JSON of an exported file in which what is repeated stands once: a table of parts, and values that refer to it.
//
// Laws: it reads what src/holdfast/inspector/shared_parts.py writes. A part is read once, when it is first needed. Names in
// the data are only data: "__proto__" is a field like any other.

import type { Json } from "./types";

type Fields = { readonly [name: string]: Json };

export class Sharing {
  private readonly parts = new Map<number, Json>();

  constructor(private readonly table: readonly Json[]) {}

  /** The value that was written. Parts that were shared are the same object: do not change it. */
  read(value: Json): Json {
    if (Array.isArray(value)) return value.map((each) => this.read(each));
    if (value === null || typeof value !== "object") return value;
    if (Object.hasOwn(value, "$ref")) return this.part(value.$ref as number);
    if (Object.hasOwn(value, "$join")) return this.join(value.$join as Json[]);
    const fields = (Object.hasOwn(value, "$real") ? value.$real : value) as Fields;
    return Object.fromEntries(Object.entries(fields).map(([name, each]) => [name, this.read(each)]));
  }

  private part(place: number): Json {
    let part = this.parts.get(place);
    if (part === undefined) {
      part = this.read(this.table[place]!);
      this.parts.set(place, part);
    }
    return part;
  }

  private join(pieces: readonly Json[]): Json {
    const read = pieces.map((piece): string | Json[] => {
      if (typeof piece === "string") return piece;
      if (Array.isArray(piece)) return piece.map((each) => this.read(each));
      const [place, start, stop] = (piece as Fields).$part as [number, number, number];
      return (this.part(place) as string | Json[]).slice(start, stop);
    });
    return typeof read[0] === "string" ? read.join("") : (read as Json[][]).flat(1);
  }
}
