// The client of the API, and the signed-in user. There are no cookies: only this page sends the token.
import { Belljar, BelljarError, errorOf, UnauthorizedError, type ErrorBody, type Me } from "belljar-sdk";
import { tick } from "svelte";
import { watchedFetch } from "./shell/away.svelte.ts";
import { claim, forgetWork } from "./spec.ts";

const key = "belljar.token";

/** The address of the API: next to the pages. */
export const apiBase = new URL("..", document.baseURI).href.replace(/\/+$/, "");

interface SignedIn {
  /**
   * unknown until the server has answered, if this browser has no token or a new one; out: a sign-in is needed; in: there is a token, and `me` is
   * the caller once the server has answered.
   */
  state: "unknown" | "out" | "in";
  me: Me | undefined;
  /** The reason why a sign-in is needed, or has failed. */
  problem: unknown;
  /** The code of a link that was followed while a user was signed in: any page can lead here, so the user decides. */
  offered: string | undefined;
}

export const caller: SignedIn = $state({ state: "unknown", me: undefined, problem: undefined, offered: undefined });

const stored = (): string | undefined => localStorage.getItem(key) ?? undefined;

let held = stored();
let belljar = client(held);

function client(token: string | undefined): Belljar {
  // For every request: after the end of a sign-in, the page's data is useless.
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const answer = await watchedFetch(input, init);
    if (answer.status === 401 && token === held) void answer.clone().json().catch(() => undefined).then((body) => token === held && failureOf(401, body));
    return answer;
  };
  return new Belljar({ baseUrl: apiBase, token, source: "Web", fetch });
}

/** api returns the client of the signed-in user. */
export function api(): Belljar {
  return belljar;
}

/** token returns the token for requests that the client does not send. */
export function token(): string | undefined {
  return held;
}

/** failureOf returns the error of an answer to such a request. It asks for a new sign-in if that is missing. */
export function failureOf(status: number, body: unknown): BelljarError {
  const reported = (body as { error?: ErrorBody } | undefined)?.error;
  const error = errorOf(reported?.code ? reported : { code: "internal", message: `the server answered with status ${status}` }, { status });
  noteFailure(error);
  return error;
}

/** isAdmin reports whether the caller may see other users' work. */
export function isAdmin(): boolean {
  return caller.me?.role === "admin";
}

/** begin signs in with the token of an earlier visit, with the code in the address, or without either if the server needs none. */
export async function begin(): Promise<void> {
  const code = /^#k=([\w-]+)/.exec(location.hash)?.[1];
  // A used code is useless, but it need not stay in the history.
  if (code) history.replaceState(null, "", location.pathname + location.search);
  if (held !== undefined) caller.state = "in"; // the pages need not wait for the answer
  if (!code || held !== undefined) await refresh(); // drops an expired token
  if (!code) return;
  if (held !== undefined) caller.offered = code;
  else await signIn({ code }).catch((error: unknown) => {
    caller.problem = error;
    return refresh();
  });
}

/** refresh asks the server for the signed-in user. */
export async function refresh(): Promise<void> {
  try {
    const me = await belljar.me({ timeoutMs: 10_000 });
    if (claim(me.user_id)) {
      caller.state = "unknown"; // a page with another user's data starts again
      await tick();
    }
    caller.me = me;
    caller.state = "in";
    caller.problem = undefined;
  } catch (error) {
    noteFailure(error);
    if (caller.state === "unknown") {
      caller.state = "out";
      caller.problem ??= error instanceof UnauthorizedError ? undefined : error;
    }
    if (caller.state === "in" && !caller.me) setTimeout(() => void refresh(), 3000); // the server is unreachable
  }
}

