/** When a request is sent again, and that each ends: against a server that breaks off, or says nothing. */

import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Refused, Unreachable } from "duramen";
import { afterEach, expect, test } from "vitest";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

/** A server that does something with each request, and the first lines and the keys of those that it has had. */
async function server(answer: (socket: Socket, number: number) => void): Promise<{ url: string; had: string[]; keys: string[] }> {
  const had: string[] = [];
  const keys: string[] = [];
  const sockets = new Set<Socket>();
  const listening = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      const line = /^(GET|POST|DELETE) \S+ HTTP/.exec(data.toString())?.[0];
      const key = /^idempotency-key: (\S+)/im.exec(data.toString())?.[1];
      if (key !== undefined) keys.push(key);
      if (line) answer(socket, had.push(line));
    });
  }).listen(0, "127.0.0.1");
  await once(listening, "listening");
  open.push({ close: () => (listening.close(), sockets.forEach((socket) => socket.destroy())) });
  return { url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`, had, keys };
}

const token = "t:s";

function reply(status: string, body: string): string {
  return `HTTP/1.1 ${status}\r\nretry-after: 1\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

test("what reads, and a create with its key, is sent again when the connection breaks", async () => {
  const { url, had, keys } = await server((socket, number) => (number % 3 === 0 ? socket.end(reply("200 OK", "[]")) : socket.destroy()));
  const client = new Client({ url, token });
  expect(await client.branches()).toEqual([]);
  await client.create("app");
  await client.create("app", { name: "a" });
  expect(had).toHaveLength(9);
  expect(keys).toHaveLength(6);
  expect(new Set(keys.slice(0, 3)).size).toBe(1);
  expect(new Set(keys).size).toBe(2);
});

test("what changes something is not", async () => {
  const { url, had } = await server((socket, number) => (number === 1 ? socket.end(reply("200 OK", '{"name": "a"}')) : socket.destroy()));
  const client = new Client({ url, token });
  const branch = await client.branch("a");
  const changes = [branch.destroy(), branch.reset(), branch.renew(), branch.query("select 1")];
  for (const each of await Promise.allSettled(changes)) expect(each).toMatchObject({ reason: expect.any(Unreachable) as unknown });
  expect(had).toHaveLength(1 + changes.length);
});

test("what did not arrive is sent again", async () => {
  const closed = await server(() => undefined);
  const port = Number(new URL(closed.url).port);
  open.pop()?.close();
  const created = new Client({ url: closed.url, token }).create("app");
  await sleep(200);
  const late = createServer((socket) => socket.end(reply("200 OK", '{"name": "a"}'))).listen(port, "127.0.0.1");
  open.push(late);
  expect((await created).name).toBe("a");
});

test("an answer is an answer", async () => {
  for (const [status, body] of [["503 Unavailable", '{"code": "no_branch_ready", "detail": "none"}'], ["502 Bad", "<html>"]] as const) {
    const { url, had } = await server((socket) => socket.end(reply(status, body)));
    await expect(new Client({ url, token }).branches()).rejects.toThrow(Refused);
    expect(had).toHaveLength(1);
  }
  const { url } = await server((socket) => socket.end(reply("200 OK", "<html>not a daemon</html>")));
  await expect(new Client({ url, token }).branches()).rejects.toThrow("not a daemon");
});

test.each([
  ["nothing is said", ""],
  ["an answer never ends", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[1,"],
])("the deadline counts when %s", async (_, begins) => {
  const { url } = await server((socket) => socket.write(begins));
  const began = Date.now();
  await expect(new Client({ url, token, timeoutMs: 300 }).branches()).rejects.toThrow("no answer in 300 ms");
  expect(Date.now() - began).toBeLessThan(2_000);
});
