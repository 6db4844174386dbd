"""Tests of examples/grader/grade.py without a server."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import grade
from belljar import Frame, Run

LIMIT = 2 << 20


class Server:
    """Answers each run with a row of answers, the last one for ever."""

    def __init__(self, *answers, frames=()):
        self.answers, self.frames, self.requests = list(answers), frames, []

    def run(self, **request):
        self.requests.append(request)
        return Run(self, self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])

    def logs(self, run, **_):
        return iter(self.frames)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def answer(phase="completed", reason=None, **more):
    return {
        "id": "r", "phase": phase, "exit_code": 0 if phase == "completed" else 1, "reason_code": reason, "stdout": "", "stderr": "",
        "limits_enforced": {"memory": "x", "cpu_time": "x"}, **more,
    }


class Grading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def problem(self, tests):
        (self.dir / "problems/sum/tests").mkdir(parents=True)
        (self.dir / "problems/sum/problem.json").write_text(json.dumps({"cpu_time_sec": 1, "memory_mb": 64, "output_bytes": LIMIT}))
        for name, (given, expected) in tests.items():
            (self.dir / f"problems/sum/tests/{name}.in").write_bytes(given)
            (self.dir / f"problems/sum/tests/{name}.out").write_bytes(expected)

    def program(self, name, source):
        (self.dir / name).write_bytes(source)
        return self.dir / name

    def grader(self, server):
        return grade.Grader(server, self.dir / "problems", 30, True)

    def test_verdicts(self):
        problem = grade.Problem(1, 64, LIMIT, [])
        for raw, want in [
            (answer(stdout="1  2\n"), "accepted"),
            (answer(stdout="1 3"), "wrong_answer"),
            (answer("failed", "compile_failed"), "compile_error"),
            (answer("failed", "oom_killed"), "memory_limit"),
            (answer("timed_out", "cpu_time_exceeded"), "time_limit"),
            (answer("timed_out", "execution_timeout"), "time_limit"),
            (answer("timed_out", "startup_timeout"), "not_judged"),
            (answer("failed", "nonzero_exit"), "runtime_error"),
            (answer("failed", "signaled"), "runtime_error"),
            (answer("failed", "pids_limit_exceeded"), "runtime_error"),
            (answer("failed", "node_out_of_memory"), "not_judged"),
            (answer(stdout="1 2", truncated=True, resource_usage={"log_bytes": LIMIT}), "output_limit"),
            (answer("timed_out", "cpu_time_exceeded", truncated=True, resource_usage={"log_bytes": LIMIT}), "output_limit"),
            (answer(stdout="1 2", truncated=True, resource_usage={"log_bytes": 4096}), "not_judged"),
            (answer(stdout="1 2", truncated=True), "not_judged"),
        ]:
            got, _ = grade.judge(Run(Server(), raw), b"1 2", problem, True)
            self.assertEqual(got, want, raw)

    def test_output_beyond_the_answer(self):
        text = "3 " * 600000
        frames = [Frame({"seq": n + 1, "type": "stdout", "data": text[at : at + 65536]}) for n, at in enumerate(range(0, len(text), 65536))]
        frames.insert(3, Frame({"seq": 99, "type": "stderr", "data": "4 "}))
        run = Run(Server(frames=frames), answer(stdout=text[:1000], stdout_truncated=True))
        problem = grade.Problem(1, 64, LIMIT, [])
        self.assertEqual(grade.judge(run, text.encode(), problem, True)[0], "accepted")
        self.assertEqual(grade.judge(run, text.encode() + b"5", problem, True)[0], "wrong_answer")

    def test_order(self):
        self.problem({str(n): (b"%d" % n, b"yes") for n in range(1, 13)})
        server = Server(*[answer(stdout="yes")] * 9, answer(stdout="no"))
        verdict = self.grader(server).grade(self.program("sum-a.py", b""))
        self.assertEqual((verdict.verdict, verdict.test), ("wrong_answer", "10"))
        self.assertEqual([r["stdin"] for r in server.requests], [b"%d" % n for n in range(1, 11)])

    def test_bytes(self):
        self.problem({"1": (b"1\r\n2", b"\xe9\r\n")})
        for name, source in {"sum-a.c": b'// \xe9\r\n', "sum-a.py": b"# coding: latin-1\r\n'\xe9'"}.items():
            server = Server(answer(stdout="6Q==", stdout_encoding="base64"))
            verdict = self.grader(server).grade(self.program(name, source))
            self.assertEqual(verdict.verdict, "accepted", verdict)
            [request] = server.requests
            self.assertEqual(request["stdin"], b"1\r\n2")
            self.assertEqual(list(request["files"].values()), [source])
            self.assertEqual(list(request["files"]), request["command"])
        server = Server(answer())
        self.grader(server).grade(self.program("sum-a.java", b"class A {}\r\n"))
        self.assertEqual(server.requests[0]["code"], "class A {}\r\n")

    def test_named_files(self):
        self.problem({"1": (b"", b"")})
        for name in ("sum-a.py", "sum-b.cpp"):
            self.program(name, b"")
        (self.dir / "class").mkdir()
        self.program("class/notes.txt", b"")
        arguments = ["grade.py"] + [str(self.dir / name) for name in ("problems", "sum-a.py", "sum-b.cpp", "sum-c.py", "class")]
        printed = io.StringIO()
        with mock.patch("sys.argv", arguments), mock.patch.object(grade, "Belljar") as client, contextlib.redirect_stdout(printed):
            client.return_value = client.local.return_value = Server(answer())
            status = grade.main()
        rows = [(Path(row.split(",")[0]).name, row.split(",")[1], row.split(",")[-1]) for row in printed.getvalue().splitlines()[1:]]
        self.assertEqual(rows, [
            ("sum-a.py", "accepted", ""), ("sum-b.cpp", "not_judged", "no language for .cpp"), ("sum-c.py", "not_judged", "No such file or directory"),
        ])
        self.assertEqual(status, 1)


if __name__ == "__main__":
    unittest.main()
