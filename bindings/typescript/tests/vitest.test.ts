/** A branch a test: Vitest, run by itself on the tests in runs/. */

import { execFile } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Client } from "duramen";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Daemon } from "./daemon.js";

let daemon: Daemon;
beforeAll(async () => {
  daemon = await Daemon.open();
});
afterAll(() => daemon.close());

interface Report {
  numPassedTests: number;
  numFailedTests: number;
  testResults: { message: string; assertionResults: { title: string; status: string }[] }[];
}

function run(env: Record<string, string>): Promise<Report> {
  const file = join(daemon.folder, "report.json");
  const args = ["node_modules/vitest/vitest.mjs", "run", "--root", "tests/runs", "--reporter", "json", "--outputFile", file];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { env: { ...process.env, ...env }, timeout: 50_000 }, (_, stdout, stderr) => {
      if (existsSync(file)) resolve(JSON.parse(readFileSync(file, "utf8")) as Report);
      else reject(new Error(stdout + stderr));
      rmSync(file, { force: true });
    });
  });
}

test("each test has its own, and leaves none", async () => {
  const report = await run({ DURAMEN_HOME: daemon.home });
  const failed = report.testResults.flatMap((file) => file.assertionResults).filter((each) => each.status !== "passed");
  expect(failed.map((each) => each.title)).toEqual(["fails"]);
  expect(report.numPassedTests).toBe(13);
  expect(await new Client({ home: daemon.home }).branches()).toEqual([]);
});

test("without a daemon, tests that need a branch fail", async () => {
  const report = await run({ DURAMEN_HOME: `${daemon.home}/nowhere` });
  expect([report.numPassedTests, report.numFailedTests]).toEqual([1, 13]);
});
