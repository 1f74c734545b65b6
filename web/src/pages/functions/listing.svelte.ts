/** Pages of instances, one behind another as somebody scrolls, kept as they are in the database. */

import { ask } from "../../api/client";
import type { FunctionInstance } from "../../api/types";
import { merged } from "../../lib/functions";

/** Rows before the end of what is loaded at which the next page is asked for. */
const AHEAD = 60;

interface Loaded {
  /** The first row of the page, when it was loaded. */
  first: string;
  path: string;
}

export class Listing {
  rows = $state.raw<readonly FunctionInstance[]>([]);
  error = $state.raw<unknown>();
  /** A page was asked for and has not come yet. */
  asking = $state(false);
  /** The first page has come. */
  known = $state(false);
  /** There are newer ones, too many to be put before what is shown. */
  newer = $state(false);
  #next = $state.raw<string>();
  #path = "";
  #pages: Loaded[] = [];
  #running: AbortController | undefined;

  /** Whether all there is has been loaded. */
  get whole(): boolean {
    return this.known && this.#next === undefined;
  }

  /** Begins anew with the first page of a list. */
  async begin(path: string): Promise<void> {
    this.stop();
    if (path !== this.#path) {
      this.rows = [];
      this.known = false;
    }
    this.#path = path;
    this.newer = false;
    this.error = undefined;
    await this.#page(path, true);
  }

  /** Somebody sees rows up to this one: the next page comes before he is there. */
  seen(last: number): void {
    if (last + AHEAD >= this.rows.length && this.#next !== undefined && !this.asking) void this.#page(this.#next, false);
  }

  async #page(path: string, first: boolean): Promise<void> {
    const running = new AbortController();
    this.#running = running;
    this.asking = true;
    try {
      const { value, next } = await ask<FunctionInstance[]>("GET", path, { signal: running.signal });
      if (running.signal.aborted) return;
      const there = first ? new Set<string>() : new Set(this.rows.map(({ id }) => id));
      this.rows = first ? value : [...this.rows, ...value.filter(({ id }) => !there.has(id))];
      this.#next = next;
      const from = value[0]?.id;
      this.#pages = first ? [] : this.#pages;
      if (from !== undefined) this.#pages.push({ first: from, path });
      this.error = undefined;
      this.known = true;
    } catch (error) {
      if (!running.signal.aborted) this.error = error;
    } finally {
      if (this.#running === running) {
        this.#running = undefined;
        this.asking = false;
      }
    }
  }

  /** Asks again for the newest ones, and for the page that somebody sees. Gives how many rows came before the first. */
  async refresh(first: number): Promise<number> {
    if (!this.known || this.asking) return 0;
    const path = this.#path;
    const running = new AbortController();
    this.#running = running;
    try {
      const { value, next } = await ask<FunctionInstance[]>("GET", path, { signal: running.signal });
      if (running.signal.aborted) return 0;
      const found = merged(this.rows, value, next === undefined);
      this.error = undefined;
      if (found.gap && first > 0) {
        this.newer = true;
        return 0;
      }
      if (found.gap || next === undefined || this.#pages.length <= 1) this.#pages = value[0] === undefined ? [] : [{ first: value[0].id, path }];
      // What was loaded is known up to its own end.
      if (found.gap || found.rows.length <= value.length || next === undefined) this.#next = next;
      this.rows = found.rows;
      await this.#again(first + found.added, running.signal);
      return found.added;
    } catch (error) {
      if (!running.signal.aborted) this.error = error;
      return 0;
    } finally {
      if (this.#running === running) this.#running = undefined;
    }
  }

  /** Asks again for the page that this row was on, if it is not the first. */
  async #again(row: number, signal: AbortSignal): Promise<void> {
    const places = new Map(this.rows.map(({ id }, at) => [id, at]));
    const page = this.#pages.slice(1).findLast(({ first }) => (places.get(first) ?? Number.MAX_SAFE_INTEGER) <= row);
    if (page === undefined) return;
    const { value } = await ask<FunctionInstance[]>("GET", page.path, { signal });
    if (signal.aborted) return;
    const fresh = new Map(value.map((each) => [each.id, each]));
    this.rows = this.rows.map((each) => fresh.get(each.id) ?? each);
  }

  stop(): void {
    this.#running?.abort();
    this.#running = undefined;
    this.asking = false;
  }
}
