//go:build linux

package guest

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/file"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/guest/warm"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Steps of starting a command, as [wire.Error.Step] names them.
const (
	stepPipes    = "pipes"
	stepTerminal = "pty"
	stepLookup   = "lookup"
	stepKeeper   = "keeper"
	stepCgroup   = "cgroup"
	stepSession  = "session"
	stepRlimits  = wire.StepRlimits
	stepUser     = "user"
	stepChdir    = "chdir"
	stepStdio    = "stdio"
	stepFilter   = "seccomp"
	stepExec     = "exec"
)

// maxID is the maximum length of an exec's id.
const maxID = 128

// checkExec validates a command.
func checkExec(spec wire.Exec) error {
	switch {
	case spec.ID == "" || len(spec.ID) > maxID:
		return fault.Invalid("exec id of %d bytes", len(spec.ID))
	case spec.Shell == nil && (len(spec.Argv) == 0 || spec.Argv[0] == ""):
		return fault.Invalid("exec without a program")
	case len(spec.Note) > wire.MaxNote:
		return fault.Invalid("note of %d bytes", len(spec.Note))
	case spec.TimeoutMS < 0, spec.GraceMS < 0, spec.CPUTimeMS < 0, spec.OutputLimit < 0:
		return fault.Invalid("negative limit of exec %q", spec.ID)
	case !identity.ID{UID: spec.UID, GID: spec.GID}.Valid():
		return fault.Invalid("no such user: %d:%d", spec.UID, spec.GID)
	case strings.ContainsRune(spec.Cwd, 0):
		return fault.Invalid("NUL byte in the working directory")
	}
	for _, list := range [][]string{spec.Argv, spec.Env} {
		for _, s := range list {
			if strings.ContainsRune(s, 0) {
				return fault.Invalid("NUL byte in an argument or variable")
			}
		}
	}
	for name := range spec.Rlimits {
		if _, ok := rlimits[name]; !ok {
			return fault.Invalid("unknown rlimit %q", name)
		}
	}
	if spec.Shell != nil {
		return checkShell(spec)
	}
	return nil
}

// rlimits are the limits that a command can have, by name.
var rlimits = map[string]int{
	"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "core": unix.RLIMIT_CORE, "fsize": unix.RLIMIT_FSIZE, "cpu": unix.RLIMIT_CPU,
	"stack": unix.RLIMIT_STACK, "data": unix.RLIMIT_DATA,
}

// launch starts the command. After an error nothing of it is left.
func (e *exec) launch() error {
	l := &launcher{e: e, user: identity.ID{UID: e.spec.UID, GID: e.spec.GID}, cwd: e.a.cwd(e.spec.Cwd), tty: -1}
	err := l.launch()
	l.closeChildEnds()
	if err != nil {
		l.closeOurEnds()
		var remote *wire.Error
		if errors.As(err, &remote) {
			return remote
		}
		fault := &wire.Error{Code: wire.CodeExecFailed, Message: e.spec.Argv[0] + ": " + err.Error(), Step: l.step}
		var child *forkexec.Error
		if errors.As(err, &child) {
			fault.Step = child.Step
		}
		var errno unix.Errno
		if errors.As(err, &errno) {
			fault.Errno = int(errno)
		}
		return fault
	}
	return nil
}

// cwd returns the initial directory of a command.
func (a *Agent) cwd(dir string) string {
	if !filepath.IsAbs(dir) {
		return filepath.Join(a.cfg.Workspace, dir)
	}
	if rest, ok := strings.CutPrefix(filepath.Clean(dir), file.Path); ok && (rest == "" || rest[0] == '/') {
		return a.cfg.Workspace + rest
	}
	return dir
}

// launcher holds the resources of a command until its first process starts.
type launcher struct {
	e     *exec
	user  identity.ID
	cwd   string
	step  string
	path  string
	ours  []*os.File
	child []int // descriptors for the child, which we close
	stdio [3]int
	tty   int      // the controlling terminal; -1 for none
	extra [][2]int // descriptors in addition to stdio: ours, and its number in the program
}

func (l *launcher) launch() error {
	e := l.e
	if err := e.a.own.As(l.user, l.prepare); err != nil {
		return err
	}
	status, err := l.openStatus()
	if err != nil {
		return err
	}
	l.step = stepCgroup
	if e.a.group != nil {
		if e.group, err = e.a.group.Take(); err != nil {
			return err
		}
	}
	l.step = stepKeeper
	e.began = time.Now()
	e.program = l.program(status)
	if e.keeper, err = e.program.StartKeeper(); err != nil {
		e.program.Free()
		return err
	}
	l.closeChildEnds()
	return e.begin()
}

