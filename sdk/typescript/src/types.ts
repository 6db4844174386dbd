// The types of the API, under the names in its documentation. All come from spec/openapi.yaml. Data from the server keeps
// the server's names (snake_case); additions of this package are in camelCase.
import type { components, operations } from "./openapi.js";

type Schemas = components["schemas"];

/** A run as in the server's answer. */
export type Run = Schemas["ShownRun"];
/** A run after its start, with its output if the request waited for it. */
export type StartedRun = Schemas["StartedRun"];
/** The phase of a run. The last four are final: completed, failed, killed, timed_out. */
export type Phase = Run["phase"];
/** The spec of a run. Give `base_image` for a run outside of a session; `command`, or `code` and its `language`. */
export type RunSpec = Omit<Schemas["RunSpec"], "spec_version" | "files"> & {
  spec_version?: string;
  /** Small files in the request, 1 MB together: by path, or in the form of the API. */
  files?: InlineFile[] | Record<string, string | Uint8Array>;
};
/** A small file in a request, base64. */
export type InlineFile = Schemas["InlineFile"];
/** Resource limits of a run. */
export type Resources = Schemas["Resources"];
/** The origin of a run's cancellation, and the run's phase at that moment. */
export type Cancellation = Schemas["Cancellation"];
/** One page of runs. */
export type RunPage = Schemas["RunPage"];
/** A file captured from a run. */
export type Artifact = Schemas["Artifact"];
/** A live interpreter of a session. */
export type Context = Schemas["Context"];
/** The spec of a context. */
export type ContextSpec = Schemas["ContextSpec"];
/** The context in which a run's code was executed. */
export type ContextRun = Schemas["ContextRun"];
/** The failure reason in the output of a failed run. The program writes its output: never make it HTML. */
export type RunFailure = Schemas["RunFailure"];
/** One frame of a failure's stack, the innermost first. */
export type FailureFrame = Schemas["FailureFrame"];
/** A result of code in a context. */
export type Result = Schemas["Result"];
/** A session as in the server's answer. */
export type SessionState = Schemas["Session"];
/** The spec of a session. */
export type SessionSpec = Schemas["SessionOpening"];
/** The destinations that programs may reach with `network_policy` `allowlist`. */
export type Egress = Schemas["Egress"];
/** The traffic that left a sandbox, and the denied traffic. */
export type EgressReport = Schemas["EgressReport"];
/** A Git repository with which a workspace begins. */
export type GitSpec = Schemas["GitSpec"];
/** The repository of a workspace, with the commit. */
export type GitSource = Schemas["GitSource"];
/** The network rules of a session. */
export type NetworkSpec = Schemas["NetworkSpec"];
/** A query whether a program could connect to a URL. */
export type NetworkQuery = Schemas["NetworkQuery"];
/** The contents of a preset, or why it cannot be used. */
export type NetworkPreset = Schemas["NetworkPreset"];
/** The answer to a network query. */
export type NetworkCheck = Schemas["NetworkCheck"];
/** The scope by which a session is found. */
export type Scope = Schemas["Scope"];
/** One page of sessions. */
export type SessionPage = Schemas["SessionPage"];
/** One file, folder or link in a workspace. */
export type FileEntry = Schemas["FileEntry"];
/** A listing of a folder. */
export type FileList = Schemas["FileList"];
/** A search: for a `name`, `content`, or both. */
export type FileSearch = Schemas["FileSearch"];
/** The matches of a search. */
export type FileMatches = Schemas["FileMatches"];
/** The used and total space of a workspace. */
export type Space = Schemas["Space"];
/** The result of an upload. */
export type UploadResult = Schemas["UploadResult"];
/** A terminal as in the server's answer. */
export type TerminalState = Schemas["Terminal"];
/** A port that a program in a session listens on. */
export type Port = Schemas["Port"];
/** A host name at which browsers reach a port. */
export type Preview = Schemas["Preview"];
/** An image on the server. */
export type Image = Schemas["Image"];
/** The progress of a pull. */
export type ImageProgress = Schemas["ImageProgress"];
/** The isolation runtimes of the server. */
export type Discovery = Schemas["Discovery"];
/** The caller's identity and permissions. */
export type Me = Schemas["Me"];
/** The images to remove. At least one bound is required. */
export type ImagePrune = Schemas["ImagePrune"];
/** The removed images, and the bytes that they took. */
export type ImagePruned = Schemas["ImagePruned"];
/** One page of all users' runs. */
export type AdminPage = Schemas["AdminPage"];
/** A run with its artifacts. */
export type DetailedRun = Schemas["DetailedRun"];
/** One idempotency key in force. */
export type KeyEntry = Schemas["KeyEntry"];
/** A request that waits or waited for an operator. */
export type Approval = Schemas["Approval"];
/** An operator's decision. */
export type ApprovalDecision = Schemas["ApprovalDecision"];
/** One page of approvals. */
export type ApprovalPage = Schemas["ApprovalPage"];
/** The usage of one user. */
export type UserUsage = Schemas["UserUsage"];
/** The quota of one user. */
export type Quota = Schemas["Quota"];
/** A quota to set: a field that is left out means no limit. */
export type QuotaSpec = Schemas["QuotaSpec"];
/** A secret of a run or session: its value, or the name of a stored one. */
export type Secret = Schemas["Secret"];
/** The spec of a stored secret. */
export type SecretSpec = Schemas["SecretSpec"];
/** A stored secret, without its value. */
export type StoredSecret = Schemas["StoredSecret"];
/** The saved files of a session. */
export type Snapshot = Schemas["Snapshot"];
/** A workspace on the server's disk that outlives the sessions and runs with it. */
export type Volume = Schemas["Volume"];
/** A named set of an image, packages, environment and files. */
export type Template = Schemas["Template"];
/** The spec of a template. */
export type TemplateSpec = Schemas["TemplateSpec"];
/** The storage of `/workspace`. */
export type Workspace = Schemas["Workspace"];
/** One page of snapshots. */
export type SnapshotPage = Schemas["SnapshotPage"];
/** The result of a fork: the copies of a session. */
export type Fork = Schemas["Fork"];
/** An API key. */
export type Token = Schemas["Token"];
/** The spec of a new API key. */
export type TokenSpec = Schemas["TokenSpec"];
/** A sign-in: its `token` is for a client. */
export type Login = operations["login"]["responses"]["200"]["content"]["application/json"];
/** A one-time code, and a link to the web page that signs in with it. */
export type LoginCode = operations["create-login-code"]["responses"]["200"]["content"]["application/json"];
/** The resource usage of a live sandbox at a moment. Figures without a reliable source are absent. */
export type UsageSample = Schemas["UsageSample"];
