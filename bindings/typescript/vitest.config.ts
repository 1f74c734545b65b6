import { defineConfig } from "vitest/config";

// One file at a time: each has a daemon of its own.
export default defineConfig({
  test: { include: ["tests/*.test.ts"], fileParallelism: false, testTimeout: 60_000, hookTimeout: 120_000 },
});