// prepare opens the files that must belong to the user: programs can open /dev/stdout and their terminal by name.
func (l *launcher) prepare() error {
	l.step = stepLookup
	if l.e.host != nil {
		return l.e.host.prepare(l)
	}
	var err error
	if l.path, err = process.LookPath(l.e.spec.Argv[0], l.e.spec.Env, l.cwd); err != nil {
		return err
	}
	if l.e.spec.PTY != nil {
		l.step = stepTerminal
		return l.openTerminal(*l.e.spec.PTY)
	}
	l.step = stepPipes
	if p := l.e.parked; p != nil {
		p.program, err = warm.Look(l.path)
		if err = errors.Join(err, p.prepare(l)); err != nil {
			return err
		}
	}
	return l.openPipes()
}

func (l *launcher) openPipes() error {
	e := l.e
	if err := l.openStdin(); err != nil {
		return err
	}
	for fd, stream := range []wire.Stream{1: wire.Stdout, 2: wire.Stderr} {
		if stream == 0 {
			continue
		}
		w, r, err := l.pipe(false)
		if err != nil {
			return err
		}
		l.stdio[fd] = w
		o, err := newOutlet(e, stream, r)
		if err != nil {
			return err
		}
		e.outlets = append(e.outlets, o)
	}
	return nil
}

// openStdin opens the command's standard input, if it has one.
func (l *launcher) openStdin() error {
	l.stdio[0] = int(l.e.a.null.Fd())
	if !l.e.spec.Stdin {
		return nil
	}
	r, w, err := l.pipe(true)
	if err != nil {
		return err
	}
	l.stdio[0] = r
	l.e.inlet = &inlet{file: w}
	return nil
}

// pipe returns the child's end of a new pipe, which it reads from or writes to, and ours.
func (l *launcher) pipe(childReads bool) (child int, ours *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, nil, err
	}
	child, own := p[1], p[0]
	if childReads {
		child, own = p[0], p[1]
	}
	l.child = append(l.child, child)
	ours, err = l.own(own, "pipe")
	return child, ours, err
}

// own makes fd, which has no flags set, a file that uses the poller.
func (l *launcher) own(fd int, name string) (*os.File, error) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	l.ours = append(l.ours, f)
	return f, nil
}

// openStatus makes the socket for the keeper's reports.
func (l *launcher) openStatus() (int, error) {
	l.step = stepKeeper
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	l.child = append(l.child, pair[1])
	l.e.status, err = l.own(pair[0], "status")
	return pair[1], err
}

func (l *launcher) closeChildEnds() {
	for _, fd := range l.child {
		unix.Close(fd)
	}
	l.child = nil
}

func (l *launcher) closeOurEnds() {
	for _, f := range l.ours {
		f.Close()
	}
	if l.e.group != nil {
		l.e.group.Remove()
	}
}

