package session

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/service/placement"
)

// source is the repository that a workspace is to begin with.
type source struct {
	spec  *belljar.GitSpec
	place *placement.Placement // of the side sandbox in which it is cloned
}

// clone clones the repository of the session's workspace; nil for none.
func (x *Session) clone(ctx context.Context) (*git.Tree, error) {
	if x.git == nil {
		return nil, nil
	}
	o := x.all.opts
	tree, _, err := o.Cloner.Clone(ctx, git.Order{
		Caller: x.caller, Spec: x.git.spec, Placement: x.git.place, Egress: x.Network.recordEgress,
		Made: func(sandbox runtime.Sandbox) { o.Memory.Hold(x.id, sandbox, x.endForMemory) },
	})
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state.Git = &belljar.GitSource{URL: x.git.spec.URL, Ref: x.git.spec.Ref, Commit: tree.Commit, Ignored: tree.Ignored}
	x.git = nil
	return tree, nil
}
