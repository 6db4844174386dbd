//go:build linux

package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/daemon"
	"github.com/belljar/belljar/test/program"
	"github.com/belljar/belljar/test/sockdir"
)

// longTimeout is longer than any step of these tests.
const longTimeout = 5 * time.Minute

// private is the output of serve --private.
type private struct {
	Socket  string `json:"socket"`
	BaseURL string `json:"base_url"`
	APIKey  string `json:"api_key"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

// privateServer is a private server and its parent program.
type privateServer struct {
	private
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
}

// startPrivate starts a private server with folders of the test's own.
func startPrivate(t *testing.T, env []string, args ...string) *privateServer {
	t.Helper()
	o := &privateServer{cmd: exec.CommandContext(t.Context(), "belljar", append([]string{"serve", "--private"}, args...)...)}
	o.cmd.Env = append(append(os.Environ(), "SANDBOX_IMAGE_PULL=never", "XDG_DATA_HOME="+sockdir.New(t), "TMPDIR="+sockdir.New(t)), env...)
	o.cmd.Stderr = &o.stderr
	var err error
	if o.stdin, err = o.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if o.cmd.ProcessState == nil {
			o.stdin.Close()
			_ = o.cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o.private)
	}
	if err != nil {
		o.stdin.Close()
		_ = o.cmd.Wait()
		t.Fatalf("%q: %v\n%s", line, err, o.stderr.String())
	}
	return o
}

func (o *privateServer) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: "unix:" + o.Socket, APIKey: o.APIKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ended waits for the server and checks that it leaves no files.
func (o *privateServer) ended(t *testing.T, status int) {
	t.Helper()
	_ = o.cmd.Wait()
	if got := o.cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("status %d, want %d\n%s", got, status, o.stderr.String())
	}
	if _, err := os.Lstat(filepath.Dir(o.Socket)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

func shellRun(script string) belljar.RunRequest {
	return belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", Command: []string{"sh", "-c", script}, TimeoutSec: 300,
	}}
}

func TestPrivate(t *testing.T) {
	program.NeedNative(t)
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	// Settings of another server do not affect this one.
	records := filepath.Join(t.TempDir(), "belljar.db")
	other := []string{
		"SANDBOX_LISTEN=0.0.0.0:1", "SANDBOX_API_KEY=the-key-of-the-other", "SANDBOX_DATA=" + filepath.Join(sockdir.New(t), "other"),
		"SANDBOX_STORE_DB_PATH=" + records,
	}
	o, second := startPrivate(t, other), startPrivate(t, nil)
	if o.PID != o.cmd.Process.Pid || o.Version != "dev" || o.BaseURL != "http://belljar.local" || o.APIKey == "the-key-of-the-other" {
		t.Errorf("%+v", o.private)
	}
	if o.Socket == second.Socket || o.APIKey == second.APIKey {
		t.Errorf("two servers are one: %s", o.Socket)
	}
	for path, mode := range map[string]fs.FileMode{filepath.Dir(o.Socket): fs.ModeDir | 0o700, o.Socket: fs.ModeSocket | 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	if _, err := os.Lstat(records); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the records of the other one: %v", err)
	}
	if ports := listening(t, o.PID); len(ports) > 0 {
		t.Errorf("it listens on TCP: %v", ports)
	}

	c := o.client(t)
	word := fmt.Sprintf("49%d.%ds", os.Getpid(), o.PID) // a unique argument of sleep
	session, _, err := c.Sessions().Open(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", Scope: belljar.Scope{Namespace: "workflow", ID: "w"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	in := shellRun("echo up; exec sleep " + word)
	in.SessionID, in.BaseImage = session.ID, ""
	for _, req := range []belljar.RunRequest{shellRun("echo up; exec sleep " + word), in} {
		run, err := c.Runs().Start(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for f, err := range c.Runs().Frames(ctx, run.ID, 1) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(f.Output), "up") {
				break
			}
		}
	}
	if _, err := second.client(t).Sessions().Get(ctx, session.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("the other server: %v", err)
	}
	if !program.Alive(t, word) {
		t.Error("nothing runs")
	}
	second.stdin.Close()
	second.ended(t, 0)
	o.stdin.Close()
	o.ended(t, 0)
	if program.Alive(t, word) {
		t.Error("what ran is still there")
	}
	if log := o.stderr.String(); strings.Contains(log, "level=INFO") || strings.Contains(log, "SANDBOX_STORE_BACKEND") {
		t.Errorf("it discloses more than it must: %s", log)
	}
}

// listening returns the TCP sockets that a process listens on.
func listening(t *testing.T, pid int) (found []string) {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("%v, %d descriptors", err, len(fds))
	}
	own := map[string]bool{}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const state, inode, listen = 3, 9, "0A"
			if f := strings.Fields(line); len(f) > inode && f[state] == listen && own[f[inode]] {
				found = append(found, f[1])
			}
		}
	}
	return found
}

func TestPrivateSignals(t *testing.T) {
	program.NeedNative(t)
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			o := startPrivate(t, nil)
			if err := o.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			o.ended(t, 0)
		})
	}
}

// TestPrivateParent: a server ends, with its sandboxes, when its parent program is killed.
func TestPrivateParent(t *testing.T) {
	if os.Getenv("BELLJAR_TEST_PARENT") != "" { // the parent program
		cmd := exec.Command("belljar", "serve", "--private")
		pipe, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		pipe.Close() // keeps the pipe open until here
		return
	}
	program.NeedNative(t)
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestPrivateParent$")
	parent.Env = append(os.Environ(), "BELLJAR_TEST_PARENT=1", "SANDBOX_IMAGE_PULL=never", "XDG_DATA_HOME="+sockdir.New(t), "TMPDIR="+sockdir.New(t))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer parent.Wait()
	defer parent.Process.Kill()
	lines := bufio.NewReader(out)
	var o privateServer
	if line, err := lines.ReadBytes('\n'); err != nil || json.Unmarshal(line, &o.private) != nil {
		t.Fatalf("%q %v", line, err)
	}
	c := o.client(t)
	word := fmt.Sprintf("48%d.%ds", os.Getpid(), o.PID)
	run, err := c.Runs().Start(ctx, shellRun("setsid sleep "+word+" & echo up; wait"))
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range c.Runs().Frames(ctx, run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(f.Output), "up") {
			break
		}
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil { // ends with the server, which holds the other end
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Dir(o.Socket)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
	if program.Alive(t, word) {
		t.Error("what ran is still there")
	}
}

// TestPrivateKilled: when the server is killed, its programs end, and the next server removes its files.
func TestPrivateKilled(t *testing.T) {
	program.NeedNative(t)
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	tmp := "TMPDIR=" + sockdir.New(t)
	o := startPrivate(t, []string{tmp})
	word := fmt.Sprintf("47%d.%ds", os.Getpid(), o.PID)
	run, err := o.client(t).Runs().Start(ctx, shellRun("echo up; sleep "+word))
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range o.client(t).Runs().Frames(ctx, run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(f.Output), "up") {
			break
		}
	}
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = o.cmd.Wait()
	until := func(what string, gone func() bool) {
		for !gone() {
			select {
			case <-ctx.Done():
				t.Fatalf("%s is still there", what)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	until("what ran", func() bool { return !program.Alive(t, word) })
	left := filepath.Dir(o.Socket)
	if _, err := os.Stat(left); err != nil {
		t.Fatalf("a killed server cleans up: %v", err)
	}
	living := startPrivate(t, []string{tmp})
	for _, dir := range []string{left, filepath.Dir(living.Socket)} { // make them old
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	next := startPrivate(t, []string{tmp})
	until("the folder of the dead", func() bool {
		_, err := os.Lstat(left)
		return errors.Is(err, fs.ErrNotExist)
	})
	if _, err := living.client(t).Node().Me(ctx); err != nil {
		t.Errorf("the living one: %v", err)
	}
	for _, o := range []*privateServer{living, next} {
		o.stdin.Close()
		o.ended(t, 0)
	}
}

func TestPrivateData(t *testing.T) {
	program.NeedNative(t)
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	data := filepath.Join(sockdir.New(t), "kept")
	o := startPrivate(t, nil, "--data", data)
	if strings.HasPrefix(o.Socket, data) {
		t.Errorf("the socket is among the data: %s", o.Socket)
	}
	c := o.client(t)
	run, err := c.Runs().Start(ctx, shellRun("echo kept"))
	if err == nil {
		run, _, err = belljar.Collect(ctx, c.Runs(), run.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	second := exec.CommandContext(t.Context(), "belljar", "serve", "--private", "--data", data)
	pipe, err := second.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if output, err := second.CombinedOutput(); err == nil || !strings.Contains(string(output), "in use") {
		t.Errorf("a second server with the same data: %v\n%s", err, output)
	}
	o.stdin.Close()
	o.ended(t, 0)
	again := startPrivate(t, nil, "--data", data)
	if _, out, err := belljar.Collect(ctx, again.client(t).Runs(), run.ID); err != nil || out.Stdout != "kept\n" {
		t.Errorf("%+v %v", out, err)
	}
	if again.APIKey == o.APIKey {
		t.Error("it has the key of the last time")
	}
	again.stdin.Close()
	again.ended(t, 0)
}

// TestPrivateLongTemp: a socket's path is limited to about 100 bytes.
func TestPrivateLongTemp(t *testing.T) {
	program.NeedNative(t)
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	short := sockdir.New(t)
	o := startPrivate(t, []string{"TMPDIR=" + long, "XDG_RUNTIME_DIR=" + short})
	if !strings.HasPrefix(o.Socket, short) {
		t.Errorf("socket %s", o.Socket)
	}
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	if _, err := o.client(t).Node().Me(ctx); err != nil {
		t.Error(err)
	}
	o.stdin.Close()
	o.ended(t, 0)
	if left, err := filepath.Glob(filepath.Join(long, daemon.PrivatePrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestPrivateRefuses(t *testing.T) {
	program.Agent(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(name string) *os.File {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	pipe, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer held.Close()
	for name, test := range map[string]struct {
		stdin  *os.File
		args   []string
		output string
	}{
		"nothing on stdin":    {open("/dev/null"), nil, "must be a pipe"},
		"a file on stdin":     {open(file), nil, "must be a pipe"},
		"a terminal on stdin": {open("/dev/ptmx"), nil, "must be a pipe"},
		"a port":              {pipe, []string{"--listen", "127.0.0.1:0"}, "--listen does not go with --private"},
		"a port by its key":   {pipe, []string{"--set", "listen=127.0.0.1:0"}, "--set listen does not go"},
		"a key":               {pipe, []string{"--set", "api-key=0123456789abcdef"}, "--set api_key does not go"},
		"what is no key":      {pipe, []string{"--set", "nonsense=1"}, "nonsense"},
		"a semicolon":         {pipe, []string{"--set", "log_level=a;b=c"}, `got "a;b=c"`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "belljar", append([]string{"serve", "--private"}, test.args...)...)
			tmp := sockdir.New(t)
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			cmd.Stdin = test.stdin
			output, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != 125 || !strings.Contains(string(output), test.output) || !strings.Contains(string(output), "hint:") {
				t.Errorf("%v\n%s", err, output)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

// TestPrivateWithoutListener: a parent that exits before the server is ready leaves no files.
func TestPrivateWithoutListener(t *testing.T) {
	program.NeedNative(t)
	tmp := sockdir.New(t)
	cmd := exec.CommandContext(t.Context(), "belljar", "serve", "--private")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "XDG_DATA_HOME="+sockdir.New(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	stdin.Close()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 128+int(syscall.SIGPIPE) {
		t.Errorf("status %d", got)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
