package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/cli"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/program"
)

// child is a separate belljar process.
type child struct {
	*exec.Cmd
	out    *bufio.Reader
	pipe   io.Closer
	stderr bytes.Buffer
}

func start(t *testing.T, args ...string) *child {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith is start with additional environment variables.
func startWith(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.CommandContext(t.Context(), "belljar", args...)}
	c.Cmd.Env = append(os.Environ(), env...)
	c.Cmd.Stderr = &c.stderr
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.pipe, c.out = pipe, bufio.NewReader(pipe)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c
}

// until reads stdout up to a line that the program prints once the test can continue.
func (c *child) until(t *testing.T, line string) {
	t.Helper()
	for {
		got, err := c.out.ReadString('\n')
		if strings.TrimSpace(got) == line {
			return
		}
		if err != nil {
			t.Fatalf("stdout ended before %q: %v\n%s", line, err, c.stderr.String())
		}
	}
}

// ended waits for the process and returns its exit status.
func (c *child) ended(t *testing.T) int {
	t.Helper()
	if _, err := io.Copy(io.Discard, c.out); err != nil && !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
	c.Wait()
	return c.ProcessState.ExitCode()
}

func TestInterrupt(t *testing.T) {
	program.NeedNative(t)
	for name, test := range map[string]struct {
		signals []os.Signal
		script  string
		status  int
		grace   string // in seconds, "" for the default
	}{
		"INT":                 {[]os.Signal{os.Interrupt}, "echo ready; exec sleep %", 130, ""},
		"TERM":                {[]os.Signal{syscall.SIGTERM}, "echo ready; exec sleep %", 143, ""},
		"descendants too":     {[]os.Signal{os.Interrupt}, "(setsid sleep % &) ; sleep % & echo ready; wait", 130, ""},
		"twice kills":         {[]os.Signal{os.Interrupt, os.Interrupt}, "trap 'echo again' TERM; echo ready; while :; do sleep % & wait; done", 130, "600"},
		"a program's goodbye": {[]os.Signal{os.Interrupt}, "trap 'echo bye; exit 3' TERM; echo ready; sleep % & wait", 130, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			word := fmt.Sprintf("4%s.%ds", strings.Map(func(r rune) rune { return '0' + r%10 }, name), os.Getpid()) // a unique argument of sleep
			var env []string
			if test.grace != "" {
				env = []string{"SANDBOX_CANCEL_GRACE_SECONDS=" + test.grace}
			}
			c := startWith(t, env, "run", "--timeout", "5m", "--", "sh", "-c", strings.ReplaceAll(test.script, "%", word))
			c.until(t, "ready")
			var began time.Time
			for i, s := range test.signals {
				if i > 0 {
					c.until(t, "again") // the program has caught TERM and continues
				}
				began = time.Now()
				if err := c.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.ended(t); got != test.status {
				t.Errorf("status %d, want %d\n%s", got, test.status, c.stderr.String())
			}
			if took := time.Since(began); test.grace != "" && took > 2*time.Minute {
				t.Errorf("took %v, so it was not killed at once", took)
			}
			if program.Alive(t, word) {
				t.Error("a process of the run is still there")
			}
			if c.stderr.Len() > 0 {
				t.Errorf("stderr: %s", c.stderr.String())
			}
		})
	}
}

// TestClosedOutput: belljar run … | head -1 ends silently when head ends, and so does the program.
func TestClosedOutput(t *testing.T) {
	program.NeedNative(t)
	word := fmt.Sprintf("endless-output-of-the-test-%d.", os.Getpid())
	c := start(t, "run", "--timeout", "5m", "--", "sh", "-c", "echo ready; while :; do echo "+word+"; done")
	c.until(t, "ready")
	if err := c.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if got, want := c.ProcessState.ExitCode(), 128+int(syscall.SIGPIPE); got != want {
		t.Errorf("status %d, want %d", got, want)
	}
	if c.stderr.Len() > 0 {
		t.Errorf("stderr: %s", c.stderr.String())
	}
	if program.Alive(t, word) {
		t.Error("the program is still there")
	}
}

// TestIgnoredSignals: a program does not ignore the signals that belljar inherits as ignored from nohup or a shell's &.
func TestIgnoredSignals(t *testing.T) {
	program.NeedNative(t)
	nohup := need.Program(t, "nohup")
	for _, name := range []string{"HUP", "INT"} {
		script := `trap "" INT; exec "$0" belljar run -- sh -c "kill -` + name + ` \$\$; echo it lives"`
		out, err := exec.CommandContext(t.Context(), "sh", "-c", script, nohup).CombinedOutput()
		if err == nil || strings.Contains(string(out), "lives") || !strings.Contains(string(out), "SIG"+name) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestStreamed: output arrives while the program runs, and so does input.
func TestStreamed(t *testing.T) {
	program.NeedNative(t)
	c := &child{Cmd: exec.CommandContext(t.Context(), "belljar", "run", "--timeout", "5m", "--", "sh", "-c", "echo name?; read name; echo hello $name; cat")}
	c.Cmd.Stderr = &c.stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(pipe)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.until(t, "name?")
	if _, err := io.WriteString(stdin, "jar\n"); err != nil {
		t.Fatal(err)
	}
	c.until(t, "hello jar")
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if got := c.ended(t); got != 0 {
		t.Errorf("status %d\n%s", got, c.stderr.String())
	}
}

// TestFullDisk: a failed write of output is an error of belljar.
func TestFullDisk(t *testing.T) {
	program.NeedNative(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "belljar", "run", "--", "echo", "lost")
	cmd.Stdout, cmd.Stderr = full, &stderr
	cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != cli.ExitFailure || !strings.Contains(stderr.String(), "writing the program's output") {
		t.Errorf("status %d\n%s", got, stderr.String())
	}
}

// TestModelsPipe: a broken connection to a server, which raises SIGPIPE, does not end a model's tools. The end of their client does.
func TestModelsPipe(t *testing.T) {
	program.NeedNative(t)
	c := &child{Cmd: exec.CommandContext(t.Context(), "belljar", "mcp")}
	c.Cmd.Stderr = &c.stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(pipe)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	for range 3 {
		if _, err := io.WriteString(stdin, ping); err != nil {
			t.Fatal(err)
		}
		if line, err := c.out.ReadString('\n'); err != nil || !strings.Contains(line, `"result"`) {
			t.Fatalf("%v, %q\n%s", err, line, c.stderr.String())
		}
		if err := c.Process.Signal(syscall.SIGPIPE); err != nil {
			t.Fatal(err)
		}
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, ping); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if got := c.ProcessState.ExitCode(); got != 0 || c.stderr.Len() > 0 {
		t.Errorf("status %d\n%s", got, c.stderr.String())
	}
}
