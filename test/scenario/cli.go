package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/belljar/belljar"
)

// viaCommands is the command line's driver: every step is a command that a user would type.
type viaCommands struct {
	program string   // belljar
	env     []string // with the server's address and key
	dir     string   // for files that commands read and write
	known   map[string]bool
	started map[string]*typed // by run: commands that are still running
}

func (*viaCommands) name() string { return "cli" }

// typed is a command that was started.
type typed struct {
	cmd    *exec.Cmd
	out    bytes.Buffer
	stderr bytes.Buffer
	done   chan error
}

// begin starts belljar with a command's words.
func (c *viaCommands) begin(ctx context.Context, stdin io.Reader, words ...string) (*typed, error) {
	t := &typed{cmd: exec.CommandContext(ctx, c.program, words...), done: make(chan error, 1)}
	t.cmd.Env, t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = c.env, stdin, &t.out, &t.stderr
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { t.done <- t.cmd.Wait() }()
	return t, nil
}

// answer waits for a command and parses its JSON. An error in the JSON is a [belljar.Error].
func (t *typed) answer(into any) error {
	err := <-t.done
	var failed struct {
		Error *belljar.Error `json:"error"`
	}
	if json.Unmarshal(t.out.Bytes(), &failed) == nil && failed.Error != nil {
		return failed.Error
	}
	if status := (*exec.ExitError)(nil); err != nil && !errors.As(err, &status) {
		return err
	}
	if wrong := json.Unmarshal(t.out.Bytes(), into); wrong != nil { // a failing program's status is belljar's, too
		return fmt.Errorf("%v: %w: %.500s %.500s", t.cmd.Args, wrong, &t.out, &t.stderr)
	}
	return nil
}

// ask runs a command and reads its JSON.
func (c *viaCommands) ask(ctx context.Context, into any, words ...string) error {
	t, err := c.begin(ctx, nil, words...)
	if err != nil {
		return err
	}
	return t.answer(into)
}

// outcome is the output of a run's command.
type outcome struct {
	belljar.Run
	belljar.Output
}

func (c *viaCommands) do(ctx context.Context, step Step) (Result, error) {
	a := step.With
	switch step.Do {
	case "run", "exec", "shell":
		t, err := c.launch(ctx, step.Do, a)
		if err != nil {
			return nil, err
		}
		var run outcome
		if err := t.answer(&run); err != nil {
			return nil, err
		}
		c.known[run.ID] = true
		if step.Do == "shell" && run.Shell != nil {
			return result(run.Run, run.Output)
		}
		return ended(run.Run, run.Output)
	case "start":
		t, err := c.launch(ctx, "run", a)
		if err != nil {
			return nil, err
		}
		id, err := c.newest(ctx, t)
		c.started[id] = t
		return Result{"run": id}, err
	case "wait":
		t := c.started[a.Run]
		delete(c.started, a.Run)
		var run outcome
		if err := t.answer(&run); err != nil {
			return nil, err
		}
		return ended(run.Run, run.Output)
	case "get":
		return c.get(ctx, a.Run)
	case "cancel":
		var list []json.RawMessage
		return Result{}, c.ask(ctx, &list, "cancel", "--json", a.Run)
	case "logs":
		return c.logs(ctx, a)
	case "artifacts":
		var list []belljar.Artifact
		err := c.ask(ctx, &list, "artifact", "ls", "--json", a.Run)
		return Result{"artifacts": left(list)}, err
	case "artifact":
		out, err := os.MkdirTemp(c.dir, "")
		if err != nil {
			return nil, err
		}
		var list []json.RawMessage
		if err := c.ask(ctx, &list, "artifact", "get", "--json", "--out", out, a.Run, a.Path); err != nil {
			return nil, err
		}
		return fetched(filepath.Join(out, a.Path))
	case "open", "sessions", "close", "close_all":
		return c.session(ctx, step.Do, a)
	case "write", "read", "list":
		return c.file(ctx, step.Do, a)
	}
	return nil, fmt.Errorf("operation %q is not known", step.Do)
}

// launch starts the command for a run.
func (c *viaCommands) launch(ctx context.Context, how string, a Args) (*typed, error) {
	words := []string{"run"}
	switch {
	case how == "run" && a.Session != "":
		words = []string{"session", "run", a.Session}
	case how == "exec":
		words = []string{"session", "exec", a.Session}
	case how == "shell":
		words = []string{"session", "exec", a.Session, "--shell"}
	}
	words = append(words, "--json", "--quiet")
	if a.Image != "" {
		words = append(words, "--image", a.Image)
	}
	if a.Cwd != "" {
		words = append(words, "--cwd", a.Cwd)
	}
	if a.TimeoutSec > 0 {
		words = append(words, "--timeout", strconv.FormatFloat(a.TimeoutSec, 'f', -1, 64))
	}
	if a.MemoryMB > 0 {
		words = append(words, "--memory", strconv.Itoa(a.MemoryMB)+"m")
	}
	if a.IdempotencyKey != "" {
		words = append(words, "--idempotency-key", a.IdempotencyKey)
	}
	for _, pattern := range a.Capture {
		words = append(words, "--capture", pattern)
	}
	for name, value := range a.Env {
		words = append(words, "--env", name+"="+value)
	}
	for name, content := range a.Files {
		here, err := c.put(content)
		if err != nil {
			return nil, err
		}
		words = append(words, "--file", here+":"+name)
	}
	var program io.Reader
	if a.Stdin != nil {
		here, err := c.put(a.Stdin)
		if err != nil {
			return nil, err
		}
		words = append(words, "--stdin", here)
	}
	switch {
	case a.Code != "":
		language, err := extension(a.Language)
		if err != nil {
			return nil, err
		}
		words, program = append(words, "--lang", language, "-"), bytes.NewReader([]byte(a.Code))
	case how == "shell":
		words = append(words, "--", a.Cmd)
	default:
		words = append(append(words, "--"), a.Command...)
	}
	return c.begin(ctx, program, words...)
}

