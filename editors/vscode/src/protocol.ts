/** The messages of belljar lsp that extend the Language Server Protocol: docs/ide.md. */
export interface RunNote {
  run_id: string;
  folder?: string;
  target?: string;
  phase: string;
  exit_code?: number;
  reason_code?: string;
  message?: string; // for a running run: why it cannot be followed
  lost?: boolean; // whether it is no longer followed; phase is then the last known one
  web_url?: string;
}

export interface LogNote {
  run_id: string;
  seq: number;
  stream: "stdout" | "stderr";
  data: string;
  encoding?: "base64";
}

export interface TruncatedNote {
  run_id: string;
  stream: "stdout" | "stderr";
  shown_bytes: number;
  web_url?: string;
  title: string;
}

export interface RunAnswer {
  run_id: string;
  phase: string;
  session_id?: string;
  log_stream_url?: string;
  web_url?: string;
  exit_code?: number;
  interactive?: boolean;
}

export interface ArtifactItem {
  path: string;
  size: number;
  type: string;
  download_url?: string;
  skipped?: string;
  link_target?: string;
}

export interface ArtifactList {
  run_id: string;
  items: ArtifactItem[];
  web_url?: string;
}

/** Whether no more notes about a run come. */
export const over = (run: RunNote): boolean => run.lost === true || ["completed", "failed", "killed", "timed_out"].includes(run.phase);
