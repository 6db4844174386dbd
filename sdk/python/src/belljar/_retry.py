"""Retries: which requests to retry, and when."""

from __future__ import annotations

import os
import time
from typing import Any, Optional

from . import errors
from ._http import Head
from .errors import BelljarError

PATIENCE = 30.0  # seconds to retry a request
SILENCE = 60.0  # seconds to wait for the server to send anything


class Passing(Exception):
    """A failure that a retry may resolve.

    ``error`` is the caller's error if no retry succeeds. ``after`` is the number of seconds to wait at least; with None
    the client chooses. ``most`` limits the retries; None is no limit. ``refused`` means that the server certainly did
    not carry out the request.
    """

    def __init__(self, error: BelljarError, after: Optional[float] = None, most: Optional[int] = None, refused: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.after, self.most, self.refused = error, after, most, refused

    def pause(self, tries: int) -> float:
        """Seconds to wait after ``tries`` failures: never less than ``after``; without it from 0.2 s, doubling, to 30 s."""
        if self.after is not None:
            return self.after * (1 + 0.1 * chance())
        return min(0.2 * 2.0 ** min(tries, 10), 30.0) * (0.9 + 0.2 * chance())


def chance() -> float:
    """A random number from 0 to 1."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


class Patience:
    """The time budget for the retries of one call."""

    def __init__(self, seconds: float) -> None:
        self.tries = 0
        self.until = time.monotonic() + seconds

    def wait(self, failure: Passing) -> float:
        """Seconds to wait before the next try. It raises the caller's error if there is none."""
        pause = failure.pause(self.tries)
        if failure.most is not None and self.tries >= failure.most or time.monotonic() + pause > self.until:
            raise failure.error from failure.__cause__
        self.tries += 1
        return pause


def retry_after(given: str) -> Optional[float]:
    """The seconds of a Retry-After header; None if it is absent or invalid."""
    soonest, latest = 0.05, 86400.0
    if not given:
        return None
    try:
        seconds = float(given)
        return max(min(seconds, latest), soonest) if seconds >= 0 else None
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime  # rarely needed, and slow to import

    try:
        return max(min(parsedate_to_datetime(given).timestamp() - time.time(), latest), soonest)
    except (TypeError, ValueError):
        return None


def judge(head: Head, body: Any) -> BaseException:
    """Converts an answer with a failure to an error, or to :class:`Passing` if a retry may resolve it."""
    if isinstance(body, dict) and "error" not in body and "detail" in body:  # the format of other servers of the thread API
        body = body["detail"] if isinstance(body["detail"], dict) else {"error": body["detail"]}
    own: Any = body.get("error") if isinstance(body, dict) else None
    told = isinstance(own, dict) and isinstance(own.get("code"), str)
    flat = isinstance(own, str)  # the thread API's format
    after = retry_after(head.get("retry-after")) if head.status in (429, 503) else None
    if told:
        assert isinstance(own, dict)
        error = _of(head, own["code"], str(own.get("message", "")), own.get("details"), str(own.get("hint") or ""), after)
    elif flat:
        assert isinstance(body, dict) and isinstance(own, str)
        details = {name: value for name, value in body.items() if name not in ("error", "code", "hint")}
        code = body.get("code")
        kind = errors.of_status(head.status).code
        error = _of(head, code if isinstance(code, str) else kind, own, details, str(body.get("hint") or ""), after)
    else:
        error = stranger(head, after)
    if head.status in (429, 503):
        if after is None:
            return error  # it will not improve soon
        says = "retry_after_sec" in error.details
        limited = error.code == "rate_limited"
        most = 2 if (told or flat) and not limited and not says else None
        return Passing(error, after, most, refused=(told or flat) and limited)
    if head.status in (502, 504) and not told and not flat:
        return Passing(error)  # a proxy in front of the server reports it as unreachable
    return error


def _of(head: Head, code: str, message: str, details: Any, hint: str, after: Optional[float]) -> BelljarError:
    return errors.of_code(code)(
        message,
        code=code,
        status=head.status,
        details=details if isinstance(details, dict) else None,
        hint=hint,
        retry_after=after,
        request_id=head.get("x-request-id"),
    )


def stranger(head: Head, after: Optional[float] = None) -> BelljarError:
    """The error for an answer that is not Belljar's."""
    details, hint = {}, "check that this is the address of a belljar, and any proxy in front of it"
    to = head.get("location")
    if to:
        details, hint = {"location": to}, f"it redirects to {to}: if that is the server, give its address"
    kind = errors.of_status(head.status)
    return kind(
        f"the server answered {head.status} {head.reason}".rstrip() + ", so it is not belljar",
        status=head.status,
        details=details,
        hint=hint,
        retry_after=after,
        request_id=head.get("x-request-id"),
    )
