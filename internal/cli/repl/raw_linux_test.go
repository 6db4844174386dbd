package repl

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/belljar/belljar/internal/agent/guest/pty"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/cli/interrupt"
)

// screen calls prompted when the prompt is shown. Two goroutines may write to it, as to a file: after a signal, one still reads.
type screen struct {
	sync.Mutex
	bytes.Buffer
	prompted func()
}

func (s *screen) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(">>>")) {
		s.prompted()
	}
	s.Lock()
	defer s.Unlock()
	return s.Buffer.Write(p)
}

// openTerminal opens a terminal until the end of a test. ours is slave as a file.
func openTerminal(t *testing.T) (master, slave int, ours *os.File) {
	t.Helper()
	master, slave, err := pty.Open(wire.Size{Cols: 80, Rows: 25})
	if err != nil {
		t.Fatal(err)
	}
	ours = os.NewFile(uintptr(slave), "terminal")
	t.Cleanup(func() {
		unix.Close(master)
		ours.Close()
	})
	return master, slave, ours
}

// A signal at the prompt ends the input and restores the terminal.
func TestSignalRestoresTheTerminal(t *testing.T) {
	_, slave, ours := openTerminal(t)
	before, err := term.GetState(slave)
	if err != nil {
		t.Fatal(err)
	}
	out := &screen{prompted: func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}}
	in := &typed{fd: slave, keys: &keys{r: ours}, shown: out}
	in.restart()
	_, err = in.read(">>> ")
	if status := interrupt.Status(0); !errors.As(err, &status) || status != 143 {
		t.Errorf("%v, want status 143", err)
	}
	if after, err := term.GetState(slave); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("the terminal was %+v, and is %+v: %v", before, after, err)
	}
	out.Lock()
	defer out.Unlock()
	if shown := out.Bytes(); !bytes.HasSuffix(shown, []byte("\x1b[?2004l")) {
		t.Errorf("pastes are still bracketed: %q", shown)
	}
}

// typist types the next line at each read, when the terminal is raw.
type typist struct {
	terminal int
	lines    []string
}

func (y *typist) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\x1b[?2004h")) {
		if _, err := unix.Write(y.terminal, []byte(y.lines[0])); err != nil {
			return 0, err
		}
		y.lines = y.lines[1:]
	}
	return len(p), nil
}

// A line that a program requests is not code: it does not enter the history, and Tab completes nothing in it.
func TestAnswerIsNoCode(t *testing.T) {
	master, slave, ours := openTerminal(t)
	in := &typed{fd: slave, keys: &keys{r: ours}, shown: &typist{master, []string{"1\t2\r", "1\t2\r"}}, history: openHistory("")}
	in.restart()
	in.terminal.History = in.history
	in.terminal.AutoCompleteCallback = func(_ string, _ int, key rune) (string, int, bool) { return "completed", 9, key == '\t' }
	if line, err := in.answer(); line != "12" || err != nil {
		t.Errorf("answer: %q, %v", line, err)
	}
	if line, err := in.read(">>> "); line != "completed2" || err != nil {
		t.Errorf("code: %q, %v", line, err)
	}
	if got := in.history.lines; len(got) != 1 || got[0] != "completed2" {
		t.Errorf("history: %q", got)
	}
}

// Ctrl-D at the request of a program ends that input alone. The lines after it are read, with the history and the completion.
func TestEndOfAnswer(t *testing.T) {
	master, slave, ours := openTerminal(t)
	types := &typist{master, []string{"\x04x\t\ry\r", "", "", "\x04z\r", ""}}
	in := &typed{fd: slave, keys: &keys{r: ours}, shown: types, history: openHistory("")}
	in.restart()
	in.terminal.History = in.history
	in.terminal.AutoCompleteCallback = func(_ string, _ int, key rune) (string, int, bool) { return "completed", 9, key == '\t' }
	if line, err := in.answer(); !errors.Is(err, io.EOF) {
		t.Errorf("answer: %q, %v", line, err)
	}
	for _, want := range []string{"completed", "y"} {
		if line, err := in.read(">>> "); line != want || err != nil {
			t.Errorf("code: %q, %v, want %q", line, err, want)
		}
	}
	if got := in.history.lines; !slices.Equal(got, []string{"completed", "y"}) {
		t.Errorf("history: %q", got)
	}
	if line, err := in.password(); !errors.Is(err, io.EOF) {
		t.Errorf("password: %q, %v", line, err)
	}
	if line, err := in.answer(); line != "z" || err != nil {
		t.Errorf("answer after it: %q, %v", line, err)
	}
}
