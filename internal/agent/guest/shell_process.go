//go:build linux

package guest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/dialect"
	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/file"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/guest/pty"
	"github.com/belljar/belljar/internal/agent/guest/sock"
	"github.com/belljar/belljar/internal/agent/wire"
)

// shellProcess is one process of a shell. It is interactive, with job control and a terminal, so that an interrupt returns it to
// its prompt. But it reads our lines from a socket, and prints no prompt.
type shellProcess struct {
	exec     *exec // its keeper, its cgroup, its end
	user     identity.ID
	dialect  dialect.Dialect
	kernel   *kernel  // set for a kernel; nil for a shell
	input    *os.File // we send lines to it
	control  *os.File // its reports
	text     *os.File // the command's text; its user cannot write it
	terminal *os.File // the other side of its controlling terminal
	raw      syscall.RawConn
	status   int // of the last command
	once     sync.Once

	mu      sync.Mutex
	now     *command // the active command; nil for none
	reports reports  // of a kernel
}

// startShell starts a process for a shell, as the exec specifies, in a directory; "" uses the exec's.
func (a *Agent) startShell(spec wire.Exec, dir string) (*shellProcess, error) {
	own := wire.Exec{ID: spec.ID, Env: spec.Env, Cwd: spec.Cwd, UID: spec.UID, GID: spec.GID, Rlimits: spec.Rlimits}
	if dir != "" {
		own.Cwd = dir
	}
	e := newExec(a, own)
	p := &shellProcess{exec: e, user: identity.ID{UID: spec.UID, GID: spec.GID}, kernel: kernels[spec.Shell.Kernel]}
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
	a.launching[e] = struct{}{}
	a.lives.Add(1)
	a.mu.Unlock()
	if err := e.launchTracked(); err != nil {
		a.lives.Done()
		p.close()
		return nil, err
	}
	e.run()
	if p.kernel != nil {
		go p.serveKernel()
	} else {
		go p.listen()
		go p.watchTerminal()
	}
	go func() {
		<-e.over
		if p.current() == nil { // else the command must still get the shell's end
			p.close()
		}
	}()
	if p.kernel == nil {
		// If it is already dead, sending the first command fails.
		_ = p.send(p.dialect.Setup)
	}
	return p, nil
}

// find selects the shell's program.
func (p *shellProcess) find(l *launcher) error {
	var err error
	for _, d := range dialect.All() {
		if l.path, err = process.LookPath(d.Program, p.exec.spec.Env, l.cwd); err == nil {
			p.dialect = d.Fit(p.exec.spec.Rlimits["nofile"])
			p.exec.spec.Argv = d.Args
			return nil
		}
		p.exec.spec.Argv = d.Args // for the error
	}
	return err
}

// prepare opens the descriptors of the process. It runs as the user, except for files that the agent must own.
func (p *shellProcess) prepare(l *launcher) error {
	if p.kernel != nil {
		return p.prepareKernel(l)
	}
	if err := p.find(l); err != nil {
		return err
	}
	l.step = stepTerminal
	// It is never shown: it carries output to /dev/tty.
	master, slave, err := pty.Open(wide())
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
	text, err := p.readText(l)
	if err != nil {
		return err
	}
	null := int(l.e.a.null.Fd())
	l.stdio = [3]int{input, null, null}
	l.extra = [][2]int{{control, p.dialect.Control}, {text, p.dialect.Text}}
	return nil
}

// socket makes a socket pair with one end for the process. Unlike a pipe, a program of the same user cannot open it by its name in
// /proc.
func (p *shellProcess) socket(l *launcher, kind int, ours **os.File) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	l.child = append(l.child, pair[1])
	if *ours, err = l.own(pair[0], "shell"); err != nil {
		return 0, err
	}
	// Any process that holds the other end can write to it; the kernel reports the sender.
	return pair[1], unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
}

// openText creates the file from which the shell reads commands. The agent owns it, and others can only read it, so that no
// program can inject a line into the next command.
func (p *shellProcess) openText() error {
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make the shell's file: %w", err)
	}
	p.text = os.NewFile(uintptr(fd), "command")
	return unix.Fchmod(fd, 0o444)
}

