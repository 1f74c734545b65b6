/** Who is signed in, and whether the daemon answers. */

import { ask, listen } from "../api/client";
import { Refused, told } from "../api/problem";
import { route } from "./route.svelte";
import type { SessionView } from "../api/types";

const OVER = "Your session has ended. Sign in, and you are back where you were.";
/** Waits between two attempts to reach a daemon that does not answer, in milliseconds. */
const WAITS = [1000, 2000, 3000, 5000];

class Session {
  /** Not known before the first reply. */
  state = $state<"asking" | "none" | "open">("asking");
  view = $state.raw<SessionView>();
  /** Why one has to sign in again. */
  why = $state("");
  /** Whether the daemon does not answer. */
  gone = $state(false);
  #operations = new Set<string>();
  #retry: ReturnType<typeof setTimeout> | undefined;
  #attempt = 0;

  constructor() {
    listen({
      unauthenticated: () => this.#ended(OVER),
      gone: () => this.#lost(),
      there: () => this.#found(),
    });
  }

  /** Whether the holder may make an operation, by its name in the OpenAPI document. */
  may(operation: string): boolean {
    return this.view !== undefined && this.#operations.has(operation);
  }

  /** Finds out who is signed in; with the secret of a link, signs in first. */
  async begin(link = route.takeLink()): Promise<void> {
    route.onLink = (secret) => void this.begin(secret);
    if (link !== undefined) {
      const refused = await this.signIn({ link });
      if (refused === undefined) return;
      this.state = "none";
      this.why = refused;
      return;
    }
    try {
      const { value } = await ask<SessionView>("GET", "/v1/session", { signingIn: true });
      this.#opened(value);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) this.#ended(this.state === "open" ? OVER : "");
      else if (error instanceof Refused) this.#ended(told(error));
    }
  }

  /** Signs in; gives why not, if it was refused. */
  async signIn(how: { link: string } | { name: string; secret: string }): Promise<string | undefined> {
    try {
      await ask("POST", "/v1/session", { body: how, signingIn: true });
      const { value } = await ask<SessionView>("GET", "/v1/session", { signingIn: true });
      this.#opened(value);
      return undefined;
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 401) return told(error);
      return "link" in how
        ? "This link was used already, or is older than a minute. `duramen console` makes another one."
        : "There is no token of that name with that secret, or it has ended.";
    }
  }

  /** Ends the session. */
  async signOut(): Promise<void> {
    try {
      await ask("DELETE", "/v1/session", { signingIn: true });
    } catch (error) {
      // One that is over already is what was wanted.
      if (!(error instanceof Refused && error.status === 401)) throw error;
    }
    route.to("#/");
    this.#ended("You are signed out.");
  }

  #opened(view: SessionView): void {
    this.view = view;
    this.#operations = new Set(view.operations);
    this.why = "";
    this.state = "open";
  }

  #ended(why: string): void {
    if (this.state !== "none") this.why = why;
    this.view = undefined;
    this.#operations.clear();
    this.state = "none";
  }

  #lost(): void {
    if (this.gone && this.#retry !== undefined) return;
    this.gone = true;
    const wait = WAITS[Math.min(this.#attempt++, WAITS.length - 1)]!;
    this.#retry = setTimeout(() => void this.#look(), wait);
  }

  async #look(): Promise<void> {
    this.#retry = undefined;
    if (document.hidden) {
      // Nobody sees it: it is looked at when somebody does.
      addEventListener("visibilitychange", () => void this.#look(), { once: true });
      return;
    }
    await this.begin();
  }

  /** Tries at once. */
  again(): void {
    clearTimeout(this.#retry);
    void this.#look();
  }

  #found(): void {
    if (!this.gone) return;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#attempt = 0;
    this.gone = false;
    if (this.state === "asking") void this.begin();
  }
}

export const session = new Session();
