package cli_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar/test/program"
)

// serveHere starts a belljar serve for one test, points this process's environment at it, and returns its process.
func serveHere(t *testing.T) *os.Process {
	t.Helper()
	cmd := exec.Command("belljar", "serve", "--json", "--listen", "127.0.0.1:0", "--data", "data", "--set", "end_sessions=true", "--set", "pool_size=1")
	cmd.Dir = t.TempDir()
	var output strings.Builder
	cmd.Stderr = &output
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range []os.Signal{syscall.SIGCONT, os.Interrupt, syscall.SIGTERM} { // the server may be paused and have active runs
			_ = cmd.Process.Signal(s)
		}
		if err := cmd.Wait(); err != nil {
			t.Logf("belljar serve: %v\n%s", err, output.String())
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("belljar serve: %v", err)
	}
	var ready serving
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(ready.Data) || !filepath.IsAbs(ready.KeyFile) {
		t.Errorf("a relative path in what another program reads: %s", line)
	}
	t.Setenv("BELLJAR_SERVER", ready.URL)
	t.Setenv("BELLJAR_API_KEY", ready.APIKey)
	return cmd.Process
}

// TestInterruptRemote: Ctrl-C ends a run on a server as it ends a local one, and so does the end of the terminal.
func TestInterruptRemote(t *testing.T) {
	program.NeedNative(t)
	serveHere(t)
	for name, test := range map[string]struct {
		signal os.Signal
		script string
		status int
	}{
		"sleeps":   {os.Interrupt, "echo ready; exec sleep 1000", 130},
		"hung up":  {syscall.SIGHUP, "echo ready; exec sleep 1000", 129},
		"says bye": {os.Interrupt, "trap 'echo bye; exit 3' TERM; echo ready; sleep 1000 & wait", 130},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, "run", "--timeout", "5m", "--", "sh", "-c", test.script)
			c.until(t, "ready")
			if err := c.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			if got := c.ended(t); got != test.status || c.stderr.Len() > 0 {
				t.Errorf("status %d, want %d\n%s", got, test.status, c.stderr.String())
			}
		})
	}
	out, err := exec.Command("belljar", "ps").Output()
	if err != nil || strings.Contains(string(out), "running") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLeaveRemote: a second Ctrl-C leaves a run on a server that does not respond.
func TestLeaveRemote(t *testing.T) {
	program.NeedNative(t)
	server := serveHere(t)
	c := start(t, "run", "--timeout", "5m", "--", "sh", "-c", "echo ready; exec sleep 1000")
	c.until(t, "ready")
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} { // two different signals: the kernel merges equal pending ones
		if err := c.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.ended(t); got != 130 && got != 143 || !strings.Contains(c.stderr.String(), "was left to the server") {
		t.Errorf("status %d\n%s", got, c.stderr.String())
	}
}

// TestClosedOutputRemote: belljar run … | head -1 also cancels a run on a server, and so does code in a context whose results cannot
// be printed.
func TestClosedOutputRemote(t *testing.T) {
	program.NeedNative(t)
	serveHere(t)
	id, err := exec.Command("belljar", "session", "create").Output()
	if err != nil {
		t.Fatal(err)
	}
	closes := func(c *child) {
		t.Helper()
		if err := c.pipe.Close(); err != nil {
			t.Fatal(err)
		}
		c.Wait()
		if got, want := c.ProcessState.ExitCode(), 128+int(syscall.SIGPIPE); got != want || c.stderr.Len() > 0 {
			t.Errorf("status %d, want %d\n%s", got, want, c.stderr.String())
		}
	}
	c := start(t, "run", "--timeout", "5m", "--", "sh", "-c", "echo ready; while :; do echo more; sleep 0.01; done")
	c.until(t, "ready")
	closes(c)
	closes(start(t, "session", "code", strings.TrimSpace(string(id)), "--timeout", "5m", "-c", "display(1)\nimport time; time.sleep(300)"))
}

// TestInterpreterEnds: belljar repl ends its own session when it ends, even if its output has no reader any longer, or a signal
// arrives while it reads or executes code.
func TestInterpreterEnds(t *testing.T) {
	program.NeedNative(t)
	serveHere(t)
	const ready = "print('ready', flush=True)\nimport time\n"
	for name, test := range map[string]struct {
		code   string
		end    func(c *child) error
		status int
	}{
		"closed output": {ready + "while True: print('more', flush=True); time.sleep(0.01)", func(c *child) error { return c.pipe.Close() }, 128 + int(syscall.SIGPIPE)},
		"executes":      {ready + "time.sleep(300)", func(c *child) error { return c.Process.Signal(syscall.SIGTERM) }, 143},
		// It is larger than a pipe, so belljar is reading it when all of it is written.
		"reads": {strings.Repeat("#", 1<<20), func(c *child) error { return c.Process.Signal(os.Interrupt) }, 130},
	} {
		t.Run(name, func(t *testing.T) {
			c := &child{Cmd: exec.CommandContext(t.Context(), "belljar", "repl")}
			c.Cmd.Stderr = &c.stderr
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			c.pipe, c.out = out, bufio.NewReader(out)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(in, test.code); err != nil {
				t.Fatal(err)
			}
			if name != "reads" {
				in.Close()
				c.until(t, "ready")
			}
			if err := test.end(c); err != nil {
				t.Fatal(err)
			}
			c.Wait()
			if got := c.ProcessState.ExitCode(); got != test.status || c.stderr.Len() > 0 {
				t.Errorf("status %d, want %d\n%s", got, test.status, c.stderr.String())
			}
			left, err := exec.Command("belljar", "session", "ls", "--quiet").Output()
			if err != nil || len(left) > 0 {
				t.Errorf("%v, left: %s", err, left)
			}
		})
	}
}
