import { vitePreprocess } from "@sveltejs/vite-plugin-svelte";

export default {
  preprocess: vitePreprocess(),
  onwarn: ({ code, message, filename, start }) => {
    throw new Error(`${filename}:${start?.line ?? 1}: ${message} (${code})`);
  },
  compilerOptions: { runes: true, css: "external" },
};
