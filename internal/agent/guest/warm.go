//go:build linux

package guest

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/wire"
)

// interpreter is a program that can be started before it is known what it executes: it loads a file of ours while it starts, which
// waits (see warm/sitecustomize.py). All that a command cannot change afterwards is settled at its start.
type interpreter struct {
	prefix   string // of the variables that a command with a waiting interpreter must not have
	variable string // by which it finds its file
	path     func(dir, given string) string
	able     bool // it can fork, and can set its own standard input and limits
}

var interpreters = map[string]*interpreter{
	"python3": {prefix: "PYTHON", variable: "PYTHONPATH", able: true, path: func(dir, given string) string {
		return strings.TrimSuffix(dir+":"+given, ":")
	}},
	"node": {prefix: "NODE_OPTIONS", variable: "NODE_OPTIONS", path: func(dir, _ string) string {
		return "--require=" + filepath.Join(dir, "node.js")
	}},
}

//go:embed warm/sitecustomize.py
var pythonWaits string

//go:embed warm/node.js
var nodeWaits string

const (
	parkSocket  = 97 // of the interpreter
	maxParked   = 2  // interpreters of one agent
	maxThreaded = 16
	parkTime    = time.Minute      // that an interpreter may take to start and to import its modules
	jobTime     = 5 * time.Second  // that it may take to accept a command
	parkIdle    = 10 * time.Minute // that one waits in a session
)

// warmer holds the interpreters that wait.
type warmer struct {
	mu       sync.Mutex
	list     []*parked           // the one used last at the end
	starting map[string]struct{} // keys
	threaded map[string]struct{} // keys of interpreters with threads, which cannot fork
}

// parked is an interpreter that waits for a command with its key.
type parked struct {
	a       *Agent
	key     string
	in      *interpreter
	e       *exec // its processes; it has no id
	control *control
	forker  *parked     // has forked it; else nil
	forks   bool        // it forks the processes that wait in its place
	idle    *time.Timer // nil in a sandbox that is ready for any caller

	filling sync.Mutex // guards the following field
	spare   *parked    // its child that waits; nil for none

	mu       sync.Mutex // guards the following field
	children map[int]*exec
}

// interpreterOf returns the interpreter that may wait for a command, and the key by which commands can take each other's; nil if the
// command has to be started.
func interpreterOf(spec wire.Exec) (in *interpreter, key string) {
	if spec.Warm == nil || spec.PTY != nil || len(spec.Argv) < 2 || strings.HasPrefix(spec.Argv[1], "-") {
		return nil, ""
	}
	in = interpreters[spec.Argv[0]]
	if in == nil || spec.Stdin && !in.able {
		return nil, ""
	}
	for _, v := range spec.Env {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, in.prefix) && (name != in.variable || !in.able) {
			return nil, ""
		}
	}
	limits := spec.Rlimits
	if in.able {
		limits = nil
	}
	return in, fmt.Sprintf("%q %q %q %d %d %v %q", spec.Argv, spec.Env, spec.Cwd, spec.UID, spec.GID, limits, spec.Warm.Preload)
}

// environment returns the environment with which an interpreter waits. It removes the difference itself.
func (in *interpreter) environment(env []string, dir string) []string {
	var list []string
	given := ""
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); name == in.variable {
			given = value
		} else {
			list = append(list, v)
		}
	}
	return append(list, in.variable+"="+in.path(dir, given))
}

// errThreads means that an interpreter cannot fork.
var errThreads = errors.New("a waiting interpreter has threads")

// park starts an interpreter for commands like spec, and returns when it waits.
func (a *Agent) park(spec wire.Exec) error {
	if spec.ID == "" {
		spec.ID = "parked"
	}
	if err := checkExec(spec); err != nil {
		return err
	}
	in, key := interpreterOf(spec)
	if in == nil {
		return fault.Invalid("%s is no interpreter that can wait", spec.Argv)
	}
	forks, first := a.warm.begin(key)
	if !first {
		return nil
	}
	defer a.warm.began(key)
	p := &parked{a: a, key: key, in: in, forks: forks && in.able && a.group != nil && !spec.KillAll, children: make(map[int]*exec)}
	err := p.start(spec)
	if errors.Is(err, errThreads) {
		a.warm.setThreaded(key)
		p = &parked{a: a, key: key, in: in}
		err = p.start(spec)
	}
	if err != nil {
		return err
	}
	if !spec.KillAll {
		p.idle = time.AfterFunc(parkIdle, func() {
			if a.warm.remove(p) {
				p.discard()
			}
		})
	}
	if old := a.warm.add(p); old != nil {
		old.discard()
	}
	if a.isClosing() {
		a.discardParked()
	}
	return nil
}

