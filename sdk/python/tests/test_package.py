"""Generated files are up to date, and the wheel works as the README describes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from conftest import HERE, KEY, LONG, REPOSITORY, ROOT, Server

from belljar import errors, types


def test_nothing_is_stale() -> None:
    made = subprocess.run([sys.executable, ROOT / "scripts" / "generate.py", "--check"], capture_output=True, text=True, timeout=LONG)
    assert made.returncode == 0, f"python3 scripts/generate.py writes these anew:\n{made.stdout}{made.stderr}"


def test_errors_are_those_of_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*?\| (\d+) \|.*\| `(\w+)` \|$", (REPOSITORY / "docs" / "errors.md").read_text("utf-8"), re.M)
    assert {(code, int(status), kind) for code, status, kind in rows} == {(code, status, kind.__name__) for code, (kind, status) in errors.TABLE.items()}
    for code, (kind, _) in errors.TABLE.items():
        assert kind.code == code and errors.of_code(code) is kind
    import belljar

    assert {*belljar._ERRORS} == {*errors.__all__}


def test_errors_can_be_pickled() -> None:
    import pickle

    error = errors.TimeoutError("m", status=504, details={"a": 1}, hint="h", retry_after=1.5, request_id="q")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is errors.TimeoutError and copy.__dict__ == error.__dict__ and str(copy) == str(error) == "m (h)"


# CHANGE changes a field of what the server answered, and sends all of it back.
CHANGE = """
from belljar import Belljar

def change(belljar: Belljar) -> None:
    quota = belljar.admin.quota("ann")
    quota["concurrent_runs"] = 4
    belljar.admin.set_quota("ann", quota)
"""


def test_types_are_strict(tmp_path: Path) -> None:
    mypy = shutil.which("mypy", path="/usr/bin:" + os.environ.get("PATH", ""))
    assert mypy, "mypy is missing: apt-get install mypy"
    use = tmp_path / "use.py"
    use.write_text(CHANGE)
    checked = subprocess.run([mypy, "--cache-dir", os.devnull, "src/belljar", str(use)], cwd=ROOT, capture_output=True, text=True, timeout=10 * LONG)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "secret" in types.NewToken.__required_keys__ and "secret" not in types.Token.__required_keys__


def test_no_file_is_long() -> None:
    for path in [*(ROOT / "src").rglob("*.py"), *HERE.glob("*.py")]:
        if path.name != "types.py":
            assert len(path.read_text("utf-8").splitlines()) <= 500, path


@pytest.fixture(scope="module")
def python(tmp_path_factory: Any) -> Path:
    """The Python of an empty project with the wheel installed offline."""
    place = tmp_path_factory.mktemp("project")
    source = place / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".mypy_cache"))
    init = source / "src" / "belljar" / "__init__.py"
    init.write_text(re.sub(r'^__version__ = ".*"$', '__version__ = "9.8.7"', init.read_text("utf-8"), flags=re.M), "utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    run(*pip, "wheel", "--no-index", "--no-build-isolation", "--no-deps", "-w", str(place / "dist"), str(source))
    (wheel,) = (place / "dist").glob("belljar_sdk-*-py3-none-any.whl")
    venv.create(place / "venv", with_pip=False)
    run(*pip, "--python", str(place / "venv" / "bin" / "python"), "install", "--no-index", "--no-deps", str(wheel))
    return place / "venv" / "bin" / "python"


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * LONG)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def test_the_readme_does_what_it_says(python: Path, server: Server, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S))
    want = [line.rpartition("# ")[2] for line in program.splitlines() if line.lstrip().startswith("print(")]
    assert len(want) >= 15
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env.update(BELLJAR_SERVER=server.url, BELLJAR_API_KEY=KEY)
    (tmp_path / "readme.py").write_text("import belljar as _b; assert 'site-packages' in _b.__file__\n" + program, "utf-8")
    done = subprocess.run([python, "-W", "error", "readme.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=10 * LONG)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == want
    assert (tmp_path / "copy.json").read_text() == "[3, 4]\n"


def test_the_wheel_has_the_version_of_the_package(python: Path) -> None:
    program = "import importlib.metadata as m, belljar; print(m.version('belljar-sdk'), belljar.__version__)"
    assert subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=LONG).stdout == "9.8.7 9.8.7\n"


def test_the_wheel_has_its_license(python: Path) -> None:
    (license,) = python.parent.parent.glob("lib/python*/site-packages/belljar_sdk-*.dist-info/**/LICENSE")
    assert license.read_text("utf-8") == (REPOSITORY / "LICENSE").read_text("utf-8")


def test_the_wheel_has_its_types(python: Path) -> None:
    where = subprocess.run([python, "-c", "import belljar; print(belljar.__file__)"], capture_output=True, text=True, timeout=LONG).stdout.strip()
    names = {path.name for path in Path(where).parent.rglob("*")}
    assert {"py.typed", "types.py", "_sync", "_async"} <= names
