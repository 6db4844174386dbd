// Package template manages the templates of a service: named environments for sessions and runs.
//
// A template is a record of its inputs, and a snapshot with its files. The service builds it in a session of its builder (build.go), and uses
// it to fill in fields that a request leaves out (use.go). The record names the snapshots of a build before it begins, so that the leftovers
// of an unfinished build are removed, and never used.
package template

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/store"
)

// Options configures [Templates].
type Options struct {
	Store     store.Templates
	Snapshots *snapshot.Snapshots
	// As returns the service as one caller sees it.
	As          func(belljar.Caller) belljar.Service
	SpecVersion string // for the requests of builds
	// TTL is how long the session of a killed build lives.
	TTL time.Duration
	// Record records an event and fills in its time and component.
	Record func(event.Event)
	// Now returns the time in the precision of records.
	Now func() time.Time
	Log *slog.Logger
}

const (
	sharedOwner = ""  // owns the shared templates
	mostOf      = 100 // maximum number of templates of one owner
	// keptAfter is how long the files of the previous build are kept: new sessions may be about to use them.
	keptAfter = 15 * time.Minute
)

// key identifies a template.
type key struct{ owner, name string }

// Templates manages the templates of a service. It is safe for concurrent use.
type Templates struct {
	opts Options

	mu   sync.Mutex
	busy map[key]*change // templates that are being changed
}

// change is a running change of a template.
type change struct {
	over  chan struct{}    // closed when it has ended
	build belljar.Template // the resulting template, with the step of the build; zero unless it is being built
}

// New returns the templates over these parts.
func New(o Options) *Templates { return &Templates{opts: o, busy: map[key]*change{}} }

// As returns the templates as one caller sees them.
func (t *Templates) As(caller belljar.Caller) belljar.Templates { return view{t, caller} }

// view is the templates as one caller sees them.
type view struct {
	*Templates
	caller belljar.Caller
}

var _ belljar.Templates = view{}

// enter waits for other changes of a template, and excludes them until leave is called.
func (t *Templates) enter(ctx context.Context, k key) (leave func(), err error) {
	for {
		t.mu.Lock()
		other := t.busy[k]
		if other == nil {
			mine := &change{over: make(chan struct{})}
			t.busy[k] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.busy, k)
				t.mu.Unlock()
				close(mine.over)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other.over:
		case <-ctx.Done():
			return nil, &belljar.Error{Code: belljar.CodeCanceled, Message: fmt.Sprintf("the request was cancelled while template %q was being built", k.name), Err: context.Cause(ctx)}
		}
	}
}

// get returns a built template; a zero one if there is none.
func (t *Templates) get(ctx context.Context, k key) (store.Template, error) {
	x, err := t.opts.Store.Get(ctx, k.owner, k.name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Template{}, nil
	case err != nil:
		return store.Template{}, fault.Record("read the record of template "+k.name, err)
	}
	return x, nil
}

// built reports whether a template is usable.
func built(x store.Template) bool { return !x.BuiltAt.IsZero() }

// find returns a caller's template, or else the shared one.
func (t *Templates) find(ctx context.Context, caller belljar.Caller, name string) (store.Template, error) {
	for _, owner := range []string{caller.ID, sharedOwner} {
		x, err := t.get(ctx, key{owner, name})
		if err != nil || built(x) {
			return x, err
		}
		if x, ok := t.shown(x); ok {
			return store.Template{}, &belljar.Error{
				Code: belljar.CodeConflict, Message: fmt.Sprintf("template %q is being built for the first time (%s)", name, x.Building),
				Details: map[string]any{"template": name, "building": x.Building}, Hint: "GET /templates/" + name + " (belljar template ls) shows how far it is",
			}
		}
	}
	return store.Template{}, notFound(name)
}

// step sets the current step of a template's build.
func (t *Templates) step(x store.Template, what, run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.busy[key{x.Owner, x.Name}]
	c.build = x.Template
	c.build.Building, c.build.BuildRunID = what, run
}

// shown returns a template with its running build. It reports false if the template neither was built nor is being built.
func (t *Templates) shown(x store.Template) (belljar.Template, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.busy[key{x.Owner, x.Name}]
	switch {
	case c == nil || c.build.Building == "":
		return x.Template, built(x)
	case !built(x):
		return c.build, true
	}
	x.Building, x.BuildRunID = c.build.Building, c.build.BuildRunID
	return x.Template, true
}

func notFound(name string) error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("template %.80q does not exist", name), Details: map[string]any{"template": name},
		Hint: "belljar template ls lists them; belljar template build makes one",
	}
}

