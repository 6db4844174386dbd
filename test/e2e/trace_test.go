//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

const traces = "../../internal/trace/testdata"

// changing matches parts that differ from one run of a program to the next, and between versions of one language.
var changing = regexp.MustCompile(`0x[0-9a-f]+\??|goroutine \d+|(fp|sp|pc|m|stack)=\S+|[\d.]+ ?m?s\b|duration_ms:? [\d.]+|/tmp/cc\w+|thread '\w+'(?: \(\d+\))?|^ +\d+: |v\d+\.\d+\.\d+|:\d+:\d+\)|node:\S+:\d+:\d+| [ ~^|]+$`)

// frameOfRuntime matches a stack line of the language's own: its line numbers differ between patch releases.
var frameOfRuntime = regexp.MustCompile(`\(node:|at node:|/usr/lib/python|java\.base/|/usr/local/go/src|testing/testing\.go|runtime/panic\.go|^runtime\.|^panic\(|at /rustc/|^ +\d+: (?:__rustc|rust_begin_unwind|core|std|alloc|<)`)

// TestTraces runs the programs of a language in one sandbox. The trace parser is tested with their output.
func TestTraces(t *testing.T) {
	for _, c := range []struct {
		language, program string
		soak              bool
	}{
		{"python", "python3", false}, {"node", "node", false}, {"ruby", "ruby", false}, {"shell", "dash", false}, {"c", "gcc", false},
		{"go", "go", true}, {"java", "javac", true}, {"rust", "rustc", true}, {"typescript", "node", true}, // they take seconds of CPU time
	} {
		t.Run(c.language, func(t *testing.T) {
			if c.soak {
				tier.Soak(t)
			}
			if c.language == "rust" {
				recentRust(t)
			} else {
				need.Program(t, c.program)
			}
			dir, out := filepath.Join(traces, "program", c.language), t.TempDir()
			args := []string{"run", "--quiet", "--memory", "1g", "--pids", "512", "--timeout", "300", "--workspace-exec", "--capture", "out/**", "--out", out}
			switch c.language {
			case "go":
				dir = goPrograms(t, dir)
			case "rust":
				dir = rustPrograms(t, dir)
			case "typescript":
				dir = typescriptPrograms(t, dir)
			}
			args = append(args, "--dir", dir, filepath.Join(dir, "run.sh"))
			if output, err := exec.CommandContext(t.Context(), built.Belljar, args...).CombinedOutput(); err != nil {
				if _, failed := err.(*exec.ExitError); !failed || strings.Contains(string(output), "belljar:") {
					t.Fatalf("%v\n%s", err, output)
				}
			}
			want, err := filepath.Glob(filepath.Join(traces, "output", c.language, "*.txt"))
			if err != nil || len(want) < 2 {
				t.Fatal(err, want)
			}
			for _, name := range want {
				compare(t, name, filepath.Join(out, "out", filepath.Base(name)))
			}
		})
	}
}

// goPrograms builds the Go programs on this machine, which has a cache of the standard library. They run in the sandbox.
func goPrograms(t *testing.T, from string) string {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"build", "-gcflags=example.com/trace/...=-trimpath=" + dir + "=>/workspace", "-o", "plain", "."},
		{"build", "-trimpath", "-o", "trimmed", "."}, {"test", "-trimpath", "-c", "-o", "part.test", "./part"},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args, err, output)
		}
	}
	return dir
}

// recentRust skips the test unless the compiler's messages and columns match the committed output. Debian 12 has 1.63.
func recentRust(t *testing.T) {
	version, err := exec.CommandContext(t.Context(), "rustc", "--version").Output()
	var minor int
	if _, scanned := fmt.Sscanf(string(version), "rustc 1.%d.", &minor); err != nil || scanned != nil || minor < 92 {
		t.Skipf("rustc 1.92 or later is wanted, and this is %q, %v", version, err)
	}
}

