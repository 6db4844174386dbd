// The nouns of the API, under the names that its documentation has. All come from spec/openapi.yaml; what the server says
// keeps the server's names (snake_case), what this package adds is in camelCase.
import type { components, operations } from "./openapi.js";

type Schemas = components["schemas"];

/** A run as the server shows it. */
export type Run = Schemas["ShownRun"];
/** A run as it was started, with its output if it was waited for. */
export type StartedRun = Schemas["StartedRun"];
/** Where a run stands. The last four are the end: completed, failed, killed, timed_out. */
export type Phase = Run["phase"];
/** What can be asked of a run. Give `base_image` for one by itself; `command`, or `code` and its `language`. */
export type RunSpec = Omit<Schemas["RunSpec"], "spec_version" | "files"> & {
  spec_version?: string;
  /** Small files that go with the request, 1 MB together: by path, or as the API writes them. */
  files?: InlineFile[] | Record<string, string | Uint8Array>;
};
/** A small file that goes with a request, base64. */
export type InlineFile = Schemas["InlineFile"];
/** Bounds of what a run may use. */
export type Resources = Schemas["Resources"];
/** Who asked for a run to end, and where it stood right then. */
export type Cancellation = Schemas["Cancellation"];
/** One page of runs. */
export type RunPage = Schemas["RunPage"];
/** A file captured from a run. */
export type Artifact = Schemas["Artifact"];
/** A living interpreter of a session. */
export type Context = Schemas["Context"];
/** What can be asked of a context. */
export type ContextSpec = Schemas["ContextSpec"];
/** The context that a run's code was executed in. */
export type ContextRun = Schemas["ContextRun"];
/** What the output of a failed run says about the reason. The program writes its output: never make it HTML. */
export type RunFailure = Schemas["RunFailure"];
/** One place of a failure's stack, the innermost first. */
export type FailureFrame = Schemas["FailureFrame"];
/** Something that code in a context has shown. */
export type Result = Schemas["Result"];
/** A session as the server shows it. */
export type SessionState = Schemas["Session"];
/** What can be asked of a session. */
export type SessionSpec = Schemas["SessionOpening"];
/** What programs may reach with `network_policy` `allowlist`. */
export type Egress = Schemas["Egress"];
/** What left a sandbox, and what was denied. */
export type EgressReport = Schemas["EgressReport"];
/** A Git repository that a workspace begins with. */
export type GitSpec = Schemas["GitSpec"];
/** The repository that it began with, with the commit. */
export type GitSource = Schemas["GitSource"];
/** What a session may reach. */
export type NetworkSpec = Schemas["NetworkSpec"];
/** A question what would happen to a URL. */
export type NetworkQuery = Schemas["NetworkQuery"];
/** What a preset stands for, or why it cannot be used. */
export type NetworkPreset = Schemas["NetworkPreset"];
/** The answer. */
export type NetworkCheck = Schemas["NetworkCheck"];
/** What a session is found by. */
export type Scope = Schemas["Scope"];
/** One page of sessions. */
export type SessionPage = Schemas["SessionPage"];
/** One file, folder or link in a workspace. */
export type FileEntry = Schemas["FileEntry"];
/** A listing of a folder. */
export type FileList = Schemas["FileList"];
/** What to search for: a `name`, `content`, or both. */
export type FileSearch = Schemas["FileSearch"];
/** What a search found. */
export type FileMatches = Schemas["FileMatches"];
/** What a workspace holds and may hold. */
export type Space = Schemas["Space"];
/** What an upload brought. */
export type UploadResult = Schemas["UploadResult"];
/** A terminal as the server shows it. */
export type TerminalState = Schemas["Terminal"];
/** A port that a program in a session listens on. */
export type Port = Schemas["Port"];
/** A host name at which browsers reach a port. */
export type Preview = Schemas["Preview"];
/** An image that is on the server. */
export type Image = Schemas["Image"];
/** How far a pull has come. */
export type ImageProgress = Schemas["ImageProgress"];
/** What the server can isolate with. */
export type Discovery = Schemas["Discovery"];
/** Who the caller is and what he may. */
export type Me = Schemas["Me"];
/** Which images to remove. At least one bound is given. */
export type ImagePrune = Schemas["ImagePrune"];
/** The images that were removed, and the bytes that they took. */
export type ImagePruned = Schemas["ImagePruned"];
/** One page of all users' runs. */
export type AdminPage = Schemas["AdminPage"];
/** A run with its artifacts. */
export type DetailedRun = Schemas["DetailedRun"];
/** One idempotency key in force. */
export type KeyEntry = Schemas["KeyEntry"];
/** A request that waits, or waited, for an operator. */
export type Approval = Schemas["Approval"];
/** What an operator decides. */
export type ApprovalDecision = Schemas["ApprovalDecision"];
/** One page of approvals. */
export type ApprovalPage = Schemas["ApprovalPage"];
/** What one user uses. */
export type UserUsage = Schemas["UserUsage"];
/** How much one user may have. */
export type Quota = Schemas["Quota"];
/** A secret of a run or session: its value, or the name of a stored one. */
export type Secret = Schemas["Secret"];
/** A secret to be stored. */
export type SecretSpec = Schemas["SecretSpec"];
/** A stored secret, without its value. */
export type StoredSecret = Schemas["StoredSecret"];
/** The saved files of a session. */
export type Snapshot = Schemas["Snapshot"];
/** A workspace on the server's disk that stays when a session or run with it ends. */
export type Volume = Schemas["Volume"];
/** An image, packages, environment and files by a name. */
export type Template = Schemas["Template"];
/** What a template is made of. */
export type TemplateSpec = Schemas["TemplateSpec"];
/** What `/workspace` is made of. */
export type Workspace = Schemas["Workspace"];
/** One page of snapshots. */
export type SnapshotPage = Schemas["SnapshotPage"];
/** The copies of a session. */
export type Fork = Schemas["Fork"];
/** An API key. */
export type Token = Schemas["Token"];
/** What can be asked of a new API key. */
export type TokenSpec = Schemas["TokenSpec"];
/** A sign-in: the `token` of a client. */
export type Login = operations["login"]["responses"]["200"]["content"]["application/json"];
/** A one-time code, and the web page's address that signs in with it. */
export type LoginCode = operations["create-login-code"]["responses"]["200"]["content"]["application/json"];
/** What a living sandbox uses at a moment. Figures without an honest source are absent. */
export type UsageSample = Schemas["UsageSample"];
