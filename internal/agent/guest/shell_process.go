//go:build linux

package guest

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/file"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/wire"
)

// shellProcess is one process of a shell. It is interactive, so that an interrupt takes it back to its prompt, and has
// job control and a terminal for that; but it reads lines of ours from a socket, and prints no prompt.
type shellProcess struct {
	exec     *exec // what it is as a process: its keeper, its cgroup, its end
	user     identity.ID
	dialect  dialect
	input    *os.File // it reads lines here
	control  *os.File // and reports here what became of them
	text     *os.File // it reads the command here; its user cannot write it
	terminal *os.File // its controlling terminal's other side
	raw      syscall.RawConn
	once     sync.Once

	mu  sync.Mutex
	now *command // whose turn it is; nil for none
}

// startShell starts a process for a shell, as the exec wants it, in a directory; "" is the exec's own.
func (a *Agent) startShell(spec wire.Exec, dir string) (*shellProcess, error) {
	own := wire.Exec{ID: spec.ID, Env: spec.Env, Cwd: spec.Cwd, UID: spec.UID, GID: spec.GID, Rlimits: spec.Rlimits}
	if dir != "" {
		own.Cwd = dir
	}
	e := newExec(a, own)
	p := &shellProcess{exec: e, user: identity.ID{UID: spec.UID, GID: spec.GID}}
	e.host = p
	if err := p.openText(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		p.close()
		return nil, fault.ErrDisconnected
	}
	a.unborn[e] = struct{}{}
	a.lives.Add(1)
	a.mu.Unlock()
	if err := e.bear(); err != nil {
		a.lives.Done()
		p.close()
		return nil, err
	}
	e.run()
	go p.listen()
	go p.watchTerminal()
	go func() {
		<-e.over
		if p.current() == nil { // else it still has to learn how the shell ended
			p.close()
		}
	}()
	// One that is dead already is found out when it does not take its first command.
	_ = p.send(p.dialect.setup)
	return p, nil
}

// find decides which program the shell is.
func (p *shellProcess) find(l *launcher) error {
	var err error
	for _, d := range dialects() {
		if l.path, err = lookPath(d.program, p.exec.spec.Env, l.cwd); err == nil {
			p.dialect = d.fit(p.exec.spec.Rlimits["nofile"])
			p.exec.spec.Argv = d.args
			return nil
		}
		p.exec.spec.Argv = d.args // for the error
	}
	return err
}

// prepare makes what the process is born with. It runs as the user, apart from what is to be ours.
func (p *shellProcess) prepare(l *launcher) error {
	if err := p.find(l); err != nil {
		return err
	}
	l.step = stepTerminal
	// It is never shown: it carries what programs write to /dev/tty.
	master, slave, err := openPTY(wide())
	if err != nil {
		return err
	}
	l.child, l.tty = append(l.child, slave), slave
	if p.terminal, err = l.own(master, "terminal"); err != nil {
		return err
	}
	if p.raw, err = p.terminal.SyscallConn(); err != nil {
		return err
	}
	l.step = stepPipes
	input, err := p.socket(l, unix.SOCK_STREAM, &p.input)
	if err != nil {
		return err
	}
	control, err := p.socket(l, unix.SOCK_SEQPACKET, &p.control)
	if err != nil {
		return err
	}
	// By its name in /proc: a descriptor of its own, for reading only.
	text, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(p.text.Fd())), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the shell's file: %w", err)
	}
	l.child = append(l.child, text)
	null := int(l.e.a.null.Fd())
	l.stdio = [3]int{input, null, null}
	l.extra = [][2]int{{control, p.dialect.control}, {text, p.dialect.text}}
	return nil
}

// socket makes a socket, whose one end is the process's. A program with the same user cannot open it by its name in
// /proc, as it could a pipe.
func (p *shellProcess) socket(l *launcher, kind int, ours **os.File) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	l.child = append(l.child, pair[1])
	if *ours, err = l.own(pair[0], "shell"); err != nil {
		return 0, err
	}
	// Any process that has the other end may write to it; the kernel reports which one did.
	return pair[1], unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
}

// openText makes the file that the shell reads commands from. Its owner is the agent and it is read-only for others, so
// that no program can put a line of its own into the next command.
func (p *shellProcess) openText() error {
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make the shell's file: %w", err)
	}
	p.text = os.NewFile(uintptr(fd), "command")
	return unix.Fchmod(fd, 0o444)
}

// send gives the shell lines to read.
func (p *shellProcess) send(lines string) error {
	_, err := p.input.WriteString(lines)
	return err
}

// take makes c the command whose turn it is, and gives it to the shell.
func (p *shellProcess) take(c *command) error {
	text := p.dialect.file(c.id, c.streams.redirect, c.e.spec.Shell.Cmd)
	if err := p.text.Truncate(0); err != nil {
		return err
	}
	if _, err := p.text.WriteAt(text, 0); err != nil {
		return err
	}
	p.mu.Lock()
	p.now = c
	p.mu.Unlock()
	return p.send(p.dialect.lines(c.id))
}

