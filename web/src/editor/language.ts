// The language of a file, and the editor's support for it, loaded on demand.
import type { LanguageSupport, StreamParser } from "@codemirror/language";
import type { Extension } from "@codemirror/state";

const byExtension: Record<string, string> = {
  py: "python", pyi: "python", pyw: "python",
  js: "javascript", mjs: "javascript", cjs: "javascript", jsx: "jsx", ts: "typescript", mts: "typescript", cts: "typescript", tsx: "tsx",
  json: "json", jsonl: "json", ipynb: "json", map: "json", webmanifest: "json",
  go: "go", java: "java", kt: "kotlin", scala: "scala", cs: "csharp", dart: "dart",
  c: "c", h: "c", cc: "cpp", cpp: "cpp", cxx: "cpp", hh: "cpp", hpp: "cpp", ino: "cpp", rs: "rust", swift: "swift",
  sh: "shell", bash: "shell", zsh: "shell", rb: "ruby", pl: "perl", pm: "perl", lua: "lua", r: "r", jl: "julia",
  html: "html", htm: "html", svg: "xml", xml: "xml", css: "css", scss: "scss", less: "less",
  sql: "sql", yaml: "yaml", yml: "yaml", toml: "toml", ini: "properties", cfg: "properties", conf: "properties", properties: "properties", env: "properties",
  diff: "diff", patch: "diff",
};

const byName: Record<string, string> = {
  dockerfile: "dockerfile", gemfile: "ruby", rakefile: "ruby",
  ".bashrc": "shell", ".profile": "shell", ".bash_profile": "shell", ".gitconfig": "properties", ".env": "properties",
};

/** languageOf returns the language of a file, by its name; "" for plain text. */
export function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const dot = name.lastIndexOf(".");
  return byName[name] ?? (dot >= 0 ? byExtension[name.slice(dot + 1)] : undefined) ?? "";
}

/** indentOf returns one step of indentation in a language. */
export function indentOf(language: string): string {
  if (language === "go") return "\t";
  return /^(python|java|kotlin|scala|csharp|c|cpp|rust|swift|shell|perl)$/.test(language) ? "    " : "  ";
}

const javascript = (options: { jsx?: boolean; typescript?: boolean }) => async () => (await import("@codemirror/lang-javascript")).javascript(options);
const clike = (name: "c" | "cpp" | "csharp" | "kotlin" | "scala" | "dart") => legacy(async () => (await import("@codemirror/legacy-modes/mode/clike"))[name]);

function legacy(parser: () => Promise<StreamParser<unknown>>): () => Promise<Extension> {
  return async () => {
    const [{ StreamLanguage }, { tags }, found] = await Promise.all([import("@codemirror/language"), import("@lezer/highlight"), parser()]);
    return StreamLanguage.define({ ...found, tokenTable: { property: tags.propertyName } }); // the keys of JSON are "string property"
  };
}

const known: Record<string, () => Promise<LanguageSupport | Extension>> = {
  python: async () => (await import("@codemirror/lang-python")).python(),
  go: async () => (await import("@codemirror/lang-go")).go(),
  java: async () => (await import("@codemirror/lang-java")).java(),
  javascript: javascript({}), node: javascript({}), jsx: javascript({ jsx: true }),
  typescript: javascript({ typescript: true }), tsx: javascript({ jsx: true, typescript: true }),
  json: legacy(async () => (await import("@codemirror/legacy-modes/mode/javascript")).json),
  c: clike("c"), cpp: clike("cpp"), csharp: clike("csharp"), kotlin: clike("kotlin"), scala: clike("scala"), dart: clike("dart"),
  shell: legacy(async () => (await import("@codemirror/legacy-modes/mode/shell")).shell),
  rust: legacy(async () => (await import("@codemirror/legacy-modes/mode/rust")).rust),
  ruby: legacy(async () => (await import("@codemirror/legacy-modes/mode/ruby")).ruby),
  perl: legacy(async () => (await import("@codemirror/legacy-modes/mode/perl")).perl),
  lua: legacy(async () => (await import("@codemirror/legacy-modes/mode/lua")).lua),
  r: legacy(async () => (await import("@codemirror/legacy-modes/mode/r")).r),
  julia: legacy(async () => (await import("@codemirror/legacy-modes/mode/julia")).julia),
  swift: legacy(async () => (await import("@codemirror/legacy-modes/mode/swift")).swift),
  html: legacy(async () => (await import("@codemirror/legacy-modes/mode/xml")).html),
  xml: legacy(async () => (await import("@codemirror/legacy-modes/mode/xml")).xml),
  css: legacy(async () => (await import("@codemirror/legacy-modes/mode/css")).css),
  scss: legacy(async () => (await import("@codemirror/legacy-modes/mode/css")).sCSS),
  less: legacy(async () => (await import("@codemirror/legacy-modes/mode/css")).less),
  sql: legacy(async () => (await import("@codemirror/legacy-modes/mode/sql")).standardSQL),
  yaml: legacy(async () => (await import("@codemirror/legacy-modes/mode/yaml")).yaml),
  toml: legacy(async () => (await import("@codemirror/legacy-modes/mode/toml")).toml),
  properties: legacy(async () => (await import("@codemirror/legacy-modes/mode/properties")).properties),
  diff: legacy(async () => (await import("@codemirror/legacy-modes/mode/diff")).diff),
  dockerfile: legacy(async () => (await import("@codemirror/legacy-modes/mode/dockerfile")).dockerFile),
};
known["bash"] = known["sh"] = known["shell"]!;
known["c++"] = known["cpp"]!;

/** support loads the editor's support for a language; an empty extension for an unknown one. */
export async function support(language: string): Promise<Extension> {
  return (await known[language.toLowerCase()]?.()) ?? [];
}
