package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/char"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// The files of a template are a snapshot that callers cannot remove, and that does not expire.

// MakeTemplate saves a session's files as a snapshot with an id, for a template.
func (s *Snapshots) MakeTemplate(ctx context.Context, caller belljar.Caller, session, id, template string) (belljar.Snapshot, error) {
	return view{s, caller}.makeAs(ctx, session, false, belljar.Snapshot{ID: id, Name: template, Kind: kindTemplate})
}

// Adopt makes a snapshot with an id, for a template, from a snapshot of the same owner. They share their bytes.
func (s *Snapshots) Adopt(ctx context.Context, of, id, template string) error {
	x, err := s.opts.Store.Get(ctx, of)
	if err == nil {
		defer s.lock(x.UserID, x.Digest)()
		x, err = s.opts.Store.Get(ctx, of) // it may have been removed meanwhile
	}
	if err == nil {
		x.ID, x.Name, x.Kind, x.CreatedAt, x.ExpiresAt = id, template, kindTemplate, s.opts.Now(), nil
		return s.insert(ctx, x)
	}
	return fault.Record("keep the files of template "+template, err)
}

// TemplateSource returns the source of a session or run with a template: the files of a snapshot of owner, and start commands.
func (s *Snapshots) TemplateSource(ctx context.Context, owner, id string, start []string) (*Source, error) {
	from, err := s.Source(ctx, belljar.Caller{ID: owner}, id)
	if err == nil {
		from.start = start
	}
	return from, err
}

// Load fills the workspace of a new sandbox, unless it began with a layer.
func (f *Source) Load(ctx context.Context, b *box.Box, on belljar.Workspace, began bool) error {
	if f == nil || began {
		return nil
	}
	r, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	return load(ctx, b, r, on)
}

// keptOutput is how many bytes at the end of a command's output are kept, shownOutput how many of its last line a message has.
const (
	keptOutput  = 4 << 10
	shownOutput = 300
)

// Start executes the start commands of a new session or run, configured like e, but in the workspace. Processes that they leave running continue.
func (f *Source) Start(ctx context.Context, b *box.Box, e wire.Exec) error {
	if f == nil {
		return nil
	}
	e.Warm, e.Stdin, e.KillAll, e.Shell, e.TimeoutMS, e.Cwd = nil, false, false, nil, 0, ""
	for i, cmd := range f.start {
		e.ID, e.Argv = belljar.NewID(), []string{"/bin/sh", "-c", cmd}
		out, exit, err := output(ctx, b, e)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case exit.Code != 0 || exit.Cause != wire.CauseExited:
			text := strings.ToValidUTF8(string(out), "\ufffd")
			e := &belljar.Error{
				Code: belljar.CodeConflict, Message: fmt.Sprintf("start[%d] of template %q failed with exit code %d", i, f.of.Name, exit.Code),
				Details: map[string]any{"template": f.of.Name, "command": i, "exit_code": exit.Code, "output": text},
				Hint:    "the template's owner corrects start in its file and builds it again",
			}
			if text = strings.TrimSpace(text); text != "" { // the record of a run has the message only
				e.Message += ": " + char.Short(text[strings.LastIndexAny(text, "\r\n")+1:], shownOutput)
			}
			return e
		}
	}
	return nil
}

// output executes a command and returns the end of its output, without the values of secrets.
func output(ctx context.Context, b *box.Box, e wire.Exec) (out []byte, exit wire.Exit, err error) {
	proc, err := b.Exec(ctx, e, "")
	if err != nil {
		return nil, exit, err
	}
	defer proc.Close()
	hidden := b.Hidden.Stream()
	exit, err = proc.Output(ctx, func(_ int64, _ wire.Stream, p []byte) error {
		if out = append(out, hidden.Write(p)...); len(out) > 2*keptOutput {
			out = bytes.Clone(out[len(out)-keptOutput:])
		}
		return nil
	})
	if err == nil {
		_ = proc.Forget()
	}
	out = append(out, hidden.Flush()...)
	return out[max(0, len(out)-keptOutput):], exit, err
}
