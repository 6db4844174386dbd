//go:build linux && soak

package guest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// TestSoakCPUTimeError tests the limits of docs/specification.md: a command exceeds its CPU time limit by at most 20 ms or 2 %, on
// an otherwise idle machine, and never ends below it. The agent is PID 1, as in a sandbox: the machine's other processes would
// lengthen each reading.
func TestSoakCPUTimeError(t *testing.T) {
	t.Run("keeper", func(t *testing.T) { cpuTimeError(t, beginInit(t, 0)) })
	t.Run("cgroup", func(t *testing.T) { cpuTimeError(t, beginInit(t, delegate(t))) })
}

func cpuTimeError(t *testing.T, h *host) {
	for name, script := range busy() {
		if name == "takes no hints" || name == "no remains" {
			continue // one continues in its grace; without a cgroup the other's time is only partly visible
		}
		for _, limit := range []int64{100, 500, 2000} {
			t.Run(fmt.Sprintf("%s/%d", name, limit), func(t *testing.T) {
				e := h.sh("a", script)
				e.CPUTimeMS, e.GraceMS, e.TimeoutMS = limit, 1000, 4*patience.Milliseconds()
				most := max(20_000, limit*20)
				errors := make([]int64, 10)
				late := lateness(t)
				for i := range errors {
					l := h.exec(e)
					l.started()
					exit := l.exit()
					if exit.Cause != wire.CauseCPUTime {
						t.Fatalf("%+v", exit)
					}
					errors[i] = int64(exit.Usage.UserMicros+exit.Usage.SystemMicros) - limit*1000
					h.ask(wire.Request{Op: wire.OpForget, ID: "a"}).reply()
				}
				slices.Sort(errors)
				most += late()
				t.Logf("error in microseconds: median %d, of %v; at most %d", errors[len(errors)/2], errors, most)
				if errors[0] < 0 || errors[len(errors)-1] > most {
					t.Errorf("beyond %d of %d microseconds", most, limit*1000)
				}
			})
		}
	}
}

// lateness measures how late this machine wakes a process, since it may be a virtual machine on a busy host. Calling the result ends
// the measurement and returns the maximum in microseconds.
func lateness(t *testing.T) func() int64 {
	ctx, stop := context.WithCancel(t.Context())
	most := make(chan int64)
	go func() {
		var late time.Duration
		for last := time.Now(); ctx.Err() == nil; last = time.Now() {
			time.Sleep(time.Millisecond)
			late = max(late, time.Since(last)-time.Millisecond)
		}
		most <- late.Microseconds()
	}()
	return func() int64 {
		stop()
		return <-most
	}
}

// Sixteen simultaneous commands, each of which uses less than half of its limit: waiting for a processor does not count.
func TestSoakCPUTimeOfMany(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		h := begin(t, config(t))
		var all []*line
		for n := range 16 {
			e := h.sh(string(rune('a'+n)), `until [ "$(cut -d' ' -f14 /proc/$$/stat)" -ge 35 ]; do i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; done`)
			e.CPUTimeMS, e.TimeoutMS = 1000, 4*patience.Milliseconds()
			l := h.exec(e)
			l.started()
			all = append(all, l)
		}
		for _, l := range all {
			exit := l.exit()
			if exit.Cause != wire.CauseExited || exit.Code != 0 {
				t.Errorf("%+v", exit)
			}
			t.Logf("%d microseconds in %.0f ms", exit.Usage.UserMicros+exit.Usage.SystemMicros, exit.WallMS)
		}
	})
}
