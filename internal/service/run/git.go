package run

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/git"
)

// clone clones the repository into the run's workspace; nil for none.
func (c *execution) clone() (*git.Tree, error) {
	r, spec := c.run, c.plan.request.Git
	if spec == nil {
		return nil, nil
	}
	tree, report, err := c.runner.cloner.Clone(r.ctx, git.Order{
		Caller: r.caller, Spec: spec, Placement: c.plan.git,
		Made:     func(sandbox runtime.Sandbox) { c.runner.memory.Hold(r.id, sandbox, func(why error) { r.stop(why) }) },
		Egress:   func(e egress.Event) { r.appendUnlessOver(egressFrame(e)); c.runner.recordEgress(r, e) },
		Progress: r.appendUnlessOver,
	})
	if c.net.earlier = report; report != nil {
		c.reportEgress(report)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.state.Git = &belljar.GitSource{URL: spec.URL, Ref: spec.Ref, Commit: tree.Commit, Ignored: tree.Ignored}
	r.mu.Unlock()
	return tree, nil
}
