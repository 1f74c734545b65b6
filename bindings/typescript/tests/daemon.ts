/** A daemon of the tests' own, with one source, app, of a table t with two rows. */

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const SCRIPT = "create table t (x int, name text); insert into t values (1, 'a'), (2, null);";

/** The program that is tested with. */
export const PROGRAM = process.env.DURAMEN_PROGRAM ?? "duramen";

/** One that serves, and can be stopped and started again. */
export class Daemon {
  readonly folder = mkdtempSync(join(tmpdir(), "dm-"));
  readonly home = join(this.folder, "home");
  readonly log = join(this.folder, "log");
  #process: ChildProcess | undefined;

  private constructor(
    readonly http: string,
    readonly router: string,
    readonly options: string[],
  ) {}

  /** With its source, and options of `duramen serve` beside the usual ones. */
  static async open(...options: string[]): Promise<Daemon> {
    const daemon = new Daemon(await freeAddress(), await freeAddress(), options);
    chmodSync(daemon.folder, 0o755);
    const script = join(daemon.folder, "app.sql");
    writeFileSync(script, SCRIPT);
    await daemon.start();
    try {
      await daemon.run("source", "add", "app", "--script", script, "--hot", "4");
    } catch (error) {
      await daemon.close();
      throw error;
    }
    return daemon;
  }

  /** The file with the certificate of its doors. */
  get certificate(): string {
    return join(this.home, "doors/certificate.pem");
  }

  /** Its process. */
  get pid(): number {
    if (this.#process?.pid === undefined) throw new Error("it does not run");
    return this.#process.pid;
  }

  /** Starts it, and waits until it serves. */
  async start(): Promise<void> {
    const size = this.options.includes("--volume-size") ? [] : ["--volume-size", "3G"];
    const listen = ["--http-listen", this.http, "--pg-listen", this.router, ...size, ...this.options];
    const log = openSync(this.log, "a");
    const started = spawn(PROGRAM, ["--home", this.home, "serve", ...listen], { stdio: ["ignore", "pipe", log] });
    this.#process = started;
    const lines = createInterface(started.stdout!);
    const [line] = (await once(lines, "line", { signal: AbortSignal.timeout(60_000) })) as [string];
    if (!line.includes("serves")) throw new Error(readFileSync(this.log, "utf8"));
  }

  /** Ends it, with its servers. */
  async stop(): Promise<void> {
    if (this.#process?.exitCode !== null) return;
    const ended = once(this.#process, "exit", { signal: AbortSignal.timeout(60_000) });
    this.#process.kill("SIGTERM");
    await ended;
  }

  /** Ends it and removes all of it. */
  async close(): Promise<void> {
    await this.stop();
    await promisify(execFile)(PROGRAM, ["--home", this.home, "purge", "--yes"], { timeout: 60_000 });
    rmSync(this.folder, { recursive: true });
  }

  /** What a command of the program says. */
  async run(...args: string[]): Promise<Record<string, unknown>> {
    const command = promisify(execFile)(PROGRAM, ["--home", this.home, ...args, "--json"], { timeout: 120_000 });
    return JSON.parse((await command).stdout) as Record<string, unknown>;
  }

  /** A token, as DURAMEN_TOKEN is written. */
  async token(name: string, ...more: string[]): Promise<string> {
    return `${name}:${String((await this.run("token", "create", name, ...more)).secret)}`;
  }
}

async function freeAddress(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return `127.0.0.1:${port}`;
}
