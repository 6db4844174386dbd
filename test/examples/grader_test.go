//go:build linux

package examples

import (
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/sdk"
	"github.com/belljar/belljar/test/served"
	"github.com/belljar/belljar/test/tier"
)

// graderUser is an ordinary user that grades. Its uid is otherwise unused.
const graderUser = 61503

// grader is a way to run examples/grader: by root, by a server, or by an ordinary user.
type grader struct {
	dir  string
	env  []string
	user string // command prefix that runs a command as that user; "" for root
}

// asRoot returns the grader with a belljar of its own.
func asRoot(t *testing.T, env ...string) *grader {
	return &grader{dir: filepath.Join(copied(t), "grader"), env: env}
}

// byServer returns the grader with a server.
func byServer(t *testing.T) *grader {
	s := served.Start(t, built.Belljar)
	return asRoot(t, "BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY="+s.User(t, "teacher"))
}

// rootless returns the grader of an ordinary user, with a delegated cgroup or none.
func rootless(t *testing.T, delegated bool) *grader {
	t.Helper()
	need.Root(t)
	dir, err := os.MkdirTemp("", "belljar-grader-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	python, err := sdk.Python()
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"grader": "../../examples/grader", "sdk": python} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(built.Belljar)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "belljar"), program, 0o755)
	}
	if err == nil {
		err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, graderUser, graderUser)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	enter := ""
	if delegated {
		for _, group := range delegate(t) {
			enter += "echo $BASHPID >" + filepath.Join(group, "cgroup.procs") + "; "
		}
	}
	return &grader{
		dir:  filepath.Join(dir, "grader"),
		env:  []string{"HOME=" + dir, "TMPDIR=" + dir, "PYTHONPATH=" + filepath.Join(dir, "sdk"), "BELLJAR_BIN=" + filepath.Join(dir, "belljar")},
		user: enter + fmt.Sprintf("exec setpriv --reuid=%d --regid=%[1]d --clear-groups ", graderUser),
	}
}

