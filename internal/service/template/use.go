package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/store"
)

// Session fills in the fields that a request for a session leaves out from its template. It returns the template, too; a zero one for none.
func (t *Templates) Session(ctx context.Context, caller belljar.Caller, spec belljar.SessionSpec) (belljar.SessionSpec, belljar.Template, error) {
	if spec.Template == "" {
		return spec, belljar.Template{}, nil
	}
	x, err := t.ready(ctx, caller, spec.Template)
	if err != nil {
		return spec, x, err
	}
	err = request{&spec.BaseImage, &spec.Runtime, &spec.Resources, &spec.NetworkPolicy, &spec.Egress, &spec.Packages, &spec.Env, &spec.WorkspaceExec}.fill(x, spec.Workspace)
	if err == nil {
		err = spec.Validate()
	}
	return spec, x, err
}

// Run is [Templates.Session] for a run. A run that waited during a restart (again) uses the template as it is.
func (t *Templates) Run(ctx context.Context, caller belljar.Caller, spec belljar.RunSpec, again bool) (belljar.RunSpec, belljar.Template, error) {
	if spec.Template == "" {
		return spec, belljar.Template{}, nil
	}
	get := t.ready
	if again {
		get = func(ctx context.Context, caller belljar.Caller, name string) (belljar.Template, error) {
			x, err := t.find(ctx, caller, name)
			return x.Template, err
		}
	}
	x, err := get(ctx, caller, spec.Template)
	if err != nil {
		return spec, x, err
	}
	err = request{&spec.BaseImage, &spec.Runtime, &spec.Resources, &spec.NetworkPolicy, &spec.Egress, &spec.Packages, &spec.Env, &spec.WorkspaceExec}.fill(x, spec.Workspace)
	if err == nil {
		err = spec.Validate()
	}
	return spec, x, err
}

// Source returns the source of the sandbox for a caller's session or run; nil without a template.
func (t *Templates) Source(ctx context.Context, caller belljar.Caller, name string) (*snapshot.Source, error) {
	if name == "" {
		return nil, nil
	}
	x, err := t.find(ctx, caller, name)
	if err != nil {
		return nil, err
	}
	return t.opts.Snapshots.TemplateSource(ctx, x.UserID, x.Result, x.Start)
}

// ready returns a template, and first rebuilds it if its image has changed or was removed.
func (t *Templates) ready(ctx context.Context, caller belljar.Caller, name string) (belljar.Template, error) {
	x, why, err := t.check(ctx, caller, name)
	if err != nil || why == "" {
		return x.Template, err
	}
	k := key{x.Owner, name}
	leave, err := t.enter(ctx, k)
	if err != nil {
		return x.Template, err
	}
	defer leave()
	if x, why, err = t.check(ctx, caller, name); err != nil || why == "" || x.Owner != k.owner { // a concurrent request was faster
		return x.Template, err
	}
	from := belljar.Snapshot{}
	if x.Snapshot != "" {
		if from, err = t.opts.Snapshots.Find(ctx, builder(x), x.Snapshot); err != nil {
			return x.Template, err
		}
	}
	made, err := t.build(ctx, builder(x), k, x, x.TemplateSpec, from, why)
	var own *belljar.Error
	if errors.As(err, &own) {
		e := *own
		if e.Details = maps.Clone(e.Details); e.Details == nil {
			e.Details = map[string]any{}
		}
		e.Message, e.Details["template"] = fmt.Sprintf("template %q must be built again (%s), and cannot be: %s", name, why, own.Message), name
		delete(e.Details, "field") // a field of the template's own request
		if e.Code == belljar.CodeInvalidRequest {
			e.Code = belljar.CodeConflict
		}
		err = &e
	}
	return made.Template, err
}

// check returns a template and why it must be rebuilt, "" if not.
func (t *Templates) check(ctx context.Context, caller belljar.Caller, name string) (x store.Template, why string, err error) {
	if x, err = t.find(ctx, caller, name); err == nil {
		why, err = t.stale(ctx, x)
	}
	return x, why, err
}

// request is the fields of a request that a template can fill in.
type request struct {
	image, runtime *string
	resources      *belljar.Resources
	policy         *string
	egress         *belljar.Egress
	packages       *belljar.Packages
	env            *map[string]string
	exec           *bool
}

// fill sets the fields that the request leaves out. The request's own variables win, and its network and packages replace the template's.
func (r request) fill(x belljar.Template, w belljar.Workspace) error {
	if *r.image != "" && *r.image != x.BaseImage {
		return fault.Refuse("base_image", *r.image, fmt.Sprintf("template %q is of image %q: leave base_image out", x.Name, x.BaseImage))
	}
	*r.image = x.BaseImage
	*r.runtime = cmp.Or(*r.runtime, x.Runtime)
	own := x.Resources
	if w.OnDisk() {
		own.WorkspaceMB = 0
	}
	r.resources.CPU = cmp.Or(r.resources.CPU, own.CPU)
	r.resources.MemoryMB = cmp.Or(r.resources.MemoryMB, own.MemoryMB)
	r.resources.Pids = cmp.Or(r.resources.Pids, own.Pids)
	r.resources.NoFile = cmp.Or(r.resources.NoFile, own.NoFile)
	r.resources.NProc = cmp.Or(r.resources.NProc, own.NProc)
	r.resources.WorkspaceMB = cmp.Or(r.resources.WorkspaceMB, own.WorkspaceMB)
	r.resources.LogBytes = cmp.Or(r.resources.LogBytes, own.LogBytes)
	r.resources.ArtifactMB = cmp.Or(r.resources.ArtifactMB, own.ArtifactMB)
	if *r.policy == "" && r.egress.Len() == 0 {
		*r.policy, *r.egress = x.NetworkPolicy, x.Egress
	}
	if r.packages.IsZero() {
		*r.packages = x.Packages
	}
	if len(x.Env) > 0 {
		env := maps.Clone(x.Env)
		maps.Copy(env, *r.env)
		*r.env = env
	}
	*r.exec = *r.exec || x.WorkspaceExec
	return nil
}
