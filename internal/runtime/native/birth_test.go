//go:build linux

package native_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
)

// prompt limits the time until a broken birth fails, on a busy machine.
const prompt = 3 * time.Minute

// faultyRuntime is a runtime whose births can be broken, with folders of its own.
type faultyRuntime struct {
	*native.Runtime
	dir, ids string
	size     int  // operations in a birth's program
	shared   bool // agent and programs are one user: the first process writes the last maps itself
}

func newFaultyRuntime(t *testing.T) *faultyRuntime {
	t.Helper()
	dir := t.TempDir()
	m := &faultyRuntime{dir: filepath.Join(dir, "run"), ids: filepath.Join(dir, "ids")}
	var err error
	if m.Runtime, err = native.New(native.Options{
		Agent: bytes.NewReader(agentProgram), RunDir: m.dir, IDDir: m.ids, Installation: "test",
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	caps, err := m.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.shared = caps.AgentUID == "shared"
	m.Edit(func(p *forkexec.Program) []int { m.size = p.Len(); return nil })
	m.born(t)
	return m
}

// born makes a sandbox and destroys it.
func (m *faultyRuntime) born(t *testing.T) {
	t.Helper()
	box, err := m.Create(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// breakage is one fault of a birth.
type breakage struct {
	at   int                                         // before this operation …
	what func(p *forkexec.Program)                   // … this happens,
	then func(cancel context.CancelFunc, inside int) // and this here, when process number inside has reached the operation
}

// result is the outcome of a breakage.
type result struct {
	id      string
	err     error
	reached int // 1 if the first process reached the operation, 2 if the second, 0 if none
	// spared: the second failed and the sandbox was made. If ids are shared, its last operation only keeps it alive
	// until the first has entered its network namespace.
	spared bool
}

// broken makes a sandbox. It must fail if the breakage was reached, and succeed otherwise.
func (m *faultyRuntime) broken(t *testing.T, b breakage) result {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m.Edit(func(p *forkexec.Program) []int {
		fd := int(w.Fd())
		p.Insert(b.at, func() {
			pid := forkexec.Alloc[int32](p)
			p.Call(unix.SYS_GETPID)
			p.Store(pid)
			p.Call(unix.SYS_WRITE, forkexec.Int(fd), forkexec.Ptr(p, pid), forkexec.Int(4))
			b.what(p)
		})
		return []int{fd}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res := result{}
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		var mark [4]byte
		if _, err := io.ReadFull(r, mark[:]); err != nil {
			return // closed without a connection
		}
		res.reached = int(binary.NativeEndian.Uint32(mark[:]))
		if b.then != nil {
			b.then(cancel, res.reached)
		}
	}()
	s := spec()
	begin := time.Now()
	box, err := m.Create(ctx, s)
	took := time.Since(begin)
	w.Close()
	<-seen
	res.id, res.err = s.ID, err
	if err == nil {
		if err := box.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var step *runtime.StepError
	switch {
	case res.reached == 0 && err != nil:
		t.Errorf("operation %d: it was not reached, but %v", b.at, err)
	case res.reached == 2 && err == nil && m.shared:
		res.spared = true
	case res.reached != 0 && err == nil:
		t.Errorf("operation %d: process %d came to grief, and a sandbox was made", b.at, res.reached)
	case err != nil && (!errors.As(err, &step) || step.Step == ""):
		t.Errorf("operation %d: no step in %v", b.at, err)
	case took > prompt:
		t.Errorf("operation %d: it took %v", b.at, took)
	}
	m.nothingLeft(t, b.at)
	return res
}

// nothingLeft checks that no sandbox has left anything.
func (m *faultyRuntime) nothingLeft(t *testing.T, at int) {
	t.Helper()
	for _, dir := range []string{filepath.Join(m.dir, native.Name, "test"), m.ids} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			t.Errorf("operation %d left %s", at, filepath.Join(dir, e.Name()))
		}
	}
	for _, pid := range childrenOf(os.Getpid()) {
		if text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status"); err == nil && bytes.Contains(text, []byte("\tbelljar-agent")) {
			t.Errorf("operation %d left a process: %s", at, text)
		}
		if stat, err := forkexec.ReadStat(pid); err == nil && stat.Forked {
			t.Errorf("operation %d left process %d half-made", at, pid)
		}
	}
}

// noGroupLeft checks that no cgroup has one of the names.
func noGroupLeft(t *testing.T, ids map[string]bool) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(name string, e fs.DirEntry, err error) error {
		if err == nil && ids[e.Name()] {
			t.Errorf("left: %s", name)
		}
		return nil // other processes remove groups meanwhile
	})
	if err != nil {
		t.Error(err)
	}
}

// childrenOf lists the children of a process.
func childrenOf(pid int) (pids []int) {
	tasks := filepath.Join("/proc", strconv.Itoa(pid), "task")
	entries, _ := os.ReadDir(tasks)
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join(tasks, e.Name(), "children"))
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil && wardenPath(child) == "" {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// dies ends the process without a report.
func dies(p *forkexec.Program) { p.Call(unix.SYS_EXIT_GROUP, forkexec.Int(0)) }

// hangs blocks the process for ever.
func hangs(p *forkexec.Program) {
	p.Call(unix.SYS_PPOLL, forkexec.Int(0), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
}

// If either process dies at any operation, the birth fails promptly, names the step, and leaves nothing.
func TestSilentDeathAnywhere(t *testing.T) {
	m := newFaultyRuntime(t)
	ids := map[string]bool{}
	reached := map[int]int{}
	spared, last := -1, -1 // operations of the second
	for at := range m.size {
		res := m.broken(t, breakage{at: at, what: dies})
		ids[res.id] = true
		reached[res.reached]++
		if res.reached == 2 {
			last = at
		}
		if res.spared {
			spared = at
		}
		if spared >= 0 && spared != last {
			t.Errorf("operation %d: a sandbox was made, and it was not the last of the second, which is %d", spared, last)
		}
		var step *runtime.StepError
		if res.reached == 2 && errors.As(res.err, &step) {
			if step.Step != "network" && step.Step != "inner_userns" || step.Hint == "" {
				t.Errorf("operation %d: the second died: step %s, %v, hint %q", at, step.Step, step, step.Hint)
			}
		}
		if t.Failed() {
			t.Fatalf("operation %d of %d", at, m.size)
		}
	}
	if reached[1] < 100 || reached[2] < 5 {
		t.Errorf("deaths by process: %v of %d operations", reached, m.size)
	}
	noGroupLeft(t, ids)
}

// A birth that hangs at any operation ends with its context, and leaves nothing.
func TestHangAnywhere(t *testing.T) {
	m := newFaultyRuntime(t)
	ids := map[string]bool{}
	reached := map[int]int{}
	for at := 0; at < m.size; at++ {
		if reached[2] > 0 && at%7 != 0 {
			continue // the second's operations are among the first's; of those a choice is enough
		}
		res := m.broken(t, breakage{at: at, what: hangs, then: func(cancel context.CancelFunc, _ int) { cancel() }})
		ids[res.id] = true
		reached[res.reached]++
		if res.err != nil && !errors.Is(res.err, context.Canceled) {
			t.Errorf("operation %d: got %v, want canceled", at, res.err)
		}
		if t.Failed() {
			t.Fatalf("operation %d of %d", at, m.size)
		}
	}
	if reached[1] == 0 || reached[2] == 0 {
		t.Errorf("hangs by process: %v", reached)
	}
	noGroupLeft(t, ids)
}

// The same from outside: killing a process ends the birth; stopping one ends it with the context.
func TestSignalledInBirth(t *testing.T) {
	m := newFaultyRuntime(t)
	ids := map[string]bool{}
	seconds := []int{}
	for at := range m.size {
		if m.broken(t, breakage{at: at, what: dies}).reached == 2 {
			seconds = append(seconds, at)
		} else if len(seconds) > 0 {
			break
		}
	}
	if len(seconds) == 0 {
		t.Fatal("no operation is the second's")
	}
	if m.shared {
		seconds = seconds[:len(seconds)-1] // by then the first may not need the second any longer
	}
	firsts := []int{1, seconds[len(seconds)-1] + 5, m.size / 2, m.size - 1}
	for victim, points := range map[int][]int{1: firsts, 2: seconds} {
		for _, at := range points {
			for _, sig := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP} {
				res := m.broken(t, breakage{at: at, what: hangs, then: func(cancel context.CancelFunc, inside int) {
					if inside != victim {
						t.Errorf("operation %d is that of process %d, want %d", at, inside, victim)
					}
					if !signalBirth(inside, sig) {
						t.Errorf("operation %d: process %d cannot be found", at, inside)
						cancel()
					}
					if sig == unix.SIGSTOP {
						cancel()
					}
				}})
				ids[res.id] = true
				if killed := !errors.Is(res.err, context.Canceled); killed != (sig == unix.SIGKILL) && res.reached != 0 {
					t.Errorf("operation %d, process %d, %v: got %v", at, victim, sig, res.err)
				}
			}
		}
	}
	noGroupLeft(t, ids)
}

// signalBirth signals process 1 or 2 of the birth in progress.
func signalBirth(inside int, sig unix.Signal) bool {
	for _, pid := range childrenOf(os.Getpid()) {
		if stat, err := forkexec.ReadStat(pid); err != nil || !stat.Forked {
			continue
		}
		if inside == 1 {
			return unix.Kill(pid, sig) == nil
		}
		for _, second := range childrenOf(pid) {
			return unix.Kill(second, sig) == nil
		}
	}
	return false
}

// Simultaneous births that fail do not delay each other by inherited descriptors.
func TestDeathsTogether(t *testing.T) {
	m := newFaultyRuntime(t)
	at := -1
	for i := range m.size {
		if m.broken(t, breakage{at: i, what: dies}).reached == 2 {
			at = i + 3
			break
		}
	}
	m.Edit(func(p *forkexec.Program) []int {
		p.Insert(at, func() { dies(p) })
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), prompt)
	defer cancel()
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if _, err := m.Create(ctx, spec()); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a failed step", err)
			}
		})
	}
	wg.Wait()
	// A birth that was forked at that moment may leave a claim of ids; a sweep removes it.
	if n, err := m.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	m.nothingLeft(t, at)
}

// Removing a sandbox during its creation ends the creation.
func TestRemoveInBirth(t *testing.T) {
	m := newFaultyRuntime(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	m.Edit(func(p *forkexec.Program) []int {
		p.Insert(m.size-1, func() {
			p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), p.Str("x"), forkexec.Int(1))
			hangs(p)
		})
		return []int{int(w.Fd())}
	})
	s := spec()
	failed := make(chan error, 1)
	go func() {
		_, err := m.Create(t.Context(), s)
		failed <- err
	}()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("create returns %v", err)
	}
	m.nothingLeft(t, m.size-1)
	m.Edit(nil)
	m.born(t)
}
