// The fields of the form, and the request that they make.
import type { Me, Run, RunSpec, Workspace } from "belljar-sdk";
import { shellLine } from "../../format.ts";
import { fromBase64, shownKinds, toBase64, words } from "../../spec.ts";
import { repeatOf } from "../run/spec.ts";
import { rulesOf, textOfRules } from "../session/rules.ts";
import { languages } from "./example.ts";

/** Limits that the form has no fields for. */
type OtherLimits = Omit<NonNullable<RunSpec["resources"]>, "memory_mb" | "cpu"> & Pick<RunSpec, "cpu_time_sec">;

export interface FileOfRun {
  path: string;
  bytes: Uint8Array;
}

/** The fields as displayed. Empty means the server's default. */
export interface Form {
  kind: "code" | "command";
  language: string;
  code: string;
  command: string;
  /** The prefilled text, if the server has only the beginning of it; otherwise empty. */
  cut: string;
  image: string;
  template: string;
  /** A disk or a volume; by default the workspace is in memory. */
  workspace: Workspace | undefined;
  runtime: string;
  session: string;
  /** The session's context that executes the code; empty for a separate program. */
  context: string;
  files: FileOfRun[];
  stdin: string;
  interactive: boolean;
  /** How long an interactive run waits for its input, in seconds. */
  idleSec: number;
  env: string;
  capture: string;
  timeoutSec: string;
  memoryMb: string;
  cpu: string;
  /** The other limits of a repeated run. */
  limits: OtherLimits | undefined;
  allow: string;
  pip: string;
  npm: string;
  git: string;
  ref: string;
  /** Whether programs in the workspace may be executed. */
  exec: boolean;
}

const hour = 3600;

/** The size limit for all files in a request together. */
export const inlineBytes = 1_000_000;

export function emptyForm(): Form {
  return {
    kind: "code", language: languages[0]!.name, code: languages[0]!.example, command: "", cut: "", image: "", template: "", workspace: undefined, runtime: "", session: "", context: "", files: [],
    stdin: "", interactive: false, idleSec: hour, env: "", capture: shownKinds, timeoutSec: "", memoryMb: "", cpu: "", limits: undefined, allow: "", pip: "", npm: "", git: "", ref: "", exec: false,
  };
}

/** inLanguage returns the changes to a form for a new language. It keeps a program that the user has written. */
export function inLanguage(form: Form, name: string): Pick<Form, "language" | "code" | "exec"> {
  const of = (one: string) => languages.find((language) => language.name === one);
  const untouched = form.code.trim() === "" || form.code === of(form.language)?.example;
  return { language: name, code: untouched ? of(name)!.example : form.code, exec: of(name)!.executed ?? false };
}

const lines = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
const figure = (text: string | number | null): number | undefined => (text === null || String(text).trim() === "" ? undefined : Number(text));

/** isCut reports whether the program is only the beginning of an earlier one. */
export const isCut = (form: Form): boolean => form.cut !== "" && form.cut === (form.kind === "code" ? form.code : form.command);

/**
 * specOf returns the request of a form. longest is the largest time limit that the server accepts. It throws an Error with a sentence about a field
 * that cannot be sent.
 */
export function specOf(form: Form, longest = Infinity): RunSpec {
  if (isCut(form)) throw new Error("The server has only its beginning. Add the rest, or change it, before you run it");
  const spec: RunSpec = form.kind === "code" ? { language: form.language, code: form.code } : { command: words(form.command) };
  if (form.session) spec.session_id = form.session;
  if (form.session && form.context && form.kind === "code") {
    spec.context = form.context;
    delete spec.language; // the context has a language
  }
  const timeout = figure(form.timeoutSec);
  if (timeout !== undefined) spec.timeout_sec = timeout;
  if (form.limits?.cpu_time_sec !== undefined) spec.cpu_time_sec = form.limits.cpu_time_sec;
  const env = envOf(form.env);
  if (Object.keys(env).length > 0) spec.env = env;
  if (form.interactive) {
    Object.assign(spec, { interactive: true, stdin_idle_timeout_sec: form.idleSec }); // a user thinks for longer than by default
    spec.timeout_sec ??= Math.min(hour, longest);
  } else if (form.stdin !== "") spec.stdin = form.stdin;
  const capture = lines(form.capture);
  if (capture.length > 0) spec.capture_patterns = capture;
  if (!form.session) Object.assign(spec, sandboxOf(form));
  if (form.files.length > 0) spec.files = form.files.map((file) => ({ path: file.path, content_b64: toBase64(file.bytes) }));
  return spec;
}

