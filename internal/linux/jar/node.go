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

// Installation returns the whole installation with all kinds of jars: their usage and their bound. nil if nothing limits
// them.
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

// bounded returns an error if the installation should have a bound but cannot.
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

// birthTasks is how many processes and threads a new jar needs before its programs start any.
const birthTasks = 64

// crowded returns an error if the processes of all jars together leave no room for those of another.
func (r *Rack) crowded() error {
	used, bound, ok := r.Cgroups.Pids(r.group())
	if !ok || used+birthTasks <= bound {
		return nil
	}
	if bound < birthTasks {
		err := fmt.Errorf("all sandboxes together may have %d processes and threads, and one needs %d", bound, birthTasks)
		return r.o.Errors.Step(StepCgroup, err, "raise the limit on processes of belljar's container or cgroup, or of its user (ulimit -u)")
	}
	err := fmt.Errorf("%w: all sandboxes together have %d of at most %d processes and threads", r.o.Errors.Full, used, bound)
	return r.o.Errors.Step(StepCgroup, err, crowdedHint)
}

// usualScore returns the value that the out-of-memory killer usually adds to the score of a process, if ours is lower: a
// daemon that the kernel spares must not pass that on to a jar's first process.
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
