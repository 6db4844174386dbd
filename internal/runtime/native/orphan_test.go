//go:build linux

package native_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
)

// Points at which the daemon of these tests stops, to be killed.
const (
	beforeExec   = "before exec"   // the birth hangs just before it becomes the agent
	beforeRecord = "before record" // the agent runs, and the record is not written
)

// halfMade is a half-made sandbox, whose daemon has stopped.
type halfMade struct {
	dir, id string
	daemon  *exec.Cmd
	first   *os.File // pidfd of its first process
	pid     int      // pid of the first process
}

// stopDaemon starts a daemon that makes a detached sandbox and stops at the given point.
func stopDaemon(t *testing.T, point string) *halfMade {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := &halfMade{dir: t.TempDir(), id: belljar.NewID(), daemon: exec.Command(os.Args[0])}
	h.daemon.Env = append(os.Environ(), "BELLJAR_TEST_ABANDON="+h.id, "BELLJAR_TEST_DIR="+h.dir,
		"BELLJAR_TEST_LIFE="+string(runtime.LifetimeDetached), "BELLJAR_TEST_POINT="+point)
	h.daemon.Stderr = os.Stderr
	h.daemon.ExtraFiles = []*os.File{w}
	if err := h.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { h.kill(t) })
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatalf("the daemon did not come to the point: %v", err)
	}
	if point == beforeRecord {
		h.awaitAgent(t)
	}
	found := slices.DeleteFunc(childrenOf(h.daemon.Process.Pid), func(pid int) bool { return !inNamespace(pid) })
	if len(found) != 1 {
		t.Fatalf("the daemon has children %v, want the first process", found)
	}
	h.pid = found[0]
	fd, err := unix.PidfdOpen(h.pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	h.first = os.NewFile(uintptr(fd), "pidfd")
	t.Cleanup(func() { h.first.Close() })
	return h
}

// inNamespace reports whether a process is in a pid namespace of its own. A sandbox's first process always is, a warden never.
func inNamespace(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, ids, _ := strings.Cut(string(text), "NSpid:")
	ids, _, _ = strings.Cut(ids, "\n")
	return len(strings.Fields(ids)) > 1
}

// awaitAgent returns when the agent answers. The daemon is then blocked by its record, which is a fifo.
func (h *halfMade) awaitAgent(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), prompt)
	defer cancel()
	info, err := agent.New(dialer(t, h.dir, h.id)).Ping(ctx)
	if err != nil || info.Pid != 1 {
		t.Fatalf("agent answered %+v, %v", info, err)
	}
}

