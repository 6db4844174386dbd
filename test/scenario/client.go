package scenario

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// viaClient is the Go client's driver.
type viaClient struct{ *client.Client }

func (viaClient) name() string { return "go" }

// longRun limits a step's wait for a run.
const longRun = 5 * time.Minute

func (c viaClient) do(ctx context.Context, step Step) (Result, error) {
	a := step.With
	switch step.Do {
	case "run", "exec":
		run, out, err := belljar.Finish(ctx, c.Runs(), request(a), longRun)
		if err != nil {
			return nil, err
		}
		if out == nil {
			return nil, fmt.Errorf("run %s has not ended", run.ID)
		}
		return ended(run, *out)
	case "start":
		run, err := c.Runs().Start(ctx, request(a))
		return Result{"run": run.ID}, err
	case "wait":
		run, out, err := belljar.Collect(ctx, c.Runs(), a.Run)
		if err != nil {
			return nil, err
		}
		return ended(run, out)
	case "get":
		run, err := c.Runs().Get(ctx, a.Run)
		return standing(run), err
	case "cancel":
		return Result{}, c.Runs().Cancel(ctx, a.Run)
	case "logs":
		return c.logs(ctx, a)
	case "artifacts":
		list, err := c.Artifacts().List(ctx, a.Run)
		return Result{"artifacts": left(list)}, err
	case "artifact":
		_, content, err := c.Artifacts().Open(ctx, a.Run, a.Path, 0)
		return contents(content, err)
	case "shell":
		return c.shell(ctx, a)
	case "open", "sessions", "close", "close_all":
		return c.session(ctx, step.Do, a)
	case "write", "read", "list", "delete":
		return c.file(ctx, step.Do, a)
	}
	return nil, fmt.Errorf("operation %q is not known", step.Do)
}

// request returns the request for a step's run.
func request(a Args) belljar.RunRequest {
	spec := belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: a.Session, BaseImage: a.Image, Command: a.Command, Code: a.Code, Language: a.Language,
		Cwd: a.Cwd, Env: a.Env, TimeoutSec: a.TimeoutSec, CapturePatterns: a.Capture, Stdin: string(a.Stdin),
	}
	spec.Resources.MemoryMB = a.MemoryMB
	if a.Session == "" && a.Image == "" {
		spec.BaseImage = "host"
	}
	for name, content := range a.Files {
		spec.Files = append(spec.Files, belljar.InlineFile{Path: name, Content: content})
	}
	return belljar.RunRequest{RunSpec: spec, IdempotencyKey: a.IdempotencyKey}
}

// standing returns a run without its output.
func standing(run belljar.Run) Result {
	r := Result{"run": run.ID, "phase": run.Phase, "exit_code": run.ExitCode, "reason_code": nil}
	if run.ReasonCode != "" {
		r["reason_code"] = run.ReasonCode
	}
	return r
}

// ended returns a run with its output.
func ended(run belljar.Run, out belljar.Output) (Result, error) {
	r := standing(run)
	var err error
	if r["stdout"], err = decoded(out.Stdout, out.StdoutEncoding); err == nil {
		r["stderr"], err = decoded(out.Stderr, out.StderrEncoding)
	}
	return r, err
}

func decoded(text, encoding string) (Bytes, error) {
	if encoding != "base64" {
		return Bytes(text), nil
	}
	return base64.StdEncoding.DecodeString(text)
}

// logs reads a log, in pieces if the step requires it: each is a stream that starts where the previous one ended.
func (c viaClient) logs(ctx context.Context, a Args) (Result, error) {
	log := &reading{args: a}
	for !log.over() {
		log.begin()
		for frame, err := range c.Runs().Frames(ctx, a.Run, log.next) {
			if err != nil {
				return nil, err
			}
			if !log.take(frame) {
				break
			}
		}
	}
	return log.result(), nil
}

func (c viaClient) shell(ctx context.Context, a Args) (Result, error) {
	run, out, err := belljar.Finish(ctx, c.Runs(), belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: a.Session, Shell: &belljar.ShellCommand{Cmd: a.Cmd, Separate: true},
	}}, longRun)
	if err != nil {
		return nil, err
	}
	if out == nil || run.Shell == nil {
		return nil, fmt.Errorf("command %s of the shell has not ended", run.ID)
	}
	return result(run, *out)
}

// result returns the outcome of a shell's command.
func result(run belljar.Run, out belljar.Output) (Result, error) {
	r, err := ended(run, out)
	if err != nil {
		return nil, err
	}
	return Result{
		"exit_code": r["exit_code"], "stdout": r["stdout"], "stderr": r["stderr"], "cwd": run.Shell.Cwd, "shell": run.Shell.State,
	}, nil
}

func (c viaClient) session(ctx context.Context, do string, a Args) (Result, error) {
	switch do {
	case "open":
		s, created, err := c.Sessions().Open(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
			SpecVersion: belljar.SpecVersion, BaseImage: "host", Scope: a.Scope, TTLSec: a.TTLSec, Env: a.Env,
		}})
		return Result{"session": s.ID, "created": created}, err
	case "sessions":
		page, err := c.Sessions().List(ctx, belljar.SessionQuery{KeyPrefix: a.Prefix})
		return Result{"scopes": scopes(page.Items)}, err
	case "close":
		return Result{}, c.Sessions().Delete(ctx, a.Session)
	}
	closed, err := c.Sessions().CloseAll(ctx, belljar.CloseRequest{KeyPrefix: a.Prefix})
	return Result{"closed": len(closed)}, err
}

func (c viaClient) file(ctx context.Context, do string, a Args) (Result, error) {
	switch do {
	case "write":
		_, err := c.Files().Write(ctx, a.Session, belljar.FileWrite{
			Path: a.Path, Content: bytes.NewReader(a.Contents), Size: int64(len(a.Contents)), Overwrite: a.Overwrite,
		})
		return Result{}, err
	case "read":
		_, content, err := c.Files().Read(ctx, a.Session, a.Path, a.Offset, a.Length)
		return contents(content, err)
	case "list":
		list, err := c.Files().List(ctx, a.Session, belljar.FileQuery{Path: a.Path, Recursive: a.Recursive})
		return Result{"entries": entries(list.Entries)}, err
	}
	return Result{}, c.Files().Delete(ctx, a.Session, a.Path, a.Recursive)
}

func contents(content io.ReadCloser, err error) (Result, error) {
	if err != nil {
		return nil, err
	}
	defer content.Close()
	all, err := io.ReadAll(content)
	return Result{"contents": Bytes(all)}, err
}
