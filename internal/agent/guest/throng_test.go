//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// bad returns programs that cannot be executed, and the expected errors.
func bad(t *testing.T) map[string]unix.Errno {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	busy := write("busy", "#!/bin/true\n")
	file, err := os.OpenFile(busy, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return map[string]unix.Errno{
		write("junk", "\x7fELF, or so"):               unix.ENOEXEC,
		write("homeless", "#!/no/such/interpreter\n"): unix.ENOENT,
		busy: unix.ETXTBSY,
	}
}

// Many commands start concurrently; some cannot, and some lose their keeper meanwhile. The agent is unchanged: its score,
// its descriptors, its memory, and its reply to the next one.
func TestThrong(t *testing.T) {
	h := begin(t, guest.Config{})
	failing := bad(t)
	names := []string{"true", "exit", "long", "lost"}
	for name := range failing {
		names = append(names, name)
	}
	slices.Sort(names)
	round := func(tag string) {
		var all sync.WaitGroup
		for n := range 64 {
			name := names[n%len(names)]
			all.Go(func() {
				e := wire.Exec{ID: fmt.Sprint(tag, n), Argv: []string{"/bin/true"}, UID: os.Getuid(), GID: os.Getgid()}
				var errno unix.Errno
				switch name {
				case "exit", "lost":
					e.Argv = []string{"/bin/sh", "-c", "exit 7"}
				case "long":
					e.Argv, errno = append(e.Argv, strings.Repeat("x", 140<<10)), unix.E2BIG
				case "true":
				default:
					e.Argv[0], errno = name, failing[name]
				}
				if name == "lost" {
					e.Argv[2] = "kill -KILL $PPID; read x" // its parent is the keeper
					e.Stdin = true
				}
				conn := h.exec(e)
				defer conn.conn.Close()
				if errno != 0 {
					if got := conn.failure(wire.CodeExecFailed); got.Errno != int(errno) {
						t.Errorf("%s: %v, want %v", name, got, errno)
					}
					return
				}
				conn.started()
				switch exit := conn.exit(); {
				case name == "true" && (exit.Code != 0 || exit.Cause != wire.CauseExited),
					name == "exit" && (exit.Code != 7 || exit.Cause != wire.CauseExited),
					name == "lost" && exit.Cause != wire.CauseLost:
					t.Errorf("%s: %+v", name, exit)
				}
				forget := h.ask(wire.Request{Op: wire.OpForget, ID: e.ID})
				defer forget.conn.Close()
				if !forget.reply().Done {
					t.Errorf("%s: not forgotten", name)
				}
			})
		}
		all.Wait()
	}
	round("first") // makes one-time allocations
	score, files, maps := ownScore(t), entries(t, "/proc/self/fd"), lines(t, "/proc/self/maps")
	for i := range 3 {
		round(fmt.Sprint("round", i, "."))
	}
	if now := ownScore(t); now != score {
		t.Errorf("the score is %s, and was %s", now, score)
	}
	settle(t, "descriptors", func() (int, bool) { n := entries(t, "/proc/self/fd"); return n, n <= files+8 })
	settle(t, "mappings", func() (int, bool) { n := lines(t, "/proc/self/maps"); return n, n <= maps+100 })
}

func ownScore(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func lines(t *testing.T, name string) int {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(raw), "\n")
}

// settle waits until a number is as expected: the cleanup runs after the outcome is reported.
func settle(t *testing.T, what string, look func() (int, bool)) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		n, ok := look()
		if ok {
			return
		}
		if time.Now().After(until) {
			t.Errorf("%s %s are left", strconv.Itoa(n), what)
			return
		}
	}
}
