"""Converts Python arguments to requests of the API."""

from __future__ import annotations

import os
from binascii import b2a_base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from ._address import clean
from ._body import Content, gathered
from .errors import InvalidRequestError

if TYPE_CHECKING:
    from .types import Resources

SPEC = "1.1"
IMAGE = "host"  # this machine's own programs, the default of belljar run

#: A command: a program and its arguments, or a line for ``sh -c``.
Command = Union[str, Sequence[str]]


def new_key() -> str:
    """Returns an unused Idempotency-Key."""
    return os.urandom(16).hex()


def checked(key: Optional[str]) -> str:
    """Returns a valid Idempotency-Key: the given one, or a new one."""
    if not key:
        return new_key()
    if len(key) > 128 or not clean(key) or not key.isascii():
        raise InvalidRequestError("an Idempotency-Key is at most 128 printable characters of ASCII", details={"field": "Idempotency-Key"})
    return key


def base64(contents: Content) -> str:
    return b2a_base64(gathered(contents), newline=False).decode("ascii")


def argv(command: Command) -> list[str]:
    """Returns a command as a program and its arguments."""
    return ["sh", "-c", command] if isinstance(command, str) else list(command)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def run(
    *,
    command: Optional[Command] = None,
    code: Optional[str] = None,
    language: Optional[str] = None,
    image: Optional[str] = None,
    session: Optional[str] = None,
    files: Optional[Mapping[str, Content]] = None,
    stdin: Optional[Union[str, bytes]] = None,
    interactive: bool = False,
    capture: Optional[Iterable[str]] = None,
    timeout: Optional[float] = None,
    **more: Any,
) -> dict[str, Any]:
    """Returns a RunSpec."""
    if (command is None) == (code is None) and more.get("shell") is None:
        raise InvalidRequestError("give a command, or code and its language", details={"fields": ["command", "code"]})
    if isinstance(stdin, (bytes, bytearray)):
        try:
            stdin = bytes(stdin).decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidRequestError(
                "stdin is not UTF-8", details={"field": "stdin"}, hint="send the input as a file, or run interactively"
            ) from None
    return given({
        "spec_version": SPEC,
        "session_id": session,
        "base_image": image if session else image or default(more),
        "command": None if command is None else argv(command),
        "code": code,
        "language": language,
        "files": None if files is None else [{"path": path, "content_b64": base64(data)} for path, data in files.items()],
        "stdin": stdin,
        "interactive": True if interactive else None,
        "capture_patterns": None if capture is None else [capture] if isinstance(capture, str) else list(capture),
        "timeout_sec": timeout,
        **more,
    })


def default(more: dict[str, Any]) -> Optional[str]:
    """The default image, or None for a request that has a template."""
    return None if more.get("template") else IMAGE


def session(
    *,
    image: Optional[str],
    resources: Optional[Resources],
    ttl: Optional[float],
    idle_timeout: Optional[float],
    lifetime: Optional[float],
    timeout: Optional[float],
    startup_timeout: Optional[float],
    workspace_exec: Optional[bool],
    **more: Any,
) -> dict[str, Any]:
    """Returns a SessionSpec."""
    return given({
        "spec_version": SPEC,
        "base_image": image or default(more),
        "resources": resources,
        "ttl_sec": ttl,
        "idle_timeout_sec": idle_timeout,
        "lifetime_sec": lifetime,
        "timeout_sec": timeout,
        "startup_timeout_sec": startup_timeout,
        "workspace_exec": workspace_exec,
        **more,
    })


def scope(namespace: str, id: str, key: Optional[str]) -> dict[str, Any]:
    return given({"namespace": namespace, "id": id, "key": key})


def prefix(namespace: str, id: str) -> str:
    """Returns the common prefix of the scopes of all sessions of a workflow, an agent, a user or a thread."""
    return f"{_part(namespace)}:{_part(id)}:"


def _part(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A")
