//go:build linux

package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/test/program"
	"github.com/belljar/belljar/test/sockdir"
)

// piped starts a server and returns it with a client and the reader of its log.
func piped(t *testing.T) (*exec.Cmd, *client.Client, io.ReadCloser) {
	t.Helper()
	program.NeedNative(t)
	cmd := exec.CommandContext(t.Context(), "belljar", "serve", "--json", "--listen", "127.0.0.1:0", "--data", sockdir.New(t), "--set", "pool_size=0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no sandboxes
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		URL    string `json:"url"`
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: ready.URL, APIKey: ready.APIKey, Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return cmd, c, log
}

// TestLogReaderGone: a server whose log has no reader, such as after a restart of the journal, continues to serve.
func TestLogReaderGone(t *testing.T) {
	_, c, log := piped(t)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // each writes a line to the log
		if _, err := c.Sessions().List(t.Context(), belljar.SessionQuery{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogReaderStops: a server whose log is open and not read, such as in a terminal after Ctrl-S, serves, and ends by a signal.
func TestLogReaderStops(t *testing.T) {
	cmd, c, log := piped(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	raw, err := log.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096) })
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // more than the pipe has room for
		if _, err := c.Sessions().List(ctx, belljar.SessionQuery{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := cmd.Process.Wait()
		ended <- state
	}()
	select {
	case state := <-ended:
		if !state.Success() {
			t.Error(state)
		}
	case <-ctx.Done():
		t.Error("it does not end")
	}
}
