//go:build linux

package guest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/dialect"
	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/guest/sock"
	"github.com/belljar/belljar/internal/agent/guest/spool"
	"github.com/belljar/belljar/internal/agent/wire"
)

// kernel is an interpreter that executes commands one after the other, and keeps its variables. It is driven like a shell, with two
// differences: requests and reports share one socket, and reports may contain results.
type kernel struct {
	argv   []string // without the source, which contains the descriptors' numbers
	source []string // joined when a kernel starts: most agents need none
	asks   bool     // an interrupt is a request instead of SIGINT
}

//go:embed kernel/show.py
var pythonShow string

//go:embed kernel/ipython.py
var pythonShell string

//go:embed kernel/kernel.py
var pythonKernel string

//go:embed kernel/kernel.js
var nodeKernel string

// kernels are the known kernels, by their names on the wire.
var kernels = map[string]*kernel{
	wire.KernelPython:  {argv: []string{"python3", "-X", "utf8", "-c"}, source: []string{pythonShow, pythonKernel}},
	wire.KernelIPython: {argv: []string{"python3", "-X", "utf8", "-c"}, source: []string{pythonShow, pythonShell, pythonKernel}},
	// Node would otherwise exit when a timer's callback is terminated, because its records of callbacks are inconsistent.
	wire.KernelNode: {argv: []string{"node", "--no-force-async-hooks-checks", "-e"}, source: []string{nodeKernel}, asks: true},
}

// Descriptors of a kernel. The socket is closed on execve; user code is unlikely to use these numbers by accident.
const (
	kernelSocket = 98
	kernelText   = 99
)

// prepareKernel opens the descriptors of a kernel, which has no terminal.
func (p *shellProcess) prepareKernel(l *launcher) error {
	p.exec.spec.Argv = p.kernel.argv[:1] // for the error
	var err error
	if l.path, err = process.LookPath(p.kernel.argv[0], p.exec.spec.Env, l.cwd); err != nil {
		return err
	}
	p.exec.spec.Argv = slices.Concat(p.kernel.argv, []string{strings.Join(p.kernel.source, "")})
	l.step = stepPipes
	socket, err := p.socket(l, unix.SOCK_STREAM, &p.control)
	if err != nil {
		return err
	}
	text, err := p.readText(l)
	if err != nil {
		return err
	}
	null := int(l.e.a.null.Fd())
	l.stdio = [3]int{null, null, null}
	l.extra = [][2]int{{socket, kernelSocket}, {text, kernelText}}
	return nil
}

