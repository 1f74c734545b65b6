/** The keys, and what each does. */

import { untrack } from "svelte";

/** What a key does. */
export interface Action {
  /** A key, or two after one another: `g h`. */
  keys: string;
  /** What it does, for the list that `?` shows. */
  what: string;
  run: () => void;
}

class Keys {
  #sets = $state.raw<Action[][]>([]);
  #first = "";
  #at = 0;

  constructor() {
    addEventListener("keydown", (event) => this.#pressed(event));
  }

  /** All that do something here, those of the page last. */
  get all(): Action[] {
    return this.#sets.flat();
  }

  /** Adds some, until what it gives is called. */
  add(actions: Action[]): () => void {
    // Who adds some in an effect does not depend on what others add.
    untrack(() => (this.#sets = [...this.#sets, actions]));
    return () => untrack(() => (this.#sets = this.#sets.filter((set) => set !== actions)));
  }

  #pressed(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.composedPath()[0];
    const writes =
      target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
    if (document.querySelector("dialog[open]") !== null) return;
    if (writes) {
      if (event.key === "Escape") target.blur();
      return;
    }
    const two = Date.now() - this.#at < 1500 ? `${this.#first} ${event.key}` : "";
    const actions = this.all.toReversed();
    const found = actions.find(({ keys }) => keys === two) ?? actions.find(({ keys }) => keys === event.key);
    this.#first = found === undefined ? event.key : "";
    this.#at = Date.now();
    if (found === undefined) return;
    event.preventDefault();
    found.run();
  }
}

export const keys = new Keys();
