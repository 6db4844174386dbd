//go:build linux

package gvisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
)

// A disk survives its sandbox, and the next one has its files, whatever its user. The host's kernel enforces its size.
func TestDisk(t *testing.T) {
	if why, hint := disk.Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
	r, dir := open(t, t.TempDir()), t.TempDir()
	on := func(exec, readOnly bool) runtime.Spec {
		s := spec()
		s.Workspace = runtime.Workspace{
			Bytes: 16 << 20, Inodes: 500, Exec: exec, Medium: runtime.MediumDisk, ReadOnly: readOnly,
			Image: filepath.Join(dir, "image"), Lock: filepath.Join(dir, "lock"),
		}
		return s
	}
	create := func(s runtime.Spec) runtime.Sandbox {
		t.Helper()
		box, err := r.Create(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	if err := disk.Make(filepath.Join(dir, "image"), 16<<20, 500); err != nil {
		t.Fatal(err)
	}
	first := create(on(true, false))
	// A flush of its files reaches their disk, and one of a sandbox without a disk of its own reaches none.
	for box, want := range map[runtime.Sandbox]string{first: "\nSeccomp:\t0\n", create(spec()): "\nSeccomp:\t2\n"} {
		keep := processes(t, box.ID(), "belljar-agent")
		if len(keep) == 0 {
			t.Fatal("no keep")
		}
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", keep[0])); err != nil || !strings.Contains(string(status), want) {
			t.Errorf("a keep: want %q: %v\n%s", want, err, status)
		}
	}
	if got := run(t, first, `exec 2>&1; cd /workspace && mkdir d && echo kept > d/f && stat -c '%u %g' d/f && ln d/f d/g && mv d/f f && chmod 600 f &&
		printf '#!/bin/sh\necho ran' > x && chmod +x x && ./x; head -c 30M /dev/zero > big; rm big; mknod b b 7 0; ls -A`); got != `1000 1000
ran
head: error writing 'standard output': No space left on device
mknod: b: Operation not permitted
d
f
x
` {
		t.Errorf("the first writer:\n%s", got)
	}
	run(t, first, "head -c 20M /dev/zero > /workspace/big || true")
	if full, err := agent.New(first.Dial).Space(t.Context(), wire.FileRequest{Path: ".", UID: 1000, GID: 1000}); err != nil || full.Bytes != full.MaxBytes || full.MaxBytes < 16<<20 {
		t.Errorf("a full disk: %+v, %v", full, err)
	}
	run(t, first, "rm /workspace/big")
	// FIFOs and sockets are in gVisor's own kernel: no other sandbox of the volume has them.
	if got := run(t, first, `cd /workspace; mkfifo p; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'; ls`); got != "d\nf\np\ns\nx\n" {
		t.Errorf("a FIFO and a socket:\n%s", got)
	}
	if got := run(t, create(on(false, true)), "ls /workspace"); got != "d\nf\nx\n" {
		t.Errorf("another sandbox has\n%s", got)
	}
	run(t, first, "rm /workspace/p /workspace/s")
	if _, err := r.Create(t.Context(), on(false, false)); !errors.Is(err, runtime.ErrInUse) {
		t.Errorf("a second writer: %v", err)
	}
	if got := run(t, create(on(false, true)), "exec 2>&1; cat /workspace/f; touch /workspace/y; /workspace/x; true"); got != "kept\ntouch: cannot touch '/workspace/y': Read-only file system\n/bin/sh: 1: /workspace/x: Permission denied\n" {
		t.Errorf("a reader:\n%s", got)
	}
	if err := first.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := run(t, create(on(false, false)), "exec 2>&1; cd /workspace; cat f d/g; echo more >> f; rm -r d; ls -A"); got != "kept\nkept\nf\nx\n" {
		t.Errorf("the next writer:\n%s", got)
	}
}
