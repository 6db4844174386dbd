// The request that repeats a run: as JSON, as curl, as a belljar command.
import type { Run, RunSpec, SessionState, Workspace } from "belljar-sdk";
import { shellLine } from "../../format.ts";

/** A request that repeats a run. */
export interface Repeat {
  spec: RunSpec;
  /** Parts that the run has not kept, in words. */
  missing: string[];
}

type Limits = SessionState["limits"];
type Resources = NonNullable<RunSpec["resources"]>;

const sentPrefix = "belljar.spec.";

/** sentSpec returns the request with which this browser tab started a run. */
export function sentSpec(runId: string, store: Pick<Storage, "getItem">): RunSpec | undefined {
  try {
    const value: unknown = JSON.parse(store.getItem(sentPrefix + runId) ?? "null");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as RunSpec) : undefined;
  } catch {
    return undefined;
  }
}

/** repeatOf returns the request that repeats a run: the complete one if this tab sent it, otherwise the one from the run's data. */
export function repeatOf(run: Run, sent: RunSpec | undefined): Repeat {
  const { context } = run;
  if (sent) return { spec: context && !sent.language ? { ...sent, language: context.language } : sent, missing: [] };
  const limits = run.resource_usage?.limits;
  const resources = limits && resourcesOf(limits, run.workspace);
  const lock = (list: { name: string; version: string }[] | undefined, sign: string) => list?.map((one) => `${one.name}${sign}${one.version}`);
  const packages = run.packages && present({ pip: lock(run.packages.pip, "=="), npm: lock(run.packages.npm, "@") });
  const names = run.env_names ?? [];
  const template = run.session_id ? undefined : run.template;
  const spec = present({
    spec_version: run.spec_version, session_id: run.session_id, template, base_image: run.session_id || template ? undefined : imageOf(run), runtime: run.session_id ? undefined : run.runtime,
    command: context ? undefined : run.command, code: context && run.command?.[0], language: context?.language, context: context?.name, timeout_sec: limits?.timeout_sec, cpu_time_sec: limits?.cpu_time_sec || undefined,
    resources: run.session_id ? undefined : resources, workspace: run.session_id ? undefined : workspaceOf(run.workspace), packages, interactive: run.interactive || undefined, labels: run.labels,
    git: run.git && present({ url: run.git.url, ref: run.git.commit ?? run.git.ref }),
    env: names.length > 0 ? Object.fromEntries(names.map((name) => [name, "…"])) : undefined,
    network_policy: run.network?.network_policy, egress: run.network?.egress,
  }) as RunSpec;
  const missing = [context ? "files" : "files, such as a program that was sent as code", "standard input", "secrets"];
  if (names.length > 0) missing.unshift(`the values of environment variables: ${names.join(", ")}`);
  if (run.snapshot_digest && !run.template) missing.push("its snapshot");
  if (run.command_truncated) missing.unshift("the whole command: it is longer than 16 KiB");
  return { spec, missing };
}

/** resourcesOf returns the resources that request the limits of a run or session with a workspace. */
export function resourcesOf(limits: Limits, workspace: Workspace | undefined): Resources {
  const { cpu, memory_mb, pids, nofile, nproc, log_bytes, artifact_mb } = limits;
  const workspace_mb = workspaceOf(workspace) ? undefined : limits.workspace_mb; // a disk has its own size
  return Object.fromEntries(Object.entries({ cpu, memory_mb, pids, nofile, nproc, workspace_mb, log_bytes, artifact_mb }).filter(([, value]) => value));
}

/** workspaceOf returns the workspace that requests the reported one; undefined for one in memory. */
export function workspaceOf(reported: Workspace | undefined): Workspace | undefined {
  const { medium, mb, volume, read_only } = reported ?? {};
  if (!volume) return medium === "disk" ? { medium, mb } : undefined;
  return read_only ? { volume, read_only } : present({ volume, mb }); // a size may make the volume, so one that is read-only has none
}

function imageOf(run: Run): string | undefined {
  const { base_image: image, image_digest: digest } = run;
  if (!image || !digest || image === "host" || image.includes("@")) return image;
  return `${image.replace(/:[^:/]*$/, "")}@${digest}`;
}

function present<T extends object>(object: T): T {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as T;
}

/** asJson returns the request as JSON for the API. */
export function asJson(spec: RunSpec): string {
  return JSON.stringify({ ...spec, spec_version: spec.spec_version ?? "1.1" }, null, 2);
}

/** asCurl returns the request as a curl command. The key stays in a variable. */
export function asCurl(spec: RunSpec, base: string): string {
  return `curl -sS -X POST ${shellLine([`${base}/api/v1/sandbox/runs?wait=30s`])} \\\n  -H "Authorization: Bearer $BELLJAR_API_KEY" -H 'Content-Type: application/json' \\\n  -d ${quote(asJson(spec))}`;
}

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

