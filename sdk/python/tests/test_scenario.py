"""The one scenario of test/scenario, with both clients."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HERE, KEY, LONG, REPOSITORY, ROOT, Server

import belljar as b

SCENARIO = REPOSITORY / "test" / "scenario" / "scenario.json"


@pytest.mark.parametrize("flags", [[], ["--async"]], ids=["sync", "async"])
def test_scenario(server: Server, flags: list[str], tmp_path: Path) -> None:
    file = shutil.copy(SCENARIO, tmp_path)  # a copy that no other test changes
    with b.Belljar(server.url, api_key=KEY) as operator:
        spec = {"user_id": "python" + "".join(flags)}
        key = operator._transport.ask(_ask("POST", "/api/v1/sandbox/admin/tokens", spec))["secret"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "BELLJAR_SERVER": server.url, "BELLJAR_API_KEY": key}
    done = subprocess.run(
        [sys.executable, HERE / "scenario.py", *flags, file], env=env, capture_output=True, text=True, timeout=10 * LONG
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    steps = [step for step in json.loads(Path(file).read_text("utf-8"))["steps"] if "python" not in step.get("except", {})]
    assert [(line["step"], line["result"]) for line in lines] == [(step["step"], step["want"]) for step in steps]


def _ask(*args: object) -> object:
    from belljar._sync.transport import Ask

    return Ask(*args)  # type: ignore[arg-type]
