package template

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/store"
)

// The reasons for a build.
const (
	isNew        = "new"
	changed      = "changed"
	asked        = "asked"
	imageChanged = "image_changed"
	imageRemoved = "image_removed"
)

// maxSpec bounds a template's fields as JSON, in bytes: a list has up to a hundred of them.
const maxSpec = 256 << 10

// Build makes a template, unless it exists and nothing has changed.
func (v view) Build(ctx context.Context, spec belljar.TemplateSpec) (belljar.Template, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Template{}, err
	}
	if text, err := json.Marshal(spec); err != nil || len(text) > maxSpec {
		return belljar.Template{}, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("a template has %d bytes of fields at most", maxSpec),
			Details: map[string]any{"field": "body", "maximum": maxSpec}, Hint: "put long commands into files of the template", Err: err,
		}
	}
	of, err := owner(v.caller, spec.Shared)
	if err != nil {
		return belljar.Template{}, err
	}
	k := key{of, spec.Name}
	leave, err := v.enter(ctx, k)
	if err != nil {
		return belljar.Template{}, err
	}
	defer leave()
	old, err := v.get(ctx, k)
	if err != nil {
		return belljar.Template{}, err
	}
	from, err := v.given(ctx, spec.Snapshot)
	if err != nil {
		return belljar.Template{}, err
	}
	why := ""
	switch digest := digestOf(spec, from.Digest); {
	case !built(old):
		why, err = isNew, v.room(ctx, of)
	case spec.Rebuild:
		why = asked
	case old.Digest != digest:
		why = changed
	default:
		why, err = v.stale(ctx, old)
	}
	if err != nil || why == "" {
		return old.Template, err
	}
	made, err := v.build(ctx, v.caller, k, old, spec, from, why)
	return made.Template, err
}

// given returns the caller's snapshot with a build's initial files; a zero one for none.
func (v view) given(ctx context.Context, id string) (belljar.Snapshot, error) {
	if id == "" {
		return belljar.Snapshot{}, nil
	}
	x, err := v.opts.Snapshots.Find(ctx, v.caller, id)
	switch {
	case err != nil:
		return x, err
	case x.UserID != v.caller.ID:
		return x, fault.Refuse("snapshot", id, "the snapshot belongs to another user")
	case snapshot.IsLive(x):
		return x, fault.Refuse("snapshot", id, "the snapshot is live: a template begins with files")
	}
	return x, nil
}

// room refuses a template to an owner with the maximum number.
func (t *Templates) room(ctx context.Context, owner string) error {
	rows, err := t.opts.Store.List(ctx, owner, false)
	if err != nil {
		return fault.Record("count the templates of "+owner, err)
	}
	if len(rows) < mostOf {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("you have %d templates, and at most %d are allowed", len(rows), mostOf),
		Details: map[string]any{"quota": "templates", "used": len(rows), "limit": mostOf}, Hint: "remove one: DELETE /templates/{name} (belljar template rm)",
	}
}

