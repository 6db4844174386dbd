#!/usr/bin/env python3
"""Judges programs in sandboxes, each against the tests of its problem, and writes a CSV.

    grade.py [--workers N] [--wall N] [--without-memory] PROBLEMS FILE|FOLDER...

A file SUM-anything.py answers the problem "sum". Exit status: 0 if every file has a verdict, 1 if one has
none, 2 if this host cannot judge.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from belljar import Belljar, BelljarError

LANGUAGES = {".py": "python", ".c": "c", ".java": "java"}
START = COMPILE = 120  # seconds of wall time: a busy machine is not the program's fault
COMPILER_MB = 512  # of memory, whatever the program's limit
NO_VERDICT = "not_judged"


@dataclass(frozen=True)
class Problem:
    """A program's input and limits."""

    cpu_time_sec: float
    memory_mb: int
    output_bytes: int
    tests: list[tuple[str, bytes, bytes]]  # name, input and expected output

    @classmethod
    def read(cls, folder: Path) -> Problem:
        inputs = sorted(folder.glob("tests/*.in"), key=lambda path: (len(path.stem), path.stem))  # 10 after 9
        tests = [(path.stem, path.read_bytes(), path.with_suffix(".out").read_bytes()) for path in inputs]
        if not tests:
            raise SystemExit(f"grade: {folder} has no tests")
        return cls(tests=tests, **json.loads((folder / "problem.json").read_text()))


@dataclass(frozen=True)
class Verdict:
    """The outcome of one program. Test is the first that it failed."""

    verdict: str
    test: str = ""
    cpu_time_sec: float = 0.0
    memory_mb: float = 0.0
    detail: str = ""


def output(run) -> bytes:
    """Returns the whole standard output. An answer has at most 1 MiB of it."""
    if run.truncated:
        return b"".join(frame.data for frame in run.logs() if frame.type == "stdout")
    return run.stdout_bytes


def judge(run, expected: bytes, problem: Problem, memory: bool) -> tuple[str, str]:
    """Returns the verdict on one run, by the server's observations and never by the program's own claims."""
    if run.reason_code == "compile_failed":
        return "compile_error", run.message
    if run.reason_code == "oom_killed":
        return "memory_limit", run.message
    if run.raw.get("truncated"):
        if (run.raw.get("resource_usage") or {}).get("log_bytes", 0) >= problem.output_bytes:
            return "output_limit", f"more than {problem.output_bytes} bytes"
        return NO_VERDICT, "the server did not keep all of the output"  # a quota, or a full disk
    if run.reason_code in ("cpu_time_exceeded", "execution_timeout"):
        return "time_limit", run.message
    if run.reason_code in ("nonzero_exit", "signaled", "pids_limit_exceeded"):
        # Without a memory limit, a program that fails may have run out of memory.
        return ("runtime_error" if memory else NO_VERDICT), run.message
    if run.phase != "completed":
        return NO_VERDICT, f"{run.reason_code}: {run.message}"
    if output(run).split() != expected.split():
        return "wrong_answer", ""
    return "accepted", ""


