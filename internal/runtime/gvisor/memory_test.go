//go:build linux

package gvisor_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/tier"
)

// hog returns a program that allocates memory; see testdata/hog. It is built once.
func hog(t *testing.T) []byte {
	t.Helper()
	program, err := buildHog()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

var buildHog = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "belljar-hog-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "hog")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./testdata/hog")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	return os.ReadFile(path)
})

// larder makes a sandbox with 64 MiB of memory that has the hog.
func larder(t *testing.T, r runtime.Runtime, program []byte, workspace int64) runtime.Sandbox {
	t.Helper()
	s := spec()
	s.Limits.MemoryMB = 64
	s.Workspace.Bytes = workspace << 20
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.New(box.Dial).WriteFile(context.Background(), wire.FileRequest{Path: "hog", UID: 1000, GID: 1000, Mode: 0o755}, bytes.NewReader(program)); err != nil {
		t.Fatal(err)
	}
	return box
}

// Programs that exceed their memory limit end the sandbox, whatever kind of memory it is, and the reason is known.
func TestMemoryIsPrograms(t *testing.T) {
	program, r := hog(t), open(t, t.TempDir())
	kinds := []string{"mmap", "memfd", "shared", "fork", "prepared", "read"}
	for _, kind := range tier.Pick(kinds, append(kinds, "brk", "written", "sysv", "populated", "readv", "random", "copied", "reserved")) {
		t.Run(kind, func(t *testing.T) {
			box := larder(t, r, program, 512) // which the cgroup allows in addition
			before, err := box.Usage(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			p, err := agent.New(box.Dial).Exec(context.Background(), wire.Exec{
				ID: belljar.NewID(), Argv: []string{"/workspace/hog", kind, "256"}, UID: 1000, GID: 1000, KillAll: true,
			})
			if err == nil { // otherwise the sandbox ended before the program could report that it runs
				defer p.Close()
				var out strings.Builder
				exit, err := p.Output(context.Background(), func(_ int64, _ wire.Stream, b []byte) error {
					out.Write(b)
					return nil
				})
				if err == nil {
					t.Fatalf("%+v: %q", exit, out.String())
				}
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
				grew := float64(*u.PeakMemory-*before.Memory) / (1 << 20)
				if t.Logf("the cgroup grew by %.1f MiB", grew); grew > 64+8 && kind != "prepared" { // see the table of limits
					t.Errorf("the programs had %.1f MiB, with a limit of 64 and 8 allowed above it", grew)
				}
			}
		})
	}
}

// Files do not count as memory of programs. With most of that memory in use a workspace can still be filled, and programs
// can use memory that files used before.
func TestMemoryIsNotFiles(t *testing.T) {
	box := larder(t, open(t, t.TempDir()), hog(t), 160)
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
			script = "set -e; rm -rf /workspace/big /tmp/work; mkdir /tmp/work; cd /tmp/work\n" + strings.ReplaceAll(script, "%kind%", "mmap") + "\necho well"
			if got := run(t, box, script); !strings.HasSuffix(got, "well\n") {
				t.Errorf("%q", got)
			}
		})
	}
}

// Large transfers, which gVisor splits into pieces, arrive as complete as small ones.
func TestLargeTransfers(t *testing.T) {
	r := open(t, t.TempDir())
	s := spec()
	s.Workspace.Bytes = 256 << 20
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, box, `set -e; cd /workspace
seq 1 4000000 >a
dd if=a of=b bs=25M
dd if=a of=c bs=13M
dd if=a bs=25M | cat >d
dd if=/dev/zero of=e bs=20M count=2
dd if=/dev/urandom of=f bs=20M count=1
for f in b c d; do cmp a $f; done
wc -c <e; wc -c <f; echo well`)
	for _, want := range []string{"1+1 records in\n1+1 records out", "2+1 records in\n2+1 records out", "2+0 records in\n2+0 records out", "41943040\n20971520\nwell"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}
