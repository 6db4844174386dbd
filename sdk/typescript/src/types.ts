// The API's types, under the names of its documentation. All come from spec/openapi.yaml. The server's fields keep their
// names (snake_case); this package's own are in camelCase.
import type { components, operations } from "./openapi.js";

type Schemas = components["schemas"];

/** A run. */
export type Run = Schemas["ShownRun"];
/** A run that was started, with its output if the request waited for it. */
export type StartedRun = Schemas["StartedRun"];
/** The phase of a run. The last four are final: completed, failed, killed, timed_out. */
export type Phase = Run["phase"];
/** The request for a run. Give `base_image` for a run outside a session; `command`, or `code` and its `language`. */
export type RunSpec = Omit<Schemas["RunSpec"], "spec_version" | "files"> & {
  spec_version?: string;
  /** Small files in the request, 1 MB in total: by path, or in the API's form. */
  files?: InlineFile[] | Record<string, string | Uint8Array>;
};
/** A small file in a request, in base64. */
export type InlineFile = Schemas["InlineFile"];
/** Limits for the resources of a run. */
export type Resources = Schemas["Resources"];
/** The source of a cancellation, and the run's phase at that moment. */
export type Cancellation = Schemas["Cancellation"];
/** One page of runs. */
export type RunPage = Schemas["RunPage"];
/** A file captured from a run. */
export type Artifact = Schemas["Artifact"];
/** A live interpreter of a session. */
export type Context = Schemas["Context"];
/** The request for a context. */
export type ContextSpec = Schemas["ContextSpec"];
/** The context in which a run's code was executed. */
export type ContextRun = Schemas["ContextRun"];
/** The reason of a failed run, parsed from its output. The program writes its output: never make it HTML. */
export type RunFailure = Schemas["RunFailure"];
/** One frame of a failure's stack, the innermost first. */
export type FailureFrame = Schemas["FailureFrame"];
/** A result of code in a context: a value, a display or an error. */
export type Result = Schemas["Result"];
/** A session. */
export type SessionState = Schemas["Session"];
/** The request for a session. */
export type SessionSpec = Schemas["SessionOpening"];
/** The hosts that programs may reach with `network_policy` `allowlist`. */
export type Egress = Schemas["Egress"];
/** The traffic that left a sandbox, and the denied connections. */
export type EgressReport = Schemas["EgressReport"];
/** A Git repository for the initial workspace. */
export type GitSpec = Schemas["GitSpec"];
/** The repository of the initial workspace, with the commit. */
export type GitSource = Schemas["GitSource"];
/** The network rules of a session. */
export type NetworkSpec = Schemas["NetworkSpec"];
/** A request to check whether a URL could be reached. */
export type NetworkQuery = Schemas["NetworkQuery"];
/** The meaning of a preset, or why it cannot be used. */
export type NetworkPreset = Schemas["NetworkPreset"];
/** The answer to a {@link NetworkQuery}. */
export type NetworkCheck = Schemas["NetworkCheck"];
/** The name by which a session is found. */
export type Scope = Schemas["Scope"];
/** One page of sessions. */
export type SessionPage = Schemas["SessionPage"];
/** One file, folder or link in a workspace. */
export type FileEntry = Schemas["FileEntry"];
/** A listing of a folder. */
export type FileList = Schemas["FileList"];
/** The terms of a search: a `name`, `content`, or both. */
export type FileSearch = Schemas["FileSearch"];
/** The matches of a search. */
export type FileMatches = Schemas["FileMatches"];
/** The used and total space of a workspace. */
export type Space = Schemas["Space"];
/** The result of an upload. */
export type UploadResult = Schemas["UploadResult"];
/** A terminal. */
export type TerminalState = Schemas["Terminal"];
/** A port that a program in a session listens on. */
export type Port = Schemas["Port"];
/** A host name at which browsers reach a port. */
export type Preview = Schemas["Preview"];
/** An image on the server. */
export type Image = Schemas["Image"];
/** The progress of a pull. */
export type ImageProgress = Schemas["ImageProgress"];
/** The server's runtimes. */
export type Discovery = Schemas["Discovery"];
/** The caller and their permissions. */
export type Me = Schemas["Me"];
/** The images to remove. At least one bound is required. */
export type ImagePrune = Schemas["ImagePrune"];
/** The images that were removed, and their size in bytes. */
export type ImagePruned = Schemas["ImagePruned"];
/** One page of all users' runs. */
export type AdminPage = Schemas["AdminPage"];
/** A run with its artifacts. */
export type DetailedRun = Schemas["DetailedRun"];
/** One idempotency key in force. */
export type KeyEntry = Schemas["KeyEntry"];
/** A request that an operator must approve, or has decided. */
export type Approval = Schemas["Approval"];
/** An operator's decision. */
export type ApprovalDecision = Schemas["ApprovalDecision"];
/** One page of approvals. */
export type ApprovalPage = Schemas["ApprovalPage"];
/** The usage of one user. */
export type UserUsage = Schemas["UserUsage"];
/** The limits of one user. */
export type Quota = Schemas["Quota"];
/** A secret of a run or session: its value, or the name of a stored one. */
export type Secret = Schemas["Secret"];
/** The request to store a secret. */
export type SecretSpec = Schemas["SecretSpec"];
/** A stored secret, without its value. */
export type StoredSecret = Schemas["StoredSecret"];
/** The saved files of a session. */
export type Snapshot = Schemas["Snapshot"];
/** A workspace on the server's disk, which persists when its session or run ends. */
export type Volume = Schemas["Volume"];
/** An image, packages, environment and files under a name. */
export type Template = Schemas["Template"];
/** The request for a template. */
export type TemplateSpec = Schemas["TemplateSpec"];
/** The storage of `/workspace`. */
export type Workspace = Schemas["Workspace"];
/** One page of snapshots. */
export type SnapshotPage = Schemas["SnapshotPage"];
/** The result of a fork: the copies of a session. */
export type Fork = Schemas["Fork"];
/** An API key. */
export type Token = Schemas["Token"];
/** The request for an API key. */
export type TokenSpec = Schemas["TokenSpec"];
/** A sign-in: the `token` of a client. */
export type Login = operations["login"]["responses"]["200"]["content"]["application/json"];
/** A one-time code, and the web page's address that signs in with it. */
export type LoginCode = operations["create-login-code"]["responses"]["200"]["content"]["application/json"];
/** The usage of a live sandbox at one moment. Figures that cannot be measured are absent. */
export type UsageSample = Schemas["UsageSample"];
