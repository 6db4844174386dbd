//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
)

// person is a user at a real terminal in which a belljar command runs.
type person struct {
	t    *testing.T
	desk *os.File // the terminal's master
	cmd  *exec.Cmd

	mu    sync.Mutex
	seen  []byte
	grown chan struct{} // closed and replaced when there is more output
	done  chan struct{} // closed at the end of the output
}

// sit starts a command in a terminal of 100 by 40.
func (s *server) sit(args ...string) *person {
	s.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &person{t: s.t, desk: master, grown: make(chan struct{}), done: make(chan struct{})}
	n := 0
	p.control(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0) })
	p.control(func(fd int) (err error) { n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); return err })
	p.resize(100, 40)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	p.cmd = exec.Command(built.Belljar, args...)
	p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = s.env(), slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	slave.Close()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		master.Close()
	})
	go p.look()
	return p
}

func (p *person) control(do func(fd int) error) {
	p.t.Helper()
	raw, err := p.desk.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
		if err == nil {
			err = failed
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *person) resize(cols, rows uint16) {
	p.t.Helper()
	p.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows})
	})
}

func (p *person) look() {
	defer close(p.done)
	buf := make([]byte, 4096)
	for {
		n, err := p.desk.Read(buf)
		p.mu.Lock()
		p.seen = append(p.seen, buf[:n]...)
		close(p.grown)
		p.grown = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// types types keys.
func (p *person) types(keys string) {
	p.t.Helper()
	if _, err := p.desk.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits for new output that contains what.
func (p *person) sees(what string) {
	p.t.Helper()
	late := time.After(patience)
	for {
		p.mu.Lock()
		if i := bytes.Index(p.seen, []byte(what)); i >= 0 {
			p.seen = p.seen[i+len(what):]
			p.mu.Unlock()
			return
		}
		grown, seen := p.grown, string(p.seen)
		p.mu.Unlock()
		select {
		case <-grown:
		case <-p.done:
			p.t.Fatalf("%q is not there at the end: %q", what, seen)
		case <-late:
			p.t.Fatalf("%q does not come: %q", what, seen)
		}
	}
}

// leaves waits for the command's end and returns its exit status.
func (p *person) leaves() int {
	p.t.Helper()
	<-p.done
	_ = p.cmd.Wait() // the status is checked elsewhere
	return p.cmd.ProcessState.ExitCode()
}

// TestSessionShell is a user at a terminal: they type, resize, interrupt, detach and reattach.
func TestSessionShell(t *testing.T) {
	s := serve(t, t.TempDir())
	session := s.session(s.client(), func(x *belljar.SessionSpec) { x.Scope = belljar.Scope{Namespace: "agent", ID: "person"} })
	p := s.sit("session", "shell", session.ID)
	p.sees("$ ")
	p.types("echo $((6*7)); stty size\r")
	p.sees("42\r\n40 100")
	p.sees("$ ") // before its prompt, bash reads the size and sets it again: a change in between is lost
	p.resize(120, 50)
	p.types("until [ \"$(stty size)\" = '50 120' ]; do :; done; echo re''sized\r")
	p.sees("resized")
	p.types("sh -c 'echo slee\"\"ping; exec sleep 1000'\r")
	p.sees("sleeping")
	p.types("\x03")
	p.sees("^C")
	p.types("kept=yes; printf '\\303\\244\\342\\202\\254%s\\n' end\r")
	p.sees("ä€end")
	p.types("\x10\x11") // ctrl-p ctrl-q
	p.sees("left the terminal, which lives on")
	p.sees("--attach ")
	if status := p.leaves(); status != 0 {
		t.Errorf("leaving: exit status %d", status)
	}

	back := s.sit("session", "shell", session.ID, "--attach", "last")
	back.sees("ä€end") // the history
	back.types("echo it is $kept\r")
	back.sees("it is yes")
	back.types("exit 5\r")
	if status := back.leaves(); status != 5 {
		t.Errorf("exit status %d of a shell that ended with 5", status)
	}

	// Input that is not a terminal is read to its end.
	cmd := exec.Command(built.Belljar, "session", "shell", session.ID)
	cmd.Env, cmd.Stdin = s.env(), strings.NewReader("echo from ''a pipe\nexit 4\n")
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 4 || !strings.Contains(string(out), "from a pipe") {
		t.Errorf("from a pipe: %v, %q", err, out)
	}
}
