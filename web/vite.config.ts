import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  // Every address is relative: a proxy may serve the console under a path of its own.
  base: "./",
  plugins: [svelte()],
  build: {
    target: "es2022",
    // The policy of the page forbids what is inline, and addresses that begin with `data:`.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
  // `npm run dev` with DURAMEN_URL, and DURAMEN_TOKEN (NAME:SECRET) unless one signs in.
  server: {
    fs: { allow: [".."] },
    proxy: Object.fromEntries(
      ["/v1", "/version", "/healthz"].map((path) => [
        path,
        {
          target: process.env.DURAMEN_URL ?? "http://127.0.0.1:6433",
          ...(process.env.DURAMEN_TOKEN && { headers: { authorization: `Bearer ${process.env.DURAMEN_TOKEN}` } }),
        },
      ]),
    ),
  },
});