/** signIn exchanges a one-time code, or a key, for a token of this browser, and ends the previous token. */
export async function signIn(by: { code: string } | { key: string }): Promise<void> {
  const { token } = await new Belljar({ baseUrl: apiBase, source: "Web", patienceMs: 5_000 }).request<{ token: string }>(
    "POST", "/api/v1/sandbox/login", { json: by },
  );
  const replaced = stored();
  localStorage.setItem(key, token);
  hold("unknown", undefined); // remove another user's data from the page
  await refresh();
  if (replaced) await end(client(replaced)).catch(() => {}); // a token that remains expires within 12 hours
}

/** signOut ends the token, here and everywhere. */
export async function signOut(): Promise<void> {
  try {
    await end(belljar);
  } finally {
    forget(undefined);
    forgetWork(); // for good; an expired token keeps the work for the user's next sign-in
  }
}

const end = (of: Belljar): Promise<unknown> => of.request("DELETE", "/api/v1/sandbox/login", { timeoutMs: 10_000 });

/** noteFailure asks for a new sign-in if an error means that the token is no longer valid. It reports whether it did. */
export function noteFailure(error: unknown): boolean {
  if (!(error instanceof UnauthorizedError)) return false;
  if (stored() !== held) follow();
  else forget(held === undefined ? caller.problem : error); // keeps the message about a used code
  return true;
}

function forget(problem: unknown): void {
  localStorage.removeItem(key);
  hold("out", problem);
}

/** hold uses the stored token for requests. The caller is not yet known. */
function hold(state: SignedIn["state"], problem: unknown): void {
  void belljar.close();
  held = stored();
  belljar = client(held);
  Object.assign(caller, { state, me: undefined, problem });
}

/** follow repeats a sign-in or sign-out of another tab. If a user was signed in here, they must confirm the new one. */
function follow(): void {
  const replaced = held !== undefined && stored() !== undefined;
  hold("out", replaced ? new Error("Another tab has signed in again, maybe as another user. Try again goes on here as that user.") : undefined);
  if (held !== undefined && !replaced) void refresh();
}

window.addEventListener("storage", (event) => {
  if (event.key === key && stored() !== held) follow();
});
window.addEventListener("hashchange", () => location.hash.startsWith("#k=") && void begin());

/** The page's names, in messages, of API fields in Settings. */
const labels: Record<string, string> = {
  "resources.memory_mb": "memory", "resources.cpu": "CPU", timeout_sec: "time", ttl_sec: "lifetime", env: "environment", stdin: "standard input",
  capture_patterns: "files to keep", workspace_exec: "a workspace whose programs may be executed",
};

/** Hints for the page, by the field or the rule of the error, where the API's hint is about a request. */
const hints: Record<string, string> = {
  workspace_exec: "Choose “Let programs in the workspace be executed”. For a session, that is chosen when it is created.",
  exists: "Choose another name, or delete what is there first.", in_use: "Wait for it, or choose “End what runs in it”.",
};

function hintOf({ details, hint }: BelljarError): string | undefined {
  return hints[String(details?.["field"] ?? details?.["rule"])] ?? (hint ? sentence(hint.replace(/ \(--[^()]*\)/g, "")) : undefined); // without flags of the command line
}

/** messageOf returns the displayed form of any error: one sentence, the next step, and data for support. */
export function messageOf(error: unknown): { message: string; hint?: string; code?: string; field?: string; requestId?: string } {
  if (error instanceof BelljarError) {
    // Errors about images and runtimes do not name their field.
    const field = error.details?.["field"] ?? (/^image_/.test(error.code) ? "base_image" : error.details?.["runtime"] ? "runtime" : undefined);
    return {
      message: sentence(error.message.replace(/^[\w.]+|workspace_exec/g, (name) => labels[name] ?? name)), hint: hintOf(error), code: error.code,
      field: typeof field === "string" ? field : undefined, requestId: error.requestId,
    };
  }
  return { message: error instanceof Error ? error.message : String(error) };
}

/** sentence capitalizes a text and adds a full stop. The API's texts have neither. */
export function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…:)]$/.test(first) ? first : `${first}.`;
}