// owner returns the owner of the caller's template, or of a shared one.
func owner(caller belljar.Caller, shared bool) (string, error) {
	switch {
	case !shared && caller.ID != sharedOwner:
		return caller.ID, nil
	case !caller.Admin():
		return "", &belljar.Error{
			Code: belljar.CodeForbidden, Message: "only an operator shares templates", Details: map[string]any{"field": "shared"},
			Hint: "leave shared out: the template is then yours alone",
		}
	}
	return sharedOwner, nil
}

// Get returns a template.
func (v view) Get(ctx context.Context, name string) (belljar.Template, error) {
	for _, owner := range []string{v.caller.ID, sharedOwner} {
		x, err := v.get(ctx, key{owner, name})
		if err != nil {
			return belljar.Template{}, err
		}
		if x, ok := v.shown(x); ok {
			return x, nil
		}
	}
	return belljar.Template{}, notFound(name)
}

// List returns the caller's templates and the shared ones.
func (v view) List(ctx context.Context) ([]belljar.Template, error) {
	rows, err := v.opts.Store.List(ctx, v.caller.ID, true)
	if err != nil {
		return nil, fault.Record("list templates", err)
	}
	list := []belljar.Template{}
	for _, x := range rows {
		if x, ok := v.shown(x); ok {
			list = append(list, x)
		}
	}
	return list, nil
}

// Remove removes a template with its files.
func (v view) Remove(ctx context.Context, name string, shared bool) error {
	of, err := owner(v.caller, shared)
	if err != nil {
		return err
	}
	k := key{of, name}
	leave, err := v.enter(ctx, k)
	if err != nil {
		return err
	}
	defer leave()
	x, err := v.get(ctx, k)
	if err != nil {
		return err
	}
	if !built(x) {
		return notFound(name)
	}
	gone := store.Template{Template: belljar.Template{TemplateSpec: belljar.TemplateSpec{Name: name}}, Owner: of, Drop: append(x.Drop, snapshotsOf(x)...)}
	ctx = context.WithoutCancel(ctx)
	if err := v.put(ctx, gone); err != nil {
		return err
	}
	v.record(event.TemplateRemoved, v.caller, x.Template)
	return v.settle(ctx, gone, gone.Drop)
}

// snapshotsOf returns the ids of a template's snapshots.
func snapshotsOf(x store.Template) (ids []string) {
	for _, id := range []string{x.Result, x.Snapshot} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

func (t *Templates) put(ctx context.Context, x store.Template) error {
	if err := t.opts.Store.Put(ctx, x); err != nil {
		return fault.Record("put template "+x.Name+" on record", err)
	}
	return nil
}

// settle removes the snapshots that the record of a template marks for removal. If the template was never built, it removes the record with the last ones.
func (t *Templates) settle(ctx context.Context, x store.Template, ids []string) error {
	for _, id := range ids {
		if err := t.opts.Snapshots.Drop(ctx, id); err != nil {
			return err
		}
	}
	x.Drop = slices.DeleteFunc(slices.Clone(x.Drop), func(id string) bool { return slices.Contains(ids, id) })
	if built(x) || len(x.Drop) > 0 {
		return t.put(ctx, x)
	}
	if err := t.opts.Store.Delete(ctx, x.Owner, x.Name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fault.Record("remove template "+x.Name, err)
	}
	return nil
}

// Sweep removes the leftovers of unfinished builds, and the files of previous builds. At the start of a process (first) no session is about to use those.
func (t *Templates) Sweep(ctx context.Context, first bool) error {
	rows, err := t.opts.Store.Dropping(ctx)
	if err != nil {
		return fmt.Errorf("sweep templates: %w", err)
	}
	var errs []error
	for _, row := range rows {
		k := key{row.Owner, row.Name}
		t.mu.Lock()
		busy := t.busy[k] != nil
		t.mu.Unlock()
		if busy {
			continue
		}
		leave, err := t.enter(ctx, k)
		if err != nil {
			return err
		}
		x, err := t.get(ctx, k)
		if err == nil && len(x.Drop) > 0 && (first || !built(x) || t.opts.Now().Sub(x.BuiltAt) > keptAfter) {
			err = t.settle(ctx, x, x.Drop)
		}
		leave()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *Templates) record(name string, caller belljar.Caller, x belljar.Template) {
	t.opts.Record(event.Event{
		Name: name, Caller: caller, Count: x.Bytes, Files: int64(x.Files), Reason: x.Reason, Detail: map[string]string{"template": x.Name, "digest": x.Digest},
	})
}