// leave ends the turn of the command that has it.
func (p *shellProcess) leave() {
	p.mu.Lock()
	p.now = nil
	p.mu.Unlock() // closing waits for readers, which need the lock
	if isClosed(p.exec.over) {
		p.close()
	}
}

func (p *shellProcess) current() *command {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// listen reads what the shell reports, until no process has the other end.
func (p *shellProcess) listen() {
	raw, err := p.control.SyscallConn()
	if err != nil {
		return
	}
	for {
		wait := raw.Read(func(fd uintptr) bool {
			err = p.hear(fd)
			return err != unix.EAGAIN
		})
		if wait != nil || err != nil {
			return
		}
	}
}

// catchUp reads all that the shell has reported, which it did before it ended.
func (p *shellProcess) catchUp() {
	raw, err := p.control.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for p.hear(fd) == nil {
		}
	})
}

// hear reads one report of the shell, without waiting, and hands it to the command that it is about. Others may have
// the shell's end of the socket: a subshell is a fork of the shell. They are not listened to.
func (p *shellProcess) hear(fd uintptr) error {
	var buf [64]byte
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, n, err := receiveNow(fd, buf[:])
	if err != nil {
		return err
	}
	id, open, status, ok := parseTold(buf[:n])
	if c := p.now; ok && pid == p.exec.pid && c != nil && c.id == id {
		c.hear(open, status)
	}
	return nil
}

// watchTerminal hands what is written to the controlling terminal to the command whose turn it is, until the terminal is
// closed.
func (p *shellProcess) watchTerminal() {
	for {
		if c := p.current(); c != nil {
			c.e.awaitRoom()
		}
		var n int
		var err error
		wait := p.raw.Read(func(fd uintptr) bool {
			n, err = p.readTerminal(fd)
			return err != unix.EAGAIN
		})
		if wait != nil || n <= 0 || err != nil {
			return // closed; or EIO, when no process has it open
		}
	}
}

// drainTerminal reads what is there.
func (p *shellProcess) drainTerminal() {
	for room := maxPipe; room > 0; {
		n := 0
		if p.raw.Control(func(fd uintptr) { n, _ = p.readTerminal(fd) }) != nil || n <= 0 {
			return
		}
		room -= n
	}
}

// readTerminal reads once, without waiting. Two readers do not mix what they read.
func (p *shellProcess) readTerminal(fd uintptr) (int, error) {
	buf := p.exec.a.buffers.Get().(*[]byte)
	defer p.exec.a.buffers.Put(buf)
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := readOutput(unix.Read, int(fd), *buf)
	if n > 0 && p.now != nil {
		p.now.e.keep(wire.Stdout, (*buf)[:n])
	}
	return n, err
}

// reset makes the controlling terminal what it was before a command changed its modes.
func (p *shellProcess) reset() {
	_ = p.raw.Control(func(fd uintptr) { _ = p.exec.a.plain(int(fd)) }) // one that is gone belongs to a shell that is
}

// foreground is the process group that the terminal belongs to: that of the job that the shell waits for, or its own.
func (p *shellProcess) foreground() int {
	group := 0
	_ = p.raw.Control(func(fd uintptr) { group, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	if group <= 1 {
		return p.exec.pid
	}
	return group
}

// dir is the shell's working directory, as requests name it; "" if that is not known.
func (p *shellProcess) dir() string {
	var dir string
	a := p.exec.a
	read := func() error {
		name := fmt.Sprintf("/proc/%d/cwd", p.exec.pid)
		var err error
		if dir, err = os.Readlink(name); err != nil {
			return err
		}
		var st unix.Stat_t
		if unix.Stat(name, &st) == nil && st.Nlink == 0 {
			dir = strings.TrimSuffix(dir, " (deleted)")
		}
		return nil
	}
	err := a.own.As(p.user, read)
	if err != nil && a.own.Effective { // the user's processes do not belong to a thread that is him for a moment
		err = read()
	}
	if err != nil {
		return ""
	}
	if rest, ok := strings.CutPrefix(dir, a.cfg.Workspace); ok && (rest == "" || rest[0] == '/') {
		return file.Path + rest
	}
	return dir
}

// close gives up what we have of the process.
func (p *shellProcess) close() {
	p.once.Do(func() {
		for _, f := range []*os.File{p.input, p.control, p.text, p.terminal} {
			if f != nil {
				f.Close()
			}
		}
	})
}

// receiveNow reads one message and its sender without waiting. EAGAIN if there is none, io.EOF if no writer is left
// to send one.
func receiveNow(fd uintptr, b []byte) (pid, n int, err error) {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	oobn := 0
	for {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return 0, 0, err
	case n == 0:
		return 0, 0, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return 0, 0, err
	}
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			pid = int(cred.Pid)
		}
	}
	return pid, n, nil
}
