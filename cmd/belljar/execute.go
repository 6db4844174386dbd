package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/belljar/belljar"
)

// execute runs a plan to its end and returns the exit status.
func (p *plan) execute(ctx context.Context, c *console, e *engine) (int, error) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	stop := watchSignals(ctx, e.Runs, kill)
	defer stop.close()

	request := belljar.RunRequest{RunSpec: p.spec, Stdin: p.stdin}
	if files := p.upload.reader(); files != nil {
		defer files.Close()
		request.Upload = files
	}
	run, err := e.Runs.Start(stop.accept, request)
	if err != nil {
		if n := stop.signalled(); n != 0 {
			return 128 + int(n), nil
		}
		return 0, inFlags(err)
	}
	stop.started(run.ID)

	var out sink = &streams{c: c, run: run.ID, runs: e.Runs}
	if p.json {
		out = &memory{}
	}
	for frame, err := range e.Runs.Frames(ctx, run.ID, 1) {
		if err != nil {
			if n := stop.signalled(); n != 0 {
				return 128 + int(n), nil // killed at once: nobody is left to say more
			}
			return 0, err
		}
		if err := out.write(ctx, frame); err != nil {
			return 0, err
		}
	}
	if run, err = e.Runs.Get(ctx, run.ID); err != nil {
		return 0, err
	}
	artifacts, err := p.collect(ctx, c, e.Runs, run.ID)
	if err != nil {
		return 0, err
	}
	status := p.conclude(c, run, stop.signalled())
	if p.json {
		return status, out.(*memory).print(c.stdout, run, artifacts)
	}
	if out.(*streams).broken {
		return 128 + int(syscall.SIGPIPE), nil
	}
	return status, nil
}

// collect fetches the captured files into --out.
func (p *plan) collect(ctx context.Context, c *console, runs belljar.Runs, id string) ([]belljar.Artifact, error) {
	if len(p.spec.CapturePatterns) == 0 {
		return nil, nil
	}
	artifacts, err := runs.Artifacts(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(artifacts) == 0 {
		c.note("no file matches --capture")
	}
	for _, a := range artifacts {
		switch {
		case a.Skipped != "":
			c.note("%s was not kept: %s", a.Path, a.Skipped)
		case a.LinkTarget != "":
			c.note("%s is a symbolic link to %s and was not followed", a.Path, a.LinkTarget)
		case p.out != nil:
			if err := p.fetch(ctx, runs, id, a); err != nil {
				return nil, fmt.Errorf("--out %s: %s: %w", p.out.name, a.Path, err)
			}
		}
	}
	return artifacts, nil
}

func (p *plan) fetch(ctx context.Context, runs belljar.Runs, id string, a belljar.Artifact) error {
	content, err := runs.OpenArtifact(ctx, id, a.Path)
	if err != nil {
		return err
	}
	defer content.Close()
	return p.out.save(a, content)
}

// sink takes a run's output as it comes.
type sink interface {
	write(ctx context.Context, f belljar.Frame) error
}

// streams passes output on at once. When whoever reads it has gone away, the run is cancelled without a word.
type streams struct {
	c      *console
	runs   belljar.Runs
	run    string
	broken bool
}

func (s *streams) write(ctx context.Context, f belljar.Frame) error {
	var to io.Writer
	switch f.Type {
	case belljar.FrameStdout:
		to = s.c.stdout
	case belljar.FrameStderr:
		to = s.c.stderr
	default:
		return nil
	}
	if s.broken {
		return nil
	}
	_, err := to.Write(f.Output)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		s.broken = true
		return s.runs.Cancel(ctx, s.run)
	}
	// Where output cannot be kept, as on a full disk, going on would lose it in silence.
	return errors.Join(fmt.Errorf("writing the program's output: %w", err), s.runs.Cancel(ctx, s.run))
}

// stopper turns signals into the end of a run: the first cancels it, the second kills it at once.
type stopper struct {
	accept context.Context // ends at the first signal; for what comes before the run is accepted
	runs   belljar.Runs
	close  func()

	mu     sync.Mutex
	run    string
	signal syscall.Signal
}

// watchSignals listens until closed. kill is called for the second signal.
func watchSignals(ctx context.Context, runs belljar.Runs, kill func()) *stopper {
	accept, cancel := context.WithCancel(ctx)
	s := &stopper{accept: accept, runs: runs}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Taken and dropped, so that a closed stdout is an error of Write instead of our death.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				number, _ := sig.(syscall.Signal)
				if s.first(number) {
					cancel()
					s.cancelRun(ctx)
				} else {
					kill()
				}
			}
		}
	}()
	s.close = sync.OnceFunc(func() {
		signal.Stop(signals)
		signal.Stop(pipes)
		close(done)
		<-ended
		cancel()
	})
	return s
}

// first notes a signal and reports whether it is the first.
func (s *stopper) first(number syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signal != 0 {
		return false
	}
	s.signal = number
	return true
}

// started says which run a signal cancels; one that came before cancels it now.
func (s *stopper) started(id string) {
	s.mu.Lock()
	s.run = id
	pending := s.signal != 0
	s.mu.Unlock()
	if pending {
		s.cancelRun(context.Background())
	}
}

func (s *stopper) cancelRun(ctx context.Context) {
	s.mu.Lock()
	id := s.run
	s.mu.Unlock()
	if id != "" {
		s.runs.Cancel(ctx, id) // a run that cannot be cancelled has ended
	}
}

// signalled returns the signal that ended the run, 0 for none.
func (s *stopper) signalled() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal
}