// extension returns the command line's name of a language.
func extension(language string) (string, error) {
	l, known := belljar.LanguageOf(language)
	if !known {
		return "", fmt.Errorf("language %q is not known", language)
	}
	return l.Extensions[0], nil
}

// newest waits until a run is listed that no step has made yet, and returns its id.
func (c *viaCommands) newest(ctx context.Context, t *typed) (string, error) {
	for {
		var page belljar.RunPage
		if err := c.ask(ctx, &page, "ps", "--all", "--json", "--limit", "1"); err != nil {
			return "", err
		}
		if len(page.Items) > 0 && !c.known[page.Items[0].ID] {
			c.known[page.Items[0].ID] = true
			return page.Items[0].ID, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%v: no run: %w: %s", t.cmd.Args, ctx.Err(), &t.stderr)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *viaCommands) get(ctx context.Context, id string) (Result, error) {
	var page belljar.RunPage
	if err := c.ask(ctx, &page, "ps", "--all", "--json", "--limit", "1000"); err != nil {
		return nil, err
	}
	for _, run := range page.Items {
		if run.ID == id {
			return standing(run), nil
		}
	}
	var frame json.RawMessage
	return nil, c.ask(ctx, &frame, "logs", "--json", id)
}

// logs reads a log as frames. A separate command reads each piece, and is ended with the piece.
func (c *viaCommands) logs(ctx context.Context, a Args) (Result, error) {
	log := &reading{args: a}
	for !log.done {
		log.begin()
		if err := c.piece(ctx, log); err != nil {
			return nil, err
		}
	}
	return log.result(), nil
}

func (c *viaCommands) piece(ctx context.Context, log *reading) error {
	ctx, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, c.program, "logs", "--follow", "--json", "--from-seq", strconv.FormatUint(log.next, 10), log.args.Run)
	cmd.Env = c.env
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		stop()
		return err
	}
	defer func() {
		stop()
		_ = cmd.Wait() // it is killed while it reads
	}()
	frames := json.NewDecoder(out)
	for {
		var frame belljar.Frame
		if err := frames.Decode(&frame); err != nil {
			return fmt.Errorf("%v: %w", cmd.Args, err)
		}
		if !log.take(frame) {
			return nil
		}
	}
}

func (c *viaCommands) session(ctx context.Context, do string, a Args) (Result, error) {
	switch do {
	case "open":
		words := []string{"session", "open", "--json", a.Scope.String()}
		if a.TTLSec > 0 {
			words = append(words, "--ttl", strconv.FormatFloat(a.TTLSec, 'f', -1, 64))
		}
		for name, value := range a.Env {
			words = append(words, "--env", name+"="+value)
		}
		var opened struct {
			ID      string `json:"session_id"`
			Created bool   `json:"created"`
		}
		err := c.ask(ctx, &opened, words...)
		return Result{"session": opened.ID, "created": opened.Created}, err
	case "sessions":
		var page belljar.SessionPage
		err := c.ask(ctx, &page, "session", "ls", "--json", "--prefix", a.Prefix)
		return Result{"scopes": scopes(page.Items)}, err
	}
	which, result := []string{a.Session}, Result{}
	if do == "close_all" {
		which = []string{"--prefix", a.Prefix}
	}
	var ids []string
	if err := c.ask(ctx, &ids, append([]string{"session", "close", "--json"}, which...)...); err != nil {
		return nil, err
	}
	if do == "close_all" {
		result["closed"] = len(ids)
	}
	return result, nil
}

func (c *viaCommands) file(ctx context.Context, do string, a Args) (Result, error) {
	switch do {
	case "write":
		here, err := c.put(a.Contents)
		if err != nil {
			return nil, err
		}
		var copied json.RawMessage
		return Result{}, c.ask(ctx, &copied, "session", "cp", "--quiet", "--json", here, a.Session+":"+a.Path)
	case "read":
		out, err := os.MkdirTemp(c.dir, "")
		if err != nil {
			return nil, err
		}
		here := filepath.Join(out, "content")
		var copied json.RawMessage
		if err := c.ask(ctx, &copied, "session", "cp", "--quiet", "--json", a.Session+":"+a.Path, here); err != nil {
			return nil, err
		}
		return fetched(here)
	}
	words := []string{"session", "files", "--json", a.Session}
	if a.Path != "" {
		words = append(words, a.Path)
	}
	if a.Recursive {
		words = append(words, "--recursive")
	}
	var list belljar.FileList
	err := c.ask(ctx, &list, words...)
	return Result{"entries": entries(list.Entries)}, err
}

// put writes a file that a command reads.
func (c *viaCommands) put(content []byte) (string, error) {
	f, err := os.CreateTemp(c.dir, "")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	return f.Name(), errors.Join(err, f.Close())
}

func fetched(name string) (Result, error) {
	content, err := os.ReadFile(name)
	return Result{"contents": Bytes(content)}, err
}

// close waits for the running commands: until their runs have ended, or ctx.
func (c *viaCommands) close() {
	for _, t := range c.started {
		<-t.done
	}
}
