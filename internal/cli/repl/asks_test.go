package repl

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/notice"
)

// starts records the request for a run, and refuses it.
type starts struct {
	belljar.Runs
	req belljar.RunRequest
}

// service provides only runs.
type service struct {
	belljar.Service
	runs belljar.Runs
}

func (s service) Runs() belljar.Runs { return s.runs }

func (s *starts) Start(_ context.Context, req belljar.RunRequest) (belljar.Run, error) {
	s.req = req
	return belljar.Run{}, errors.New("refused")
}

// Only code that can ask for a line gets an open input: a read in bash would wait until its timeout.
func TestInputOfCode(t *testing.T) {
	for language, want := range map[string]bool{"python": true, "ipython": true, "javascript": true, "bash": false} {
		s := &starts{}
		r := REPL{Service: service{runs: s}, Context: belljar.Context{Language: language}, lines: &typed{}}
		if _, err := r.execute(t.Context(), "x"); err == nil || s.req.Interactive != want || s.req.Code != "x" {
			t.Errorf("%s: %+v, %v", language, s.req, err)
		}
	}
}

// floods is a run whose output is truncated.
type floods struct{ belljar.Runs }

func (floods) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	return belljar.Run{}, nil
}

func (floods) Get(context.Context, string) (belljar.Run, error) {
	return belljar.Run{Phase: belljar.PhaseCompleted, Truncated: true}, nil
}

func (floods) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		_ = yield(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("1\n")}, nil) &&
			yield(belljar.Frame{Type: belljar.FrameTruncated, Reason: "log_cap"}, nil)
	}
}

// Dropped output leaves a notice in its place.
func TestOutputIsCut(t *testing.T) {
	var out, notes bytes.Buffer
	r := REPL{Service: service{runs: floods{}}, Context: belljar.Context{Language: "python"}, Stdout: &out, Notice: &notice.Writer{Stderr: &notes}}
	if status, err := r.execute(t.Context(), "x"); status != 0 || err != nil || out.String() != "1\n" || !strings.Contains(notes.String(), "log_cap") {
		t.Errorf("%d, %v, %q, %q", status, err, &out, &notes)
	}
}

// interrupted is a run during whose start Ctrl-C is typed. It ends when it is cancelled.
type interrupted struct {
	belljar.Runs
	cancelled chan string
}

func (interrupted) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(os.Interrupt)
	}
	return belljar.Run{ID: "run"}, err
}

func (i interrupted) Cancel(_ context.Context, id string) error {
	i.cancelled <- id
	return nil
}

func (i interrupted) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(func(belljar.Frame, error) bool) { <-i.cancelled }
}

func (interrupted) Get(context.Context, string) (belljar.Run, error) {
	return belljar.Run{Phase: belljar.PhaseKilled, ReasonCode: belljar.ReasonCanceledByUser}, nil
}

// Ctrl-C cancels code that is being started, and the interpreter continues.
func TestInterruptedStart(t *testing.T) {
	r := REPL{Service: service{runs: interrupted{cancelled: make(chan string)}}, Context: belljar.Context{Language: "python"}}
	if _, err := r.execute(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}

// unanswered is a server that does not answer a request for a run.
type unanswered struct {
	interrupted
	seen chan os.Signal
}

func (u unanswered) Start(ctx context.Context, req belljar.RunRequest) (belljar.Run, error) {
	for range 2 {
		if _, err := u.interrupted.Start(ctx, req); err != nil {
			return belljar.Run{}, err
		}
		<-u.seen // the kernel may merge two
	}
	<-ctx.Done()
	return belljar.Run{}, ctx.Err()
}

// A second Ctrl-C does not wait for a server.
func TestInterruptedTwice(t *testing.T) {
	seen := make(chan os.Signal, 2)
	signal.Notify(seen, os.Interrupt)
	defer signal.Stop(seen)
	r := REPL{Service: service{runs: unanswered{seen: seen}}, Context: belljar.Context{Language: "python"}}
	var status interrupt.Status
	if _, err := r.execute(t.Context(), "x"); !errors.As(err, &status) || status != 130 {
		t.Errorf("%v, want status 130", err)
	}
}
