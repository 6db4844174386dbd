//go:build linux

package gvisor_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// hog is a program that takes memory; see testdata/hog.
func hog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hog")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./testdata/hog")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return path
}

// larder is a sandbox with 64 MiB of memory that has the hog.
func larder(t *testing.T, r runtime.Runtime, program string, workspace int64) runtime.Sandbox {
	t.Helper()
	s := spec()
	s.Limits.MemoryMB = 64
	s.Workspace.Bytes = workspace << 20
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := agent.New(box.Dial).WriteFile(context.Background(), wire.FileRequest{Path: "hog", UID: 1000, GID: 1000, Mode: 0o755}, file); err != nil {
		t.Fatal(err)
	}
	return box
}

// Programs with more memory than they may have end the sandbox, whatever memory it is, and the reason is known.
func TestMemoryIsPrograms(t *testing.T) {
	program, r := hog(t), open(t, t.TempDir())
	for _, kind := range []string{"mmap", "brk", "memfd", "written", "shared", "sysv", "read", "fork"} {
		t.Run(kind, func(t *testing.T) {
			box := larder(t, r, program, 512) // which the cgroup allows on top
			before, err := box.Usage(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			p, err := agent.New(box.Dial).Exec(context.Background(), wire.Exec{
				ID: belljar.NewID(), Argv: []string{"/workspace/hog", kind, "256"}, UID: 1000, GID: 1000, KillAll: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			var out strings.Builder
			exit, err := p.Output(context.Background(), func(_ int64, _ wire.Stream, b []byte) error {
				out.Write(b)
				return nil
			})
			if err == nil {
				t.Fatalf("%+v: %q", exit, out.String())
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			end, err := box.Wait(ctx)
			if err != nil || end.Reason != runtime.ExitOOM {
				t.Fatalf("%+v, %v", end, err)
			}
			u, err := box.Usage(context.Background())
			if err != nil || u.OOMKills == nil || *u.OOMKills != 1 {
				t.Errorf("%+v, %v", u, err)
			}
			if u.PeakMemory != nil && before.Memory != nil {
				t.Logf("the cgroup grew by %.1f MiB", float64(*u.PeakMemory-*before.Memory)/(1<<20))
			}
		})
	}
}

// Files are not memory of programs: with most of that taken a workspace can be filled, and what files had programs can have.
func TestMemoryIsNotFiles(t *testing.T) {
	program, r := hog(t), open(t, t.TempDir())
	const fill = `
dd if=/dev/zero of=/workspace/big bs=64k 2>said && { echo there is no end; exit 1; }
grep -qi 'no space' said || { cat said; exit 1; }
`
	const take = `
mkfifo wait
/workspace/hog %kind% 50 <wait >took & exec 9>wait
while ! grep -q has took; do kill -0 $! || exit 1; sleep 0.01; done
`
	for name, script := range map[string]string{
		"memory, then files":  take + fill + `kill -0 $!`,
		"files, then memory":  fill + take,
		"files, then a memfd": fill + strings.ReplaceAll(take, "%kind%", "memfd"),
		"files that are gone": fill + `rm /workspace/big` + strings.ReplaceAll(take, "%kind%", "shared") + fill,
	} {
		t.Run(name, func(t *testing.T) {
			box := larder(t, r, program, 160)
			script = "set -e; cd /tmp\n" + strings.ReplaceAll(script, "%kind%", "mmap") + "\necho well"
			if got := run(t, box, script); !strings.HasSuffix(got, "well\n") {
				t.Errorf("%q", got)
			}
		})
	}
}
