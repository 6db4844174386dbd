//go:build linux

package jar

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/test/need"
)

// TestSealHeldPage tests that a program is sealed although one of its pages is held, here in a pipe, and that no process can write to
// it then.
func TestSealHeldPage(t *testing.T) {
	t.Parallel()
	fd, err := unix.MemfdCreate("held", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "held")
	defer f.Close()
	if _, err := f.WriteString("program"); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	start := int64(0)
	if n, err := unix.Splice(fd, &start, int(w.Fd()), nil, 7, 0); n != 7 || err != nil {
		t.Fatalf("splice: %d, %v", n, err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("the page is not held: %v", err)
	}
	if err := forbidWriting(f); err != nil {
		t.Fatal(err)
	}
	_, written := f.WriteAt([]byte("x"), 0)
	_, mapped := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	_, unsealed := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_EXEC)
	for what, err := range map[string]error{"write": written, "map": mapped, "unseal": unsealed, "shrink": f.Truncate(1), "grow": f.Truncate(100)} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, want %v", what, err, unix.EPERM)
		}
	}
}

// notExecutable is set in the environment of a process in its own pid namespace, in which memory files are executable on request only.
const notExecutable = "BELLJAR_TEST_NOT_EXECUTABLE"

// A host whose memory files are executable only on request can execute the program. A host that forbids it gets a hint.
func TestSealIsExecutable(t *testing.T) {
	need.Root(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), notExecutable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func sealExecutable() error {
	const setting = "/proc/sys/vm/memfd_noexec"
	err := os.WriteFile(setting, []byte("1"), 0)
	old := errors.Is(err, fs.ErrNotExist) // Linux before 6.3
	if err != nil && !old {
		return err
	}
	s, err := seal(strings.NewReader("program"))
	if err != nil {
		return err
	}
	defer s.Close()
	f, err := s.File()
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != 0o555 {
		err = fmt.Errorf("its mode is %v", info.Mode())
	}
	if err != nil || old {
		return err
	}
	if err := os.WriteFile(setting, []byte("2"), 0); err != nil {
		return err
	}
	if _, err := seal(strings.NewReader("program")); !strings.Contains(sealHint(err), "memfd_noexec") {
		return fmt.Errorf("forbidden: %w, with the hint %q", err, sealHint(err))
	}
	return nil
}
