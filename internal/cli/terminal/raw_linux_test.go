package terminal

import (
	"errors"
	"io"
	"os"
	"reflect"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/guest/pty"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/notice"
)

// onWrite calls a function at each write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// A signal ends a visit and restores the user's terminal.
func TestSignalRestoresTheTerminal(t *testing.T) {
	master, slave, err := pty.Open(wire.Size{Cols: 80, Rows: 25})
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(slave), "terminal")
	defer ours.Close()
	defer unix.Close(master)
	before, err := term.GetState(slave)
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[syscall.Signal]interrupt.Status{syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		d := &fakeTerminals{visits: [][]any{{say(belljar.TerminalOutput, "x")}}}
		v := &Attachment{Stdin: ours, Notice: &notice.Writer{Stderr: io.Discard}, Terminals: d, ID: "t", Stdout: onWrite(func() {
			if raw, err := term.GetState(slave); err != nil || reflect.DeepEqual(raw, before) {
				t.Errorf("the terminal is not raw: %v", err)
			}
			if err := syscall.Kill(os.Getpid(), s); err != nil {
				t.Fatal(err)
			}
		})}
		_, err := v.Run(t.Context())
		if status := interrupt.Status(0); !errors.As(err, &status) || status != want {
			t.Errorf("%s: %v, want status %d", s, err, want)
		}
		if after, err := term.GetState(slave); err != nil || !reflect.DeepEqual(after, before) {
			t.Errorf("%s: the terminal was %+v, and is %+v: %v", s, before, after, err)
		}
	}
}