/** sandboxOf returns the sandbox that a form requests, for the run itself or for a session that is made for it. */
export function sandboxOf(form: Form): Pick<RunSpec, "base_image" | "template" | "workspace" | "runtime" | "workspace_exec" | "resources" | "network_policy" | "egress" | "git" | "packages"> {
  const spec: ReturnType<typeof sandboxOf> = {};
  if (form.template) spec.template = form.template;
  else if (form.image) spec.base_image = form.image;
  if (form.workspace) spec.workspace = form.workspace;
  if (form.runtime) spec.runtime = form.runtime;
  if (form.exec) spec.workspace_exec = true;
  const { cpu_time_sec, ...others } = form.limits ?? {};
  const resources = Object.entries({ memory_mb: figure(form.memoryMb), cpu: figure(form.cpu), ...others }).filter(([, value]) => value !== undefined);
  if (resources.length > 0) spec.resources = Object.fromEntries(resources);
  const egress = rulesOf(form.allow);
  if (Object.keys(egress).length > 0) {
    spec.network_policy = "allowlist";
    spec.egress = egress;
  }
  if (form.git.trim()) spec.git = { url: form.git.trim(), ...(form.ref.trim() ? { ref: form.ref.trim() } : {}) };
  const [pip, npm] = [lines(form.pip), lines(form.npm)];
  if (pip.length + npm.length > 0) spec.packages = { ...(pip.length > 0 ? { pip } : {}), ...(npm.length > 0 ? { npm } : {}) };
  return spec;
}

function envOf(text: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`Environment: "${line.trim()}" is not NAME=value`);
    env[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return env;
}

// The form's names for languages of contexts that differ.
const others: Record<string, string> = { bash: "shell", ipython: "python" };
const languageOf = (name: string | undefined): string => others[name ?? ""] || name || languages[0]!.name;

/** othersOf returns the limits of a request that the form has no fields for, without the usual ones; undefined if it has none. */
function othersOf({ resources, cpu_time_sec }: RunSpec, usual: Partial<Me["limits"]> = {}): OtherLimits | undefined {
  const { memory_mb, cpu, ...others } = resources ?? {};
  const set = Object.entries({ ...others, cpu_time_sec }).filter(([name, value]) => value !== undefined && value !== usual[name as keyof OtherLimits]);
  return set.length > 0 ? Object.fromEntries(set) : undefined;
}

/** formOf fills a form from a run's spec. */
export function formOf(spec: RunSpec): Form {
  const form = emptyForm();
  return {
    ...form,
    kind: spec.code !== undefined ? "code" : "command",
    language: languageOf(spec.language),
    code: spec.code ?? "",
    command: shellLine(spec.command ?? []),
    image: spec.base_image ?? "", template: spec.template ?? "", workspace: spec.workspace, runtime: spec.runtime ?? "", session: spec.session_id ?? "", context: spec.context ?? "",
    stdin: spec.stdin ?? "", interactive: spec.interactive ?? false, idleSec: spec.stdin_idle_timeout_sec ?? hour,
    env: Object.entries(spec.env ?? {}).map(([name, value]) => `${name}=${value}`).join("\n"),
    capture: (spec.capture_patterns ?? []).join("\n"),
    timeoutSec: String(spec.timeout_sec ?? ""), memoryMb: String(spec.resources?.memory_mb ?? ""), cpu: String(spec.resources?.cpu ?? ""), limits: othersOf(spec),
    allow: textOfRules(spec.egress),
    pip: (spec.packages?.pip ?? []).join("\n"), npm: (spec.packages?.npm ?? []).join("\n"),
    git: spec.git?.url ?? "", ref: spec.git?.ref ?? "", exec: spec.workspace_exec ?? false,
    files: Array.isArray(spec.files) ? spec.files.map((file) => ({ path: file.path, bytes: fromBase64(file.content_b64) })) : [],
  };
}

/**
 * formOfRun fills a form from the server's data about a run: without its files, its input and the values of its environment. usual is the limits of
 * a request without its own.
 */
export function formOfRun(run: Run, usual?: Me["limits"]): Form {
  const limits = run.resource_usage?.limits;
  const { spec } = repeatOf(run, undefined);
  const { egress, packages, git, template = "", workspace } = spec;
  const text = run.context ? (run.command?.[0] ?? "") : shellLine(run.command ?? []);
  return {
    ...emptyForm(), language: languageOf(run.context?.language),
    ...(run.context ? { kind: "code", code: text, context: run.context.name } as const : { kind: "command", command: text } as const),
    cut: run.command_truncated ? text : "", template, workspace,
    image: run.session_id || template ? "" : (run.base_image ?? ""), runtime: run.session_id ? "" : (run.runtime ?? ""), session: run.session_id ?? "",
    interactive: run.interactive ?? false,
    timeoutSec: String(limits?.timeout_sec ?? ""), memoryMb: String(limits?.memory_mb || ""), cpu: String(limits?.cpu || ""), limits: othersOf(spec, template || run.session_id ? {} : usual), // a template or session may have others
    allow: textOfRules(egress), pip: (packages?.pip ?? []).join("\n"), npm: (packages?.npm ?? []).join("\n"), git: git?.url ?? "", ref: git?.ref ?? "",
  };
}
