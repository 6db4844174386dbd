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

// LocalOptions say how a program has a belljar of its own. The zero value is enough where belljar is installed.
type LocalOptions struct {
	// Program is the belljar to start; "" is the one that BELLJAR_BIN names, else belljar on the PATH.
	Program string
	// Data is a folder that keeps records, logs and artifacts for the next belljar; one at a time can have it. "" keeps
	// nothing.
	Data string
	// Set are settings by their names in docs/config.md, such as max_concurrent_runs. Those in the environment (SANDBOX_…)
	// hold, too.
	Set map[string]string
	// Log hears what the belljar has to say, which is little; nil is nobody. It is written to until [Client.Close] returns.
	Log io.Writer
	// Source, Patience and Silence are as in [Options].
	Source            string
	Patience, Silence time.Duration
}

// Bounds of a local belljar.
const (
	startTime = time.Minute      // to be ready, whatever the context says
	endTime   = 30 * time.Second // to end what runs, when it is asked to
	lastWords = 16 << 10         // bytes of its log that are kept
)

// Local starts a belljar that is this program's alone: on a private socket, without a port and without configuration. It
// ends with [Client.Close], which waits until it is gone with all that runs in it, and with this program, however that
// ends. ctx bounds the start only.
//
// A belljar that cannot be started, or has ended by itself, is [belljar.CodeRuntimeUnavailable]; details.log is the end of
// what it had to say.
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

// local is a belljar of this program's.
type local struct {
	program string
	cmd     *exec.Cmd
	stdin   io.Closer // its life
	said    *tail
	gone    chan struct{} // closed when it has ended and everything it said is here
	err     error         // how it ended; set before

	mu    sync.Mutex
	ended bool // by us
}

// ready is what a private server says when it answers requests (belljar serve --private).
type ready struct {
	Socket  string `json:"socket"`
	APIKey  string `json:"api_key"`
	Version string `json:"version"`
}

// startLocal starts a belljar and waits until it answers.
func startLocal(ctx context.Context, opts LocalOptions) (*local, ready, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, ready{}, given(ctx)
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
	l := &local{program: program, cmd: exec.Command(program, args...), said: &tail{also: opts.Log}, gone: make(chan struct{})}
	l.cmd.Stderr, l.cmd.SysProcAttr = l.said, apart()
	l.cmd.WaitDelay = time.Second // for what others that have its stderr still say
	stdin, err := l.cmd.StdinPipe()
	if err != nil {
		return nil, ready{}, l.failed("cannot be started", err)
	}
	l.stdin = stdin
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, ready{}, errors.Join(l.failed("cannot be started", err), stdin.Close())
	}
	if err := l.cmd.Start(); err != nil { // which closes both
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
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-ctx.Done():
		l.stop(time.Second)
		return nil, ready{}, given(ctx)
	case <-late.C:
		l.stop(time.Second)
		return nil, ready{}, l.failed(fmt.Sprintf("is not ready after %s", startTime), nil)
	case a := <-answered:
		r, err := l.greeted(a.line, a.err)
		if err != nil {
			l.stop(time.Second)
		}
		return l, r, err
	}
}

// greeted reads what a belljar says when it is ready.
func (l *local) greeted(line []byte, err error) (r ready, _ error) {
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

// findProgram finds the belljar to start.
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

// failed is the error of a belljar that is not there for us.
func (l *local) failed(what string, cause error) *belljar.Error {
	e := &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: l.program + " " + what, Err: cause}
	if text := l.said.String(); text != "" {
		e.Details = map[string]any{"log": text}
	}
	return e
}

// refused is the error of a belljar that did not become ready, in its own words if it found some.
func (l *local) refused() *belljar.Error {
	e := l.failed("ended before it was ready", l.err)
	for line := range strings.Lines(l.said.String()) {
		if said, ok := strings.CutPrefix(strings.TrimSpace(line), "belljar: "); ok {
			e.Message, e.Err = l.program+" does not start: "+said, nil
		} else if hint, ok := strings.CutPrefix(strings.TrimSpace(line), "hint: "); ok {
			e.Hint = hint
		}
	}
	if e.Err == nil && strings.Contains(e.Message, "unknown flag --private") {
		e.Message, e.Hint = l.program+" is older than this client", "install a belljar of the client's version"
	}
	return e
}

// over is why a belljar is no longer there; nil if it is.
func (l *local) over() error {
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
	what := "has ended by itself"
	if last := l.said.last(); last != "" {
		what += fmt.Sprintf(" after saying %q", last)
	}
	e := l.failed(what, l.err)
	e.Hint = "start another one with Local; what ran in this one is gone"
	return e
}

// end asks it to end and waits until it is gone. Only the first call tells how that went.
func (l *local) end(patience time.Duration) error {
	died := l.over()
	l.mu.Lock()
	first := !l.ended
	l.ended = true
	l.mu.Unlock()
	killed := l.stop(patience)
	switch {
	case !first:
		return nil
	case died != nil:
		return died
	case killed:
		return l.failed(fmt.Sprintf("did not end within %s, and was killed", patience), nil)
	case l.err != nil:
		return l.failed("ended with a failure", l.err)
	}
	return nil
}

// stop ends it, the hard way if it does not go, and waits.
func (l *local) stop(patience time.Duration) (killed bool) {
	_ = l.stdin.Close() // it may be closed
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-l.gone:
		return false
	case <-late.C:
	}
	_ = l.cmd.Process.Kill() // it may have ended
	<-l.gone
	return true
}

// tail keeps the end of what is written to it.
type tail struct {
	also io.Writer

	mu   sync.Mutex
	text []byte
}

// Write never fails: a log that cannot be written must not end what it is about.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.text = append(t.text, b...)
	t.text = slices.Clone(t.text[max(len(t.text)-lastWords, 0):])
	t.mu.Unlock()
	if t.also != nil {
		_, _ = t.also.Write(b)
	}
	return len(b), nil
}

// last is the line that tells most about an end: what a program in Go says when it breaks, or else the last one.
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

// String is the end of it, from the beginning of a line if that is there.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.text
	if len(text) == lastWords {
		if _, rest, ok := bytes.Cut(text, []byte("\n")); ok {
			text = rest
		}
	}
	return strings.ToValidUTF8(string(text), "?")
}
