import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["*.run.ts"], provide: { duramen: { source: "app" } }, testTimeout: 30_000, hookTimeout: 30_000 },
});
