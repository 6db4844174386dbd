// The one client of the API, and who is signed in. Nothing here is a cookie: the token is sent by this page alone.
import { Belljar, BelljarError, errorOf, UnauthorizedError, type ErrorBody, type Me } from "belljar-sdk";
import { watchedFetch } from "./shell/away.svelte.ts";

const key = "belljar.token";

/** Where the API is: next to the pages. */
export const apiBase = new URL("..", document.baseURI).href.replace(/\/+$/, "");

interface SignedIn {
  /**
   * unknown until the server has answered, where this browser has no token; out: a sign-in is needed; in: there is a token, and `me` is
   * the caller once the server has answered.
   */
  state: "unknown" | "out" | "in";
  me: Me | undefined;
  /** Why a sign-in is needed, or has failed. */
  problem: unknown;
}

export const caller: SignedIn = $state({ state: "unknown", me: undefined, problem: undefined });

let belljar = client(localStorage.getItem(key) ?? undefined);

function client(token: string | undefined): Belljar {
  return new Belljar({ baseUrl: apiBase, token, source: "Web", fetch: watchedFetch });
}

/** api is the client of whoever is signed in. */
export function api(): Belljar {
  return belljar;
}

/** token is what requests that the client does not send have to carry. */
export function token(): string | undefined {
  return localStorage.getItem(key) ?? undefined;
}

/** failureOf is the error of an answer to such a request. It asks for a new sign-in if that is what is missing. */
export function failureOf(status: number, body: unknown): BelljarError {
  const told = (body as { error?: ErrorBody } | undefined)?.error;
  const error = errorOf(told?.code ? told : { code: "internal", message: `the server answered with status ${status}` }, { status });
  noteFailure(error);
  return error;
}

/** isAdmin tells whether the caller may see other users' work. */
export function isAdmin(): boolean {
  return caller.me?.role === "admin";
}

/** begin signs in with the code in the address, or with the token of an earlier visit, or with none if the server needs none. */
export async function begin(): Promise<void> {
  const code = /^#k=(.+)$/.exec(location.hash)?.[1];
  if (code) {
    // A used code is useless, but it does not have to stay in the history.
    history.replaceState(null, "", location.pathname + location.search);
    await signIn({ code: decodeURIComponent(code) }).catch((error: unknown) => {
      caller.problem = error;
    });
    if (caller.state === "in") return;
  }
  if (localStorage.getItem(key) !== null) caller.state = "in"; // the pages need not wait for the answer
  await refresh();
}

/** refresh asks the server who is signed in. */
export async function refresh(): Promise<void> {
  try {
    caller.me = await belljar.me({ timeoutMs: 10_000 });
    caller.state = "in";
    caller.problem = undefined;
  } catch (error) {
    noteFailure(error);
    if (caller.state === "unknown") {
      caller.state = "out";
      caller.problem ??= error instanceof UnauthorizedError ? undefined : error;
    }
    if (caller.state === "in" && !caller.me) setTimeout(() => void refresh(), 3000); // the server is away
  }
}

/** signIn exchanges a one-time code, or a key, for a token of this browser. */
export async function signIn(by: { code: string } | { key: string }): Promise<void> {
  const { token } = await new Belljar({ baseUrl: apiBase, source: "Web", patienceMs: 5_000 }).request<{ token: string }>(
    "POST", "/api/v1/sandbox/login", { json: by },
  );
  keep(token);
  caller.me = await belljar.me();
  caller.state = "in";
  caller.problem = undefined;
}

/** signOut makes the token useless, here and everywhere. */
export async function signOut(): Promise<void> {
  try {
    await belljar.request("DELETE", "/api/v1/sandbox/login", { timeoutMs: 10_000 });
  } finally {
    forget(undefined);
  }
}

/** noteFailure asks for a new sign-in if an error says that the token is no longer good. It reports whether it did. */
export function noteFailure(error: unknown): boolean {
  if (!(error instanceof UnauthorizedError)) return false;
  const had = localStorage.getItem(key) !== null;
  forget(had ? error : caller.problem); // that a code was spent stays said
  return true;
}

function keep(token: string): void {
  localStorage.setItem(key, token);
  void belljar.close();
  belljar = client(token);
}

function forget(problem: unknown): void {
  localStorage.removeItem(key);
  void belljar.close();
  belljar = client(undefined);
  caller.me = undefined;
  caller.state = "out";
  caller.problem = problem;
}

// Another tab has signed in or out.
window.addEventListener("storage", (event) => {
  if (event.key !== key) return;
  void belljar.close();
  belljar = client(event.newValue ?? undefined);
  if (event.newValue === null) forget(undefined);
  else void refresh();
});

/** messageOf is what to show of any error: one sentence, what to do, and what support may ask for. */
export function messageOf(error: unknown): { message: string; hint?: string; code?: string; field?: string; requestId?: string } {
  if (error instanceof BelljarError) {
    // Errors about images and runtimes do not name their field.
    const field = error.details?.["field"] ?? (/^image_/.test(error.code) ? "base_image" : error.details?.["runtime"] ? "runtime" : undefined);
    return {
      message: sentence(error.message), hint: error.hint ? sentence(error.hint) : undefined, code: error.code,
      field: typeof field === "string" ? field : undefined, requestId: error.requestId,
    };
  }
  return { message: error instanceof Error ? error.message : String(error) };
}

/** sentence begins a text with a capital, and ends it with a full stop. The API's texts have neither. */
export function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…:)]$/.test(first) ? first : `${first}.`;
}
