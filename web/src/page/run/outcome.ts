// A run in one sentence.
import type { Run } from "belljar-sdk";
import { ago, duration } from "../../format.ts";

/** isEnd reports whether a run has ended. */
export function isEnd(phase: Run["phase"]): boolean {
  return phase === "completed" || phase === "failed" || phase === "killed" || phase === "timed_out";
}

type Reported = Pick<Run, "phase" | "exit_code" | "started_at" | "finished_at" | "created_at"> &
  Partial<Pick<Run, "reason_code" | "message" | "signal" | "approval" | "estimated_start_time" | "build">>;

/** outcomeOf returns the outcome of a run, or the reason why it waits: "Failed after 1.2 s: exit status 1". */
export function outcomeOf(run: Reported, now = Date.now()): string {
  const begun = run.started_at ? Date.parse(run.started_at) : undefined;
  const took = begun === undefined ? undefined : duration((run.finished_at ? Date.parse(run.finished_at) : now) - begun);
  switch (run.phase) {
    case "queued":
      if (run.approval?.state === "pending") return "Waits for an operator's approval";
      if (run.estimated_start_time && Date.parse(run.estimated_start_time) > now) return `Queued: it starts ${ago(run.estimated_start_time, now)}, if all goes well`;
      return "Queued: it starts when there is room";
    case "starting":
      return "Starting";
    case "running":
      return took ? `Running for ${took}` : "Running";
    case "completed":
      return took ? `Completed in ${took}` : "Completed";
    case "killed":
      return killed(run, took);
    case "timed_out":
      if (run.reason_code === "startup_timeout") return `Timed out before it began: ${messageOf(run)}`;
      return `Timed out${took ? ` after ${took}` : ""}: ${messageOf(run)}`;
    case "failed":
      return failed(run, took);
  }
}

function killed(run: Reported, took: string | undefined): string {
  if (run.reason_code === "canceled_by_user" && (!run.message || run.message === run.reason_code)) {
    return took ? `Cancelled after ${took}` : "Cancelled before it began";
  }
  return `Ended ${took ? `after ${took}` : "before it began"}: ${messageOf(run)}`;
}

function failed(run: Reported, took: string | undefined): string {
  const when = took ? `Failed after ${took}` : "Failed before it began";
  switch (run.reason_code) {
    case "nonzero_exit":
    case undefined:
    case "":
      return run.exit_code === null ? `${when}: ${messageOf(run)}` : `${when}: exit status ${run.exit_code}`;
    case "oom_killed":
      return `${when}: ${exited(run)}${messageOf(run).replace(/^ran out/, "out")}`;
    case "signaled":
      return `${when}: ended by ${run.signal ?? "a signal"}`;
    case "compile_failed":
      return `Not built: ${messageOf(run)}`;
  }
  return `${when}: ${exited(run)}${messageOf(run)}`;
}

function exited(run: Reported): string {
  return run.exit_code !== null && !run.signal ? `exit status ${run.exit_code}, ` : "";
}

function messageOf(run: Reported): string {
  return (run.message || (run.reason_code ?? "").replaceAll("_", " ") || "no reason is known").replace(/\.$/, "");
}
