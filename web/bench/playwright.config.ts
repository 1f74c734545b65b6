import { defineConfig } from "@playwright/test";

export default defineConfig({ testDir: ".", workers: 1, reporter: "list", outputDir: "../test-results/bench" });
