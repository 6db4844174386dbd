package run

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/shelf"
)

// admitSnapshot finds the snapshot that a run reads. It refuses one that the run's runtime cannot mount.
func (s *admitter) admitSnapshot(ctx context.Context, caller belljar.Caller, p *plan) (err error) {
	id := p.request.Snapshot
	if id == "" {
		return nil
	}
	if p.snapshot, err = s.snapshots.Find(ctx, caller, id); err != nil {
		return err
	}
	if snapshot.IsLive(p.snapshot) {
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("snapshot %s is live: it has no files for a run to read", id), Details: map[string]any{"field": "snapshot"},
			Hint: "make a session of it, and a snapshot of that session's files",
		}
	}
	if !p.Caps.Layers {
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("runtime %s cannot show a snapshot at %s", p.Host.Name(), runtime.SnapshotDir),
			Details: map[string]any{"field": "snapshot", "runtime": p.Host.Name(), "available": true, "suggested": []string{}},
			Hint:    "choose another runtime, or make a session with the snapshot",
		}
	}
	return nil
}

// unpackSnapshot adds the snapshot of the run to the layers of its sandbox. packages may be nil.
func (c *execution) unpackSnapshot(packages *install.Ready) (*install.Ready, error) {
	p := c.plan
	if p.snapshot.ID == "" {
		return packages, nil
	}
	layer, held, err := c.runner.snapshots.Layer(c.run.ctx, p.snapshot)
	if err != nil {
		packages.Release()
		return nil, err
	}
	packages = packages.With(layer, held)
	root := p.Image
	root.Layers = packages.Layers
	c.run.setImage(root)
	return packages, nil
}

// layTemplate puts the files of the run's template, if it has one, into its workspace. packages may be nil.
func (c *execution) layTemplate(packages *install.Ready) (*snapshot.Source, *install.Ready, error) {
	p := c.plan
	from, err := c.runner.templates.Source(c.run.ctx, c.run.caller, p.request.Template)
	if from == nil && err == nil {
		return nil, packages, nil
	}
	var layer *shelf.Layer
	if err == nil {
		layer, err = from.Lay(c.run.ctx, p.Placement)
	}
	if err != nil {
		packages.Release()
		return nil, nil, err
	}
	from.On(&p.Placement, layer)
	c.run.setFiles(from.Digest(), p.Below.Dir)
	return from, packages.Holding(layer), nil
}