// start starts the interpreter, and returns when it waits.
func (p *parked) start(spec wire.Exec) error {
	a := p.a
	dir := filepath.Join(filepath.Dir(a.cfg.Secrets), "warm")
	if err := a.own.As(identity.ID{UID: spec.UID, GID: spec.GID}, func() error { return writeWaits(dir) }); err != nil {
		return err
	}
	hold := wire.Exec{Argv: spec.Argv, Env: p.in.environment(spec.Env, dir), Cwd: spec.Cwd, UID: spec.UID, GID: spec.GID, KillAll: true}
	if !p.in.able {
		hold.Rlimits = spec.Rlimits
	}
	p.e = newExec(a, hold)
	p.e.parked = p
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		return fault.ErrDisconnected
	}
	a.launching[p.e] = struct{}{}
	a.lives.Add(1)
	a.mu.Unlock()
	if err := p.e.launchTracked(); err != nil {
		p.control.Close()
		a.lives.Done()
		return err
	}
	if p.forks {
		go p.e.watch()
	}
	err := p.settle(spec.Warm.Preload)
	if err == nil && p.forks {
		err = p.fork()
	}
	if err != nil {
		p.discard()
	}
	return err
}

// writeWaits writes the files that make interpreters wait. They are the user's own, as the interpreters are.
func writeWaits(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // a program that has changed them has changed only what its own user runs
		}
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, text := range map[string]string{"sitecustomize.py": pythonWaits, "node.js": nodeWaits} {
		if err := root.WriteFile(name, []byte(text), 0o444); err != nil {
			return err
		}
	}
	return root.Chmod(".", 0o555) // Python leaves no bytecode there
}

// settle has the interpreter import its modules. One that has several threads afterwards does not fork.
func (p *parked) settle(modules []string) error {
	how := "once"
	if p.forks {
		how = "fork"
	}
	if err := p.control.send(strings.Join(append([]string{how}, modules...), "\x00")); err != nil {
		return err
	}
	settled := make(chan struct{})
	defer close(settled)
	go func() {
		select {
		case <-p.a.stop:
			p.control.Close()
		case <-settled:
		}
	}()
	threads, _, err := p.control.receive(parkTime)
	if err == nil && p.forks && threads != "1" {
		err = errThreads
	}
	return err
}

// warmUp gives a command an interpreter that waits. It returns false if there is none, and the command is as before.
func (e *exec) warmUp() bool {
	in, key := interpreterOf(e.spec)
	if in == nil {
		return false
	}
	e.a.launches.RLock()
	defer e.a.launches.RUnlock()
	p := e.a.warm.take(key)
	if p == nil {
		return false
	}
	e.began = time.Now()
	from := p.forker
	l := &launcher{e: e, user: identity.ID{UID: e.spec.UID, GID: e.spec.GID}, tty: -1}
	err := p.become(l)
	l.closeChildEnds()
	if err != nil {
		l.closeOurEnds()
		e.inlet = nil
		p.discard()
		if from != nil && e.a.warm.remove(from) { // it could fork only others that do not answer
			from.discard()
		}
		return false
	}
	e.a.mu.Lock()
	defer e.a.mu.Unlock()
	delete(e.a.launching, e)
	close(e.executed)
	delete(e.a.alive, p.e)
	e.a.alive[e] = struct{}{}
	e.a.lives.Done() // of the interpreter: the command has its own
	if from != nil {
		go from.refill()
	}
	return true
}

// refill has the interpreter fork the next process that waits.
func (p *parked) refill() {
	if p.fork() != nil && p.a.warm.remove(p) {
		p.discard()
	}
}

// become makes the interpreter the command's first process.
func (p *parked) become(l *launcher) error {
	e, from := l.e, p.e
	if err := e.a.own.As(l.user, l.openStdin); err != nil {
		return err
	}
	if err := p.control.send(job(e.spec, e.a.cwd(e.spec.Cwd), p.in.able), l.child...); err != nil {
		return err
	}
	l.closeChildEnds()
	if _, _, err := p.control.receive(jobTime); err != nil {
		return err
	}
	if p.forker != nil && !p.forker.pass(from, e) {
		return fault.ErrDisconnected
	}
	e.pid, e.keeper, e.program, e.settled, e.status, e.group, e.outlets = from.pid, from.keeper, from.program, from.settled, from.status, from.group, from.outlets
	e.forker = p.forker
	for _, o := range e.outlets {
		o.e = e
	}
	if p.idle != nil {
		p.idle.Stop()
	}
	// From here on the command is what it has: one that does not get the word ends, as one that was killed.
	_ = p.control.send("go")
	p.control.Close()
	return nil
}

