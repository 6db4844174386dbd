package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// LocalOptions configure a private server. The zero value is enough if belljar is installed.
type LocalOptions struct {
	// Program is the belljar to start; "" means the path in BELLJAR_BIN, else belljar on the PATH.
	Program string
	// Data is the folder for records, logs and artifacts; only one server at a time can use it. With "" they are deleted at
	// the end.
	Data string
	// Set are settings by their names in docs/config.md, such as max_concurrent_runs. The environment (SANDBOX_…) applies,
	// too.
	Set map[string]string
	// Log gets the server's log, until [Client.Close] returns; nil discards it.
	Log io.Writer
	// Source, Patience and Silence are as in [Options].
	Source            string
	Patience, Silence time.Duration
}

const (
	startTimeout = time.Minute      // until the server is ready
	stopTimeout  = 30 * time.Second // until the server has ended all runs and itself
	logTail      = 16 << 10         // how much of its log is kept, in bytes
)

// Local starts a private server for this program: on a private socket, without a port and without configuration. It ends
// with [Client.Close], which waits for the end of the server and its runs, and with this program, even if that crashes.
// ctx applies to the start only.
//
// If the server cannot be started or has ended, the error is [belljar.CodeRuntimeUnavailable]; details.log is the
// end of its log.
func Local(ctx context.Context, opts LocalOptions) (*Client, error) {
	l, ready, err := startLocal(ctx, opts)
	if err != nil {
		return nil, err
	}
	c, err := New(Options{
		URL: "unix:" + ready.Socket, APIKey: ready.APIKey, Source: opts.Source, Patience: opts.Patience, Silence: opts.Silence,
	})
	if err != nil {
		return nil, errors.Join(err, l.end(0))
	}
	c.local = l
	return c, nil
}

// local is a private server.
type local struct {
	program string
	cmd     *exec.Cmd
	stdin   io.Closer // closing it ends the server
	log     *tail
	gone    chan struct{} // closed when it has ended and log is complete
	err     error         // of its end; set before gone is closed

	mu    sync.Mutex
	ended bool // by this client
}

// ready is the line that a private server prints when it accepts requests (belljar serve --private).
type ready struct {
	Socket  string `json:"socket"`
	APIKey  string `json:"api_key"`
	Version string `json:"version"`
}

// startLocal starts a server and waits until it is ready.
func startLocal(ctx context.Context, opts LocalOptions) (*local, ready, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, ready{}, contextError(ctx)
	}
	program, err := findProgram(opts.Program)
	if err != nil {
		return nil, ready{}, err
	}
	args := []string{"serve", "--private"}
	if opts.Data != "" {
		args = append(args, "--data", opts.Data)
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Set)) {
		if name == "" || strings.Contains(name, "=") {
			return nil, ready{}, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%.40q is not the name of a setting", name), Details: map[string]any{"field": "set"},
			}
		}
		args = append(args, "--set", name+"="+opts.Set[name])
	}
	l := &local{program: program, cmd: exec.Command(program, args...), log: &tail{also: opts.Log}, gone: make(chan struct{})}
	l.cmd.Stderr, l.cmd.SysProcAttr = l.log, detached()
	l.cmd.WaitDelay = time.Second // for child processes that still have its stderr
	stdin, err := l.cmd.StdinPipe()
	if err != nil {
		return nil, ready{}, l.failed("cannot be started", err)
	}
	l.stdin = stdin
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, ready{}, errors.Join(l.failed("cannot be started", err), stdin.Close())
	}
	if err := l.cmd.Start(); err != nil { // Start has closed both pipes
		return nil, ready{}, l.failed("cannot be started", err)
	}
	type answer struct {
		line []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		const longest = 64 << 10
		line, err := bufio.NewReader(io.LimitReader(stdout, longest)).ReadBytes('\n')
		answered <- answer{line, err}
		l.err = l.cmd.Wait()
		close(l.gone)
	}()
	select {
	case <-ctx.Done():
		l.stop(time.Second)
		return nil, ready{}, contextError(ctx)
	case <-time.After(startTimeout):
		l.stop(time.Second)
		return nil, ready{}, l.failed(fmt.Sprintf("is not ready after %s", startTimeout), nil)
	case a := <-answered:
		r, err := l.parseReady(a.line, a.err)
		if err != nil {
			l.stop(time.Second)
		}
		return l, r, err
	}
}

