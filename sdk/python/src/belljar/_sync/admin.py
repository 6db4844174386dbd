# Made from _async/admin.py by scripts/generate.py. Do not edit.
"""The API for operators: all users' runs, usage and quotas, and API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Union, cast

from .. import _spec
from .._address import path
from .transport import Ask, Transport

if TYPE_CHECKING:
    from .. import types


class Admin:
    """Runs, usage and quotas of all users. For operators."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def runs(
        self,
        *,
        user_id: Optional[str] = None,
        phase: Optional[str] = None,
        runtime: Optional[str] = None,
        image: Optional[str] = None,
        session: Optional[str] = None,
        sort: Optional[str] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
    ) -> types.AdminPage:
        """Returns the runs of all users, newest first by default; an example of ``sort`` is ``started_at:asc``."""
        values = {
            "user_id": user_id, "phase": phase, "runtime": runtime, "base_image": image, "session_id": session,
            "sort": sort, "limit": limit, "offset": offset,
        }  # fmt: skip
        return cast("types.AdminPage", self._transport.ask(Ask("GET", path("admin", "runs"), values=values), "items"))

    def run(self, id: str) -> types.DetailedRun:
        """Returns a run of any user, with its artifacts."""
        return cast("types.DetailedRun", self._transport.ask(Ask("GET", path("admin", "runs", id)), "id"))

    def idempotency(
        self, *, endpoint: Optional[str] = None, user_id: Optional[str] = None, limit: Optional[int] = None, offset: Optional[int] = None
    ) -> List[types.KeyEntry]:
        """Lists the idempotency keys in force."""
        values = {"endpoint": endpoint, "user_id": user_id, "limit": limit, "offset": offset}
        answer = self._transport.ask(Ask("GET", path("admin", "idempotency"), values=values), "items")
        return cast("list[types.KeyEntry]", answer["items"])

    def approvals(
        self, *, state: Optional[str] = None, user_id: Optional[str] = None, limit: Optional[int] = None, offset: Optional[int] = None
    ) -> types.ApprovalPage:
        """Returns a page of the requests that wait or waited for an operator, newest first."""
        values = {"state": state, "user_id": user_id, "limit": limit, "offset": offset}
        return cast("types.ApprovalPage", self._transport.ask(Ask("GET", path("admin", "approvals"), values=values), "items"))

    def decide(self, id: str, decision: str, *, note: Optional[str] = None) -> types.Approval:
        """Approves or denies a request. ConflictError if it is already decided."""
        body = {"decision": decision} if note is None else {"decision": decision, "note": note}
        return cast("types.Approval", self._transport.ask(Ask("POST", path("admin", "approvals", id), body), "id", "state"))

    def usage(self, limit: Optional[int] = None) -> List[types.UserUsage]:
        """Lists the users whose artifacts have the most bytes."""
        answer = self._transport.ask(Ask("GET", path("admin", "usage"), values={"limit": limit}), "items")
        return cast("list[types.UserUsage]", answer["items"])

    def quota(self, user_id: str) -> types.Quota:
        """Returns the quota in force for a user."""
        return cast("types.Quota", self._transport.ask(Ask("GET", path("admin", "quotas", user_id))))

    def set_quota(self, user_id: str, quota: Union[types.QuotaSpec, types.Quota]) -> types.Quota:
        """Replaces a user's whole quota: 0, or a field that is left out, means no limit."""
        return cast("types.Quota", self._transport.ask(Ask("PUT", path("admin", "quotas", user_id), dict(quota))))

    def delete_quota(self, user_id: str) -> None:
        """Removes a user's own quota, so that the default applies."""
        self._transport.ask(Ask("DELETE", path("admin", "quotas", user_id)))


class Tokens:
    """The API keys. For operators."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self, user_id: str, *, name: Optional[str] = None, role: Optional[str] = None, ttl: Optional[float] = None
    ) -> types.NewToken:
        """Creates a key for a user. Only this answer has the key, in ``secret``. ``ttl`` is its lifetime in seconds."""
        body = _spec.given({"user_id": user_id, "name": name, "role": role, "ttl_sec": ttl})
        return cast("types.NewToken", self._transport.ask(Ask("POST", path("admin", "tokens"), body), "id", "secret"))

    def list(self) -> List[types.Token]:
        """Lists all keys, without their secrets."""
        return cast("list[types.Token]", (self._transport.ask(Ask("GET", path("admin", "tokens")), "items"))["items"])

    def revoke(self, id: str) -> None:
        """Revokes a key."""
        self._transport.ask(Ask("DELETE", path("admin", "tokens", id)))
