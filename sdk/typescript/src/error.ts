import type { components } from "./openapi.js";

/** The error codes. Newer servers may add codes: expect unknown ones. */
export type Code = components["schemas"]["Error"]["code"];

/** An error in the server's JSON. */
export interface ErrorBody {
  code: string;
  message: string;
  details?: Record<string, unknown>;
  hint?: string;
}

/** Data about an error beyond the server's text. */
export interface ErrorExtras {
  /** HTTP status of the answer; undefined without one. */
  status?: number | undefined;
  /** Seconds to wait before the same request, if the server gave them. */
  retryAfter?: number | undefined;
  /** The request's id in the server's log. */
  requestId?: string | undefined;
  cause?: unknown;
}

/**
 * A failure of the caller or of Belljar. A program that fails in a sandbox is not an error: the outcome of its run
 * shows it. There is a subclass for each {@link Code}; an unknown code gets this class.
 */
export class BelljarError extends Error {
  override readonly name: string = "BelljarError";
  /** The error code, for programs. */
  readonly code: Code | (string & {});
  /** HTTP status of the answer; undefined if there was none. */
  readonly status: number | undefined;
  /** Details of the cause: often `field`, `provided`, `maximum`. */
  readonly details: Record<string, unknown>;
  /** The next step; "" if there is no advice. */
  readonly hint: string;
  /** Seconds to wait before the same request; undefined if the server gave none. */
  readonly retryAfter: number | undefined;
  /** The request's id in the server's log, if it got that far. */
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
/** The server does not support this version of the specification: details.supported lists its versions. */
export class InvalidSpecVersionError extends BelljarError {
  override readonly name = "InvalidSpecVersionError";
}
/** The API key or token is missing or unknown. */
export class UnauthorizedError extends BelljarError {
  override readonly name = "UnauthorizedError";
}
/** The caller may not do this; operators, for example, may. */
export class ForbiddenError extends BelljarError {
  override readonly name = "ForbiddenError";
}
/** It does not exist, no longer exists, or the caller has no access. */
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
/** The session has ended; details.state gives the reason. Open a new one. */
export class SessionExpiredError extends ConflictError {
  override readonly name = "SessionExpiredError";
}
/** The file does not match ifMatch: something else has written it. */
export class PreconditionFailedError extends BelljarError {
  override readonly name = "PreconditionFailedError";
}
/** Too many requests: retryAfter gives the pause. */
export class RateLimitedError extends BelljarError {
  override readonly name = "RateLimitedError";
}
/** A quota is used up. */
export class QuotaExceededError extends BelljarError {
  override readonly name = "QuotaExceededError";
}
/** The policy does not allow the request: details name the rule. */
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
/** The server, or its isolation runtime, is not available or cannot be reached. */
export class RuntimeUnavailableError extends BelljarError {
  override readonly name = "RuntimeUnavailableError";
}
/** The image is not on the server and cannot be fetched. */
export class ImageUnavailableError extends BelljarError {
  override readonly name = "ImageUnavailableError";
}
/** The data is not an image, or the image cannot be used. */
export class ImageInvalidError extends BelljarError {
  override readonly name = "ImageInvalidError";
}
/** The workspace or the host is full: details.scope names it. */
export class DiskFullError extends BelljarError {
  override readonly name = "DiskFullError";
}
/** A fault of Belljar, or an answer that is not from a Belljar. */
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
 * errorOf creates the error of its code's class.
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
 * invalid is the error for a value that is wrong before it is sent.
 * @internal
 */
export function invalid(field: string, message: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError({ code: "invalid_request", message, details: { field }, ...(hint ? { hint } : {}) });
}
