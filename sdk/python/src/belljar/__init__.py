"""Belljar: run code that you have not vetted, in sandboxes, and watch it.

::

    from belljar import Belljar

    with Belljar.local() as belljar:  # or Belljar("http://127.0.0.1:8080", api_key=…)
        print(belljar.run(["python3", "-c", "print(6 * 7)"]).stdout)

:class:`Belljar` and :class:`AsyncBelljar` cover the whole API. :class:`SandboxClient` and :class:`AsyncSandboxClient`
give each thread of a conversation a session. Failures are :class:`BelljarError` (:mod:`belljar.errors`).
:mod:`belljar.types` has the types of the server's answers.

The package has no dependencies. It loads each name on first use, so that importing the package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ._address import Address as Address
    from ._async.client import AsyncBelljar as AsyncBelljar
    from ._async.runs import AsyncRun as AsyncRun
    from ._async.sandbox import AsyncSandboxClient as AsyncSandboxClient
    from ._async.sessions import AsyncSession as AsyncSession
    from ._async.stdin import AsyncStdin as AsyncStdin
    from ._async.terminals import AsyncTerminal as AsyncTerminal
    from ._frame import Frame as Frame
    from ._run import ShellResult as ShellResult
    from ._spec import prefix as scope_prefix
    from ._sync.client import Belljar as Belljar
    from ._sync.runs import Run as Run
    from ._sync.sandbox import SandboxClient as SandboxClient
    from ._sync.sessions import Session as Session
    from ._sync.stdin import Stdin as Stdin
    from ._sync.terminals import Terminal as Terminal
    from .errors import *  # noqa: F403

_PLACES = {
    "Belljar": "_sync.client",
    "Run": "_sync.runs",
    "SandboxClient": "_sync.sandbox",
    "Session": "_sync.sessions",
    "Stdin": "_sync.stdin",
    "Terminal": "_sync.terminals",
    "AsyncBelljar": "_async.client",
    "AsyncRun": "_async.runs",
    "AsyncSandboxClient": "_async.sandbox",
    "AsyncSession": "_async.sessions",
    "AsyncStdin": "_async.stdin",
    "AsyncTerminal": "_async.terminals",
    "Frame": "_frame",
    "ShellResult": "_run",
}
_ERRORS = (
    "BelljarError", "CanceledError", "ConflictError", "DiskFullError", "ForbiddenError", "IdempotencyConflictError", "ImageInvalidError",
    "ImageUnavailableError", "InternalError", "InvalidRequestError", "InvalidSpecVersionError", "NotFoundError", "PathEscapesError",
    "PayloadTooLargeError", "PolicyDeniedError", "PreconditionFailedError", "QuotaExceededError", "RateLimitedError", "RuntimeUnavailableError",
    "SessionExpiredError", "TimeoutError", "UnauthorizedError", "UnreachableError",
)  # fmt: skip

__all__ = [*_PLACES, *(name for name in _ERRORS if name != "TimeoutError"), "scope_prefix"]  # import * leaves out the built-in one


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("errors", "types"):
        return import_module("." + name, __name__)
    if name == "scope_prefix":
        value: Any = import_module("._spec", __name__).prefix
    elif name in _ERRORS:
        value = getattr(import_module(".errors", __name__), name)
    elif name in _PLACES:
        value = getattr(import_module("." + _PLACES[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "TimeoutError", "errors", "types"})
