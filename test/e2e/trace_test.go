//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

const traces = "../../internal/trace/testdata"

// changing is what differs from one run of a program to the next, and between versions of one language.
var changing = regexp.MustCompile(`0x[0-9a-f]+\??|goroutine \d+|(fp|sp|pc|m|stack)=\S+|[\d.]+ ?m?s\b|duration_ms:? [\d.]+|/tmp/cc\w+|thread '\w+' \(\d+\)|v\d+\.\d+\.\d+|:\d+:\d+\)|node:\S+:\d+:\d+| [ ~^|]+$`)

// frameOfRuntime is a line of a stack that is the language's own: its lines differ between patch releases.
var frameOfRuntime = regexp.MustCompile(`\(node:|at node:|/usr/lib/python|java\.base/|/usr/local/go/src|testing/testing\.go|runtime/panic\.go|^runtime\.|^panic\(`)

// TestTraces runs the programs of a language in one sandbox: what they print is what the parser of traces is tested with.
func TestTraces(t *testing.T) {
	for _, c := range []struct {
		language, program string
		soak              bool
	}{
		{"python", "python3", false}, {"node", "node", false}, {"ruby", "ruby", false}, {"shell", "dash", false}, {"c", "gcc", false},
		{"go", "go", false}, {"java", "javac", true}, // it takes seconds of CPU time
	} {
		t.Run(c.language, func(t *testing.T) {
			if c.soak {
				tier.Soak(t)
			}
			need.Program(t, c.program)
			dir, out := filepath.Join(traces, "program", c.language), t.TempDir()
			args := []string{"run", "--quiet", "--memory", "1g", "--pids", "512", "--timeout", "300", "--workspace-exec", "--capture", "out/**", "--out", out}
			how := tier.Pick("", "all")
			if c.language == "go" {
				dir = goPrograms(t, dir)
			}
			args = append(args, "--dir", dir, filepath.Join(dir, "run.sh"), how)
			if said, err := exec.CommandContext(t.Context(), built.Belljar, args...).CombinedOutput(); err != nil {
				if _, failed := err.(*exec.ExitError); !failed || strings.Contains(string(said), "belljar:") {
					t.Fatalf("%v\n%s", err, said)
				}
			}
			want, err := filepath.Glob(filepath.Join(traces, "output", c.language, "*.txt"))
			if err != nil || len(want) < 3 {
				t.Fatal(err, want)
			}
			for _, name := range want {
				if c.language == "go" && filepath.Base(name) == "test.txt" && how != "all" {
					continue // go test compiles the standard library: make soak
				}
				compare(t, name, filepath.Join(out, "out", filepath.Base(name)))
			}
		})
	}
}

// goPrograms builds what runs in the sandbox here, where there is a cache of the standard library.
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
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args, err, said)
		}
	}
	return dir
}

// compare holds what a program printed now to what is committed, without what changes.
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
		texts[i] = strings.Join(kept, "\n")
	}
	if texts[0] != texts[1] {
		t.Errorf("%s: now\n%s\nwant\n%s", want, texts[1], texts[0])
	}
}

// TestFailure has a run say where its program failed, and the list of runs not.
func TestFailure(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), built.Belljar, "run", "--json", "--quiet", "--dir", filepath.Join(traces, "program/python"), filepath.Join(traces, "program/python/library.py"))
	out, _ := cmd.Output() // it fails
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
	status, got := s.ask("POST", "/api/v1/sandbox/runs?wait=60s", map[string]any{
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
