/** Where a daemon is: its socket on this machine, or its URL with a token. */

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { DuramenError } from "./errors.js";

/** Which daemon. What is not said here is taken from the environment. */
export interface PlaceOptions {
  /** `https://host:6433`; else `DURAMEN_URL`. */
  url?: string | undefined;
  /** `NAME:SECRET`, of `duramen token create`; else `DURAMEN_TOKEN`. */
  token?: string | undefined;
  /** The home whose socket is used, if there is no URL; else `DURAMEN_HOME`, else the usual one. */
  home?: string | undefined;
  /** A file with certificates (PEM) to trust, instead of the system's; else `DURAMEN_CA`. */
  ca?: string | undefined;
}

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** A daemon, and the secret that it is shown. */
export class Place {
  /** The path of its socket, or its URL: for messages. */
  readonly where: string;
  readonly socket: string | undefined;
  readonly url: URL | undefined;
  readonly ca: string | undefined;
  // Private, so that neither console.log nor JSON.stringify shows it.
  readonly #secret: string | undefined;
  readonly #name: string | undefined;

  constructor(options: PlaceOptions, env: NodeJS.ProcessEnv = process.env) {
    const url = options.url ?? (options.home === undefined ? env.DURAMEN_URL : undefined);
    if (!url) {
      this.socket = join(options.home ?? (env.DURAMEN_HOME || usualHome(env)), "daemon.sock");
      this.where = this.socket;
      return;
    }
    const token = options.token ?? env.DURAMEN_TOKEN ?? "";
    const colon = token.indexOf(":");
    if (colon < 1) throw new DuramenError("a daemon by its URL needs a token, NAME:SECRET, as `token` or in DURAMEN_TOKEN");
    // Not in the message: it is not ours, and may hold anything.
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new DuramenError("the URL of a daemon is like https://host:6433");
    }
    this.url = new URL(url);
    this.where = this.url.origin;
    if (this.url.protocol === "http:" && !LOOPBACK.includes(this.url.hostname)) {
      throw new DuramenError("a token is not sent in the clear to another machine: use https");
    }
    this.#name = token.slice(0, colon);
    this.#secret = token.slice(colon + 1);
    const ca = options.ca ?? env.DURAMEN_CA;
    if (ca) this.ca = read(ca);
  }

  /** What each request has. */
  headers(): Record<string, string> {
    return this.#secret === undefined ? {} : { authorization: `Bearer ${this.#name}:${this.#secret}` };
  }

  /** The URL by which a PostgreSQL client enters a branch, with the secret that it needs. */
  entry(url: string): string {
    if (this.#secret === undefined || !url) return url;
    const entry = new URL(url);
    entry.password = this.#secret;
    return entry.href;
  }
}

function usualHome(env: NodeJS.ProcessEnv): string {
  if (process.geteuid?.() === 0) return "/var/lib/duramen";
  return join(env.XDG_DATA_HOME || join(homedir(), ".local/share"), "duramen");
}

function read(ca: string): string {
  try {
    return readFileSync(ca, "utf8");
  } catch (error) {
    throw new DuramenError(`the certificate ${ca} cannot be read; DURAMEN_CA or \`ca\` names a PEM file`, { cause: error });
  }
}
