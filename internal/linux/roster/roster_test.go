//go:build linux

package roster_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/roster"
)

func valid(name string) bool { return name != "" && !strings.ContainsAny(name, "./") }

func open(t *testing.T) *roster.Roster {
	t.Helper()
	r, err := roster.Open(t.TempDir(), []string{"kind", "here"}, valid)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEntry(t *testing.T) {
	r := open(t)
	lock, err := r.Claim("one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Claim("one"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("claimed twice: %v", err)
	}
	if _, err := r.Take("one", unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a lock that is held: %v", err)
	}
	var got map[string]int
	if err := r.Read("one", &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no record: %v", err)
	}
	for n := range 2 {
		if err := r.Write("one", map[string]int{"n": n}); err != nil {
			t.Fatal(err)
		}
		if err := r.Read("one", &got); err != nil || got["n"] != n {
			t.Errorf("%v, %v", got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.Dir(), ".hidden"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := r.List(); err != nil || !slices.Equal(names, []string{"one"}) {
		t.Errorf("%q, %v", names, err)
	}
	lock.Close()
	free, err := r.Take("one", unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		t.Fatalf("a lock that is free: %v", err)
	}
	free.Close()
	for range 2 {
		if err := r.Forget("one"); err != nil {
			t.Error(err)
		}
	}
	if names, err := r.List(); err != nil || len(names) > 0 {
		t.Errorf("%q, %v", names, err)
	}
}

// Another process may remove the parent folder at any time.
func TestFolderIsMadeAgain(t *testing.T) {
	r := open(t)
	if err := os.RemoveAll(filepath.Dir(r.Dir())); err != nil {
		t.Fatal(err)
	}
	if names, err := r.List(); err != nil || len(names) > 0 {
		t.Errorf("%q, %v", names, err)
	}
	lock, err := r.Claim("one")
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if names, err := r.Sibling("there").List(); err != nil || len(names) > 0 {
		t.Errorf("another roster: %q, %v", names, err)
	}
}

// A process that ends removes empty folders while another one opens them.
func TestOpenWhileOthersEnd(t *testing.T) {
	top := t.TempDir()
	over := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = os.Remove(filepath.Join(top, "kind", "here"))
				_ = os.Remove(filepath.Join(top, "kind"))
			}
		}
	})
	for range 3000 {
		if _, err := roster.Open(top, []string{"kind", "here"}, valid); err != nil {
			t.Error(err)
			break
		}
	}
	close(over)
	others.Wait()
}

func TestFolderOfOtherUser(t *testing.T) {
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "kind"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(top, "kind"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := roster.Open(top, []string{"kind", "here"}, valid); err == nil {
		t.Error("a folder that all users can write to is trusted")
	}
}

func TestRename(t *testing.T) {
	r := open(t)
	lock, err := r.Claim("old")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	other, err := r.Claim("taken")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := r.Rename("old", "taken", nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	if err := os.Mkdir(r.Folder("half"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Rename("old", "half", nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over half of another: %v", err)
	}
	if err := os.Remove(r.Folder("half")); err != nil {
		t.Fatal(err)
	}
	var points []string
	err = r.Rename("old", "new", func(point string) {
		points = append(points, point)
		for _, name := range []string{"old", "new"} {
			if _, err := r.Take(name, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
				t.Errorf("%s, the lock of %s: %v", point, name, err)
			}
		}
	})
	if err != nil || !slices.Equal(points, []string{roster.PointLinked, roster.PointMoved}) {
		t.Errorf("%v, %q", err, points)
	}
	if names, err := r.List(); err != nil || !slices.Equal(names, []string{"new", "taken"}) {
		t.Errorf("%q, %v", names, err)
	}
}

// If many processes claim, sweep and forget concurrently, an entry belongs to one at a time.
func TestAtOnce(t *testing.T) {
	r := open(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	have := 0
	for range 8 {
		all.Go(func() {
			for range 50 {
				lock, err := r.Claim("one")
				if errors.Is(err, fs.ErrExist) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if have++; have > 1 {
					t.Error("two have it")
				}
				have--
				err = r.Forget("one")
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				lock.Close()
			}
		})
	}
	all.Wait()
}

func TestProcess(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := forkexec.ReadStat(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := roster.Process{Pid: child.Process.Pid, StartTime: stat.StartTime, BootID: roster.BootID()}
	fd, err := p.Open()
	if err != nil || roster.Ended(fd) {
		t.Fatalf("%v", err)
	}
	for name, other := range map[string]roster.Process{
		"another boot": {Pid: p.Pid, StartTime: p.StartTime, BootID: "x"}, "another start": {Pid: p.Pid, StartTime: p.StartTime + 1, BootID: p.BootID}, "none": {},
	} {
		if _, err := other.Open(); !errors.Is(err, roster.ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	child.Process.Kill()
	child.Wait()
	if !roster.Ended(fd) {
		t.Error("it lives on")
	}
	unix.Close(fd)
	if _, err := p.Open(); !errors.Is(err, roster.ErrEnded) {
		t.Errorf("afterwards: %v", err)
	}
}

// A process that has a lock open is found, and distinguished from the entry's own process.
func TestHolders(t *testing.T) {
	r := open(t)
	lock, err := r.Claim("one")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	found, err := r.Holders("one", roster.Program{Prefix: "/memfd:none"})
	if err != nil || len(found) != 1 || found[0] != (roster.Holder{Pid: os.Getpid()}) {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := r.Holders("other", roster.Program{}); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
