package admission

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// Mode is the rule by which sandboxes are admitted to the node's memory.
type Mode string

// The modes.
const (
	AdmitUsed Mode = "used" // by current use: many idle sandboxes fit, and under pressure the greediest is destroyed
	AdmitCaps Mode = "caps" // by the sum of the caps: no sandbox is destroyed for another
)

// Thresholds of the memory of all sandboxes, in per cent of the bound.
const (
	watermark = 90 // above: admit no sandboxes, and release the pool's
	critical  = 95 // above: destroy the sandbox furthest above its share, before the kernel kills one
	relief    = 85 // below: admit sandboxes again
)

// memoryRetry is the Retry-After of a refusal for lack of memory.
const memoryRetry = 5 * time.Second

// besideFiles is the size of the in-memory file systems of a sandbox that no request sets.
const besideFiles = 80 << 20

// claim is the memory and CPU that one sandbox may use, whether it exists or is queued.
type claim struct {
	user   string
	memory int64 // bytes of programs and files
	cpu    float64
	quoted bool  // a quota counts it
	placed bool  // it counts against the node's bound
	limit  int64 // bytes that its programs may use; 0 if not enforced
	box    runtime.Sandbox
	end    func(why error) // ends the run or session of the sandbox
}

// Memory tracks the bound on all sandboxes together and each user's share of it. The zero value admits everything. Set the fields before the first use.
type Memory struct {
	Mode       Mode
	Overcommit float64 // the ratio of all caps to the bound that [AdmitCaps] permits
	NodeMemory int64   // the bound in bytes for [AdmitCaps] if no runtime of Hosts enforces one; 0 is none
	Hosts      placement.Hosts
	Disks      Disks // nil has none
	Log        *slog.Logger

	bound float64 // maximum sum of the caps in bytes; 0 is no bound

	mu      sync.Mutex
	claims  map[string]*claim
	placed  int64         // the sum of the caps that count
	pressed bool          // the memory in use is above the watermark
	changed chan struct{} // closed when memory may have become available; nil without waiters
}

// claimOf returns the claim of a placement.
func claimOf(user string, p *placement.Placement) *claim {
	l := p.Limits
	limit := int64(0)
	if p.Caps.Protection(runtime.ProtectMemory).Enforced {
		limit = int64(p.MemoryMB()) << 20
	}
	return &claim{user: user, cpu: l.CPU, limit: limit, memory: int64(p.ReservedMB()+l.TmpMB)<<20 + besideFiles}
}

// claim counts a sandbox, unless that exceeds its user's quota. It keeps an existing claim.
func (n *Memory) claim(id string, c *claim, q belljar.Quota) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.claims[id] != nil {
		return nil
	}
	used := n.usedBy(c.user)
	if most := int64(q.MemoryMB) << 20; most > 0 && used.memory+c.memory > most {
		return overQuota("memory_mb", "MiB of memory and files in memory", float64(used.memory>>20), float64(c.memory>>20), float64(q.MemoryMB))
	}
	if q.CPU > 0 && used.cpu+c.cpu > q.CPU+1e-6 { // sums of decimal fractions are not exact
		return overQuota("cpu", "cores", used.cpu, c.cpu, q.CPU)
	}
	if n.claims == nil {
		n.claims = map[string]*claim{}
	}
	c.quoted = q.MemoryMB > 0 || q.CPU > 0
	n.claims[id] = c
	return nil
}

func overQuota(quota, unit string, used, asked, limit float64) error {
	e := &belljar.Error{
		Code:    belljar.CodeQuotaExceeded,
		Message: fmt.Sprintf("%v more %s would exceed the quota: %v of %v are in use", Hundredths(asked), unit, Hundredths(used), Hundredths(limit)),
		Details: map[string]any{"quota": quota, "used": Hundredths(used), "asked": Hundredths(asked), "limit": limit},
		Hint:    "end a session or wait for a run's end, or ask for less with resources",
	}
	if asked > limit {
		e.Message = fmt.Sprintf("%v %s are more than the quota: %v", Hundredths(asked), unit, Hundredths(limit))
		e.Hint = "ask for less with resources"
	}
	return e
}

// Used returns how many bytes and cores a user's sandboxes may use, queued ones included.
func (n *Memory) Used(user string) (memory int64, cpu float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := n.usedBy(user)
	return sum.memory, sum.cpu
}

func (n *Memory) usedBy(user string) (sum claim) {
	for _, c := range n.claims {
		if c.user == user {
			sum.memory += c.memory
			sum.cpu += c.cpu
		}
	}
	return sum
}

// Quoted reports whether a sandbox counts towards its user's quota.
func (n *Memory) Quoted(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.claims[id] != nil && n.claims[id].quoted
}

