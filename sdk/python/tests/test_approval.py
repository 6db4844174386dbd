"""Requests that wait for an operator."""

from __future__ import annotations

import threading

import pytest
from conftest import KEY, Server, until

import belljar as b


def test_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_APPROVAL", "timeout_sec>600")
    server = Server()
    try:
        server.start()
        with b.Belljar(server.url, api_key=KEY) as operator:
            key = operator.tokens.create("ann")["secret"]
            with b.Belljar(server.url, api_key=key) as ann:
                for decision in ("approve", "deny"):
                    came: list[object] = []

                    def make() -> None:
                        try:
                            came.append(ann.sessions.create(timeout=900))
                        except b.PolicyDeniedError as e:
                            came.append(e)

                    opening = threading.Thread(target=make)
                    opening.start()
                    asked = until(lambda: operator.admin.approvals(state="pending")["items"])[0]
                    assert (asked["kind"], asked["user_id"], asked["reasons"]) == ("session", "ann", ["timeout_sec>600: 900"])
                    operator.admin.decide(asked["id"], decision, note="so it is")
                    opening.join()
                    if decision == "deny":
                        assert "so it is" in str(came[0])
                    else:
                        assert came[0].run(["echo", "in"]).stdout == "in\n"  # type: ignore[attr-defined]
                    with pytest.raises(b.ConflictError):
                        operator.admin.decide(asked["id"], "approve")
    finally:
        server.stop()
