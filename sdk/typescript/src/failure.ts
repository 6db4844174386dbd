import { Passing } from "./backoff.js";
import { foreign } from "./call.js";
import { errorOf, type BelljarError, type ErrorBody } from "./error.js";
import type { Answer } from "./transport.js";

const soonestMs = 50;
const latestMs = 24 * 3600 * 1000;

/**
 * failureOf returns the error of an answer with a failure status. It is passing if a retry may succeed.
 * @internal
 */
export function failureOf(answer: Answer, text: string): unknown {
  const body = bodyOf(text);
  const afterMs = retryAfter(answer.header("Retry-After"));
  const extras = {
    status: answer.status,
    retryAfter: afterMs === undefined ? undefined : afterMs / 1000,
    requestId: answer.header("X-Request-Id") ?? undefined,
  };
  const error = body ? errorOf(body, extras) : strangerOf(answer);
  switch (answer.status) {
    case 429:
    case 503: {
      if (afterMs === undefined) return error; // waiting will not help soon
      // Without retry_after_sec, the cause may be permanent.
      const unsure = body && body.code !== "rate_limited" && body.details?.["retry_after_sec"] === undefined;
      return new Passing(error, Math.max(afterMs, soonestMs), unsure ? 2 : 0, answer.status === 429);
    }
    case 502:
    case 504:
      if (!body) return new Passing(error); // a proxy in front of the server reports that it is unreachable
  }
  return error;
}

function bodyOf(text: string): ErrorBody | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Partial<ErrorBody> };
    if (error && typeof error.code === "string" && error.code && typeof error.message === "string") {
      return error as ErrorBody;
    }
  } catch {
    // no JSON: not from a Belljar
  }
  return undefined;
}

const likely: Record<number, string> = {
  401: "unauthorized", 403: "forbidden", 404: "not_found", 413: "payload_too_large", 429: "rate_limited",
  502: "runtime_unavailable", 503: "runtime_unavailable", 504: "runtime_unavailable",
};

/**
 * strangerOf is the error for an answer that is not from a Belljar.
 * @internal
 */
export function strangerOf(answer: Answer, cause?: unknown): BelljarError {
  const kind = answer.header("Content-Type");
  const message = `the server answered ${answer.status}${kind ? ` with ${kind}` : ""}, so it is not belljar`;
  const plain = foreign(message, cause);
  const to = answer.header("Location");
  return errorOf(
    {
      code: likely[answer.status] ?? "internal",
      message,
      hint: to ? `it redirects to ${to}: if that is the server, give its address` : plain.hint,
      ...(to ? { details: { location: to } } : {}),
    },
    {
      status: answer.status,
      cause,
      retryAfter: secondsOf(answer.header("Retry-After")),
      requestId: answer.header("X-Request-Id") ?? undefined,
    },
  );
}

function secondsOf(given: string | null): number | undefined {
  const ms = retryAfter(given);
  return ms === undefined ? undefined : ms / 1000;
}

/**
 * retryAfter returns the pause that an answer requests, given in seconds or as a date, in milliseconds; undefined if
 * there is none.
 * @internal
 */
export function retryAfter(given: string | null, now = Date.now()): number | undefined {
  if (given === null) return undefined;
  const text = given.trim();
  if (/^\d+(\.\d+)?$/.test(text)) return Math.min(Number(text) * 1000, latestMs);
  if (!/^[A-Z][a-z]{2,}, /.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.min(Math.max(at - now, 0), latestMs);
}
