//go:build linux

package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Command is the argument that makes a program run as a keep.
const Command = "keep"

// exitTime is how long the sandbox's process may take to end after its byte stream.
const exitTime = 10 * time.Second

// keep is the process. It releases nothing itself: the kernel frees everything at its end.
type keep struct {
	cfg      Config
	children *reaper
	null     *os.File
	stderr   *stderrText     // standard error of the program that makes the sandbox, and of its descendants
	exited   chan struct{}   // closed when that program has ended
	status   unix.WaitStatus // its exit status; valid once exited is closed
	over     chan struct{}
}

// Run runs a keep. It returns when the sandbox has ended or failed to start. The process must end then; as the first process of
// its namespace, it takes every other one with it.
func Run(config []byte) error {
	cfg, err := ParseConfig(config)
	if err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return errors.New("a keep is the first process of a namespace, so that nothing outlives it")
	}
	k := &keep{cfg: cfg, exited: make(chan struct{}), over: make(chan struct{})}
	defer close(k.over)
	ready := os.NewFile(uintptr(cfg.ReadyFD), "ready")
	host, err := k.begin()
	if err != nil {
		return errors.Join(err, k.report(ready, err))
	}
	if err := k.report(ready, nil); err != nil {
		return err // the caller ended before the sandbox was made
	}
	<-host.Done()
	return k.last()
}

// begin makes the sandbox and returns when its agent has replied.
func (k *keep) begin() (*wire.MuxHost, error) {
	if err := k.settle(); err != nil {
		return nil, err
	}
	streams, err := listener(k.cfg.StreamFD)
	if err != nil {
		return nil, err
	}
	host, err := k.start()
	if err != nil {
		return nil, err
	}
	go relay(streams, host)
	if k.cfg.OrderFD > 0 {
		orders, err := listener(k.cfg.OrderFD)
		if err != nil {
			return nil, err
		}
		go k.serveOrders(orders)
	}
	return host, k.awaitAgent(host)
}

// settle ignores signals that would end this process, and keeps its descriptors from its children.
func (k *keep) settle() error {
	if err := unix.CloseRange(3, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE)
	var err error
	if k.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return err
	}
	k.children = newReaper()
	if fd := k.cfg.LifelineFD; fd > 0 {
		if err := unix.SetNonblock(fd, true); err != nil {
			return fmt.Errorf("lifeline: %w", err)
		}
		go k.watchLifeline(os.NewFile(uintptr(fd), "lifeline"))
	}
	return nil
}

// watchLifeline ends the process when the creator's end of the lifeline is closed. No data is sent over it.
func (k *keep) watchLifeline(line *os.File) {
	var b [16]byte
	for {
		if _, err := line.Read(b[:]); err != nil {
			_ = k.writeLast(Last{Code: -1, Detail: "its creator has ended"})
			os.Exit(0)
		}
	}
}

// start runs the program that makes the sandbox and opens its byte stream.
func (k *keep) start() (*wire.MuxHost, error) {
	in, childIn, err := pipe(false)
	if err != nil {
		return nil, err
	}
	out, childOut, err := pipe(true)
	if err != nil {
		return nil, err
	}
	stderr, childErr, err := k.captureStderr()
	if err != nil {
		return nil, err
	}
	k.stderr = stderr
	files := []uintptr{uintptr(childIn), uintptr(childOut), uintptr(childErr)}
	if k.cfg.StartFD > 0 {
		files = append(files, uintptr(k.cfg.StartFD))
	}
	pid, err := k.children.start(k.cfg.Start, files)
	for _, fd := range []int{childIn, childOut, childErr} {
		unix.Close(fd)
	}
	if k.cfg.StartFD > 0 {
		unix.Close(k.cfg.StartFD)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		k.status, _ = k.children.wait(pid, nil)
		close(k.exited)
	}()
	return wire.NewMuxHost(stdio{out, in}), nil
}

// awaitAgent waits for the agent's first reply, and returns an error if it cannot come.
func (k *keep) awaitAgent(host *wire.MuxHost) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-k.exited:
			if k.status != 0 {
				cancel(errors.New(describe(k.status, k.stderr.failure())))
			}
		case <-ctx.Done():
		}
	}()
	stream, err := host.Dial(ctx)
	if err == nil {
		return stream.Close()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The stream has ended. If the program has failed, it reports why.
	select {
	case <-k.exited:
		if k.status != 0 {
			return errors.New(describe(k.status, k.stderr.failure()))
		}
	case <-after(exitTime):
	}
	return fmt.Errorf("the agent does not answer: %w: %s", err, strings.TrimSpace(k.stderr.stop()))
}

