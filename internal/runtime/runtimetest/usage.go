package runtimetest

import (
	"testing"

	"github.com/belljar/belljar/internal/runtime"
)

// busy takes some 30 ticks of a clock of 100 Hz, by which a runtime may account: on a busy machine
// it can miss a few.
const busy = "i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done"

func testUsage(t *testing.T, o Options) {
	j := share(t, o)
	j.sub("of a command", func(j *jar) {
		got := j.run(j.sh(busy + "; exit 0")).exit
		if got.Usage.Source == "" || got.Usage.UserMicros+got.Usage.SystemMicros < 10_000 || got.Usage.MaxRSS < 100<<10 {
			j.Errorf("%+v", got.Usage)
		}
		if got.WallMS <= 0 {
			j.Errorf("it took %v ms", got.WallMS)
		}
		// The usage of its children counts too.
		got = j.run(j.sh("(" + busy + ") & wait")).exit
		if got.Usage.UserMicros+got.Usage.SystemMicros < 10_000 {
			j.Errorf("with a child: %+v", got.Usage)
		}
	})
	j.sub("of the sandbox", func(j *jar) {
		before, err := j.Usage(j.ctx)
		if err != nil {
			j.Fatal(err)
		}
		j.must(busy)
		after, err := j.Usage(j.ctx)
		if err != nil {
			j.Fatal(err)
		}
		grows(j, "cpu", before.CPU, after.CPU)
		grows(j, "peak memory", before.PeakMemory, after.PeakMemory)
		grows(j, "peak pids", before.PeakPids, after.PeakPids)
		grows(j, "OOM kills", before.OOMKills, after.OOMKills)
		grows(j, "refused forks", before.PidsRefused, after.PidsRefused)
		if after.CPU != nil && *after.CPU <= *before.CPU {
			j.Errorf("a busy loop took no time: %v, then %v", *before.CPU, *after.CPU)
		}
		if after.Memory != nil && after.PeakMemory != nil && *after.PeakMemory < *after.Memory {
			j.Errorf("peak %d below %d", *after.PeakMemory, *after.Memory)
		}
		for name, has := range map[string]bool{
			"cpu": after.CPU != nil, "memory": after.Memory != nil, "peak_memory": after.PeakMemory != nil,
			"pids": after.Pids != nil, "peak_pids": after.PeakPids != nil,
		} {
			if has != (after.Sources[name] != "") {
				j.Errorf("%s: figure %v, source %q", name, has, after.Sources[name])
			}
		}
		c, err := j.runtime.Probe(j.ctx)
		if err != nil {
			j.Fatal(err)
		}
		for name, has := range map[string]bool{
			runtime.ProtectMemory: after.Memory != nil, runtime.ProtectPids: after.Pids != nil,
		} {
			// A mechanism that enforces a limit but does not measure is weaker, and must report so.
			if p := c.Protection(name); p.Enforced && p.Weaker == "" && !has {
				j.Errorf("%s is enforced and not measured", name)
			}
		}
	})
}

// grows checks a figure that can only grow. It must be present or nil both before and after.
func grows[T ~int64](j *jar, name string, before, after *T) {
	j.Helper()
	switch {
	case (before == nil) != (after == nil):
		j.Errorf("%s: a figure once and none the other time", name)
	case before != nil && *after < *before:
		j.Errorf("%s shrinks from %v to %v", name, *before, *after)
	}
}
