"""The exceptions of Belljar.

Every failure of the caller or the service is a :class:`BelljarError`, with the server's ``code``, ``message``,
``details`` and ``hint``. A program that fails in a sandbox is not an error: the outcome of its run shows it
(``run.phase``, ``run.exit_code``). ``docs/errors.md`` explains how to handle each code.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, Optional


class BelljarError(Exception):
    """A failure, with the server's description.

    ``status`` is the status of the HTTP answer, or None without one. ``hint`` is the next thing to do.
    ``retry_after`` is the pause in seconds that the server asked for; this library has already waited for it
    as far as its patience allows. ``request_id`` finds the request in the server's log.
    """

    code: str = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: Optional[str] = None,
        status: Optional[int] = None,
        details: Optional[Mapping[str, Any]] = None,
        hint: str = "",
        retry_after: Optional[float] = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.message = message
        self.status = status
        self.details: dict[str, Any] = dict(details or {})
        self.hint = hint
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self.__dict__.copy()))


def _restore(kind: type[BelljarError], state: dict[str, Any]) -> BelljarError:
    error = kind(state["message"])
    error.__dict__.update(state)
    return error


class InvalidRequestError(BelljarError, ValueError):
    """The request is invalid; ``details["field"]`` names the field."""

    code = "invalid_request"


class InvalidSpecVersionError(InvalidRequestError):
    """The server supports other versions than this one: ``details["supported"]``."""

    code = "invalid_spec_version"


class UnauthorizedError(BelljarError):
    """The API key or token is missing or not valid."""

    code = "unauthorized"


class ForbiddenError(BelljarError):
    """The caller may not do this."""

    code = "forbidden"


class NotFoundError(BelljarError):
    """It does not exist, no longer exists, or belongs to another user."""

    code = "not_found"


class SessionExpiredError(NotFoundError):
    """The thread's session has ended, or is unknown (:class:`belljar.SandboxClient`)."""


class ConflictError(BelljarError):
    """The current state does not allow the request: a file already exists, or a session has ended."""

    code = "conflict"


class PreconditionFailedError(BelljarError):
    """The file is not the one in ``if_match``: something else has written it."""

    code = "precondition_failed"


class IdempotencyConflictError(ConflictError):
    """The Idempotency-Key was used for another request."""

    code = "idempotency_conflict"


class RateLimitedError(BelljarError):
    """Too many requests; ``retry_after`` is the pause in seconds."""

    code = "rate_limited"


class QuotaExceededError(BelljarError):
    """A quota is used up."""

    code = "quota_exceeded"


class PolicyDeniedError(BelljarError):
    """The policy does not allow it; ``details`` name the rule."""

    code = "policy_denied"


class TimeoutError(BelljarError, builtins.TimeoutError):  # the name in docs/errors.md
    """The given time is over. The built-in TimeoutError catches it, too."""

    code = "timeout"


class CanceledError(BelljarError):
    """The request was cancelled."""

    code = "canceled"


class PayloadTooLargeError(BelljarError):
    """The request is larger than the server accepts; ``details`` give the limit."""

    code = "payload_too_large"


class PathEscapesError(InvalidRequestError):
    """The path leads out of the workspace."""

    code = "path_escapes"


class RuntimeUnavailableError(BelljarError):
    """The server cannot carry out the request now, or cannot be reached."""

    code = "runtime_unavailable"


class UnreachableError(RuntimeUnavailableError, ConnectionError):
    """The server cannot be reached, or the connection to it broke. The built-in ConnectionError catches it, too."""


class ImageUnavailableError(BelljarError):
    """The image is not on the server and cannot be fetched."""

    code = "image_unavailable"


class ImageInvalidError(BelljarError):
    """The image cannot be used."""

    code = "image_invalid"


class DiskFullError(BelljarError):
    """A disk or a workspace is full; ``details["scope"]`` names it."""

    code = "disk_full"


class InternalError(BelljarError):
    """A fault of Belljar, or an answer that is not Belljar's."""

    code = "internal"


#: The exception and the HTTP status of each code.
TABLE: dict[str, tuple[type[BelljarError], int]] = {
    "invalid_request": (InvalidRequestError, 400),
    "invalid_spec_version": (InvalidSpecVersionError, 400),
    "unauthorized": (UnauthorizedError, 401),
    "forbidden": (ForbiddenError, 403),
    "not_found": (NotFoundError, 404),
    "conflict": (ConflictError, 409),
    "idempotency_conflict": (IdempotencyConflictError, 409),
    "precondition_failed": (PreconditionFailedError, 412),
    "rate_limited": (RateLimitedError, 429),
    "quota_exceeded": (QuotaExceededError, 429),
    "policy_denied": (PolicyDeniedError, 403),
    "timeout": (TimeoutError, 504),
    "canceled": (CanceledError, 499),
    "payload_too_large": (PayloadTooLargeError, 413),
    "path_escapes": (PathEscapesError, 400),
    "runtime_unavailable": (RuntimeUnavailableError, 503),
    "image_unavailable": (ImageUnavailableError, 503),
    "image_invalid": (ImageInvalidError, 422),
    "disk_full": (DiskFullError, 507),
    "internal": (InternalError, 500),
}


def of_code(code: str) -> type[BelljarError]:
    """Returns the exception of a code; :class:`BelljarError` itself for an unknown code of a newer server."""
    return TABLE[code][0] if code in TABLE else BelljarError


def of_reply(error: Mapping[str, Any]) -> BelljarError:
    """Returns the exception for an error that the server sent in a stream."""
    return of_code(error["code"])(error["message"], code=error["code"], details=error.get("details"), hint=error.get("hint") or "")


def of_status(status: int) -> type[BelljarError]:
    """Returns the exception for an answer without details, by its status."""
    if status in (502, 503, 504):
        return RuntimeUnavailableError
    for kind, own in TABLE.values():
        if own == status and status in (400, 401, 403, 404, 409, 413, 429, 507):
            return kind
    return InternalError


__all__ = ["BelljarError", "SessionExpiredError", "UnreachableError", *sorted({kind.__name__ for kind, _ in TABLE.values()})]