// program records the system calls that start a command: first the keeper's, then those of the child that becomes the program,
// from the least to the most confining.
func (l *launcher) program(status int) *forkexec.Program {
	e, num := l.e, forkexec.Int[int]
	p := e.a.programs.New()
	if e.a.traits.Exposed && l.user != e.a.own.ID {
		p.UnshareMemory()
	}
	p.Step(stepKeeper)
	if e.parked != nil && e.parked.forks {
		p.ReportEach()
	}
	p.Call(unix.SYS_PRCTL, num(unix.PR_SET_CHILD_SUBREAPER), num(1), num(0), num(0), num(0))
	p.Step(stepCgroup)
	switch {
	case e.group == nil:
		p.SplitKeeper(status, 0)
	case e.a.group.HasClone3():
		p.SplitKeeper(status, int(e.group.Dir.Fd()))
	default: // a filter refuses clone3: the child moves itself, with the rights of the file's opener
		p.SplitKeeper(status, 0)
		p.Call(unix.SYS_WRITE, num(e.group.Procs), p.Str("0"), num(1))
	}

	p.Step(stepSession)
	p.Call(unix.SYS_SETSID)
	if e.a.traits.Late {
		p.Call(unix.SYS_PRCTL, num(unix.PR_SET_TIMERSLACK), num(process.TimerSlack))
	}
	if l.tty >= 0 {
		p.Call(unix.SYS_IOCTL, num(l.tty), num(unix.TIOCSCTTY), num(0))
	}
	e.a.score(p)

	stdio := l.place(p)
	p.Step(stepRlimits)
	for name, value := range l.limited().Rlimits {
		p.Call(unix.SYS_PRLIMIT64, num(0), num(rlimits[name]), forkexec.Ptr(p, &unix.Rlimit{Cur: value, Max: value}), num(0))
	}
	p.Step(stepStdio)
	for fd, from := range stdio {
		p.Call(unix.SYS_DUP3, from, num(fd), num(0))
	}
	p.Call(unix.SYS_CLOSE_RANGE, num(3), forkexec.Int(uint32(1<<32-1)), num(unix.CLOSE_RANGE_CLOEXEC))
	for _, x := range l.extra {
		p.Call(unix.SYS_FCNTL, num(x[1]), num(unix.F_SETFD), num(0))
	}

	p.Step(stepUser)
	p.Call(unix.SYS_UMASK, num(0o022))
	if l.user != e.a.own.ID {
		for _, c := range e.a.traits.Bounding {
			p.Call(unix.SYS_PRCTL, num(unix.PR_CAPBSET_DROP), num(c), num(0), num(0), num(0))
		}
		if e.a.traits.Groups {
			p.Call(unix.SYS_SETGROUPS, num(0), num(0))
		}
		p.Call(unix.SYS_SETRESGID, num(l.user.GID), num(l.user.GID), num(l.user.GID))
		p.Call(unix.SYS_SETRESUID, num(l.user.UID), num(l.user.UID), num(l.user.UID))
		if e.a.traits.Inherits {
			header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			p.Call(unix.SYS_CAPSET, forkexec.Ptr(p, header), forkexec.Ptr(p, new([2]unix.CapUserData)))
		}
	}
	p.Step(stepChdir)
	p.Call(unix.SYS_CHDIR, p.Str(l.cwd))

	p.Step(stepFilter)
	if e.a.traits.Gains {
		p.Call(unix.SYS_PRCTL, num(unix.PR_SET_NO_NEW_PRIVS), num(1), num(0), num(0), num(0))
	}
	if code := e.a.execFilter; len(code) > 0 {
		prog := &unix.SockFprog{Len: uint16(len(code)), Filter: forkexec.Slice(p, code)}
		p.Call(unix.SYS_SECCOMP, num(unix.SECCOMP_SET_MODE_FILTER), num(0), forkexec.Ptr(p, prog))
	}
	p.Step(stepExec)
	p.Exec(l.path, e.spec.Argv, e.spec.Env)
	return p
}

// limited returns the command with its limits in force: if the agent has the same user, RLIMIT_NPROC counts the agent's tasks, too, and
// this command's keeper among them.
func (l *launcher) limited() wire.Exec {
	e := l.e.spec
	if most, ok := e.Rlimits["nproc"]; ok && l.user == l.e.a.own.ID {
		e.Rlimits = maps.Clone(e.Rlimits)
		e.Rlimits["nproc"] = most + uint64(process.Threads("self")+len(l.e.a.keepers())+1)
	}
	return e
}

// score raises the child's OOM score, so that the kernel kills it before the agent.
func (a *Agent) score(p *forkexec.Program) {
	if a.oomScore == "" {
		return
	}
	num := forkexec.Int[int]
	adj := p.Open(unix.SYS_OPENAT, num(unix.AT_FDCWD), p.Str("/proc/self/oom_score_adj"), num(unix.O_WRONLY|unix.O_CLOEXEC), num(0))
	// If the agent shares the user's id, the files of an undumpable process belong to an unmapped root. The child is such a
	// process until its execve, and then keeps the agent's score.
	p.UnlessError(func() {
		p.Call(unix.SYS_WRITE, adj, p.Str(a.oomScore), num(len(a.oomScore)))
		p.Close(adj)
	}, unix.EACCES)
}

// place installs the child's extra descriptors, before its limit on descriptors applies. It returns the moved numbers of those for
// its stdio, which may have had one of those numbers.
func (l *launcher) place(p *forkexec.Program) (stdio [3]forkexec.Arg) {
	num := forkexec.Int[int]
	for fd, from := range l.stdio {
		stdio[fd] = num(from)
	}
	if len(l.extra) == 0 {
		return stdio
	}
	p.Step(stepStdio)
	aside := func(from forkexec.Arg) forkexec.Arg {
		return p.Open(unix.SYS_FCNTL, from, num(unix.F_DUPFD_CLOEXEC), num(256))
	}
	for fd := range stdio {
		stdio[fd] = aside(stdio[fd])
	}
	var extra []forkexec.Arg
	for _, x := range l.extra {
		extra = append(extra, aside(num(x[0])))
	}
	for i, x := range l.extra {
		p.Call(unix.SYS_DUP3, extra[i], num(x[1]), num(0))
	}
	return stdio
}
