//go:build linux

package client_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/sockdir"
)

func local(t *testing.T, opts client.LocalOptions) *client.Client {
	t.Helper()
	c, err := client.Local(within(t), opts)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestLocal(t *testing.T) {
	play(t, playServe)
	ctx, cancel := context.WithCancel(within(t))
	var output bytes.Buffer
	c, err := client.Local(ctx, client.LocalOptions{Log: &output})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // ctx applies only to the start
	other := local(t, client.LocalOptions{})
	if _, out := finish(t, c, shell("echo here")); out.Stdout != "here\n" {
		t.Errorf("%+v", out)
	}
	s := session(t, c)
	_, err = other.Sessions().Get(within(t), s.ID)
	want(t, err, belljar.CodeNotFound)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if output.String() != "it serves\n" {
		t.Errorf("it printed %q", output.String())
	}
	_, err = c.Sessions().Get(within(t), s.ID)
	if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.Contains(e.Message, "closed") {
		t.Errorf("%+v", e)
	}
	if _, err := other.Node().Me(within(t)); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

func TestLocalDoesNotStart(t *testing.T) {
	for _, test := range []struct {
		mode    string
		message string
		hint    string
		log     bool
	}{
		{playRefuse, "does not start: data folder /srv is in use", "stop that one", true},
		{playOld, "is older than this client", "version", true},
		{playStranger, `is not belljar: it prints "hello from somewhere else"`, "BELLJAR_BIN", false},
	} {
		t.Run(test.mode, func(t *testing.T) {
			play(t, test.mode)
			_, err := client.Local(within(t), client.LocalOptions{})
			e := want(t, err, belljar.CodeRuntimeUnavailable)
			if !strings.Contains(e.Error(), test.message) || !strings.Contains(e.Hint, test.hint) || (e.Details["log"] != nil) != test.log {
				t.Errorf("%+v\n%v", e, e)
			}
		})
	}
}

func TestLocalSettings(t *testing.T) {
	play(t, playServe)
	for _, name := range []string{"", "max_cpu=1"} {
		_, err := client.Local(within(t), client.LocalOptions{Set: map[string]string{name: "1"}})
		want(t, err, belljar.CodeInvalidRequest)
	}
}

func TestLocalStartIsGivenUp(t *testing.T) {
	for _, mode := range []string{playSilent, playStubborn} {
		t.Run(mode, func(t *testing.T) {
			play(t, mode)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := client.Local(ctx, client.LocalOptions{})
			if want(t, err, belljar.CodeTimeout); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = client.Local(over, client.LocalOptions{})
			want(t, err, belljar.CodeCanceled)
		})
	}
}

// TestLocalDies: after a crash of the server every call returns its error.
func TestLocalDies(t *testing.T) {
	play(t, playDie)
	c, err := client.Local(within(t), client.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = c.Node().Me(within(t))
		e := want(t, err, belljar.CodeRuntimeUnavailable)
		log, _ := e.Details["log"].(string)
		if !strings.Contains(e.Error(), `has ended after saying "panic: as told": exit status 2`) || e.Hint == "" || !strings.Contains(log, "goroutine 1") {
			t.Errorf("%+v\n%v", e, e)
		}
	}
	if e := want(t, endOfLog(t, c, "x"), belljar.CodeRuntimeUnavailable); !strings.Contains(e.Message, "has ended") {
		t.Errorf("%+v", e)
	}
	if err := c.Close(); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("close: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestLocalProgram(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(empty, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		option, variable, message string
	}{
		"nowhere":        {"", "", "belljar is not on the PATH"},
		"by option":      {"/nowhere/belljar", "", "/nowhere/belljar of LocalOptions.Program"},
		"by variable":    {"", "/nowhere/belljar", "/nowhere/belljar of BELLJAR_BIN"},
		"not executable": {file, "", "cannot be executed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", empty)
			t.Setenv("BELLJAR_BIN", test.variable)
			_, err := client.Local(within(t), client.LocalOptions{Program: test.option})
			if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.Contains(e.Message, test.message) || !strings.Contains(e.Hint, "BELLJAR_BIN") {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("option over variable over PATH", func(t *testing.T) {
		play(t, playServe)
		t.Setenv("BELLJAR_BIN", "/nowhere/belljar")
		local(t, client.LocalOptions{Program: os.Args[0]})
		t.Setenv("BELLJAR_BIN", "")
		if err := os.Symlink(os.Args[0], filepath.Join(empty, "belljar")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", empty+":"+os.Getenv("PATH"))
		local(t, client.LocalOptions{})
	})
}

// realBelljar returns a belljar with its agent. It ends the test if this machine cannot run sandboxes.
func realBelljar(t *testing.T) string {
	t.Helper()
	programs, err := build.Into(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := programs.Belljar
	if out, err := exec.CommandContext(t.Context(), name, "doctor").CombinedOutput(); err != nil {
		need.Missing(t, "a runtime for sandboxes:\n%s", out)
	}
	return name
}

// TestLocalBelljar uses a real server and checks that nothing is left over after its end.
func TestLocalBelljar(t *testing.T) {
	program := realBelljar(t)
	temp := sockdir.New(t)
	t.Setenv("TMPDIR", temp)
	t.Setenv("SANDBOX_IMAGE_PULL", "never")
	data := filepath.Join(temp, "data")
	opts := client.LocalOptions{Program: program, Data: data, Set: map[string]string{"max_concurrent_runs": "2", "queue_ttl_sec": "900"}}
	c := local(t, opts)
	run, out := finish(t, c, shell("echo sealed; id -u; test -e /etc/shadow || echo none"))
	if out.Stdout != "sealed\n1000\nnone\n" || run.Runtime != "native" {
		t.Errorf("%+v\n%+v", run, out)
	}
	_, err := client.Local(within(t), opts)
	if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.Contains(e.Message, "in use") {
		t.Errorf("its data, twice: %+v", e)
	}
	s := session(t, c)
	started, err := c.Runs().Start(within(t), inside(s.ID, "echo up; sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range c.Runs().Frames(within(t), started.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameStdout {
			break
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "belljar-private-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	again := local(t, opts)
	if _, out, err := belljar.Collect(within(t), again.Runs(), run.ID); err != nil || !strings.HasPrefix(out.Stdout, "sealed\n") {
		t.Errorf("what was kept: %+v %v", out, err)
	}
	if r, err := again.Runs().Get(within(t), started.ID); err != nil || r.Phase != belljar.PhaseKilled {
		t.Errorf("what ran: %+v %v", r, err)
	}
	_, err = client.Local(within(t), client.LocalOptions{Program: program, Set: map[string]string{"max_cpus": "1"}})
	if e := want(t, err, belljar.CodeRuntimeUnavailable); !strings.Contains(e.Message, "max_cpus") {
		t.Errorf("a setting that is none: %+v", e)
	}
}