// rustPrograms compiles the panicking programs on this machine, unless the sandbox has the compiler: one in a home folder is not part
// of the host image. In that case the compiler's own messages come from this machine.
func rustPrograms(t *testing.T, from string) string {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/usr/bin/rustc"); err == nil {
		return dir
	}
	for _, args := range [][]string{{"p.rs", "-g", "--remap-path-prefix=" + dir + "=/workspace"}, {"b.rs"}} {
		cmd := exec.CommandContext(t.Context(), "rustc", args...)
		cmd.Dir = dir
		output, err := cmd.CombinedOutput()
		if args[0] == "p.rs" && err != nil {
			t.Fatalf("rustc %s: %v\n%s", args, err, output)
		}
		if err := os.WriteFile(filepath.Join(dir, args[0]+".txt"), output, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// typescriptPrograms adds the compiler that builds the TypeScript SDK.
func typescriptPrograms(t *testing.T, from string) string {
	const lib = "../../sdk/typescript/node_modules/typescript/lib"
	files, err := filepath.Glob(lib + "/lib*.d.ts")
	if err != nil || len(files) == 0 {
		need.Missing(t, "the compiler of the TypeScript SDK: make sdk")
	}
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir, os.DirFS(from)), os.Mkdir(filepath.Join(dir, "tsc"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, lib+"/tsc.js", lib+"/_tsc.js") {
		raw, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "tsc", filepath.Base(file)), raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// compare compares a program's output with the committed output, without the changing parts.
func compare(t *testing.T, want, got string) {
	t.Helper()
	var texts [2]string
	for i, name := range []string{want, got} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			return
		}
		var kept []string
		goroutines := 0
		for line := range strings.Lines(string(raw)) {
			if strings.HasPrefix(line, "goroutine ") {
				if goroutines++; goroutines > 1 {
					break // those of the runtime
				}
			}
			if !frameOfRuntime.MatchString(line) {
				kept = append(kept, changing.ReplaceAllString(strings.TrimRight(line, "\n"), "*"))
			}
		}
		texts[i] = strings.Join(slices.Compact(kept), "\n") // the depth of a stack overflow varies
	}
	if texts[0] != texts[1] {
		t.Errorf("%s: now\n%s\nwant\n%s", want, texts[1], texts[0])
	}
}

// TestFailure checks that a run reports the place where its program failed, and that the list of runs does not.
func TestFailure(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), built.Belljar, "run", "--json", "--quiet", "--dir", filepath.Join(traces, "program/python"), filepath.Join(traces, "program/python/library.py"))
	out, _ := cmd.Output() // the program fails
	var run belljar.Run
	if err := json.Unmarshal(out, &run); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	place, ok := run.Failure.Place()
	if !ok || place.String() != "library.py:5 in read" || run.Failure.Type != "json.decoder.JSONDecodeError" || len(run.Failure.Frames) != 5 {
		t.Errorf("%+v", run.Failure)
	}
	// A compiler's message, on a server and in a list.
	s := serve(t, t.TempDir())
	status, got := s.ask("POST", "/api/v1/sandbox/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "base_image": "host", "language": "py", "code": "import os\nos.stat('/no')\n",
	})
	failure, _ := got["failure"].(map[string]any)
	if status != 200 || failure["type"] != "FileNotFoundError" || failure["language"] != "python" {
		t.Errorf("%d: %v", status, got)
	}
	status, got = s.ask("GET", "/api/v1/sandbox/runs/"+got["run_id"].(string), nil)
	if failure, _ := got["failure"].(map[string]any); status != 200 || failure["type"] != "FileNotFoundError" {
		t.Errorf("on record: %d %v", status, got)
	}
	if status, got = s.ask("GET", "/api/v1/sandbox/runs", nil); status != 200 || strings.Contains(toJSON(t, got), `"failure"`) {
		t.Errorf("listed: %d %v", status, got)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
