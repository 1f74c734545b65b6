/** A list that comes by pages, each when the end of those before it is seen. */

import { get } from "../api/client";

export class Pages<P, T> {
  items = $state.raw<T[]>([]);
  error = $state.raw<unknown>();
  asking = $state(false);
  /** Whether all of it is there. */
  whole = $state(false);
  #next: string | undefined;
  #running: AbortController | undefined;

  /** `path` gives the address of a page by its cursor, `read` what is on it and the cursor of the next one. */
  constructor(
    readonly path: (cursor: string | undefined) => string,
    readonly read: (page: P) => { items: T[]; next: string | null | undefined },
  ) {}

  /** From the beginning. */
  async begin(): Promise<void> {
    this.stop();
    this.items = [];
    this.whole = false;
    this.#next = undefined;
    await this.more();
  }

  /** The next page, if there is one and nobody has asked for it. */
  async more(): Promise<void> {
    if (this.whole || this.#running !== undefined) return;
    const running = new AbortController();
    this.#running = running;
    this.asking = true;
    this.error = undefined;
    try {
      const page = this.read(await get<P>(this.path(this.#next), running.signal));
      if (running.signal.aborted) return;
      this.items = [...this.items, ...page.items];
      this.#next = page.next ?? undefined;
      this.whole = this.#next === undefined;
    } catch (error) {
      if (running.signal.aborted) return;
      this.error = error;
      // Nobody asks again by scrolling.
      this.whole = true;
    } finally {
      if (this.#running === running) {
        this.#running = undefined;
        this.asking = false;
      }
    }
  }

  stop(): void {
    this.#running?.abort();
    this.#running = undefined;
    this.asking = false;
  }
}
