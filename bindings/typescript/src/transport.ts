/** Requests to a daemon, each with a deadline. */

import * as http from "node:http";
import * as https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { refused, Unreachable } from "./errors.js";
import type { Place } from "./place.js";

/** How long a request may take, all tries together, unless its caller says otherwise. */
export const TIMEOUT_MS = 60_000;
/** A connection that nothing uses is closed after this; the daemon closes one after 30 s. */
const IDLE_MS = 5_000;
const CONNECTIONS_MAX = 64;
const REPLY_BYTES_MAX = 128 << 20;
/** Before the second and the third try. */
const PAUSES_MS = [100, 400];

/** What is asked of the daemon. */
export interface Request {
  method: "GET" | "POST" | "DELETE";
  path: string;
  body?: unknown;
  timeoutMs?: number | undefined;
  /** Whether doing it twice is the same as doing it once. */
  repeatable?: boolean;
  /** A new word for a request that the daemon shall do once, though it may be sent again. */
  key?: string | undefined;
}

/** What the daemon said. */
export interface Reply {
  value: unknown;
  /** The path of the next page of a list. */
  next: string | undefined;
}

/** The way to one daemon. */
export class Transport {
  readonly #place: Place;
  readonly #agent: http.Agent;
  readonly #timeoutMs: number;

  constructor(place: Place, timeoutMs: number) {
    const options = { keepAlive: true, timeout: IDLE_MS, maxSockets: CONNECTIONS_MAX };
    const secure = place.url?.protocol === "https:";
    this.#agent = secure ? new https.Agent(place.ca ? { ...options, ca: place.ca } : options) : new http.Agent(options);
    this.#place = place;
    this.#timeoutMs = timeoutMs;
  }

  /** Closes connections that nothing uses. */
  close(): void {
    this.#agent.destroy();
  }

  /**
   * The reply, or the error for a refusal. A request is sent again if it did not reach the daemon, or if it is `repeatable`
   * or has a `key` and the connection broke; never after the daemon has answered.
   */
  async ask(request: Request): Promise<Reply> {
    const timeoutMs = request.timeoutMs ?? this.#timeoutMs;
    const deadline = AbortSignal.timeout(timeoutMs);
    for (let tries = 0; ; tries += 1) {
      try {
        return read(await this.#send(request, deadline));
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        const pause = PAUSES_MS[tries];
        const again = (!error.sent || request.repeatable === true || request.key !== undefined) && error.again;
        const passed = deadline.aborted || (again && pause !== undefined && (await isOver(pause, deadline)));
        if (passed) throw this.#unreachable(`no answer in ${timeoutMs} ms`, error);
        if (!again || pause === undefined) throw this.#unreachable(error.message, error);
      }
    }
  }

  #unreachable(why: string, error: Broken): Unreachable {
    return new Unreachable(`the daemon at ${this.#place.where} was not reached, or left: ${why}`, { cause: error.cause });
  }

  #send(request: Request, signal: AbortSignal): Promise<Answer> {
    const { url, socket } = this.#place;
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    const headers: http.OutgoingHttpHeaders = { ...this.#place.headers(), accept: "application/json" };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
      headers["content-length"] = Buffer.byteLength(body);
    }
    if (request.key !== undefined) headers["idempotency-key"] = request.key;
    const where = url
      ? { protocol: url.protocol, hostname: url.hostname.replace(/^\[|\]$/g, ""), port: url.port }
      : { socketPath: socket };
    // A URL may have a path of its own, behind a proxy.
    const path = (url?.pathname.replace(/\/$/, "") ?? "") + request.path;
    const options = { ...where, path, method: request.method, headers, agent: this.#agent, signal };
    return new Promise((resolve, reject) => {
      const sending = (url?.protocol === "https:" ? https : http).request(options);
      let sent = false;
      const fail = (error: Error): void => reject(new Broken(error, sent, !(error instanceof TooLong)));
      sending.on("socket", (connection) => {
        const ready = url?.protocol === "https:" ? "secureConnect" : "connect";
        if (connection.connecting) connection.once(ready, () => (sent = true));
        else sent = true;
      });
      sending.on("error", fail);
      sending.on("response", (response) => {
        const parts: Buffer[] = [];
        let bytes = 0;
        response.on("data", (part: Buffer) => {
          bytes += part.length;
          if (bytes > REPLY_BYTES_MAX) response.destroy(new TooLong(`a reply of more than ${REPLY_BYTES_MAX} bytes`));
          else parts.push(part);
        });
        response.on("error", fail);
        response.on("end", () => resolve({ response, text: Buffer.concat(parts).toString("utf8") }));
      });
      sending.end(body);
    });
  }
}

interface Answer {
  response: http.IncomingMessage;
  text: string;
}

class TooLong extends Error {}

/** A try that brought no answer. */
class Broken extends Error {
  constructor(
    error: Error,
    /** Whether the daemon may have it. */
    readonly sent: boolean,
    /** Whether another try could end differently. */
    readonly again: boolean,
  ) {
    // An AggregateError, of a name with several addresses, has no message of its own.
    super(error.message || (error as NodeJS.ErrnoException).code || error.name, { cause: error });
  }
}

/** Waits; whether the deadline passed meanwhile. */
async function isOver(pauseMs: number, deadline: AbortSignal): Promise<boolean> {
  try {
    await sleep(pauseMs, undefined, { signal: deadline });
    return false;
  } catch {
    return true;
  }
}

function read({ response, text }: Answer): Reply {
  const status = response.statusCode ?? 0;
  if (status >= 200 && status < 300) {
    return { value: parsed(text) ?? unexpected(status, text), next: nextOf(response.headers.link) };
  }
  const problem = (parsed(text) ?? {}) as { code?: unknown; detail?: unknown; sqlstate?: unknown };
  if (typeof problem.detail !== "string") return unexpected(status, text);
  const seconds = response.headers["retry-after"];
  throw refused({
    status,
    code: typeof problem.code === "string" ? problem.code : "unknown",
    detail: problem.detail,
    sqlstate: typeof problem.sqlstate === "string" ? problem.sqlstate : undefined,
    retryAfterMs: seconds && /^\d+$/.test(seconds) ? Number(seconds) * 1000 : undefined,
  });
}

/** Something answered that is not the daemon: a proxy, perhaps. */
function unexpected(status: number, text: string): never {
  throw refused({ status, code: "unknown", detail: `${status}: ${text.slice(0, 500) || "an empty answer"}` });
}

function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function nextOf(link: string | string[] | undefined): string | undefined {
  return /<([^>]+)>;\s*rel="?next"?/.exec([link ?? ""].flat().join(","))?.[1];
}
