package cli

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/show"
)

// meCommand is belljar me.
type meCommand struct {
	JSON bool `name:"json" help:"Print one JSON object, with the policy in force."`
}

// Run shows the caller's user.
func (m *meCommand) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		me, err := s.Node().Me(ctx)
		if err != nil {
			return err
		}
		if m.JSON {
			return show.JSON(c.stdout, me)
		}
		return show.Pairs(c.stdout, [][2]string{
			{"user", me.UserID}, {"role", string(me.Role)}, {"quota", whose(me.Quota)},
			{"runs", fmt.Sprintf("%d running%s, %d queued", me.Used.ConcurrentRuns, of(me.Quota.ConcurrentRuns), me.Used.QueuedRuns)},
			{"sessions", fmt.Sprint(me.Used.Sessions)},
			{"cpu today", fmt.Sprintf("%.1f s%s", me.Used.CPUSecondsToday, of(me.Quota.CPUSecondsPerDay))},
			{"network today", fmt.Sprintf("%s%s", show.Bytes(me.Used.EgressBytesToday), ofMB(me.Quota.EgressMBPerDay))},
			{"sandboxes", fmt.Sprintf("%s%s memory, %g%s cpus", show.Bytes(int64(me.Used.MemoryMB)<<20), ofMB(me.Quota.MemoryMB), me.Used.CPU, of(me.Quota.CPU))},
			{"artifacts", fmt.Sprintf("%s%s", show.Bytes(me.Used.ArtifactBytes), ofMB(me.Quota.ArtifactMB))},
			{"logs", fmt.Sprintf("%s%s", show.Bytes(me.Used.LogBytes), ofMB(me.Quota.LogMB))},
			{"limits", fmt.Sprintf("%g cpus, %d MiB memory, %d MiB workspace, %d processes, %gs a run by default",
				me.Limits.CPU, me.Limits.MemoryMB, me.Limits.WorkspaceMB, me.Limits.Pids, me.Limits.TimeoutSec)},
			{"policy", me.PolicyHash},
		})
	})
}

// whose names the origin of a quota.
func whose(q belljar.Quota) string {
	if q.Own {
		return "your own"
	}
	return "the default"
}

// of formats a quota for people; 0 means no limit.
func of[T int | float64](quota T) string {
	if quota == 0 {
		return ""
	}
	return fmt.Sprintf(" of %v", quota)
}

func ofMB(mb int) string {
	if mb == 0 {
		return ""
	}
	return " of " + show.Bytes(int64(mb)<<20)
}