// Drop removes the claim of a sandbox that was removed, or was not made.
func (n *Memory) Drop(id string) {
	if n.Disks != nil {
		n.Disks.Drop(id)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.claims[id]
	delete(n.claims, id)
	if c != nil && c.placed {
		n.placed -= c.memory
		n.notify()
	}
}

// Settle releases the part of a claim that only the sandboxes that prepare the claim's own needed.
func (n *Memory) Settle(id string, p placement.Placement) {
	p.InstallMB = 0
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.claims[id]
	if c == nil {
		return
	}
	freed := max(0, c.memory-claimOf(c.user, &p).memory)
	c.memory -= freed
	if c.placed && freed != 0 {
		n.placed -= freed
		n.notify()
	}
}

// notify wakes the waiters for memory. The caller holds the lock.
func (n *Memory) notify() {
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// Place counts a claimed sandbox against the bound, if there is room, or if force is set.
func (n *Memory) Place(id string, force bool) (ok bool, later <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.claims[id]
	if c == nil || c.placed {
		return true, nil
	}
	if !force && (n.pressed || n.Mode == AdmitCaps && n.bound > 0 && float64(n.placed+c.memory) > n.bound) {
		if n.changed == nil {
			n.changed = make(chan struct{})
		}
		return false, n.changed
	}
	c.placed = true
	n.placed += c.memory
	return true, nil
}

// fits reports whether a sandbox could ever be placed.
func (n *Memory) fits(c *claim) bool {
	return n.Mode != AdmitCaps || n.bound <= 0 || float64(c.memory) <= n.bound
}

// press sets whether the memory in use is above the watermark.
func (n *Memory) press(on bool) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed = n.pressed != on
	if n.pressed = on; changed && !on {
		n.notify()
	}
	return changed
}

// Hold records the sandbox of a claim, and how to end it.
func (n *Memory) Hold(id string, box runtime.Sandbox, end func(why error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.claims[id]; c != nil {
		c.box, c.end = box, end
	}
}

// release records that a sandbox was removed, unless its claim already has another one.
func (n *Memory) release(id string, box runtime.Sandbox) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.claims[id]; c != nil && c.box == box {
		c.box, c.end = nil, nil
	}
}

// Living returns the current sandbox of a run or session, nil if it has none, and the limit in bytes on its programs' memory, 0 if none is enforced.
func (n *Memory) Living(id string) (sandbox runtime.Sandbox, limit int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.claims[id]
	if c == nil {
		return nil, 0
	}
	return c.box, c.limit
}

// greediest returns the claim of the sandbox that is furthest above its share, which is its cap's part of the bound. Its box is nil if
// there is no sandbox, or none reports its usage.
func (n *Memory) greediest(ctx context.Context, bound int64) (id string, worst claim, used, share int64) {
	n.mu.Lock()
	living := map[string]claim{}
	var caps float64
	for id, c := range n.claims {
		if c.box != nil {
			living[id] = *c
			caps += float64(c.memory)
		}
	}
	n.mu.Unlock()
	most := int64(math.MinInt64)
	for name, c := range living {
		usage, err := c.box.Usage(ctx)
		if err != nil || usage.Memory == nil {
			continue
		}
		part, has := int64(float64(bound)*float64(c.memory)/caps), *usage.Memory
		if usage.Files != nil {
			has += *usage.Files
		}
		if over := has - part; over > most {
			most, id, worst, used, share = over, name, c, has, part
		}
	}
	return id, worst, used, share
}

// MemoryError is the cause of a sandbox that was destroyed because the sandboxes together used too much memory.
type MemoryError struct{ Used, Share int64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the sandbox was ended because all sandboxes together had no memory left: it used %d MiB, files in memory included, and its share was %d MiB",
		e.Used>>20, e.Share>>20)
}

// Full refuses a sandbox for which the node has no memory now.
func (n *Memory) Full() error {
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the memory of this node has no room for another sandbox now",
		Details: map[string]any{"reason": "node_memory", "retry_after_sec": int(memoryRetry.Seconds())},
		Hint:    "send the same request again later; SANDBOX_NODE_MEMORY_MB bounds all sandboxes together",
	}
}

// Claim counts a sandbox towards its user's quota.
func (n *Memory) Claim(id, user string, p *placement.Placement, q belljar.Quota) error {
	c := claimOf(user, p)
	if !n.fits(c) {
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("a sandbox that may use %d MiB with its files is larger than this node allows all together", c.memory>>20),
			Details: map[string]any{"rule": "SANDBOX_NODE_MEMORY_MB", "asked": c.memory >> 20, "limit": int64(n.bound) >> 20},
			Hint:    "ask for less with memory_mb and workspace_mb",
		}
	}
	if err := n.claim(id, c, q); err != nil || !p.Workspace.OnDisk() {
		return err
	}
	err := n.Disks.Claim(context.Background(), id, belljar.Caller{ID: user}, p.Workspace, p.MayMakeVolume)
	if err != nil {
		n.Drop(id)
	}
	return err
}

// Reclaim counts the sandbox of a previous process, which was already admitted.
func (n *Memory) Reclaim(id, user string, p *placement.Placement, sandbox runtime.Sandbox, end func(why error)) {
	_ = n.claim(id, claimOf(user, p), belljar.Quota{}) // cannot fail without a quota
	if p.Workspace.OnDisk() {
		n.Disks.Reclaim(id, belljar.Caller{ID: user}, p.Workspace)
	}
	n.Place(id, true)
	n.Hold(id, sandbox, end)
}