// parseReady parses the server's ready line.
func (l *local) parseReady(line []byte, err error) (r ready, _ error) {
	if err != nil {
		l.stop(time.Second)
		return r, l.refused()
	}
	if err := json.Unmarshal(line, &r); err != nil || r.Socket == "" || r.APIKey == "" {
		e := l.failed(fmt.Sprintf("is not belljar: it prints %.80q", bytes.TrimSpace(line)), nil)
		e.Hint = "LocalOptions.Program, BELLJAR_BIN or the PATH names something else"
		return r, e
	}
	if own := ownVersion(); differ(own, r.Version) {
		e := l.failed(fmt.Sprintf("is version %s, and this client %s", r.Version, own), nil)
		e.Hint = "install a belljar of the client's version, or name it with BELLJAR_BIN"
		return r, e
	}
	return r, nil
}

// findProgram returns the path of the program to start.
func findProgram(name string) (string, error) {
	from := "LocalOptions.Program"
	if name == "" {
		name, from = os.Getenv("BELLJAR_BIN"), "BELLJAR_BIN"
	}
	if name == "" {
		name, from = "belljar", "the PATH"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	e := &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("cannot find belljar: %s of %s", name, from), Err: err,
		Hint: "install belljar, or say where it is with LocalOptions.Program or BELLJAR_BIN",
	}
	if from == "the PATH" {
		e.Message = "belljar is not on the PATH"
	}
	if errors.Is(err, fs.ErrPermission) {
		e.Message = name + " cannot be executed"
	}
	return "", e
}

// failed returns the error for a server that cannot be used.
func (l *local) failed(what string, cause error) *belljar.Error {
	e := &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: l.program + " " + what, Err: cause}
	if text := l.log.String(); text != "" {
		e.Details = map[string]any{"log": text}
	}
	return e
}

// refused returns the error for a server that did not become ready, with its own message if there is one.
func (l *local) refused() *belljar.Error {
	e := l.failed("ended before it was ready", l.err)
	for line := range strings.Lines(l.log.String()) {
		if reason, ok := strings.CutPrefix(strings.TrimSpace(line), "belljar: "); ok {
			e.Message, e.Err = l.program+" does not start: "+reason, nil
		} else if hint, ok := strings.CutPrefix(strings.TrimSpace(line), "hint: "); ok {
			e.Hint = hint
		}
	}
	if e.Err == nil && strings.Contains(e.Message, "unknown flag --private") {
		e.Message, e.Hint = l.program+" is older than this client", "install a belljar of the client's version"
	}
	return e
}

// exited returns the error if the server has ended; nil if it runs.
func (l *local) exited() error {
	select {
	case <-l.gone:
	default:
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "the client is closed, and its belljar has ended", Err: errClosed}
	}
	what := "has ended"
	if last := l.log.last(); last != "" {
		what += fmt.Sprintf(" after saying %q", last)
	}
	e := l.failed(what, l.err)
	e.Hint = "start another one with Local; what ran in this one has ended"
	return e
}

// end stops the server and waits. Only the first call returns its error.
func (l *local) end(timeout time.Duration) error {
	died := l.exited()
	l.mu.Lock()
	first := !l.ended
	l.ended = true
	l.mu.Unlock()
	killed := l.stop(timeout)
	switch {
	case !first:
		return nil
	case died != nil:
		return died
	case killed:
		return l.failed(fmt.Sprintf("did not end within %s, and was killed", timeout), nil)
	case l.err != nil:
		return l.failed("ended with a failure", l.err)
	}
	return nil
}

// stop stops the server, kills it after the timeout, and waits.
func (l *local) stop(timeout time.Duration) (killed bool) {
	_ = l.stdin.Close() // may be closed already
	select {
	case <-l.gone:
		return false
	case <-time.After(timeout):
	}
	_ = l.cmd.Process.Kill() // fails if it has ended
	<-l.gone
	return true
}

// tail keeps the last logTail bytes written to it.
type tail struct {
	also io.Writer

	mu   sync.Mutex
	text []byte
}

// Write never fails: a log that cannot be written must not end the server.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.text = append(t.text, b...)
	t.text = slices.Clone(t.text[max(len(t.text)-logTail, 0):])
	t.mu.Unlock()
	if t.also != nil {
		_, _ = t.also.Write(b)
	}
	return len(b), nil
}

// last returns the most informative line: that of a panic or a fatal error of Go, else the last line.
func (t *tail) last() (line string) {
	for text := range strings.Lines(t.String()) {
		if text = strings.TrimSpace(text); strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
			return text
		} else if text != "" {
			line = text
		}
	}
	return line
}

// String returns the kept text, from the start of a line if possible.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.text
	if len(text) == logTail {
		if _, rest, ok := bytes.Cut(text, []byte("\n")); ok {
			text = rest
		}
	}
	return strings.ToValidUTF8(string(text), "?")
}