// report writes whether the agent can be dialled.
func (k *keep) report(ready *os.File, failure error) error {
	var r Report
	if failure != nil {
		r.Error = failure.Error()
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = ready.Write(text)
	return errors.Join(err, ready.Close())
}

// last waits for the sandbox's process, whose byte stream has ended, and records its outcome.
func (k *keep) last() error {
	l := Last{Code: -1}
	status, ok := k.children.wait(k.main(), after(exitTime))
	switch {
	case !ok:
		l.Detail = "the byte stream has ended but the process has not"
	case status.Signaled():
		l.Signal = int(status.Signal())
	default:
		l.Code = status.ExitStatus()
	}
	if stderr := strings.TrimSpace(k.stderr.stop()); stderr != "" {
		l.Detail = strings.TrimSpace(l.Detail + " " + stderr)
	}
	return k.writeLast(l)
}

// main returns the pid of the sandbox's process, or 0 if unknown.
func (k *keep) main() int {
	text, err := os.ReadFile(k.cfg.PidFile)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// writeLast writes the record of the sandbox's end.
func (k *keep) writeLast(l Last) error {
	if k.cfg.LastFD == 0 {
		return nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = unix.Write(k.cfg.LastFD, text)
	return err
}

// stderrText keeps the beginning and the end of the standard error of programs.
type stderrText struct {
	file *os.File
	done chan struct{}

	mu          sync.Mutex
	first, text []byte
}

// maxText is the number of bytes kept of each.
const maxText = 2 << 10

// maxFirst is the number of bytes in which a stack trace is searched: gVisor's message in front of it can be long.
const maxFirst = 64 << 10

// maxPipe is the largest capacity of a pipe: no more than that can be left from before a deadline.
const maxPipe = 1 << 20

// captureStderr makes a pipe for a program's standard error. The caller closes end after the program has started.
func (k *keep) captureStderr() (w *stderrText, end int, err error) {
	file, end, err := pipe(true)
	if err != nil {
		return nil, 0, err
	}
	w = &stderrText{file: file, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer file.Close()
		var b [512]byte
		for {
			n, err := file.Read(b[:])
			w.add(b[:max(n, 0)])
			if err != nil {
				break
			}
		}
		// The deadline has passed, or all is read. Output from before the deadline still counts.
		raw, err := file.SyscallConn()
		if err != nil {
			return
		}
		_ = raw.Control(func(fd uintptr) { // fails if closed, which is fine
			for room := maxPipe; room > 0; {
				n, err := unix.Read(int(fd), b[:])
				switch {
				case err == unix.EINTR:
				case n <= 0:
					return
				default:
					w.add(b[:n])
					room -= n
				}
			}
		})
	}()
	return w, end, nil
}

// add adds output.
func (w *stderrText) add(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first = append(w.first, b[:min(len(b), maxFirst-len(w.first))]...)
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-maxText):]
}

// current returns the output so far.
func (w *stderrText) current() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// stop stops reading after the pending output, and returns the end of it.
func (w *stderrText) stop() string {
	_ = w.file.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // fails if closed, which is fine
	<-w.done
	return w.current()
}

// failure is stop for a failed program. It cuts off a Go stack trace, which explains nothing to the caller.
func (w *stderrText) failure() string {
	text := w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if reason, _, ok := strings.Cut(string(w.first), "\ngoroutine "); ok {
		reason = strings.TrimRight(reason, ":\n ")
		return reason[max(0, len(reason)-maxText):]
	}
	return text
}

// stdio is the host's side of the byte stream.
type stdio struct{ in, out *os.File }

func (s stdio) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s stdio) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// listener wraps a listening Unix socket.
func listener(fd int) (*net.UnixListener, error) {
	file := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(file) // on a duplicate, close-on-exec
	file.Close()
	if err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("the listener is not a Unix socket")
	}
	u.SetUnlinkOnClose(false)
	return u, nil
}

// after is closed when d has passed.
func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}
