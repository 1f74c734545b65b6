/** What is shown is kept as it is in the daemon: by its events where the holder may follow them, else by asking now and then. */

import { untrack } from "svelte";
import { ask, asking, events, parse } from "../api/client";
import { told } from "../api/problem";
import { session } from "./session.svelte";

/** Between two requests for the same thing, where events are not followed. */
const POLL_MS = 5000;
/** The same where they are: pools are filled, and sizes grow, without one. */
const SLOW_POLL_MS = 30_000;
/** What follows an event without one of its own, such as a pool that is filled again. */
const AFTER_MS = [250, 1500, 4000];


/** An event out of the audit log. */
export interface Happened {
  event: string;
  [field: string]: unknown;
}

/** Those of which there may be very many, and that change little of what is shown. */
const QUIET = new Set(["statement", "statements", "connected", "disconnected"]);

class Live {
  /** Moves whenever what is shown may be old. */
  beat = $state(0);
  /** The page is seen. */
  visible = $state(!document.hidden);
  /** The last events, newest first, of those that came while the page was open. */
  recent = $state.raw<Happened[]>([]);
  #after = "";
  #timers: ReturnType<typeof setTimeout>[] = [];

  constructor() {
    document.addEventListener("visibilitychange", () => {
      this.visible = !document.hidden;
      if (this.visible) this.beat += 1;
    });
  }

  /** Follows for as long as the session is open and the page is seen; run it in an effect. */
  follow(): () => void {
    const follows = session.may("Events");
    const poll = setInterval(() => (this.beat += 1), follows ? SLOW_POLL_MS : POLL_MS);
    const ended = new AbortController();
    if (follows) void this.#read(ended.signal);
    return () => {
      clearInterval(poll);
      this.#timers.forEach(clearTimeout);
      this.#timers = [];
      ended.abort();
    };
  }

  async #read(ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      try {
        for await (const sent of events(asking("/v1/events", { after: this.#after }), ended)) {
          this.#after = sent.id;
          if (sent.data === "" || QUIET.has(sent.event)) continue;
          this.recent = [{ ...(parse(sent.data) as Happened), event: sent.event }, ...this.recent].slice(0, 50);
          this.#soon();
        }
      } catch {
        // Whoever reads next finds out what is wrong, and says so.
      }
      if (ended.aborted) return;
      // What happened meanwhile is asked for, and with it whether the session is still one.
      this.beat += 1;
      // A position that the log has no more is not asked for twice.
      this.#after = "";
      do await new Promise((done) => setTimeout(done, POLL_MS));
      while (session.gone && !ended.aborted);
    }
  }

  /** Something happened: asks for it soon, once for many at a time. */
  #soon(): void {
    if (this.#timers.length > 0) return;
    for (const [at, wait] of AFTER_MS.entries())
      this.#timers.push(
        setTimeout(() => {
          if (at === 0) this.#timers = [];
          this.beat += 1;
        }, wait),
      );
  }
}

export const live = new Live();

/** What a thing is like. */
interface Kind {
  /** Text, and not JSON. */
  text?: boolean;
  /** The first page of a list, and not all of it. */
  onePage?: boolean;
}

/** A thing in the daemon, as it is. */
export class Thing<T> {
  value = $state.raw<T>();
  /** Why it could not be read. */
  error = $state.raw<unknown>();
  /** Whether it was asked for and has not come yet. */
  asking = $state(false);
  #path = "";
  #etag: string | undefined;
  #running: AbortController | undefined;

  constructor(readonly options: Kind = {}) {}

  /** Whether it has come, or it is known why not. */
  get known(): boolean {
    return this.value !== undefined || this.error !== undefined;
  }

  /** What to say of the error, if there is one. */
  get problem(): string {
    return this.error === undefined ? "" : told(this.error);
  }

  /** Asks for it now. */
  async load(path: string): Promise<void> {
    if (path !== this.#path) {
      this.#path = path;
      this.#etag = undefined;
      this.value = undefined;
      this.error = undefined;
    } else if (this.#running !== undefined) return;
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    this.asking = true;
    try {
      const reply = await ask<T>("GET", path, { etag: this.#etag, signal: running.signal, text: this.options.text === true });
      if (running.signal.aborted) return;
      if (!reply.same) {
        const more = this.options.onePage === true ? undefined : reply.next;
        this.#etag = more === undefined ? reply.etag : undefined;
        let all = reply.value;
        for (let next = more; next !== undefined; ) {
          const page = await ask<T>("GET", next, { signal: running.signal });
          all = [...(all as unknown[]), ...(page.value as unknown[])] as T;
          next = page.next;
        }
        if (running.signal.aborted) return;
        this.value = all;
      }
      this.error = undefined;
    } catch (error) {
      if (running.signal.aborted) return;
      this.error = error;
    } finally {
      if (this.#running === running) {
        this.#running = undefined;
        this.asking = false;
      }
    }
  }

  /** Asks for it again. */
  again(): void {
    if (this.#path !== "") void this.load(this.#path);
  }

  stop(): void {
    this.#running?.abort();
    this.#running = undefined;
  }
}

/** A thing that is asked for at once, and again whenever it may have changed, for as long as the component is there. */
export function follow<T>(path: () => string | undefined, kind: Kind = {}): Thing<T> {
  const thing = new Thing<T>(kind);
  $effect(() => {
    void live.beat;
    const at = path();
    if (at !== undefined && live.visible && session.state === "open" && !session.gone) untrack(() => void thing.load(at));
  });
  $effect(() => () => thing.stop());
  return thing;
}

/** A thing that costs something to make: asked for once, and again when somebody wants it. */
export function once<T>(path: () => string | undefined): Thing<T> {
  const thing = new Thing<T>();
  $effect(() => {
    const at = path();
    if (at !== undefined) untrack(() => void thing.load(at));
  });
  $effect(() => () => thing.stop());
  return thing;
}