// The command identifies languages by file extensions.
const extensions: Record<string, string> = {
  python: "py", python3: "py", javascript: "js", node: "js", nodejs: "js", typescript: "ts", shell: "sh", bash: "sh", ruby: "rb", perl: "pl", golang: "go", "c++": "cpp", rust: "rs",
};

/** asBelljar returns the request as a belljar command, and the parts that the command cannot express: of limits, those that differ from the usual ones. */
export function asBelljar(spec: RunSpec, usual: Partial<Limits> = {}): { line: string; missing: string[] } {
  const { resources = {}, egress = {} } = spec;
  const args: string[] = [];
  const flag = (name: string, value: string | number | boolean | undefined) => {
    if (value === undefined || value === false || value === "") return;
    args.push(name, ...(value === true ? [] : [String(value)]));
  };
  const all = (name: string, values: readonly string[] | undefined) => values?.forEach((value) => flag(name, value));
  const inSession = spec.session_id !== undefined;
  const language = spec.language && (extensions[spec.language.toLowerCase()] ?? spec.language);
  if (inSession && spec.context !== undefined) {
    flag("--context", spec.context);
    flag("--lang", language);
    flag("--timeout", spec.timeout_sec);
    const rest = (["files", "stdin", "interactive", "capture_patterns", "labels"] as const).filter((name) => spec[name]);
    return { line: `belljar session code ${shellLine([spec.session_id!, ...args, "--code", spec.code ?? ""])}`, missing: rest.map((name) => name.replaceAll("_", " ")) };
  }
  if (!inSession) {
    flag("--template", spec.template);
    flag("--snapshot", spec.snapshot);
    if (spec.base_image !== "host") flag("--image", spec.base_image);
    flag("--runtime", spec.runtime);
    flag("--isolation", spec.isolation);
    flag("--trust", spec.trust_level);
    all("--allow", [...(egress.hosts ?? []), ...(egress.cidrs ?? []), ...(egress.ips ?? [])]);
    all("--allow-preset", egress.presets);
    all("--pip", spec.packages?.pip);
    all("--npm", spec.packages?.npm);
    flag("--git", spec.git?.url);
    flag("--ref", spec.git?.ref);
    flag("--cpus", resources.cpu);
    flag("--memory", resources.memory_mb === undefined ? undefined : `${resources.memory_mb}m`);
    flag("--pids", resources.pids);
    flag("--workspace", resources.workspace_mb === undefined ? undefined : `${resources.workspace_mb}m`);
    flag("--volume", spec.workspace?.volume && spec.workspace.volume + (spec.workspace.read_only ? ":ro" : ""));
    flag("--disk", spec.workspace?.mb === undefined ? undefined : `${spec.workspace.mb}m`);
    flag("--nofile", resources.nofile);
    flag("--nproc", resources.nproc);
    flag("--workspace-exec", spec.workspace_exec);
    flag("--startup-timeout", spec.startup_timeout_sec);
    flag("--cpu-time", spec.cpu_time_sec);
    all("--allow-weak", spec.allow_weak?.length ? [spec.allow_weak.join(",")] : undefined);
  }
  flag("--timeout", spec.timeout_sec);
  flag("--build-timeout", spec.build_timeout_sec);
  all("--env", Object.entries(spec.env ?? {}).map(([name, value]) => `${name}=${value}`));
  all("--capture", spec.capture_patterns);
  flag("--interactive", spec.interactive);
  const missing = (["labels", "cwd", "warm", "build_cache", "build_memory_mb", "stdin_idle_timeout_sec"] as const).filter((name) => spec[name]).map((name) => name.replaceAll("_", " "));
  missing.push(...(["log_bytes", "artifact_mb"] as const).filter((name) => resources[name] && resources[name] !== usual[name]).map((name) => name.replaceAll("_", " ")));
  if (spec.files && Object.keys(spec.files).length > 0) missing.push("files: give each with --file");
  if (spec.secrets && Object.keys(spec.secrets).length > 0) missing.push("secrets: give each with --secret");
  if (spec.code !== undefined) {
    flag("--lang", language);
    args.push("--code", spec.code, ...(spec.command ?? []));
  } else if (spec.shell) {
    args.push("--", "sh", "-c", spec.shell.cmd);
  } else {
    args.push("--", ...(spec.command ?? []));
  }
  const line = `belljar ${inSession ? `session run ${shellLine([spec.session_id!])}` : "run"} ${shellLine(args)}`;
  return { line: spec.stdin ? `printf %s ${quote(spec.stdin)} | ${line}` : line, missing };
}
