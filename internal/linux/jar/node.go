//go:build linux

package jar

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/belljar/belljar/internal/linux/cgroup"
)

// Installation is the installation as a whole, all kinds of jars together: what they use and their bound. nil where nothing
// bounds them.
func (r *Rack) Installation() *cgroup.Installation {
	if r.Cgroups == nil {
		return nil
	}
	whole, ok := r.Cgroups.Installation(r.group())
	if !ok || r.Cgroups.Prepare(r.group()) != nil || whole.Bound() == 0 {
		return nil
	}
	return whole
}

// bounded refuses to make a jar whose installation should have a bound and cannot.
func (r *Rack) bounded() error {
	if r.o.Memory == 0 || r.o.MemoryWeak {
		return nil
	}
	hint := "mount cgroups; \"belljar doctor\" shows what is missing"
	if r.Cgroups != nil {
		c := r.Cgroups.Capability(cgroup.Memory)
		if c.Enforced {
			return nil
		}
		hint = cmp.Or(c.Hint, hint)
	}
	err := errors.New("the bound on the memory of all sandboxes (SANDBOX_NODE_MEMORY_MB) cannot be enforced here")
	return r.o.Errors.Step(StepCgroup, err, hint+"; or unset SANDBOX_NODE_MEMORY_MB")
}

// usualScore is what the kernel's out-of-memory killer is to add to the score of a jar's first process if ours is lower than
// usual: a daemon that the kernel spares must not pass that on.
func usualScore() string {
	raw, err := os.ReadFile("/proc/self/oom_score_adj")
	n, convErr := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || convErr != nil || n >= 0 {
		return ""
	}
	return "0"
}

// rescore gives a process the usual score.
func (r *Rack) rescore(pid int) error {
	if r.score == "" {
		return nil
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(r.score), 0); err != nil {
		return fmt.Errorf("reset oom_score_adj of the sandbox: %w", err)
	}
	return nil
}
