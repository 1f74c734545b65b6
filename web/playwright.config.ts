import { defineConfig } from "@playwright/test";

// The browser is the system's. Each worker has a daemon of its own, with real branches: one is enough for two processors.
export default defineConfig({
  testDir: "tests",
  // Nodes need etcd, and a program with fleets: make test-web FLEET=1.
  testIgnore: process.env.DURAMEN_ETCD === undefined ? ["nodes.spec.ts"] : [],
  workers: Number(process.env.WORKERS ?? 1),
  timeout: 90_000,
  expect: { timeout: 20_000 },
  forbidOnly: true,
  reporter: "list",
  outputDir: "test-results",
  // Fonts are the system's: the kept pictures are of Debian 12 with fonts-dejavu-core.
  snapshotPathTemplate: "{testDir}/screens/{arg}{ext}",
  use: {
    browserName: "chromium",
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] },
    viewport: { width: 1280, height: 800 },
    screenshot: "only-on-failure",
    // The reader's clock and language, so that pictures are the same everywhere.
    timezoneId: "UTC",
    locale: "en-GB",
  },
});