// digestOf returns a hash of a template's inputs.
func digestOf(spec belljar.TemplateSpec, files string) string {
	spec.Snapshot, spec.Shared, spec.Rebuild, spec.Packages.Refresh = files, false, false, false
	text, _ := json.Marshal(spec) // cannot fail: JSON can represent all its values
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// stale returns why a template must be rebuilt: its image has changed since the build. "" means that it need not be rebuilt.
func (t *Templates) stale(ctx context.Context, x store.Template) (string, error) {
	if x.ImageDigest == "" {
		return "", nil
	}
	image, err := t.opts.As(builder(x)).Images().Get(ctx, x.BaseImage)
	switch {
	case belljar.CodeOf(err) == belljar.CodeNotFound && err != nil:
		return imageRemoved, nil
	case err != nil:
		return "", err
	case image.Digest != x.ImageDigest:
		return imageChanged, nil
	}
	return "", nil
}

// builder returns the caller that rebuilds a template: the user who built it, without an operator's rights.
func builder(x store.Template) belljar.Caller {
	return belljar.Caller{ID: x.UserID, Source: "template"}
}

// build builds a template in place of old, with the files of the caller's snapshot from, unless that is zero. A failed build leaves old unchanged.
func (t *Templates) build(ctx context.Context, caller belljar.Caller, k key, old store.Template, spec belljar.TemplateSpec, from belljar.Snapshot, why string) (store.Template, error) {
	next := store.Template{Owner: k.owner, Result: belljar.NewID()}
	next.TemplateSpec, next.UserID, next.Digest, next.Reason = spec, caller.ID, digestOf(spec, from.Digest), why
	next.Rebuild, next.Packages.Refresh = false, false
	if next.Snapshot = ""; from.ID != "" {
		next.Snapshot = belljar.NewID()
	}
	if len(old.Drop) > 0 && !slices.Contains(old.Drop, from.ID) { // otherwise a template that is built often would keep the files of all its builds
		if err := t.settle(ctx, old, old.Drop); err != nil {
			return old, err
		}
		old.Drop = nil
	}
	begun := old
	begun.Owner, begun.Name = k.owner, k.name
	begun.Drop = append(slices.Clone(old.Drop), snapshotsOf(next)...)
	if err := t.put(ctx, begun); err != nil {
		return old, err
	}
	err := t.make(ctx, caller, &next, from, spec.Packages.Refresh)
	run := next.BuildRunID
	if next.BuildRunID = ""; err == nil {
		next.Drop, next.BuiltAt = append(slices.Clone(old.Drop), snapshotsOf(old)...), t.opts.Now()
		err = t.put(context.WithoutCancel(ctx), next)
	}
	if err != nil {
		if left := t.settle(context.WithoutCancel(ctx), begun, snapshotsOf(next)); left != nil {
			t.opts.Log.Warn("remains of a template cannot be removed", "template", k.name, "err", left) // a sweep removes them
		}
		return old, err
	}
	t.record(event.TemplateBuilt, caller, next.Template)
	next.BuildRunID = run
	return next, nil
}

// make makes the files of a template in a session.
func (t *Templates) make(ctx context.Context, caller belljar.Caller, x *store.Template, from belljar.Snapshot, refresh bool) (err error) {
	if from.ID != "" {
		if err := t.opts.Snapshots.Adopt(ctx, from.ID, x.Snapshot, x.Name); err != nil {
			return err
		}
	}
	t.step(*x, "create", "")
	all := t.opts.As(caller)
	packages := x.Packages
	packages.Refresh = refresh
	session, err := all.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: t.opts.SpecVersion, BaseImage: x.BaseImage, Runtime: x.Runtime, Resources: x.Resources, NetworkPolicy: x.NetworkPolicy, Egress: x.Egress,
		Packages: packages, Env: x.Env, WorkspaceExec: x.WorkspaceExec, Snapshot: x.Snapshot, TTLSec: t.opts.TTL.Seconds(),
		TimeoutSec: x.TimeoutSec, // an approval that it needs is the session's, which fails, and not a command's, which would wait
		Labels:     map[string]string{"template": x.Name},
	}})
	if err != nil {
		return err
	}
	defer func() {
		if left := all.Sessions().Delete(context.WithoutCancel(ctx), session.ID); left != nil && belljar.CodeOf(left) != belljar.CodeConflict {
			t.opts.Log.Warn("session of a build cannot be ended", "template", x.Name, "session_id", session.ID, "err", left)
		}
	}()
	if session.State != belljar.SessionActive {
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("the build of template %q needs an approval, which builds cannot wait for", x.Name),
			Hint: "ask the operator for a rule that lets it pass, or to build the template",
		}
	}
	for i := range x.Run {
		if err := t.command(ctx, all.Runs(), session.ID, x, i); err != nil {
			return err
		}
	}
	t.step(*x, "save", "")
	made, err := t.opts.Snapshots.MakeTemplate(ctx, caller, session.ID, x.Result, x.Name)
	x.ImageDigest, x.SnapshotDigest, x.Bytes, x.Files = session.ImageDigest, made.Digest, made.Bytes, made.Files
	return err
}

// keptOutput is how many bytes at the end of a command's output an error includes.
const keptOutput = 4 << 10

// command runs one command of a build. Its run stays on record, with its output.
func (t *Templates) command(ctx context.Context, runs belljar.Runs, session string, x *store.Template, i int) error {
	field := fmt.Sprintf("run[%d]", i)
	run, err := runs.Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: t.opts.SpecVersion, SessionID: session, Command: []string{"/bin/sh", "-c", x.Run[i]}, Cwd: ".", TimeoutSec: x.TimeoutSec,
		Labels: map[string]string{"template": x.Name},
	}})
	if err != nil {
		return err
	}
	x.BuildRunID = run.ID
	t.step(*x, field, run.ID)
	var out []byte
	for f, err := range runs.Frames(ctx, run.ID, 1) {
		if err != nil {
			return err // the end of the session also ends the run
		}
		if f.Type != belljar.FrameStdout && f.Type != belljar.FrameStderr {
			continue
		}
		if out = append(out, f.Output...); len(out) > 2*keptOutput {
			out = bytes.Clone(out[len(out)-keptOutput:])
		}
	}
	if run, err = runs.Get(ctx, run.ID); err != nil {
		return err
	}
	if run.Phase == belljar.PhaseCompleted && run.ExitCode != nil && *run.ExitCode == 0 {
		return nil
	}
	e := &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%s of template %q failed", field, x.Name), Hint: "belljar logs " + run.ID + " shows what it printed",
		Details: map[string]any{"field": field, "run_id": run.ID, "output": strings.ToValidUTF8(string(out[max(0, len(out)-keptOutput):]), "\ufffd")},
	}
	if run.ReasonCode == belljar.ReasonCanceledByUser {
		e.Code, e.Message, e.Hint = belljar.CodeConflict, fmt.Sprintf("%s of template %q was canceled, or the session of the build was ended", field, x.Name), "build it again"
	} else {
		e.Message += ": " + cmp.Or(run.Message, string(run.Phase))
	}
	if run.ExitCode != nil {
		e.Details["exit_code"] = *run.ExitCode
	}
	return e
}
