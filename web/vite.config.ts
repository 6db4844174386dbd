import { svelte } from "@sveltejs/vite-plugin-svelte";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const sdk = fileURLToPath(new URL("../sdk/typescript/src/", import.meta.url));

// The SDK has a part for Node only. Its package.json replaces it for bundlers, but this page uses the source, where that does not
// apply.
const browserPlatform: Plugin = {
  name: "browser-platform",
  enforce: "pre",
  resolveId: (source) => (source === "./node/platform.js" ? `${sdk}browser/platform.ts` : undefined),
};

export default defineConfig({
  // Addresses are relative to <base>, which the server writes.
  base: "./",
  plugins: [browserPlatform, svelte()],
  resolve: { alias: { "belljar-sdk": `${sdk}index.ts` } },
  worker: { format: "es" },
  // vite dev: BELLJAR_SERVER is a running server.
  server: { proxy: { "/api": { target: process.env["BELLJAR_SERVER"] ?? "http://127.0.0.1:8080", ws: true } } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
    // Puts the code that most pages share in one file: a request for each part costs more than the bytes.
    rolldownOptions: {
      output: { codeSplitting: { groups: [{ name: "shared", test: /\/node_modules\/(?:svelte|esm-env|clsx)\/|\/sdk\/typescript\/src\/|\/web\/src\/(?:part|shell)\/|\/web\/src\/(?!main\.ts|App\.svelte)[^/]+$/ }] } },
    },
  },
});
