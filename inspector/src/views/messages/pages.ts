// The transcript in stretches of events. A stretch that is not loaded is a gap of an estimated height.
//
// Laws: any place of a transcript is reached with one request, however long it is. Only stretches near the view are loaded,
// and few are kept.

import { signal } from "@preact/signals";
import { getPage, p, type Message } from "../../data";
import { scopeQuery, type Scope } from "../../router";

/** Events of a stretch. */
export const STRETCH = 200;
const KEPT = 60;
const AT_ONCE = 3;

interface Stretch {
  messages: Message[];
  /** When it was last in view. */
  used: number;
}

export class Transcript {
  /** Grows when a stretch was loaded. */
  readonly version = signal(0);
  readonly error = signal<unknown>(undefined);
  private readonly stretches = new Map<number, Stretch>();
  private readonly loading = new Set<number>();
  private readonly control = new AbortController();
  private wanted: number[] = [];
  /** Asked for by its address: it is loaded first, whatever is in view. */
  private needed = -1;
  private clock = 0;

  /** `last` is the seq of the last event; `count` the number of messages. */
  constructor(private readonly scope: Scope, public last: number, public count: number) {}

  close(): void {
    this.control.abort();
  }

  get size(): number {
    return Math.max(1, Math.ceil(this.last / STRETCH));
  }

  /** Messages of an event, on average. */
  get density(): number {
    return Math.min(1, this.count / Math.max(1, this.last));
  }

  stretchOf(seq: number): number {
    return Math.max(0, Math.min(this.size - 1, Math.floor((seq - 1) / STRETCH)));
  }

  messagesOf(stretch: number): Message[] | undefined {
    return this.stretches.get(stretch)?.messages;
  }

  /** Load a stretch that is not in view. */
  need(stretch: number): void {
    this.needed = stretch;
    this.want([stretch]);
  }

  /** Load stretches that are in view or near it; others that wait are dropped. */
  want(stretches: readonly number[]): void {
    this.clock += 1;
    for (const index of stretches) {
      const known = this.stretches.get(index);
      if (known) known.used = this.clock;
    }
    const all = this.needed >= 0 ? [this.needed, ...stretches.filter((index) => index !== this.needed)] : stretches;
    this.wanted = all.filter((index) => index >= 0 && index < this.size && !this.stretches.has(index) && !this.loading.has(index));
    this.start();
  }

  /** The session grew: the last stretch is read again. */
  grow(last: number, count: number): void {
    const from = this.stretchOf(this.last);
    this.last = last;
    this.count = count;
    const changed: number[] = [];
    for (let index = from; index < this.size; index += 1) changed.push(index);
    this.wanted = [...changed.filter((index) => !this.loading.has(index)).slice(-4)];
    this.start();
  }

  private start(): void {
    while (this.loading.size < AT_ONCE) {
      const index = this.wanted.shift();
      if (index === undefined) return;
      this.loading.add(index);
      void this.load(index);
    }
  }

  private async load(index: number): Promise<void> {
    try {
      const messages = await this.read(index);
      if (this.needed === index) this.needed = -1;
      this.stretches.set(index, { messages, used: this.clock });
      this.evict();
      this.error.value = undefined;
      this.version.value += 1;
    } catch (error) {
      if (this.control.signal.aborted) return;
      this.error.value = error;
    } finally {
      this.loading.delete(index);
      if (!this.control.signal.aborted) this.start();
    }
  }

  private async read(index: number): Promise<Message[]> {
    const start = index * STRETCH;
    let before = start + STRETCH + 1;
    const found: Message[] = [];
    const path = p`/sessions/${this.scope.session}/messages`;
    for (;;) {
      const limit = Math.min(STRETCH, Math.ceil((before - start) * this.density * 1.2) + 8);
      const page = await getPage<Message>(path, { ...scopeQuery(this.scope), before, limit }, this.control.signal);
      found.unshift(...page.items.filter((message) => message.seq > start));
      const first = page.items[0];
      if (!first || first.seq <= start + 1 || page.items.length < limit) return found;
      before = first.seq;
    }
  }

  private evict(): void {
    if (this.stretches.size <= KEPT) return;
    const oldest = [...this.stretches].sort(([, a], [, b]) => a.used - b.used).slice(0, this.stretches.size - KEPT);
    for (const [index] of oldest) this.stretches.delete(index);
  }
}
