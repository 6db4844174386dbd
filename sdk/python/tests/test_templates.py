"""Templates and volumes on a real server."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import got

import belljar as b


async def test_templates(belljar: Any) -> None:
    made = await got(belljar.templates.build("py", "host", env={"WHO": "you"}, run=["echo hello >greeting"]))
    assert made["reason"] == "new" and made["files"] == 1
    run = await got(belljar.run("cat greeting; echo $WHO", template="py"))
    assert run.stdout == "hello\nyou\n"
    session = await got(belljar.sessions.create(template="py"))
    assert (await got(session.run("cat greeting"))).stdout == "hello\n"
    await got(session.close())
    assert "py" in [t["name"] for t in await got(belljar.templates.list())]
    with pytest.raises(b.InvalidRequestError, match="exited with status 3"):
        await got(belljar.templates.build("py", "host", run=["exit 3"]))
    assert (await got(belljar.templates.get("py")))["digest"] == made["digest"]
    await got(belljar.templates.remove("py"))
    with pytest.raises(b.NotFoundError):
        await got(belljar.templates.remove("py"))


async def test_volumes(belljar: Any) -> None:
    assert await got(belljar.volumes.list()) == []
    with pytest.raises(b.NotFoundError):
        await got(belljar.volumes.get("none"))
    with pytest.raises(b.NotFoundError):
        await got(belljar.volumes.remove("none"))
    for denied in (  # the server allows none
        lambda: belljar.volumes.create("data", 64),
        lambda: belljar.run(["true"], workspace={"medium": "disk", "mb": 64}),
        lambda: belljar.sessions.create(workspace={"volume": "data", "mb": 64}),
    ):
        with pytest.raises(b.PolicyDeniedError, match="SANDBOX_DISK_WORKSPACE_MB"):
            await got(denied())
