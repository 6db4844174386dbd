package session

import (
	"context"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/git"
	"github.com/belljar/belljar/internal/store"
)

// clone clones the repository into the session's workspace; nil for none. After that, the session's record no longer has the
// request for it.
func (x *Session) clone(ctx context.Context) (*git.Tree, error) {
	asked := x.spec.Git
	if asked == nil {
		return nil, nil
	}
	o := x.all.opts
	tree, report, err := o.Cloner.Clone(ctx, git.Order{
		Caller: x.caller, Spec: asked, Placement: x.gitPlace, Egress: x.Network.recordEgress,
		Made: func(sandbox runtime.Sandbox) { o.Memory.Hold(x.id, sandbox, x.endForMemory) },
	})
	if report != nil {
		charge(ctx, x, store.Charge{EgressBytes: report.BytesIn + report.BytesOut})
	}
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state.Git = &belljar.GitSource{URL: asked.URL, Ref: asked.Ref, Commit: tree.Commit, Ignored: tree.Ignored}
	x.state.Warnings = slices.Concat(x.state.Warnings, tree.Warnings())
	x.spec.Git = nil
	return tree, nil
}
