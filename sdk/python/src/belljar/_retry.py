"""Rules for repeating requests: which ones, and when."""

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
    """A failure that may be temporary.

    ``error`` is the caller's error if it is not. ``after`` is the earliest moment to try again, in seconds from
    now; None leaves it to this library. ``most`` is the maximum number of retries; None is no limit. ``refused``
    means that the server certainly did not act on the request.
    """

    def __init__(self, error: BelljarError, after: Optional[float] = None, most: Optional[int] = None, refused: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.after, self.most, self.refused = error, after, most, refused

    @property
    def untaken(self) -> bool:
        """Whether the server has not accepted the request. A 503 with the id of a run is from a server that stops after it has."""
        return self.refused or self.error.status == 503 and "run_id" not in self.error.details

    def pause(self, tries: int) -> float:
        """Returns the pause after so many failures: at least the requested one, else from 0.2 s, doubling, to 30 s."""
        if self.after is not None:
            return self.after * (1 + 0.1 * chance())
        return min(0.2 * 2.0 ** min(tries, 10), 30.0) * (0.9 + 0.2 * chance())


def chance() -> float:
    """Returns a random number from 0 to 1."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


class Patience:
    """The retry budget of one operation. Its time starts at ``begun``, by default at the first failure: a single try may take longer."""

    def __init__(self, seconds: float, begun: Optional[float] = None) -> None:
        self.tries = 0
        self._seconds, self._begun = seconds, begun

    def wait(self, failure: Passing) -> float:
        """Returns the pause before the next try, or raises the caller's error if there is none."""
        pause = failure.pause(self.tries)
        now = time.monotonic()
        if self._begun is None:
            self._begun = now
        if failure.most is not None and self.tries >= failure.most or now + pause >= self._begun + self._seconds:
            raise failure.error from failure.__cause__
        self.tries += 1
        return pause


def retry_after(given: str) -> Optional[float]:
    """Returns the pause that an answer requests, in seconds; None if it requests none."""
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
    """Returns the error of a failure's answer, or a :class:`Passing` one."""
    if isinstance(body, dict) and "error" not in body and "detail" in body:  # the format of other servers of the thread API
        body = body["detail"] if isinstance(body["detail"], dict) else {"error": body["detail"]}
    own: Any = body.get("error") if isinstance(body, dict) else None
    explained = isinstance(own, dict) and isinstance(own.get("code"), str)
    flat = isinstance(own, str)  # the format of the thread API
    after = retry_after(head.get("retry-after")) if head.status in (429, 503) else None
    if explained:
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
            return error  # waiting will not help soon
        says = "retry_after_sec" in error.details
        limited = error.code == "rate_limited"
        most = 2 if (explained or flat) and not limited and not says else None
        return Passing(error, after, most, refused=(explained or flat) and limited)
    if head.status in (502, 504) and not explained and not flat:
        return Passing(error)  # a proxy in front of the server reports that it is unreachable
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
    """Returns the error for an answer that is not from a Belljar."""
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