// dialer reaches the agent of a sandbox without its runtime.
func dialer(t *testing.T, dir, id string) func(ctx context.Context) (net.Conn, error) {
	t.Helper()
	folder, err := os.Open(filepath.Join(dir, native.Name, "test", id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/agent.sock", folder.Fd())) // short enough for an address
	}
}

// kill kills the daemon; it may be called twice.
func (h *halfMade) kill(t *testing.T) {
	t.Helper()
	if h.daemon.ProcessState != nil {
		return
	}
	if err := h.daemon.Process.Kill(); err != nil {
		t.Error(err)
	}
	h.daemon.Wait()
}

// alive reports whether the first process lives.
func (h *halfMade) alive(t *testing.T) bool {
	t.Helper()
	poll := []unix.PollFd{{Fd: int32(h.first.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	for err == unix.EINTR { // by a signal of Go's scheduler
		n, err = unix.Poll(poll, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n == 0
}

// standStill makes the births of a daemon stop at a point.
func standStill(r *native.Runtime, dir, id, point string) {
	const resultFD = 3 // the first of ExtraFiles
	r.Edit(func(p *forkexec.Program) []int {
		if point == beforeRecord {
			if err := unix.Mkfifo(filepath.Join(dir, native.Name, "test", id, "record.json.new"), 0o600); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.NewFile(resultFD, "told").WriteString("x")
			return nil
		}
		p.Insert(p.Len()-1, func() {
			p.Call(unix.SYS_WRITE, forkexec.Int(resultFD), p.Str("x"), forkexec.Int(1))
			hangs(p)
		})
		return []int{resultFD}
	})
}

// If a daemon is killed before it writes the record, the next one finds the whole sandbox and ends it.
func TestRemoveHalfMade(t *testing.T) {
	for _, point := range []string{beforeExec, beforeRecord} {
		t.Run(point, func(t *testing.T) {
			h := stopDaemon(t, point)
			r := open(t, h.dir)
			if n, err := r.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("while its daemon lives: swept %d, %v", n, err)
			}
			h.kill(t)
			if !h.alive(t) {
				t.Fatal("it died with its daemon, which proves nothing")
			}
			if ids, err := r.List(t.Context()); err != nil || !slices.Contains(ids, h.id) {
				t.Errorf("list returns %v, %v", ids, err)
			}
			if _, err := r.Attach(t.Context(), h.id); !errors.Is(err, runtime.ErrNotFound) {
				t.Errorf("attach returns %v, want not found", err)
			}
			if err := r.Remove(t.Context(), h.id); err != nil {
				t.Error(err)
			}
			h.gone(t)
		})
	}
}

func TestSweepHalfMade(t *testing.T) {
	for _, point := range []string{beforeExec, beforeRecord} {
		t.Run(point, func(t *testing.T) {
			h := stopDaemon(t, point)
			h.kill(t)
			r := open(t, h.dir)
			// A living sandbox next to it must not be affected.
			box, err := r.Create(t.Context(), spec())
			if err != nil {
				t.Fatal(err)
			}
			if n, err := r.Sweep(t.Context()); n != 1 || err != nil {
				t.Errorf("swept %d, %v; want the half-made one", n, err)
			}
			if _, err := box.Dial(t.Context()); err != nil {
				t.Errorf("the living one: %v", err)
			}
			if err := box.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			h.gone(t)
		})
	}
}

// If another process removes a sandbox during its creation, the creation fails.
func TestRemoveUnderItsDaemon(t *testing.T) {
	h := stopDaemon(t, beforeExec)
	r := open(t, h.dir)
	if err := r.Remove(t.Context(), h.id); err != nil {
		t.Error(err)
	}
	if err := h.daemon.Wait(); err == nil || h.daemon.ProcessState.ExitCode() != 1 {
		t.Errorf("the daemon ended with %v, want its own failure", err)
	}
	h.gone(t)
}

// An unreadable record counts as missing.
func TestRemoveWithBrokenRecord(t *testing.T) {
	dir := t.TempDir()
	id := runtimetest.Killed(t, dir, runtime.LifetimeDetached)
	record := filepath.Join(dir, native.Name, "test", id, "record.json")
	if err := os.WriteFile(record, []byte(`{"pid": 1`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	if err := r.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
	nothingLeft(t, dir)
	noGroupLeft(t, map[string]bool{id: true})
}

// A record whose process id was reused, or that is from another boot, matches no process; its remains are still
// removed.
func TestAttachToOtherProcess(t *testing.T) {
	for name, change := range map[string]func(record map[string]any){
		"the pid is another's": func(r map[string]any) { r["start_time"] = r["start_time"].(float64) + 1 },
		"another boot":         func(r map[string]any) { r["boot_id"] = "00000000-0000-0000-0000-000000000000" },
		"a pid that is ours":   func(r map[string]any) { r["pid"] = os.Getpid() },
		"no pid":               func(r map[string]any) { r["pid"] = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			id := runtimetest.Killed(t, dir, runtime.LifetimeDetached)
			path := filepath.Join(dir, native.Name, "test", id, "record.json")
			var record map[string]any
			raw, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(raw, &record)
			}
			if err != nil {
				t.Fatal(err)
			}
			change(record)
			if raw, err = json.Marshal(record); err == nil {
				err = os.WriteFile(path, raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := open(t, dir)
			if _, err := r.Attach(t.Context(), id); !errors.Is(err, runtime.ErrNotFound) {
				t.Errorf("attach returns %v", err)
			}
			if err := r.Remove(t.Context(), id); err != nil {
				t.Error(err)
			}
			nothingLeft(t, dir)
			noGroupLeft(t, map[string]bool{id: true})
		})
	}
}

// gone checks that nothing is left.
func (h *halfMade) gone(t *testing.T) {
	t.Helper()
	if h.alive(t) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.pid))
		t.Errorf("its first process lives:\n%s", text)
		unix.PidfdSendSignal(int(h.first.Fd()), unix.SIGKILL, nil, 0)
	}
	nothingLeft(t, h.dir)
	noGroupLeft(t, map[string]bool{h.id: true})
}

// makeAbandoned is what the daemon of [runtimetest.Killed] and stopDaemon does before it is killed.
func makeAbandoned(id string) error {
	program, err := os.ReadFile(os.Getenv(agentPath))
	if err != nil {
		return err
	}
	dir := os.Getenv("BELLJAR_TEST_DIR")
	r, err := native.New(native.Options{Agent: bytes.NewReader(program), RunDir: dir, Installation: "test"})
	if err != nil {
		return err
	}
	if point := os.Getenv("BELLJAR_TEST_POINT"); point != "" {
		standStill(r, dir, id, point)
	}
	s := spec()
	if os.Getenv("BELLJAR_TEST_SMALL") != "" {
		s = small()
	}
	s.ID, s.Lifetime = id, runtime.Lifetime(os.Getenv("BELLJAR_TEST_LIFE"))
	if _, err := r.Create(context.Background(), s); err != nil {
		return err
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}
