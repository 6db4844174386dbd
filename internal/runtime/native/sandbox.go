//go:build linux

package native

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/warden"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// sandbox is one living sandbox. It implements [runtime.Sandbox].
type sandbox struct {
	rack.Sandbox
	rec     record // its memory is guarded by mu
	runtime *Runtime

	mu   sync.Mutex
	peak int64          // highest number of processes reported so far
	most warden.Figures // highest figures of memory
}

var _ runtime.Sandbox = (*sandbox)(nil)

// adopt makes a sandbox of a jar that was found by its record.
func (r *Runtime) adopt(j *jar.Jar, text []byte) (jar.Box, error) {
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return nil, err
	}
	s := &sandbox{Sandbox: rack.Sandbox{Jar: j}, rec: rec, runtime: r}
	if rec.Memory == 0 {
		return s, nil // made before there were wardens: its limit covers everything
	}
	// The warden outlives daemons, but it may have died.
	return s, s.watch()
}

// Dial implements [runtime.Sandbox].
func (s *sandbox) Dial(ctx context.Context) (net.Conn, error) { return s.DialSocket(ctx, agentSocket) }

// Usage implements [runtime.Sandbox].
func (s *sandbox) Usage(context.Context) (runtime.Usage, error) {
	if s.Ended() {
		return s.Last, nil
	}
	return s.usage(), nil
}

func (s *sandbox) usage() runtime.Usage {
	if s.Group == nil {
		return runtime.Usage{}
	}
	u := usageOf(s.Group.Usage(), tasks(s.Pid), int64(s.rec.Pids))
	s.apart(&u)
	if u.PeakPids != nil {
		// The agent may have more threads now than it had at the peak, but a peak never shrinks.
		s.mu.Lock()
		s.peak = max(s.peak, *u.PeakPids)
		*u.PeakPids = s.peak
		s.mu.Unlock()
	}
	return u
}

// OnEnd implements [jar.Box]. An attached sandbox is not our child, so its status is unknown.
func (s *sandbox) OnEnd(end jar.End) {
	s.Last = s.usage()
	switch status := end.Status; {
	case end.Destroyed:
		s.Exit = runtime.Exit{Reason: runtime.ExitDestroyed}
	case !end.Child:
		s.Exit = runtime.Exit{Reason: runtime.ExitAgent, Detail: "status unknown: the sandbox outlived its daemon"}
	case status.Exited():
		s.Exit = runtime.Exit{Reason: runtime.ExitAgent, Detail: fmt.Sprintf("agent ended with status %d", status.ExitStatus())}
	case status.Signal() == unix.SIGKILL && s.Last.OOMKills != nil && *s.Last.OOMKills > 0:
		s.Exit = runtime.Exit{Reason: runtime.ExitOOM, Detail: "the agent was killed because memory ran out"}
	default:
		s.Exit = runtime.Exit{Reason: runtime.ExitKilled, Detail: fmt.Sprintf("agent killed by signal %d", status.Signal())}
	}
}