// kernelRequest is one line to a kernel. The code is in the file.
type kernelRequest struct {
	ID     string `json:"id,omitempty"`
	Op     string `json:"op"` // run | complete | interrupt
	Stdin  string `json:"stdin,omitempty"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// sendTime is how long a kernel may leave a full socket unread. The socket is full only if the kernel reads no requests.
const sendTime = time.Second

// ask sends the active command to the kernel.
func (p *shellProcess) ask(c *command) error {
	req := kernelRequest{ID: c.id, Op: "run", Stdin: c.streams.paths[0], Stdout: c.streams.paths[1], Stderr: c.streams.paths[2]}
	if c.e.spec.Shell.Complete {
		req.Op = "complete"
	}
	return p.request(req)
}

func (p *shellProcess) request(req kernelRequest) error {
	line, err := json.Marshal(req)
	if err != nil {
		return err
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(sendTime))
	if _, err = p.control.Write(append(line, '\n')); err != nil {
		p.killKernel()
	}
	return err
}

// reports is the incomplete line of a kernel. Guarded by the lock of its process.
type reports struct {
	line []byte
	skip bool // the line is too long
}

// serveKernel reads a kernel's reports until it ends. A kernel that closes its socket but lives on is killed.
func (p *shellProcess) serveKernel() {
	raw, err := p.control.SyscallConn()
	if err != nil {
		return
	}
	for err == nil {
		if c := p.current(); c != nil {
			c.e.awaitRoom()
		}
		wait := raw.Read(func(fd uintptr) bool {
			err = p.readLines(fd)
			return err != unix.EAGAIN
		})
		if wait != nil {
			return // closed by us
		}
	}
	select {
	case <-p.exec.exited:
	case <-time.After(sendTime):
		p.killKernel()
	}
}

// asks reports whether the process gets interrupts as requests.
func (p *shellProcess) asks() bool { return p.kernel != nil && p.kernel.asks }

func (p *shellProcess) killKernel() {
	if !isClosed(p.exec.exited) {
		_ = unix.Kill(p.exec.pid, unix.SIGKILL)
	}
}

// readLines reads reports once, without waiting, and passes complete lines to the active command. A fork of the kernel has its socket
// too, so messages of other processes are ignored.
func (p *shellProcess) readLines(fd uintptr) error {
	buf := p.exec.a.buffers.Get().(*[]byte)
	defer p.exec.a.buffers.Put(buf)
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, n, err := sock.ReceiveNow(fd, *buf)
	if err != nil {
		return err
	}
	if pid != p.exec.pid {
		return nil
	}
	for b := (*buf)[:n]; len(b) > 0; {
		part, rest, whole := bytes.Cut(b, []byte{'\n'})
		b = rest
		if p.reports.add(part); !whole {
			return nil
		}
		p.handleLine(p.reports.line, p.reports.skip)
		p.reports = reports{line: p.reports.line[:0]}
		if cap(p.reports.line) > spool.MaxChunk {
			p.reports.line = nil
		}
	}
	return nil
}

// add adds a part of a line. It keeps only the beginning of a line that is too long, which identifies its command.
func (r *reports) add(part []byte) {
	const head = 64 // of a result: the command's id
	if len(r.line)+len(part) > wire.MaxResult+head {
		r.skip = true
		part = part[:max(0, min(len(part), head-len(r.line)))]
	}
	r.line = append(r.line, part...)
}

// handleLine handles a line: an id, and either a report like a shell's, or = and a result. The process is locked.
func (p *shellProcess) handleLine(line []byte, tooLong bool) {
	c := p.now
	id, rest, found := bytes.Cut(line, []byte(" "))
	if c == nil || !found || string(id) != c.id {
		return
	}
	if result, ok := bytes.CutPrefix(rest, []byte("= ")); ok {
		c.show(result, tooLong)
		return
	}
	if _, open, status, ok := dialect.ParseReport(line); ok && !tooLong {
		c.handleReport(open, status)
	}
}

// show keeps a result, after all earlier output.
func (c *command) show(result []byte, tooLong bool) {
	const noteRoom = 256
	switch {
	case c.cut:
		return
	case c.shown+len(result)+noteRoom > wire.MaxResults:
		c.cut = true
		result = fmt.Appendf(nil, `{"type":"cut","text":"further results were dropped: at most %d bytes a run are kept"}`, wire.MaxResults)
	case tooLong:
		result = fmt.Appendf(nil, `{"type":"cut","text":"a result of more than %d bytes was dropped"}`, wire.MaxResult)
	case !bytes.HasPrefix(result, []byte("{")), !json.Valid(result):
		return
	}
	for _, o := range c.e.outlets {
		o.catchUp()
	}
	c.shown += len(result) + 1
	c.e.keep(wire.Result, append(bytes.TrimSpace(result), '\n'))
}

// interruptKernel interrupts the kernel and the processes of the command, but not those of earlier commands.
func (c *command) interruptKernel() int {
	pid := c.proc.exec.pid
	started := c.processes()
	if !isClosed(c.proc.exec.exited) { // first, because it may wait for one of the others
		if c.proc.asks() {
			_ = c.proc.request(kernelRequest{Op: "interrupt"})
			c.e.closeInlet() // only the end of its input interrupts a read
		} else {
			_ = unix.Kill(pid, unix.SIGINT)
		}
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	for _, p := range started {
		p.Signal(unix.SIGINT)
		p.Signal(unix.SIGCONT)
		p.Close()
	}
	return pid
}
