//go:build linux

package native_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/internal/linux/landlock"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/test/need"
)

// says runs a script in a sandbox and returns its output.
func says(t *testing.T, box runtime.Sandbox, uid int, script string) string {
	t.Helper()
	p, err := agent.New(box.Dial).Exec(t.Context(), wire.Exec{
		ID: "run-" + box.ID()[30:] + strings.Map(func(r rune) rune { return 'a' + r%26 }, script)[:min(len(script), 20)], Argv: []string{"sh", "-c", "exec 2>&1; " + script},
		Env: []string{"PATH=/usr/bin:/bin"}, UID: uid, GID: uid,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var out strings.Builder
	if _, err := p.Output(t.Context(), func(_ int64, _ wire.Stream, b []byte) error { out.Write(b); return nil }); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func diskSpec(dir string, exec, readOnly bool) runtime.Spec {
	s := spec()
	s.Workspace = runtime.Workspace{
		Bytes: 16 << 20, Inodes: 500, Exec: exec, Medium: runtime.MediumDisk, ReadOnly: readOnly,
		Image: filepath.Join(dir, "image"), Lock: filepath.Join(dir, "lock"),
	}
	return s
}

func create(t *testing.T, r *native.Runtime, s runtime.Spec) runtime.Sandbox {
	t.Helper()
	box, err := r.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// A disk survives its sandbox, and the next one owns its files, whatever its user. One sandbox writes to it, and others can read it
// meanwhile.
func TestDisk(t *testing.T) {
	if why, hint := disk.Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
	r, dir := open(t, t.TempDir()), t.TempDir()
	if err := disk.Make(filepath.Join(dir, "image"), 16<<20, 500); err != nil {
		t.Fatal(err)
	}
	first := create(t, r, diskSpec(dir, true, false))
	for _, step := range [][2]string{
		{"cd /workspace && echo kept > file && mkdir d && stat -c '%u %g %U' file && ls -A", "1000 1000 " + says(t, first, 1000, "id -un") + "\nd\nfile"},
		{"head -c 20M /dev/zero > /workspace/big; stat -f -c %a /workspace; rm /workspace/big", "head: error writing 'standard output': No space left on device\n0"},
		{"(for i in $(seq 600); do : > /workspace/d/$i; done); rm -r /workspace/d", "sh: 1: cannot create /workspace/d/"},
		{"grep ' /workspace ' /proc/mounts", "/workspace ext4 rw,nosuid,nodev,relatime"},
		{"printf '#!/bin/sh\\necho ran' > /workspace/x && chmod +x /workspace/x && /workspace/x", "ran"},
		{"mknod /workspace/dev b 7 0; ls /dev/loop*", "mknod: /workspace/dev: "},
		{"touch /tmp/x && stat -f -c %T /tmp", "tmpfs"},
		{": | sync /dev/stdin", "Invalid argument"}, // fsync reaches the kernel, which refuses it for a pipe
	} {
		if got := says(t, first, 1000, step[0]); !strings.Contains(got, step[1]) {
			t.Errorf("%s\n%s\nwant %s", step[0], got, step[1])
		}
	}
	says(t, first, 1000, "cd /workspace; head -c 20M /dev/zero > full")
	if full, err := agent.New(first.Dial).Space(t.Context(), wire.FileRequest{Path: ".", UID: 1000, GID: 1000}); err != nil || full.Bytes != full.MaxBytes || full.MaxBytes < 16<<20 {
		t.Errorf("a full disk: %+v, %v", full, err)
	}
	says(t, first, 1000, "rm /workspace/full")
	if _, err := r.Create(t.Context(), diskSpec(dir, false, false)); !errors.Is(err, runtime.ErrInUse) {
		t.Errorf("a second writer: %v", err)
	}
	reader := diskSpec(dir, false, true)
	reader.Root.UID, reader.Root.GID = 4321, 4322
	reading := create(t, r, reader)
	if got := says(t, reading, 4321, "stat -c '%u %g' /workspace/file; cat /workspace/file; touch /workspace/y; /workspace/x"); got != "4321 4322\nkept\ntouch: cannot touch '/workspace/y': Read-only file system\nsh: 1: /workspace/x: Permission denied" {
		t.Errorf("a reader:\n%s", got)
	}
	if got := says(t, reading, 4321, ": | sync /dev/stdin && : | sync --data /dev/stdin"); got != "" {
		t.Errorf("a reader's fsync reaches the kernel: %s", got)
	}
	if err := first.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
	second := create(t, r, diskSpec(dir, false, false))
	if got := says(t, second, 1000, "cat /workspace/file; echo more >> /workspace/file; ls -A /workspace"); got != "kept\nfile\nx" {
		t.Errorf("the next writer:\n%s", got)
	}
	if got := says(t, reading, 4321, "tail -n1 /workspace/file"); got != "more" {
		t.Errorf("the reader sees %s", got)
	}
	for _, box := range []runtime.Sandbox{reading, second} {
		if err := box.Destroy(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// After a daemon is killed, its sandbox still has its disk, and no other writer gets it. When the sandbox ends, nothing is left on
// the host.
func TestDiskOutlivesItsDaemon(t *testing.T) {
	if why, hint := disk.Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
	dir, run := t.TempDir(), t.TempDir()
	image := filepath.Join(dir, "image")
	if err := disk.Make(image, 16<<20, 500); err != nil {
		t.Fatal(err)
	}
	r := open(t, run)
	s := diskSpec(dir, false, false)
	s.Lifetime = runtime.LifetimeDetached
	create(t, r, s)
	if err := os.Rename(image, image+"-moved"); err != nil {
		t.Fatal(err)
	}
	image += "-moved"
	next := open(t, run)
	box, err := next.Attach(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := says(t, box, 1000, "echo alive > /workspace/f && cat /workspace/f"); got != "alive" {
		t.Errorf("after the restart: %s", got)
	}
	other := diskSpec(dir, false, false)
	other.Workspace.Image = image
	if _, err := next.Create(t.Context(), other); !errors.Is(err, runtime.ErrInUse) {
		t.Errorf("a second writer: %v", err)
	}
	if err := box.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := says(t, create(t, next, other), 1000, "cat /workspace/f"); got != "alive" {
		t.Errorf("the next writer reads %s", got)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "lock"), &st); err != nil || st.Size != 0 {
		t.Errorf("the lock has %d bytes, %v", st.Size, err)
	}
}

// meet tries to make a FIFO and a socket in a folder.
const meet = `cd %s && mkfifo pipe && rm pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")' 2>&1 | tail -n 1; ls`

// served leaves a process in the sandbox that has a socket of each type in the volume.
const served = `cd /workspace && python3 -c '
from socket import *; import os, signal
kept = []
for kind in SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET:
    s = socket(AF_UNIX, kind); s.bind("s%d" % kind); kept.append(s)
    if kind != SOCK_DGRAM: s.listen()
if os.fork() == 0:
    os.closerange(0, 3); signal.pause()
'`

// linked tries to connect to these sockets: with a socket, and with one end of a pair.
const linked = `python3 -c '
from socket import *
def attempt(make, kind):
    try: make().connect("/workspace/s%d" % kind); print("connected")
    except OSError as e: print(e.strerror)
for kind in SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM:
    attempt(lambda: socket(AF_UNIX, kind), kind)
    attempt(lambda: socketpair(AF_UNIX, kind)[0], kind)
attempt(lambda: socketpair(AF_UNIX, SOCK_RAW)[0], SOCK_DGRAM)
a, b = socketpair(); a.send(b"x"); print(b.recv(1))
socket(AF_INET).bind(("127.0.0.1", 0))
'`

// Sandboxes that share a volume pass each other no descriptor over a socket there, and so no memory, no file that the other may only read,
// and no network, and leave nothing in a FIFO. In its own folders a sandbox has both.
func TestDiskPassesNoDescriptors(t *testing.T) {
	if why, hint := disk.Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
	if landlock.ABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	need.Program(t, "python3")
	r, dir := open(t, t.TempDir()), t.TempDir()
	image := filepath.Join(dir, "image")
	if err := disk.Make(image, 16<<20, 500); err != nil {
		t.Fatal(err)
	}
	tree, err := disk.Mount(image)
	if err != nil {
		t.Fatal(err)
	}
	// A volume of an earlier build may have one.
	err = errors.Join(unix.Mknodat(int(tree.Fd()), "old", unix.S_IFIFO|0o666, 0), unix.Fchmodat(int(tree.Fd()), "old", 0o666, 0),
		unix.Fchownat(int(tree.Fd()), "old", disk.Owner, disk.Owner, 0), tree.Close())
	if err != nil {
		t.Fatal(err)
	}
	writer, reader := create(t, r, diskSpec(dir, true, false)), create(t, r, diskSpec(dir, false, true))
	own := diskSpec(t.TempDir(), false, false)
	own.Workspace.Lock = ""
	if err := disk.Make(own.Workspace.Image, 16<<20, 500); err != nil {
		t.Fatal(err)
	}
	alone := create(t, r, own)
	const denied, paired = "Permission denied\n", "Transport endpoint is already connected\n"
	for _, step := range []struct {
		box          runtime.Sandbox
		script, want string
	}{
		{writer, fmt.Sprintf(meet, "/workspace"), "mkfifo: cannot create fifo 'pipe': Permission denied\nold\nsock"},
		{writer, fmt.Sprintf(meet, "/tmp"), "sock"},
		{writer, served, ""},
		{writer, linked, "connected"},
		{reader, linked, denied + paired + denied + paired + denied + denied + denied + "b'x'"},
		{reader, ": 1<>/workspace/old", "cannot create /workspace/old: Permission denied"},
		{reader, ": >>/workspace/x; mkdir /workspace/e", "Read-only file system"},
		{alone, fmt.Sprintf(meet, "/workspace"), "sock"},
	} {
		if got := says(t, step.box, 1000, step.script); !strings.Contains(got, step.want) {
			t.Errorf("%s\n%s\nwant %s", step.script, got, step.want)
		}
	}
	for _, box := range []runtime.Sandbox{alone, reader, writer} {
		if err := box.Destroy(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// Without Landlock a writer could make FIFOs in a volume, so sandboxes cannot share one.
func TestNoLandlockNoShare(t *testing.T) {
	r := open(t, t.TempDir())
	if caps, err := r.Probe(t.Context()); err != nil || (caps.NoShare.Detail == "") != (landlock.ABI() > 0) {
		t.Errorf("%+v, %v", caps.NoShare, err)
	}
	r.WithoutLandlock()
	if caps, err := r.Probe(t.Context()); err != nil || caps.NoShare.Detail == "" || caps.NoShare.Hint == "" {
		t.Errorf("without Landlock: %+v, %v", caps.NoShare, err)
	}
}
