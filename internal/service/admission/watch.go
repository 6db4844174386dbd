package admission

import (
	"context"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// lookEvery is how often the memory of all sandboxes is polled if the kernel does not report pressure.
const lookEvery = time.Second

// Watch watches the memory of all sandboxes until ctx ends. It passes slow operations to work.
func (n *Memory) Watch(ctx context.Context, work func(f func())) {
	for _, h := range n.Hosts {
		bounded, ok := runtime.As[runtime.Bounded](h.Runtime)
		if !ok {
			continue
		}
		whole := bounded.Installation()
		if whole == nil {
			continue
		}
		bound := whole.Bound()
		n.bound = float64(bound) * n.Overcommit
		n.Log.Info("all sandboxes together have a bound on memory", "mib", bound>>20, "admission", n.Mode)
		if n.Mode == AdmitUsed {
			work(func() { n.guard(ctx, whole) })
		}
		return
	}
	if n.Mode == AdmitCaps && n.NodeMemory > 0 { // caps need no cgroup: Docker's engine limits each sandbox
		n.bound = float64(n.NodeMemory) * n.Overcommit
		n.Log.Info("sandboxes are admitted by the sum of their caps", "mib", n.NodeMemory>>20)
	} else if n.Mode == AdmitCaps {
		n.Log.Warn("nothing bounds the memory of all sandboxes here, so that every sandbox is admitted: set SANDBOX_NODE_MEMORY_MB")
	}
}

// guard keeps the memory in use below the bound.
func (n *Memory) guard(ctx context.Context, whole runtime.Installation) {
	watch, err := whole.Watch(watermark, critical)
	if err != nil {
		n.Log.Warn("the kernel does not announce that the sandboxes' memory runs short; it is looked at every second", "err", err)
	}
	defer watch.Close()
	for ctx.Err() == nil {
		if !n.relieve(ctx, whole) {
			watch.Wait(ctx, lookEvery)
		}
	}
}

// relieve takes the action that the memory in use requires, and reports whether that freed memory, so that another check is needed.
func (n *Memory) relieve(ctx context.Context, whole runtime.Installation) bool {
	bound := whole.Bound()
	used, err := whole.Used()
	if err != nil || bound == 0 {
		return false
	}
	part := func(percent int64) int64 { return bound / 100 * percent }
	switch {
	case used >= part(watermark):
		if n.press(true) {
			n.Log.Warn("the sandboxes' memory runs short: nothing new is admitted", "used_mib", used>>20, "bound_mib", bound>>20)
		}
		for _, h := range n.Hosts {
			if y, ok := runtime.As[runtime.Yielder](h.Runtime); ok && y.Yield() {
				return true
			}
		}
	case used < part(relief):
		n.press(false)
	}
	if used < part(critical) {
		return false
	}
	id, c, own, share := n.greediest(ctx, bound)
	if c.box == nil {
		return false
	}
	why := &MemoryError{Used: own, Share: share}
	n.Log.Error("a sandbox is ended so that the others have memory", "sandbox", id, "user_id", c.user, "used_mib", own>>20, "share_mib", share>>20)
	c.end(why)
	if err := c.box.Destroy(ctx); err != nil {
		n.Log.Error("sandbox could not be destroyed", "sandbox", id, "err", err)
	}
	n.release(id, c.box)
	return true
}
