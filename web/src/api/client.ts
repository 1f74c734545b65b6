/** Requests to the daemon that served this page. Every address is relative to it. */

import { Gone, refusal, Refused } from "./problem";

/** What becomes known by any reply, whoever asked. */
export interface Listener {
  /** The session is no more. */
  unauthenticated(): void;
  /** Nobody answers. */
  gone(): void;
  /** Somebody answers. */
  there(): void;
}

let listener: Listener | undefined;

/** Says who is told what becomes known by replies. */
export function listen(to: Listener): void {
  listener = to;
}

/** How a request is made. */
export interface Options {
  body?: unknown;
  /** Given up when this is. */
  signal?: AbortSignal | undefined;
  /** The tag of what is known already. */
  etag?: string | undefined;
  /** Whether a 401 is told to the caller alone: of a sign-in, which it refuses. */
  signingIn?: boolean;
  /** Whether the reply is text, and not JSON. */
  text?: boolean;
}

/** A reply, read. */
export interface Reply<T> {
  value: T;
  /** Nothing new: `value` is not set. */
  same: boolean;
  etag: string | undefined;
  /** The path of the next page. */
  next: string | undefined;
}

async function send(method: string, path: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { accept: "*/*", "x-duramen-console": "1" };
  if (options.body !== undefined) headers["content-type"] = "application/json";
  if (options.etag !== undefined) headers["if-none-match"] = options.etag;
  let reply: Response;
  try {
    reply = await fetch(`.${path}`, {
      method,
      headers,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (options.signal?.aborted === true) throw error;
    listener?.gone();
    throw new Gone();
  }
  // What a proxy says when there is nothing behind it.
  if (reply.status === 502 || reply.status === 504) {
    listener?.gone();
    throw new Gone();
  }
  listener?.there();
  if (reply.status === 401 && options.signingIn !== true) listener?.unauthenticated();
  if (!reply.ok && reply.status !== 304) throw await refusal(reply);
  return reply;
}

type Source = { source?: string };
type Reviver = (this: unknown, key: string, value: unknown, context?: Source) => unknown;

// A bigint of a database has more digits than a number of JavaScript: it becomes text, as it was written.
const exact: Reviver = (_key, value, context) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source !== undefined
    ? context.source
    : value;

/** The value of a JSON text, with all digits. */
export function parse(text: string): unknown {
  return JSON.parse(text, exact as (this: unknown, key: string, value: unknown) => unknown);
}

/** Makes a request, and reads its reply. */
export async function ask<T>(method: string, path: string, options: Options = {}): Promise<Reply<T>> {
  const reply = await send(method, path, options);
  const etag = reply.headers.get("etag") ?? undefined;
  if (reply.status === 304) return { value: undefined as T, same: true, etag, next: undefined };
  let text: string;
  try {
    text = await reply.text();
  } catch (error) {
    if (options.signal?.aborted === true) throw error;
    listener?.gone();
    throw new Gone();
  }
  return { value: (options.text === true ? text : text === "" ? undefined : parse(text)) as T, same: false, etag, next: nextPage(reply) };
}

/** The value of a reply. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await ask<T>("GET", path, { signal })).value;
}

/** Does something, and gives the value of the reply. */
export async function post<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await ask<T>("POST", path, { body, signal })).value;
}

/** The lines of a reply that is a stream of them, as they come. */
export async function* lines<T>(path: string, signal: AbortSignal, method: "GET" | "POST" = "GET"): AsyncGenerator<T> {
  const reply = await send(method, path, { signal });
  if (reply.body === null) return;
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const parts = (rest + (value ?? "")).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) if (part.trim() !== "") yield parse(part) as T;
      if (done) break;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
  if (rest.trim() !== "") yield parse(rest) as T;
}

/** An event of a stream of them. */
export interface Sent {
  id: string;
  event: string;
  data: string;
}

/** The events of a reply, as they come (WHATWG HTML, "Server-sent events"). */
export async function* events(path: string, signal: AbortSignal): AsyncGenerator<Sent> {
  const reply = await send("GET", path, { signal });
  if (reply.body === null) return;
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let id = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const sent: Sent = { id, event: "message", data: "" };
        for (const line of part.split("\n")) {
          const [, field, text = ""] = /^(\w+): ?(.*)$/.exec(line) ?? [];
          if (field === "id") sent.id = id = text;
          else if (field === "event") sent.event = text;
          else if (field === "data") sent.data += sent.data === "" ? text : `\n${text}`;
        }
        yield sent;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function nextPage(reply: Response): string | undefined {
  const found = /<([^>]+)>\s*;\s*rel="?next"?/.exec(reply.headers.get("link") ?? "");
  if (found === null) return undefined;
  // Of an address only its path and what follows is used: it leads to no other host.
  const { pathname, search } = new URL(found[1]!, "http://door");
  return pathname.slice(Math.max(0, pathname.lastIndexOf("/v1/"))) + search;
}

/** What stands between two strokes of a path. */
export const segment = (name: string): string => encodeURIComponent(name);

/** The path of a branch, or of something of it. */
export const branchPath = (name: string, below = ""): string => `/v1/branches/${segment(name)}${below}`;

/** The path of something attached. */
export const attachedPath = (name: string, below: string): string => `/v1/attachments/${segment(name)}/${below}`;

/** A path with what stands after the question mark. */
export function asking(path: string, values: Record<string, string | number | boolean | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== "") query.set(name, String(value));
  // In a form a plus stands for a space; in an address it is a plus.
  return query.size === 0 ? path : `${path}?${query.toString().replaceAll("+", "%20")}`;
}

export { Gone, Refused };