// job is the message that makes an interpreter the process of a command.
func job(spec wire.Exec, cwd string, limits bool) string {
	words := []string{"0", cwd}
	if spec.Stdin {
		words[0] = "1"
	}
	for name, value := range spec.Rlimits {
		if limits {
			words = append(words, fmt.Sprintf("%s=%d", name, value))
		}
	}
	return strings.Join(words, "\x00")
}

// prepare opens the interpreter's end of its socket.
func (p *parked) prepare(l *launcher) error {
	ours, theirs, err := newControl()
	if err != nil {
		return err
	}
	p.control = ours
	l.child = append(l.child, theirs)
	l.extra = [][2]int{{theirs, parkSocket}}
	return nil
}

// discard ends an interpreter that waits.
func (p *parked) discard() {
	if p.idle != nil {
		p.idle.Stop()
	}
	p.control.Close()
	if !p.forks {
		p.e.end(ending{cause: wire.CauseEnded})
		p.e.run()
		return
	}
	_ = p.e.group.Kill()
	if s := p.takeSpare(); s != nil {
		s.discard()
	}
	go func() { // its keeper ends with the last process that it has forked
		p.e.cleanUp()
		p.a.lives.Done()
	}()
}

// discardParked ends all interpreters that wait.
func (a *Agent) discardParked() {
	a.warm.mu.Lock()
	list := a.warm.list
	a.warm.list = nil
	a.warm.mu.Unlock()
	for _, p := range list {
		p.discard()
	}
}

// begin reports whether an interpreter with a key is to be started, and whether it may fork. [warmer.began] follows.
func (w *warmer) begin(key string) (forks, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.starting == nil {
		w.starting, w.threaded = make(map[string]struct{}), make(map[string]struct{})
	}
	if _, ok := w.starting[key]; ok || slices.ContainsFunc(w.list, func(p *parked) bool { return p.key == key }) {
		return false, false
	}
	w.starting[key] = struct{}{}
	_, threaded := w.threaded[key]
	return !threaded, true
}

func (w *warmer) began(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.starting, key)
}

func (w *warmer) setThreaded(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.threaded) == maxThreaded {
		clear(w.threaded)
	}
	w.threaded[key] = struct{}{}
}

// take returns the interpreter with a key that waits, nil for none, and removes it. One that was forked has another soon.
func (w *warmer) take(key string) *parked {
	w.mu.Lock()
	i := slices.IndexFunc(w.list, func(p *parked) bool { return p.key == key })
	if i < 0 {
		w.mu.Unlock()
		return nil
	}
	p := w.list[i]
	w.list = slices.Delete(w.list, i, i+1)
	if p.forks {
		w.list = append(w.list, p)
	}
	w.mu.Unlock()
	if !p.forks {
		return p
	}
	if p.idle != nil {
		p.idle.Reset(parkIdle)
	}
	return p.takeSpare()
}

// add adds an interpreter, and returns one that was used longer ago if there are too many.
func (w *warmer) add(p *parked) (old *parked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, p)
	if len(w.list) > maxParked {
		old, w.list = w.list[0], slices.Delete(w.list, 0, 1)
	}
	return old
}

// remove removes an interpreter; false if another caller has.
func (w *warmer) remove(p *parked) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.list)
	w.list = slices.DeleteFunc(w.list, func(x *parked) bool { return x == p })
	return len(w.list) < n
}

// control is the agent's end of the socket of an interpreter that waits.
type control struct{ *os.File }

// newControl makes a socket pair that keeps messages apart and reports their senders.
func newControl() (ours *control, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	err = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	if err == nil {
		err = unix.SetNonblock(pair[0], true)
	}
	if err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return nil, 0, err
	}
	return &control{os.NewFile(uintptr(pair[0]), "parked")}, pair[1], nil
}

// Close closes the socket, if there is one.
func (c *control) Close() {
	if c != nil {
		c.File.Close()
	}
}

// send sends a message with descriptors. The socket has room: both sides take turns.
func (c *control) send(text string, fds ...int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	var sent error
	if err := raw.Control(func(fd uintptr) {
		sent = unix.Sendmsg(int(fd), []byte(text), rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	}); err != nil {
		return err
	}
	return sent
}

// receive waits for a message, and returns the pid of its sender too.
func (c *control) receive(d time.Duration) (text string, pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return "", 0, err
	}
	_ = c.SetReadDeadline(time.Now().Add(d))
	var buf [64]byte
	n := 0
	if wait := raw.Read(func(fd uintptr) bool {
		pid, n, err = receiveNow(fd, buf[:])
		return err != unix.EAGAIN
	}); wait != nil {
		return "", 0, wait
	}
	return string(buf[:n]), pid, err
}
