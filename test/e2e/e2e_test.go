//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/build"
)

const (
	consecutive = 1000
	parallel    = 200
	commands    = 50 // through the command line
)

// built are the programs under test.
var built build.Programs

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "belljar-e2e-")
		if err == nil {
			defer os.RemoveAll(dir)
			built, err = build.Into(dir)
		}
		// Whatever outlives its parent becomes our child, where the tests see it.
		err = errors.Join(err, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// engine is belljar in this process, with an installation of its own.
type engine struct {
	belljar.Runs
	installation, runDir string
	close                func() error
}

func open(t *testing.T) *engine {
	t.Helper()
	agent, err := os.ReadFile(built.Agent)
	if err != nil {
		t.Fatal(err)
	}
	runDir, err := os.MkdirTemp("", "bj-") // short: the name of a socket may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(runDir) })
	e := &engine{installation: fmt.Sprintf("e2e-%d", os.Getpid()), runDir: runDir}
	rt, err := native.New(native.Options{Agent: agent, RunDir: e.runDir, Installation: e.installation})
	if err != nil {
		t.Fatal(err)
	}
	svc, err := service.New(service.Options{
		Runtimes: []runtime.Runtime{rt}, Logs: memory.New(), Require: service.CoreProtections(), Lifetime: runtime.LifetimeCreator,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Runs = svc.As(service.Local())
	e.close = func() error { return errors.Join(svc.Close(), rt.Close()) }
	return e
}

// run runs one command to its end.
func (e *engine) run(ctx context.Context, argv ...string) error {
	run, err := e.Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{Command: argv}})
	if err != nil {
		return err
	}
	for _, err := range e.Frames(ctx, run.ID, 1) {
		if err != nil {
			return err
		}
	}
	if run, err = e.Get(ctx, run.ID); err != nil {
		return err
	}
	if run.Phase != belljar.PhaseCompleted {
		return fmt.Errorf("run ended %s %s: %s", run.Phase, run.ReasonCode, run.Message)
	}
	return nil
}

// TestConsecutiveRuns makes a thousand sandboxes, one after the other.
func TestConsecutiveRuns(t *testing.T) {
	unchanged(t, func(t *testing.T, e *engine) {
		start := time.Now()
		for i := range consecutive {
			if err := e.run(t.Context(), "/bin/true"); err != nil {
				t.Fatalf("run %d: %v", i, err)
			}
		}
		t.Logf("%d runs, %v each", consecutive, time.Since(start)/consecutive)
	})
}

// TestParallelRuns makes two hundred sandboxes that all live at the same time.
func TestParallelRuns(t *testing.T) {
	unchanged(t, func(t *testing.T, e *engine) {
		// Every program waits for its input to end, which happens when all of them run.
		var ready, done sync.WaitGroup
		all := make(chan struct{})
		ready.Add(parallel)
		for i := range parallel {
			done.Go(func() {
				stdin, feed := io.Pipe()
				defer feed.Close()
				var once sync.Once
				arrived := func() { once.Do(ready.Done) }
				defer arrived()
				run, err := e.Start(t.Context(), belljar.RunRequest{
					RunSpec: belljar.RunSpec{Command: []string{"/bin/sh", "-c", "echo ready; cat"}, TimeoutSec: 120, StartupTimeoutSec: 120}, Stdin: stdin,
				})
				if err != nil {
					t.Errorf("run %d: %v", i, err)
					return
				}
				go func() {
					<-all
					feed.Close()
				}()
				for frame, err := range e.Frames(t.Context(), run.ID, 1) {
					if err != nil {
						t.Errorf("run %d: %v", i, err)
						return
					}
					if bytes.Contains(frame.Output, []byte("ready")) {
						arrived()
					}
				}
				if run, err = e.Get(t.Context(), run.ID); err != nil || run.Phase != belljar.PhaseCompleted {
					t.Errorf("run %d ended %s %s %s, %v", i, run.Phase, run.ReasonCode, run.Message, err)
				}
			})
		}
		ready.Wait()
		close(all)
		done.Wait()
	})
}

// TestCommandLineRuns runs the binary again and again.
func TestCommandLineRuns(t *testing.T) {
	before := children(t)
	for i := range commands {
		cmd := exec.CommandContext(t.Context(), built.Belljar, "run", "--json", "--quiet", "--", "/bin/true")
		tmp := t.TempDir()
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		out, err := cmd.Output()
		var run belljar.Run
		if err == nil {
			err = json.Unmarshal(out, &run)
		}
		if err != nil || run.Phase != belljar.PhaseCompleted {
			t.Fatalf("run %d: %v %s", i, err, out)
		}
		if left := named(t, run.ID, "/sys/fs/cgroup", "/run/belljar", os.Getenv("XDG_RUNTIME_DIR")); len(left) > 0 {
			t.Errorf("run %d left %q", i, left)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("run %d left in its temporary folder: %v, %v", i, left, err)
		}
	}
	if after := children(t); len(after) > len(before) {
		t.Errorf("processes left: %v", after)
	}
}

// unchanged compares the host before and after work, which gets an engine of its own.
func unchanged(t *testing.T, work func(*testing.T, *engine)) {
	e := open(t)
	// What Go and the engine make once, they have made after a few runs.
	for range 3 {
		if err := e.run(t.Context(), "/bin/true"); err != nil {
			e.close()
			t.Fatal(err)
		}
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	before := observe(t)

	e = open(t)
	work(t, e)
	if err := e.close(); err != nil {
		t.Error(err)
	}
	after := observe(t)
	if len(after.children) > len(before.children) {
		t.Errorf("processes left: %v", after.children)
	}
	if len(after.descriptors) > len(before.descriptors) {
		t.Errorf("descriptors before %q, after %q", before.descriptors, after.descriptors)
	}
	if after.mounts != before.mounts {
		t.Errorf("mounts before %d, after %d", before.mounts, after.mounts)
	}
	if left := named(t, e.installation, "/sys/fs/cgroup"); len(left) > 0 {
		for _, dir := range left {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Error(err)
			}
			for _, entry := range entries {
				if entry.IsDir() {
					t.Errorf("control group left: %s/%s", dir, entry.Name())
				}
			}
		}
	}
	left, err := os.ReadDir(filepath.Join(e.runDir, native.Name, e.installation))
	if err != nil {
		t.Error(err)
	}
	for _, entry := range left {
		t.Errorf("left in the run folder: %s", entry.Name())
	}
}

// host is what may not grow.
type host struct {
	children    []string
	descriptors []string
	mounts      int
}

func observe(t *testing.T) host {
	t.Helper()
	h := host{children: children(t)}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		h.descriptors = append(h.descriptors, fd.Name()+" "+target)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	h.mounts = bytes.Count(mounts, []byte("belljar"))
	return h
}

// children lists our children, dead or alive, by name.
func children(t *testing.T) []string {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, pid := range strings.Fields(string(raw)) {
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			all = append(all, pid+" "+strings.TrimSpace(string(name)))
		}
	}
	return all
}

// named lists what has part in its name below the roots.
func named(t *testing.T, part string, roots ...string) []string {
	t.Helper()
	var found []string
	for _, root := range roots {
		if root == "" {
			continue
		}
		filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if strings.Contains(filepath.Base(path), part) {
				found = append(found, path)
			}
			return nil // what vanishes while we walk is somebody else's
		})
	}
	return found
}
