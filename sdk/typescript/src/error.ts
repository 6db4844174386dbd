import type { components } from "./openapi.js";

/** The error codes, for programs. The list grows with the server: expect unknown codes. */
export type Code = components["schemas"]["Error"]["code"];

/** An error in the server's JSON. */
export interface ErrorBody {
  code: string;
  message: string;
  details?: Record<string, unknown>;
  hint?: string;
}

/** The facts of an error that are not in the server's JSON. */
export interface ErrorExtras {
  /** HTTP status of the answer; undefined if there was none. */
  status?: number | undefined;
  /** Seconds after which to retry the request, if the server sent that. */
  retryAfter?: number | undefined;
  /** The request's id in the server's log. */
  requestId?: string | undefined;
  cause?: unknown;
}

/**
 * Every failure of a request. A program that fails in a sandbox is not an error: it is the outcome of its run. There is
 * a subclass for each {@link Code}; an unknown code has this class.
 */
export class BelljarError extends Error {
  override readonly name: string = "BelljarError";
  /** The error code, for programs. */
  readonly code: Code | (string & {});
  /** HTTP status of the answer; undefined if there was none. */
  readonly status: number | undefined;
  /** The cause: often `field`, `provided`, `maximum`. */
  readonly details: Record<string, unknown>;
  /** The next step; "" if there is no advice. */
  readonly hint: string;
  /** Seconds after which to retry the request; undefined if the server did not send that. */
  readonly retryAfter: number | undefined;
  /** The request's id in the server's log; undefined if the request did not reach the server. */
  readonly requestId: string | undefined;

  constructor(body: ErrorBody, extras: ErrorExtras = {}) {
    super(body.message, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.code = body.code;
    this.details = body.details ?? {};
    this.hint = body.hint ?? "";
    this.status = extras.status;
    this.retryAfter = extras.retryAfter;
    this.requestId = extras.requestId;
  }
}

/** The request is invalid: details.field names the field. */
export class InvalidRequestError extends BelljarError {
  override readonly name = "InvalidRequestError";
}
/** The server does not support this version of the specification: details.supported lists the versions that it does. */
export class InvalidSpecVersionError extends BelljarError {
  override readonly name = "InvalidSpecVersionError";
}
/** The API key or token is missing or unknown. */
export class UnauthorizedError extends BelljarError {
  override readonly name = "UnauthorizedError";
}
/** The caller may not do this; for example, it is for operators only. */
export class ForbiddenError extends BelljarError {
  override readonly name = "ForbiddenError";
}
/** It does not exist, no longer exists, or belongs to another user. */
export class NotFoundError extends BelljarError {
  override readonly name = "NotFoundError";
}
/** The Idempotency-Key was used for another request. */
export class IdempotencyConflictError extends BelljarError {
  override readonly name = "IdempotencyConflictError";
}
/** The current state does not allow the request. */
export class ConflictError extends BelljarError {
  override readonly name: string = "ConflictError";
}
/** The session has ended: details.state is how. Open a new one. */
export class SessionExpiredError extends ConflictError {
  override readonly name = "SessionExpiredError";
}
/** The file does not match ifMatch: something else has written it. */
export class PreconditionFailedError extends BelljarError {
  override readonly name = "PreconditionFailedError";
}
/** The caller sent too many requests: retryAfter is when to retry. */
export class RateLimitedError extends BelljarError {
  override readonly name = "RateLimitedError";
}
/** A quota is used up. */
export class QuotaExceededError extends BelljarError {
  override readonly name = "QuotaExceededError";
}
/** The policy does not allow the request: details has the rule. */
export class PolicyDeniedError extends BelljarError {
  override readonly name = "PolicyDeniedError";
}
/** The call took too long. */
export class TimeoutError extends BelljarError {
  override readonly name = "TimeoutError";
}
/** The call was cancelled: its signal was aborted, or the client closed. */
export class CanceledError extends BelljarError {
  override readonly name = "CanceledError";
}
/** The request is too large: details has the limit. */
export class PayloadTooLargeError extends BelljarError {
  override readonly name = "PayloadTooLargeError";
}
/** The path leads out of the workspace. */
export class PathEscapesError extends BelljarError {
  override readonly name = "PathEscapesError";
}
/** The server or the runtime is missing or cannot be reached. */
export class RuntimeUnavailableError extends BelljarError {
  override readonly name = "RuntimeUnavailableError";
}
/** The server does not have the image and cannot fetch it. */
export class ImageUnavailableError extends BelljarError {
  override readonly name = "ImageUnavailableError";
}
/** The file is not an image, or the image cannot be used. */
export class ImageInvalidError extends BelljarError {
  override readonly name = "ImageInvalidError";
}
/** The workspace or the host is full: details.scope is which. */
export class DiskFullError extends BelljarError {
  override readonly name = "DiskFullError";
}
/** A fault of Belljar, or an answer that is not Belljar's. */
export class InternalError extends BelljarError {
  override readonly name = "InternalError";
}

type Kind = new (body: ErrorBody, extras?: ErrorExtras) => BelljarError;

/** The class of every code. The type makes a missing code a compile error. */
export const errorKinds: Readonly<Record<Code, Kind>> = {
  invalid_request: InvalidRequestError,
  invalid_spec_version: InvalidSpecVersionError,
  unauthorized: UnauthorizedError,
  forbidden: ForbiddenError,
  not_found: NotFoundError,
  idempotency_conflict: IdempotencyConflictError,
  conflict: ConflictError,
  precondition_failed: PreconditionFailedError,
  rate_limited: RateLimitedError,
  quota_exceeded: QuotaExceededError,
  policy_denied: PolicyDeniedError,
  timeout: TimeoutError,
  canceled: CanceledError,
  payload_too_large: PayloadTooLargeError,
  path_escapes: PathEscapesError,
  runtime_unavailable: RuntimeUnavailableError,
  image_unavailable: ImageUnavailableError,
  image_invalid: ImageInvalidError,
  disk_full: DiskFullError,
  internal: InternalError,
};

const endedStates = ["closed", "expired", "crashed", "lost"];

/**
 * errorOf makes an error of its code's class.
 * @internal
 */
export function errorOf(body: ErrorBody, extras: ErrorExtras = {}): BelljarError {
  if (body.code === "conflict" && endedStates.includes(body.details?.["state"] as string) && body.details?.["session_id"]) {
    return new SessionExpiredError(body, extras);
  }
  const kind: Kind = Object.hasOwn(errorKinds, body.code) ? errorKinds[body.code as Code] : BelljarError;
  return new kind(body, extras);
}

/**
 * invalid makes the error for a value that the client rejects without a request.
 * @internal
 */
export function invalid(field: string, message: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError({ code: "invalid_request", message, details: { field }, ...(hint ? { hint } : {}) });
}
