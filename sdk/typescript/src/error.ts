import type { components } from "./openapi.js";

/** What went wrong, for programs. The list grows with the server: expect codes that are not here. */
export type Code = components["schemas"]["Error"]["code"];

/** An error as the server writes it. */
export interface ErrorBody {
  code: string;
  message: string;
  details?: Record<string, unknown>;
  hint?: string;
}

/** What an error knows beyond what the server wrote. */
export interface ErrorExtras {
  /** HTTP status of the answer; undefined if there was none. */
  status?: number | undefined;
  /** Seconds after which the same request may be sent again, if the server said so. */
  retryAfter?: number | undefined;
  /** The request in the server's log. */
  requestId?: string | undefined;
  cause?: unknown;
}

/**
 * Every failure that is the caller's fault or Belljar's. A program that fails in a sandbox is none: it is the outcome of
 * its run. There is a subclass for each {@link Code}; one that is not known here yet comes as this class.
 */
export class BelljarError extends Error {
  override readonly name: string = "BelljarError";
  /** What went wrong, for programs. */
  readonly code: Code | (string & {});
  /** HTTP status of the answer; undefined if the failure is not the server's. */
  readonly status: number | undefined;
  /** What is to blame: often `field`, `provided`, `maximum`. */
  readonly details: Record<string, unknown>;
  /** The next thing to do; "" if there is no advice. */
  readonly hint: string;
  /** Seconds after which the same request may be sent again; undefined if the server did not say. */
  readonly retryAfter: number | undefined;
  /** The request in the server's log, if it has come so far. */
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

/** The request is wrong: details.field names the field. */
export class InvalidRequestError extends BelljarError {
  override readonly name = "InvalidRequestError";
}
/** No such version of the specification: details.supported has those there are. */
export class InvalidSpecVersionError extends BelljarError {
  override readonly name = "InvalidSpecVersionError";
}
/** The API key or token is missing or not known. */
export class UnauthorizedError extends BelljarError {
  override readonly name = "UnauthorizedError";
}
/** This is for others, such as operators. */
export class ForbiddenError extends BelljarError {
  override readonly name = "ForbiddenError";
}
/** It does not exist, no longer exists, or is not for this caller. */
export class NotFoundError extends BelljarError {
  override readonly name = "NotFoundError";
}
/** The Idempotency-Key was used for another request. */
export class IdempotencyConflictError extends BelljarError {
  override readonly name = "IdempotencyConflictError";
}
/** The thing is in a state that does not allow this. */
export class ConflictError extends BelljarError {
  override readonly name: string = "ConflictError";
}
/** The session has ended, however it did: details.state says how. A new one has to be opened. */
export class SessionExpiredError extends ConflictError {
  override readonly name = "SessionExpiredError";
}
/** The file is not the one in ifMatch: something else has written it. */
export class PreconditionFailedError extends BelljarError {
  override readonly name = "PreconditionFailedError";
}
/** Too many requests: retryAfter says when to come back. */
export class RateLimitedError extends BelljarError {
  override readonly name = "RateLimitedError";
}
/** A quota is used up. */
export class QuotaExceededError extends BelljarError {
  override readonly name = "QuotaExceededError";
}
/** The policy does not allow what was asked for: details say which rule. */
export class PolicyDeniedError extends BelljarError {
  override readonly name = "PolicyDeniedError";
}
/** The time for the call was over. */
export class TimeoutError extends BelljarError {
  override readonly name = "TimeoutError";
}
/** The call was cancelled: its signal was aborted, or the client closed. */
export class CanceledError extends BelljarError {
  override readonly name = "CanceledError";
}
/** The request is too large: details give the limit. */
export class PayloadTooLargeError extends BelljarError {
  override readonly name = "PayloadTooLargeError";
}
/** The path leaves the workspace. */
export class PathEscapesError extends BelljarError {
  override readonly name = "PathEscapesError";
}
/** The server, or what it isolates with, is not there or cannot be reached. */
export class RuntimeUnavailableError extends BelljarError {
  override readonly name = "RuntimeUnavailableError";
}
/** The image is not here and cannot be had. */
export class ImageUnavailableError extends BelljarError {
  override readonly name = "ImageUnavailableError";
}
/** What came is no image, or one that cannot be used. */
export class ImageInvalidError extends BelljarError {
  override readonly name = "ImageInvalidError";
}
/** The workspace or the host is full: details.scope says which. */
export class DiskFullError extends BelljarError {
  override readonly name = "DiskFullError";
}
/** A fault of Belljar's, or an answer that is not Belljar's. */
export class InternalError extends BelljarError {
  override readonly name = "InternalError";
}

type Kind = new (body: ErrorBody, extras?: ErrorExtras) => BelljarError;

/** The class of every code. Its type makes a code without one a compile error. */
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
 * errorOf makes the error of the class that its code has.
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
 * invalid is the error of a value that need not be sent to know that it is wrong.
 * @internal
 */
export function invalid(field: string, message: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError({ code: "invalid_request", message, details: { field }, ...(hint ? { hint } : {}) });
}
