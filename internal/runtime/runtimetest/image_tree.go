//go:build unix

package runtimetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
)

// rootTree is an image that a test makes: a folder like an unpacked image's, with a static busybox in it and a lock next to
// it.
type rootTree struct {
	*testing.T
	dir, lock string
}

// applets are the programs that the suite's scripts use in an image. A busybox has hundreds.
const applets = "[ cat chmod echo false grep id ls mkdir mv printf pwd rm sh sleep stat tail test touch true wc"

// tree makes an image of /bin alone, with a shell and its usual companions.
func tree(t *testing.T) *rootTree {
	t.Helper()
	busybox := need.Program(t, "busybox")
	base := t.TempDir()
	r := &rootTree{T: t, dir: filepath.Join(base, "root"), lock: filepath.Join(base, "root.lock")}
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	r.text("bin/busybox", string(program))
	r.check(os.Chmod(r.at("bin/busybox"), 0o755))
	for name := range strings.FieldsSeq(applets) {
		r.check(os.Symlink("busybox", r.at("bin/"+name)))
	}
	r.check(os.WriteFile(r.lock, nil, 0o600))
	return r
}

func (r *rootTree) at(name string) string { return filepath.Join(r.dir, name) }

func (r *rootTree) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// text writes a file. It forks no process meanwhile: that would have the file open for writing when another process executes
// it.
func (r *rootTree) text(name, text string) {
	r.Helper()
	r.folder(filepath.Dir(name))
	syscall.ForkLock.RLock()
	err := os.WriteFile(r.at(name), []byte(text), 0o644)
	syscall.ForkLock.RUnlock()
	r.check(err)
}

// folder makes a folder and those above it.
func (r *rootTree) folder(name string) {
	r.Helper()
	r.check(os.MkdirAll(r.at(name), 0o755))
}

// link makes a symbolic link.
func (r *rootTree) link(name, target string) {
	r.Helper()
	r.folder(filepath.Dir(name))
	r.check(os.Symlink(target, r.at(name)))
}

// fifo makes a pipe without a writer.
func (r *rootTree) fifo(name string) {
	r.Helper()
	r.folder(filepath.Dir(name))
	r.check(syscall.Mkfifo(r.at(name), 0o644))
}

// root returns the image as a runtime gets it. Its digest is arbitrary: no other image has it.
func (r *rootTree) root() runtime.Root {
	r.readable()
	return runtime.Root{
		Ref: "test/" + filepath.Base(filepath.Dir(r.dir)), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(r.dir))), Dir: r.dir, Lock: r.lock,
	}
}

// readable lets every user read the image, whatever the tests' umask, as the image store does.
func (r *rootTree) readable() {
	r.Helper()
	r.check(filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		least := os.FileMode(0o644)
		if d.IsDir() {
			least = 0o755
		}
		if mode := info.Mode().Perm(); mode&least != least {
			return os.Chmod(path, mode|least)
		}
		return nil
	}))
}

// inUse reports whether the image is held.
func (r *rootTree) inUse() bool {
	r.Helper()
	f, err := os.Open(r.lock)
	r.check(err)
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		r.Fatal(err)
	}
	if err == nil { // closing is not enough: a process that is forked at this moment has the descriptor, too
		r.check(syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
	}
	return err != nil
}
