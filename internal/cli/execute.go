package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/output"
	"github.com/belljar/belljar/internal/cli/snapshot"
	"github.com/belljar/belljar/internal/local"
)

// execute runs a plan to its end and returns the exit status. Ending ctx abandons the run.
func (p *plan) execute(ctx context.Context, c *console, e *local.Engine, stop *interrupt.Stopper) (int, error) {
	runs := e.Runs()
	var err error
	if p.spec.Snapshot, err = snapshot.Find(ctx, e.Service, p.spec.Snapshot); err != nil {
		return 0, err
	}
	request := belljar.RunRequest{RunSpec: p.spec, Input: p.stdin, IdempotencyKey: p.key}
	if files := p.upload.Reader(); files != nil {
		defer files.Close()
		request.Upload = files
	}
	err = c.readyImage(stop.Begin, e.Service, p.spec.BaseImage, p.spec.Runtime)
	var run belljar.Run
	if err == nil {
		run, err = runs.Start(stop.Accept, request)
	}
	if err != nil {
		if n := stop.Signalled(); n != 0 {
			return 128 + int(n), nil
		}
		return 0, field.InFlags(err)
	}
	stop.Started(run.ID)
	for _, warning := range run.Warnings { // about the request
		c.Print("%s", warning)
	}
	early := run.Warnings

	var out sink = &streams{c: c, run: run.ID, runs: runs}
	if p.json {
		out = &output.Buffer{}
	}
	for frame, err := range runs.Frames(ctx, run.ID, 1) {
		if err != nil {
			if n := stop.Signalled(); n != 0 { // abandoned
				if e.Remote {
					c.Note("run %s was left to the server", run.ID)
					c.Hint("belljar cancel %s makes sure that it ends", run.ID)
				}
				return 128 + int(n), nil
			}
			return 0, err
		}
		if frame.Event == belljar.EventApproval {
			c.noteApproval(frame)
		}
		if err := out.Write(ctx, frame); err != nil {
			return 0, err
		}
	}
	if run, err = runs.Get(ctx, run.ID); err != nil {
		return 0, err
	}
	artifacts, failed := p.collect(ctx, c, e, run.ID)
	if s, ok := out.(*streams); ok && s.broken && failed == nil {
		return exitPipe, nil
	}
	status := conclude(c, run, stop.Signalled(), early...)
	if p.python && run.Failure != nil && run.Failure.Type == "SyntaxError" {
		c.Hint("the text ran as Python; --lang sh runs it as a line of a shell")
	}
	if buffer, ok := out.(*output.Buffer); ok { // the result must not be lost with the files
		if err := buffer.Print(c.stdout, run, artifacts, failed); err != nil || failed == nil {
			return status, err
		}
		return c.fail(failed), nil
	}
	return status, failed
}

// collect returns the captured files, which it fetches into --out.
func (p *plan) collect(ctx context.Context, c *console, svc belljar.Service, id string) ([]belljar.Artifact, error) {
	if len(p.spec.CapturePatterns) == 0 {
		return nil, nil
	}
	artifacts, err := svc.Artifacts().List(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(artifacts) == 0 {
		c.Note("no file matches --capture")
	}
	_, err = p.save(ctx, c, svc, id, artifacts)
	return artifacts, err
}

// save writes artifacts to --out, if set, and returns those that it wrote. One that cannot be written loses no other.
func (p *plan) save(ctx context.Context, c *console, svc belljar.Service, id string, artifacts []belljar.Artifact) ([]belljar.Artifact, error) {
	kept := []belljar.Artifact{}
	var failed []error
	for _, a := range artifacts {
		switch {
		case a.Skipped != "":
			c.Print("%s was not kept: %s", a.Path, a.Skipped)
		case a.LinkTarget != "":
			c.Print("%s is a symbolic link to %s and was not followed", a.Path, a.LinkTarget)
		case p.out != nil:
			err := p.fetch(ctx, svc, id, a)
			if err == nil {
				kept = append(kept, a)
				continue
			}
			failed = append(failed, fmt.Errorf("--out %s: %s: %w", p.out.Name, a.Path, err))
			if ctx.Err() != nil || belljar.CodeOf(err) == belljar.CodeRuntimeUnavailable { // the others would fail as slowly
				return kept, mistake.Of(kept, failed)
			}
		}
	}
	return kept, mistake.Of(kept, failed)
}

func (p *plan) fetch(ctx context.Context, svc belljar.Service, id string, a belljar.Artifact) error {
	_, content, err := svc.Artifacts().Open(ctx, id, a.Path, 0)
	if err != nil {
		return err
	}
	defer content.Close()
	return p.out.Save(a, content)
}

// sink receives a run's output.
type sink interface {
	Write(ctx context.Context, f belljar.Frame) error
}

// streams prints output as it arrives. If its reader has closed the pipe, it cancels the run silently.
type streams struct {
	c      *console
	runs   belljar.Runs
	run    string
	broken bool

	results belljar.ResultReader
}

func (s *streams) Write(ctx context.Context, f belljar.Frame) error {
	to, text := io.Writer(s.c.stdout), f.Output
	switch f.Type {
	case belljar.FrameStdout:
	case belljar.FrameStderr:
		to = s.c.Stderr
	case belljar.FrameResult:
		text = s.shown(f)
	default:
		if f.Event == belljar.EventGit {
			s.c.noteClone(f)
		}
		if line, ok := packageLine(f); ok {
			s.c.Note("%s", line)
		}
		return nil
	}
	if s.broken || len(text) == 0 {
		return nil
	}
	_, err := to.Write(text)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		s.broken = true
		return s.runs.Cancel(ctx, s.run)
	}
	// If output cannot be written, as on a full disk, continuing would lose it silently.
	return errors.Join(fmt.Errorf("writing the program's output: %w", err), s.runs.Cancel(ctx, s.run))
}
