//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// sandbox is one living sandbox; the first process of its jar is the keep. It implements [runtime.Sandbox].
type sandbox struct {
	rack.Sandbox
	again    int64  // see [againBytes]
	limits   limits // in force; zero if attached
	template template
}

var (
	_ runtime.Sandbox       = (*sandbox)(nil)
	_ runtime.Pauser        = (*sandbox)(nil)
	_ runtime.Snapshotter   = (*sandbox)(nil)
	_ runtime.MemoryLimiter = (*sandbox)(nil)
)

// record has the data that finds a sandbox again.
type record struct {
	jar.Record
	Lifetime runtime.Lifetime `json:"lifetime"`
	Born     template         `json:"born"` // for its snapshots
}

// adopt makes a sandbox of a jar that was found by its record.
func (r *Runtime) adopt(j *jar.Jar, text []byte) (jar.Box, error) {
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return nil, err
	}
	return &sandbox{Sandbox: rack.Sandbox{Jar: j}, template: rec.Born}, nil
}

// Dial implements [runtime.Sandbox].
func (s *sandbox) Dial(ctx context.Context) (net.Conn, error) { return s.DialSocket(ctx, streamSocket) }

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
	u := s.Group.Usage()
	if limit, ok := s.Group.MemoryLimit(); ok {
		u.Within(limit)
	}
	return usageOf(u)
}

// OnEnd implements [jar.Box].
func (s *sandbox) OnEnd(end jar.End) {
	s.Last = s.usage()
	s.Exit = s.explainExit(end)
}

// explainExit returns why a sandbox ended: by the keep's report, or by its absence.
func (s *sandbox) explainExit(end jar.End) runtime.Exit {
	if end.Destroyed {
		return runtime.Exit{Reason: runtime.ExitDestroyed}
	}
	last, known := s.readLast()
	// An agent that ends orderly reports a status. If it did not, and the host has killed a process for memory, that is
	// the reason.
	orderly := known && last.Signal == 0 && last.Code == 0
	switch {
	case known && last.Signal == 0 && last.Code == outOfMemory:
		s.Last.OOMKills, s.Last.LimitHits = oneMore(s.Last.OOMKills), oneMore(s.Last.LimitHits)
		return runtime.Exit{Reason: runtime.ExitOOM, Detail: "programs had more memory than the limit"}
	case !orderly && oomKilled(s.Last):
		return runtime.Exit{Reason: runtime.ExitOOM, Detail: "gVisor was killed because memory ran out"}
	case known && last.Signal != 0:
		return runtime.Exit{Reason: runtime.ExitKilled, Detail: withReason(fmt.Sprintf("gVisor's kernel killed by signal %d", last.Signal), last.Detail)}
	case known:
		return runtime.Exit{Reason: runtime.ExitAgent, Detail: withReason(fmt.Sprintf("ended with status %d", last.Code), last.Detail)}
	case end.Child && end.Status.Exited():
		return runtime.Exit{Reason: runtime.ExitAgent, Detail: fmt.Sprintf("its keep ended with status %d", end.Status.ExitStatus())}
	}
	return runtime.Exit{Reason: runtime.ExitKilled, Detail: "its keep was killed"}
}

// readLast returns a keep's final report; false if there is none.
func (s *sandbox) readLast() (wire.KeepLast, bool) {
	var l wire.KeepLast
	text, err := os.ReadFile(filepath.Join(s.Folder(), lastName))
	if err != nil || json.Unmarshal(text, &l) != nil {
		return wire.KeepLast{}, false
	}
	return l, true
}

// withReason appends the last error output of a program to the text that states how it ended, if there was any.
func withReason(what, words string) string {
	if words = strings.TrimSpace(words); words == "" {
		return what
	}
	return what + ": " + words
}

func oomKilled(u runtime.Usage) bool { return u.OOMKills != nil && *u.OOMKills > 0 }

// oneMore adds one to a count, for the end of gVisor's kernel, which happens once.
func oneMore(count *int64) *int64 {
	n := int64(1)
	if count != nil {
		n += *count
	}
	return &n
}