// readText opens the file for the shell, by its name in /proc: a separate descriptor, read-only.
func (p *shellProcess) readText(l *launcher) (int, error) {
	text, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(p.text.Fd())), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open the shell's file: %w", err)
	}
	l.child = append(l.child, text)
	return text, nil
}

// program returns the name of the shell's program.
func (p *shellProcess) program() string {
	if p.kernel != nil {
		return p.kernel.argv[0]
	}
	return p.dialect.Program
}

// send sends lines to the shell.
func (p *shellProcess) send(lines string) error {
	_, err := p.input.WriteString(lines)
	return err
}

// take makes c the active command, and sends it to the shell.
func (p *shellProcess) take(c *command) error {
	text := c.e.spec.Shell.Cmd
	if p.kernel == nil {
		text = p.dialect.File(c.id, c.streams.redirect, p.status, text)
	}
	if err := p.text.Truncate(0); err != nil {
		return err
	}
	if _, err := p.text.WriteAt(text, 0); err != nil {
		return err
	}
	p.mu.Lock()
	p.now = c
	p.mu.Unlock()
	if p.kernel != nil {
		return p.ask(c)
	}
	return p.send(p.dialect.Lines(c.id, c.streams.redirect))
}

// leave ends the turn of the active command.
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

// listen reads the shell's reports, until no process holds the other end.
func (p *shellProcess) listen() {
	raw, err := p.control.SyscallConn()
	if err != nil {
		return
	}
	for {
		wait := raw.Read(func(fd uintptr) bool {
			err = p.readReport(fd)
			return err != unix.EAGAIN
		})
		if wait != nil || err != nil {
			return
		}
	}
}

// catchUp reads all reports of a shell that has ended.
func (p *shellProcess) catchUp() {
	raw, err := p.control.SyscallConn()
	if err != nil {
		return
	}
	read := p.readReport
	if p.kernel != nil {
		read = p.readLines
	}
	_ = raw.Control(func(fd uintptr) {
		for read(fd) == nil {
		}
	})
}

// readReport reads one report of the shell, without waiting, and passes it to its command. Other processes may hold the shell's end of
// the socket, such as a subshell, which is a fork. Their messages are ignored.
func (p *shellProcess) readReport(fd uintptr) error {
	var buf [64]byte
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, n, err := sock.ReceiveNow(fd, buf[:])
	if err != nil {
		return err
	}
	id, open, status, ok := dialect.ParseReport(buf[:n])
	if c := p.now; ok && pid == p.exec.pid && c != nil && c.id == id {
		c.handleReport(open, status)
	}
	return nil
}

// watchTerminal passes output to the controlling terminal to the active command, until the terminal is closed.
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

// drainTerminal reads the pending output.
func (p *shellProcess) drainTerminal() {
	if p.kernel != nil {
		return // it has none
	}
	for room := maxPipe; room > 0; {
		n := 0
		if p.raw.Control(func(fd uintptr) { n, _ = p.readTerminal(fd) }) != nil || n <= 0 {
			return
		}
		room -= n
	}
}

// readTerminal reads once, without waiting. A lock keeps two readers apart.
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

// reset restores the controlling terminal's modes.
func (p *shellProcess) reset() {
	if p.kernel != nil {
		return
	}
	_ = p.raw.Control(func(fd uintptr) { _ = p.exec.a.waits.Set(int(fd)) }) // fails if the terminal is closed, and its shell has ended
}

// foreground returns the terminal's foreground process group: that of the job that the shell waits for, or its own. gVisor does not
// report it. There it is the last job, without the survivors of earlier commands.
func (p *shellProcess) foreground(survivors map[int]uint64) int {
	if p.kernel != nil {
		return p.exec.pid
	}
	group, err := 0, error(nil)
	_ = p.raw.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	if err == unix.ENOTTY {
		group = process.LastJob(p.exec.pid, survivors)
	}
	if group <= 1 {
		return p.exec.pid
	}
	return group
}

// dir returns the shell's working directory, as requests name it; "" if unknown.
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
	if err != nil && a.own.Effective { // a thread with the user's effective ids cannot read /proc of the user's processes
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

// close closes our ends of the process's descriptors.
func (p *shellProcess) close() {
	p.once.Do(func() {
		for _, f := range []*os.File{p.input, p.control, p.text, p.terminal} {
			if f != nil {
				f.Close()
			}
		}
	})
}
