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
	return c.remote(m.JSON, func(s belljar.Service) error {
		me, err := s.Node().Me(ctx)
		if err != nil {
			return err
		}
		if m.JSON {
			return show.JSON(c.stdout, me)
		}
		return show.Pairs(c.stdout, [][2]string{
			{"user", me.UserID}, {"role", string(me.Role)},
			{"runs", fmt.Sprintf("%d running of %s, %d queued", me.Used.ConcurrentRuns, most(me.Quota.ConcurrentRuns), me.Used.QueuedRuns)},
			{"sessions", fmt.Sprint(me.Used.Sessions)},
			{"cpu today", fmt.Sprintf("%.1f s of %s", me.Used.CPUSecondsToday, mostSeconds(me.Quota.CPUSecondsPerDay))},
			{"network today", fmt.Sprintf("%s of %s", show.Bytes(me.Used.EgressBytesToday), mostMB(me.Quota.EgressMBPerDay))},
			{"sandboxes", fmt.Sprintf("%s of %s memory, %g of %s cpus", show.Bytes(int64(me.Used.MemoryMB)<<20), mostMB(me.Quota.MemoryMB), me.Used.CPU, mostCPU(me.Quota.CPU))},
			{"artifacts", fmt.Sprintf("%s of %s", show.Bytes(me.Used.ArtifactBytes), mostMB(me.Quota.ArtifactMB))},
			{"logs", fmt.Sprintf("%s of %s", show.Bytes(me.Used.LogBytes), mostMB(me.Quota.LogMB))},
			{"limits", fmt.Sprintf("%g cpus, %d MiB memory, %d MiB workspace, %d processes, %gs a run by default",
				me.Limits.CPU, me.Limits.MemoryMB, me.Limits.WorkspaceMB, me.Limits.Pids, me.Limits.TimeoutSec)},
			{"policy", me.PolicyHash},
		})
	})
}

// most formats a quota for people; 0 means no limit.
func most(n int) string {
	if n == 0 {
		return "any number"
	}
	return fmt.Sprint(n)
}

func mostSeconds(sec float64) string {
	if sec == 0 {
		return "any time"
	}
	return fmt.Sprintf("%g s", sec)
}

func mostCPU(cores float64) string {
	if cores == 0 {
		return "any number of"
	}
	return fmt.Sprint(cores)
}

func mostMB(mb int) string {
	if mb == 0 {
		return "any size"
	}
	return show.Bytes(int64(mb) << 20)
}
