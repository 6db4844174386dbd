//go:build linux

package security

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
)

// bombs are sources that attack their compiler.
func bombs() []bomb {
	const recursion = `template<int A, int B> struct G { static const int v = G<A-1, B>::v + G<A-1, B+1>::v; };
template<int B> struct G<0, B> { static const int v = 1; };
int main() { return G<800, 0>::v; }
`
	warnings := "#define A { char *x = 1; (void)x; }\n"
	for i, name := range []string{"B", "C", "D", "E", "F"} {
		warnings += "#define " + name + strings.Repeat(" "+string("ABCDE"[i]), 10) + "\n"
	}
	warnings += "int main(void) {\n" + strings.Repeat("F\n", 20) + "return 0; }\n"
	return []bomb{
		{name: "endless.c", text: "#include \"/dev/zero\"\n", flags: []string{"--memory", "96m"}, limit: runtime.ProtectMemory, message: "ran out of memory"},
		{name: "templates.cc", text: recursion, flags: []string{"--build-timeout", "1s"}, message: "ran longer than 1 second"},
		{name: "warnings.c", text: warnings, flags: []string{"--build-timeout", "1s"}, message: "ran longer than 1 second"},
		{name: "object.c", text: "char a[1500000000] = {1};\nint main(void) { return a[5]; }\n", message: "exited with status"},
		{name: "plugin.c", text: "#pragma GCC plugin \"/workspace/evil.so\"\n#pragma GCC optimize (\"-fplugin=/workspace/evil.so\")\n#error end\n",
			message: "exited with status"},
	}
}

type bomb struct {
	name, text string
	flags      []string
	limit      string // the limit that ends it; "" for a limit that is always enforced
	message    string
}

// TestBuildBombs compiles hostile sources. Attack: use up time, memory, disk or log of the host, or run code in the compiler,
// during the compilation, when the program's limits do not apply yet. Why it matters: a grader compiles whatever it receives.
// What must hold: the build ends at its limit, the run names that limit, and the program never runs.
func TestBuildBombs(t *testing.T) {
	for _, compiler := range []string{"cc", "c++"} {
		if found, err := exec.LookPath(compiler); err != nil || !strings.HasPrefix(found, "/usr/") {
			need.Missing(t, "%s under /usr", compiler)
		}
	}
	for _, l := range lanes() {
		if l.ready || l.image != "" {
			continue // the image has no compiler
		}
		t.Run(l.name, func(t *testing.T) {
			l.open(t)
			if l.ref != "" {
				t.Skipf("lane %s runs in an image without a compiler", l.name)
			}
			for _, b := range bombs() {
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					if b.limit != "" && !l.enforces(b.limit) {
						t.Skipf("lane %s cannot enforce %s; a run that asks for it is refused", l.name, b.limit)
					}
					ctx, cancel := context.WithTimeout(t.Context(), runTime)
					defer cancel()
					tr := l.trial(t)
					source := filepath.Join(tr.dir, b.name)
					if err := os.WriteFile(source, []byte(b.text), 0o644); err != nil {
						t.Fatal(err)
					}
					args := append(append([]string{"run", "--json", "--quiet"}, tr.where()...), b.flags...)
					got := tr.run(ctx, append(args, source))
					if got.ReasonCode != belljar.ReasonCompileFailed || got.ExitCode != nil || !strings.Contains(got.Message, b.message) {
						t.Errorf("%s %s, exit %s: %s, want compile_failed: %s", got.Phase, got.ReasonCode, got.exit(), got.Message, b.message)
					}
					if got.Build == nil {
						t.Fatal("the run has no build")
					}
					if n := len(got.Build.Output); n > belljar.MaxBuildOutput {
						t.Errorf("%d bytes of output", n)
					}
					if strings.Contains(got.Build.Output, "evil.so: cannot open") {
						t.Errorf("the compiler looked for a plug-in:\n%s", tail(got.Build.Output))
					}
					tr.nothingLeft(got)
				})
			}
		})
	}
}

// TestBuildMemory gives a compiler more memory than its program. Attack: take the compiler's memory after it has ended. Why
// it matters: compilers need more than the programs, which a grader limits strictly. What must hold: each has its own limit,
// and if memory cannot be limited the run is refused.
func TestBuildMemory(t *testing.T) {
	if found, err := exec.LookPath("cc"); err != nil || !strings.HasPrefix(found, "/usr/") {
		need.Missing(t, "cc under /usr")
	}
	source := `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const int table[] = {` + strings.Repeat(strings.Repeat("1,", 100)+"\n", 4000) + `};
int main(int argc, char **argv) {
	size_t size = (size_t)atoi(argv[1]) << 20;
	char *p = malloc(size);
	memset(p, table[argc], size);
	printf("%d\n", p[size / 2]);
	return 0;
}
`
	for _, l := range lanes() {
		if l.ready || l.image != "" {
			continue // the image has no compiler
		}
		t.Run(l.name, func(t *testing.T) {
			l.open(t)
			if l.ref != "" {
				t.Skipf("lane %s runs in an image without a compiler", l.name)
			}
			tr := l.trial(t)
			file := filepath.Join(tr.dir, "table.c")
			if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
				t.Fatal(err)
			}
			run := func(holds string, flags ...string) outcome {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), runTime)
				defer cancel()
				args := append([]string{"run", "--json", "--quiet", "--memory", "40m", "--build-timeout", "5m"}, flags...)
				return tr.run(ctx, append(append(args, tr.where()...), file, holds))
			}
			if !l.enforces(runtime.ProtectMemory) {
				var printed, stderr bytes.Buffer
				args := []string{"run", "--runtime", l.runtime, "--build-memory", "512m", file, "1"}
				_ = tr.start(t.Context(), args, nil, &printed, &stderr).wait()
				if printed.Len() > 0 || !strings.Contains(stderr.String(), "--build-memory cannot be enforced here") {
					t.Errorf("stdout %q, stderr %q", printed.String(), stderr.String())
				}
				return
			}
			small := run("1")
			if small.ReasonCode != belljar.ReasonCompileFailed || !strings.Contains(small.Message, "ran out of memory (limit 40 MiB)") {
				t.Fatalf("the compiler needs no more than its program: %s %s: %s", small.Phase, small.ReasonCode, small.Message)
			}
			fits := run("20", "--build-memory", "512m")
			if fits.Phase != belljar.PhaseCompleted || fits.ResourceUsage == nil || fits.ResourceUsage.Limits.MemoryMB != 40 || fits.ResourceUsage.Limits.BuildMemoryMB != 512 {
				t.Errorf("%s %s: %s, %+v", fits.Phase, fits.ReasonCode, fits.Message, fits.ResourceUsage)
			}
			large := run("80", "--build-memory", "512m")
			if large.ReasonCode != belljar.ReasonOOMKilled || large.Build == nil || large.Build.ExitCode == nil || *large.Build.ExitCode != 0 {
				t.Errorf("80 MiB of 40: %s %s: %s", large.Phase, large.ReasonCode, large.Message)
			}
			short := run("1", "--memory", "512m", "--build-memory", "40m")
			if short.ReasonCode != belljar.ReasonCompileFailed || !strings.Contains(short.Message, "ran out of memory (limit 40 MiB)") {
				t.Errorf("a compiler with less than its program: %s %s: %s", short.Phase, short.ReasonCode, short.Message)
			}
			tr.nothingLeft(large)
		})
	}
}