// delegate makes a cgroup in each hierarchy that the user may change freely.
func delegate(t *testing.T) (groups []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	memory := false
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup" && f[2] != "cgroup2" {
			continue
		}
		controllers := strings.Split(f[3], ",")
		if f[2] == "cgroup2" {
			own, _ := os.ReadFile(filepath.Join(f[1], "cgroup.controllers"))
			controllers = strings.Fields(string(own))
			for _, c := range controllers { // those that the kernel can delegate; without memory the test is skipped
				_ = os.WriteFile(filepath.Join(f[1], "cgroup.subtree_control"), []byte("+"+c), 0o644)
			}
		}
		limits := func(c string) bool { return slices.Contains([]string{"memory", "pids", "cpu", "cpuacct"}, c) }
		if f[2] == "cgroup" && !slices.ContainsFunc(controllers, limits) {
			continue
		}
		group := filepath.Join(f[1], fmt.Sprintf("belljar-grader-%d-%s", os.Getpid(), filepath.Base(t.TempDir())))
		if err := os.Mkdir(group, 0o755); err != nil {
			continue // this user may not change it
		}
		t.Cleanup(func() { removeGroups(t, group) })
		if f[2] == "cgroup2" {
			given, _ := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
			controllers = strings.Fields(string(given))
			// The user lives below the delegated group, as under systemd.
			if err := os.Mkdir(filepath.Join(group, "self"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := filepath.WalkDir(group, func(path string, e os.DirEntry, err error) error {
			if err != nil || !e.IsDir() && !strings.HasPrefix(e.Name(), "cgroup.") && e.Name() != "tasks" {
				return err
			}
			return os.Chown(path, graderUser, graderUser)
		})
		if err != nil {
			t.Fatal(err)
		}
		memory = memory || slices.Contains(controllers, "memory")
		if f[2] == "cgroup2" {
			groups = append(groups, filepath.Join(group, "self"))
		} else {
			groups = append(groups, group)
		}
	}
	if !memory {
		t.Skip("no user of this machine can delegate a cgroup that limits memory")
	}
	return groups
}

// removeGroups removes a cgroup and those below it. No process may run in them.
func removeGroups(t *testing.T, group string) {
	entries, err := os.ReadDir(group)
	for _, e := range entries {
		if e.IsDir() {
			removeGroups(t, filepath.Join(group, e.Name()))
		}
	}
	if err == nil {
		err = syscall.Rmdir(group)
	}
	if err != nil {
		t.Errorf("%s: %v", group, err)
	}
}

// grade runs the grader and returns its exit status, the verdicts by program, and its other output.
func (g *grader) grade(t *testing.T, args ...string) (status int, verdicts map[string]string, output string) {
	t.Helper()
	out, err := bash(t, g.dir, "("+g.user+"python3 grade.py --workers 4 problems "+strings.Join(args, " ")+") >rows 2>said; status=$?; cat rows; echo ---; cat said; exit $status", g.env...)
	status, verdicts = 0, map[string]string{}
	if err != nil {
		if _, err := fmt.Sscanf(err.Error(), "exit status %d", &status); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	rows, output, _ := strings.Cut(out, "---\n")
	list, err := csv.NewReader(strings.NewReader(rows)).ReadAll()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, row := range list {
		verdicts[row[0]] = row[1]
		t.Logf("%s", strings.Join(row, " "))
	}
	delete(verdicts, "program")
	return status, verdicts, output
}

// few are submissions that cover each language and each verdict. One Java compiler costs as much as all others together.
var (
	few  = append([]string{"accepted/sum-scanner.java", "compile_error/sum-type.java", "runtime_error/sum-null.java"}, most...)
	most = []string{
		"accepted/sum-loop.py", "accepted/sum-long.c", "wrong_answer/sum-last.c", "time_limit/sum-spin.c", "memory_limit/sum-malloc.c",
		"memory_limit/sum-list.py", "output_limit/primes-crash.c",
	}
)

// exact checks that each submission has the verdict of its folder. The submissions wait only for a processor.
func (g *grader) exact(t *testing.T, submissions []string, flags ...string) {
	t.Helper()
	flags = append(flags, "--wall 300") // on a busy machine a program may get less than a thirtieth of a processor
	for _, s := range submissions {
		flags = append(flags, "submissions/"+s)
	}
	status, verdicts, output := g.grade(t, flags...)
	if status != 0 || output != "" || len(verdicts) != len(submissions) {
		t.Errorf("it ends with %d and %d verdicts: %s", status, len(verdicts), output)
	}
	for path, got := range verdicts {
		if want := filepath.Base(filepath.Dir(path)); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestGrader judges submissions in each of the ways that docs/grading.md describes. The README of the grader describes the first one,
// which TestReadmes follows.
func TestGrader(t *testing.T) {
	if tier.Pick(false, true) {
		t.Run("root", func(t *testing.T) { asRoot(t).exact(t, few) })
	}
	t.Run("server", func(t *testing.T) { byServer(t).exact(t, tier.Pick(most[2:], few)) })
	t.Run("rootless, delegated", func(t *testing.T) { rootless(t, true).exact(t, tier.Pick(most, few)) })
	t.Run("rootless", func(t *testing.T) {
		g := rootless(t, false)
		status, verdicts, output := g.grade(t, "submissions/memory_limit")
		if status != 2 || len(verdicts) != 0 || !strings.Contains(output, "memory_mb cannot be enforced") || !strings.Contains(output, "--without-memory") {
			t.Errorf("it ends with %d, %v: %s", status, verdicts, output)
		}
		g.exact(t, tier.Pick([]string{most[0], most[1], most[6]}, []string{most[0], most[1], most[2], few[1], most[3], most[6]}), "--without-memory")
		status, verdicts, _ = g.grade(t, "--without-memory", "submissions/runtime_error/sum-exit.py")
		if status != 1 || len(verdicts) != 1 || verdicts["submissions/runtime_error/sum-exit.py"] != "not_judged" {
			t.Errorf("a program that fails, perhaps for want of memory: %d, %v", status, verdicts)
		}
	})
}

// TestGraderAlone tests the grader's decisions without a server.
func TestGraderAlone(t *testing.T) {
	if out, err := bash(t, "testdata", `PYTHONPATH=$PYTHONPATH:../../../examples/grader python3 test_grade.py`); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestStrangeSubmissions submits files that match no problem, and names that are no program: the rest must still be judged. Programs get
// the bytes of their input, and all of a long output counts.
func TestStrangeSubmissions(t *testing.T) {
	g := byServer(t)
	class := filepath.Join(g.dir, "class")
	program, err := os.ReadFile(filepath.Join(g.dir, "submissions/accepted/sum-loop.py"))
	if err == nil {
		err = os.MkdirAll(filepath.Join(class, "a folder.py"), 0o755)
	}
	for _, name := range []string{"helper.py", "sum-ann.py"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(class, name), program, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"problems/long/problem.json": `{"cpu_time_sec": 10, "memory_mb": 192, "output_bytes": 2000000}`,
		"problems/long/tests/1.in":   "1\r\n",
		"problems/long/tests/1.out":  strings.Repeat("3 ", 600_000),
		"class/long-ann.py":          "import sys\nn = len(sys.stdin.buffer.read())\nsys.stdout.write(f'{n} ' * 600000)\n",
		"class/long-ben.c":           "#include <stdio.h>\nint main(void) { int n = 0; while (getchar() != EOF) n++; for (int i = 0; i < 600000; i++) printf(\"%d\\r\\n\", n); }\r\n",
	} {
		path := filepath.Join(g.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	status, verdicts, output := g.grade(t, "--wall 300", "class", "sum-missing.py", "sum-ann.cpp")
	want := map[string]string{
		"class/helper.py": "not_judged", "class/sum-ann.py": "accepted", "class/long-ann.py": "accepted", "class/long-ben.c": "accepted",
		"sum-missing.py": "not_judged", "sum-ann.cpp": "not_judged",
	}
	if status != 1 || output != "" || !maps.Equal(verdicts, want) {
		t.Errorf("it ends with %d and %v: %s", status, verdicts, output)
	}
}