class Grader:
    """Judges with one server, or with one private belljar."""

    def __init__(self, belljar: Belljar, problems: Path, wall: float, memory: bool) -> None:
        self.belljar = belljar
        self.wall = wall
        self.memory = memory
        self.problems = {folder.name: Problem.read(folder) for folder in problems.iterdir() if folder.is_dir()}

    def run(self, source: bytes, extension: str, stdin: bytes, problem: Problem):
        language = LANGUAGES[extension]
        if language == "java":  # which names the file after its public class
            program = {"code": source.decode(errors="replace")}
        else:
            program = {"command": ["main" + extension], "files": {"main" + extension: source}}
        resources = {"log_bytes": problem.output_bytes}
        if self.memory:
            resources["memory_mb"] = problem.memory_mb
        return self.belljar.run(
            **program,
            language=language,
            stdin=stdin,
            timeout=problem.cpu_time_sec * self.wall,
            cpu_time=problem.cpu_time_sec,
            startup_timeout=START,
            build_timeout=COMPILE,
            build_memory_mb=COMPILER_MB if self.memory and language != "python" else None,
            resources=resources,
            build_cache=True if language != "python" else None,  # built for the first test, reused for the others
            workspace_exec=True if language != "python" else None,
        )

    def check(self) -> None:
        """Refuses to judge if a limit would not be enforced."""
        for problem in self.problems.values():
            try:
                run = self.run(b"print()", ".py", b"", problem)
            except BelljarError as error:
                raise SystemExit(refusal(f"{error.message}" + (f"\n  {error.hint}" if error.hint else ""))) from None
            if not run.ok:
                raise SystemExit(refusal(f"{run.reason_code}: {run.message}"))
            for limit in ["memory"] * self.memory + ["cpu_time"]:
                if limit not in (run.raw.get("limits_enforced") or {}):
                    raise SystemExit(refusal(f"{limit} is not enforced here"))

    def grade(self, path: Path) -> Verdict:
        problem = self.problems.get(path.name.split("-")[0].removesuffix(path.suffix))
        if problem is None:
            return Verdict(NO_VERDICT, detail="its name names no problem")
        if path.suffix not in LANGUAGES:
            return Verdict(NO_VERDICT, detail=f"no language for {path.suffix or path.name}")
        try:
            source = path.read_bytes()
        except OSError as error:
            return Verdict(NO_VERDICT, detail=str(error.strerror))
        cpu = memory = 0.0
        for test, given, expected in problem.tests:
            try:
                run = self.run(source, path.suffix, given, problem)
                usage = run.raw.get("resource_usage") or {}
                cpu, memory = max(cpu, usage.get("cpu_time_sec") or 0), max(memory, usage.get("peak_rss_mb") or 0)
                verdict, detail = judge(run, expected, problem, self.memory)
            except BelljarError as error:
                return Verdict(NO_VERDICT, test, cpu, memory, str(error))
            if verdict != "accepted":
                return Verdict(verdict, test, cpu, memory, detail)
        return Verdict("accepted", "", cpu, memory)


def refusal(why: str) -> str:
    print(f"grade: this host cannot judge: {why}", file=sys.stderr)
    print("grade: --without-memory gives no memory_limit and no runtime_error verdicts", file=sys.stderr)
    return ""


def files(paths: list[Path]) -> list[Path]:
    """The named files, and the programs in the named folders, in a fixed order."""
    found = []
    for path in paths:
        if path.is_dir():
            found += [p for p in sorted(path.rglob("*")) if p.suffix in LANGUAGES and p.is_file()]
        else:
            found.append(path)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="judge programs in sandboxes")
    parser.add_argument("problems", type=Path, help="a folder with a folder for each problem")
    parser.add_argument("programs", type=Path, nargs="+", help="programs, or folders of them")
    parser.add_argument("--workers", type=int, default=4, help="programs at once (default 4)")
    parser.add_argument("--wall", type=float, default=30, metavar="N", help="seconds of wall time per second of CPU time (default 30)")
    parser.add_argument("--without-memory", action="store_true", help="judge on a host that cannot limit memory")
    args = parser.parse_args()
    server = os.environ.get("BELLJAR_SERVER")
    with Belljar() if server else Belljar.local() as belljar, ThreadPoolExecutor(args.workers) as workers:
        grader = Grader(belljar, args.problems, args.wall, not args.without_memory)
        try:
            grader.check()
        except SystemExit:
            return 2
        programs = files(args.programs)
        table = csv.writer(sys.stdout)
        table.writerow(["program", "verdict", "test", "cpu_time_sec", "memory_mb", "detail"])
        complete = True
        for path, v in zip(programs, workers.map(grader.grade, programs)):
            complete &= v.verdict != NO_VERDICT
            row = [str(path), v.verdict, v.test, f"{v.cpu_time_sec:.3f}", f"{v.memory_mb:.1f}", v.detail]
            table.writerow([cell if not cell.startswith(("=", "+", "-", "@")) else "'" + cell for cell in map(str, row)])
    return 0 if complete else 1


if __name__ == "__main__":
    raise SystemExit(main())
