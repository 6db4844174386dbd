//go:build linux

package security

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/tier"
)

// arrange separates the scripts that need their own sandbox on l from groups that can run in one sandbox, one after the other.
// With gVisor and an engine, starting a sandbox takes longer than most attacks, so there is one for all scripts that leave it
// unchanged, for each set of hooks that cannot share one. make soak runs each script in its own sandbox on every lane.
func (l *lane) arrange(scripts []script) (alone []script, groups [][]script) {
	if tier.Pick(false, true) {
		return scripts, nil
	}
	index := map[string]int{}
	for _, s := range scripts {
		if !s.clean || s.needless(l) != "" {
			alone = append(alone, s)
			continue
		}
		hooks := strings.Join(s.hosts, " ")
		if !slices.ContainsFunc(s.hosts, func(hook string) bool { return !shares(hook) }) {
			hooks = ""
		}
		i, ok := index[hooks]
		if !ok {
			i = len(groups)
			index[hooks], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return alone, groups
}

// shares reports whether a hook affects no other script: it prepares something outside the sandbox, and verifies the host.
func shares(hook string) bool {
	return slices.Contains([]string{"bait", "boot", "engine", "flushes", "listener", "neighbour", "nodes"}, hook) || strings.HasPrefix(hook, taken)
}

// hooksOf returns the hooks of a group, without duplicates.
func hooksOf(group []script) (hooks []string) {
	for _, s := range group {
		hooks = append(hooks, s.hosts...)
	}
	slices.Sort(hooks)
	return slices.Compact(hooks)
}

// each runs the scripts of a group, and prints where the output of each begins and its exit status.
const each = `for name in "$@"; do printf '\n== begin %s\n' $name; sh $name.sh; printf '\n== %s: exit %s\n' $name $?; done`

// together runs a group of scripts in one sandbox and judges each.
func together(t *testing.T, l *lane, group []script, results *board) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	tr := l.trial(t)
	verify := tr.prepare(t, hooksOf(group))
	args := slices.Concat(tr.command(), []string{"--workspace-exec", "--file", built.Probe + ":probe"}, tr.flags)
	names := []string{"--", "sh", "-c", each, "sh"}
	for _, s := range group {
		args = append(args, "--file", tr.copy(s.path)+":"+s.name+".sh")
		names = append(names, s.name)
	}
	got := tr.run(ctx, append(args, names...))
	if got.Phase != "completed" || got.exit() != "0" || got.Truncated {
		t.Errorf("phase %s %s exit %v truncated %v: %s", got.Phase, got.ReasonCode, got.exit(), got.Truncated, got.Message)
	}
	for _, v := range verify {
		v(got)
	}
	tr.nothingLeft(got)
	t.Logf("after %.2f s of a processor, %s\nstderr: %s", tr.account.CPU.Seconds(), got.own(), tail(got.Stderr))
	failed := t.Failed()
	for _, s := range group {
		t.Run(s.name, func(t *testing.T) {
			verdict := held
			if err := s.section(got.Stdout); err != nil {
				t.Error(err)
			}
			if failed || t.Failed() {
				verdict = breached
			}
			results.put(s.name, l.name, verdict)
		})
	}
}

// section judges the output of s in a group's output.
func (s script) section(stdout string) error {
	_, rest, begun := strings.Cut(stdout, "\n== begin "+s.name+"\n")
	output, rest, ended := strings.Cut(rest, "\n== "+s.name+": exit ")
	status, _, _ := strings.Cut(rest, "\n")
	switch {
	case !begun || !ended:
		return fmt.Errorf("it did not run to its end:\n%s", tail(output))
	case strings.Contains(output, "BREACH"):
		return fmt.Errorf("breach:\n%s", breaches(output))
	case status != "0":
		return fmt.Errorf("exit is %s, must be 0:\n%s", status, tail(output))
	}
	return nil
}

// TestSection checks that section detects an attack in a group that works, fails or does not end.
func TestSection(t *testing.T) {
	const stdout = "\n== begin good\nfine\n== good: exit 0\n\n== begin bad\nBREACH: it\n\n== bad: exit 0\n\n== begin failed\n\n== failed: exit 1\n\n== begin cut\nBREACH"
	for name, want := range map[string]string{"good": "", "bad": "breach:\nBREACH: it", "failed": "exit is 1", "cut": "did not run to its end", "absent": "did not run to its end"} {
		err := script{name: name}.section(stdout)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestClean checks that only scripts that expect the usual end, and have no special needs, share a sandbox.
func TestClean(t *testing.T) {
	for _, s := range readScripts(t) {
		if s.clean && (len(s.flags) > 0 || s.image != "" || s.forged || len(s.limits) > 0 || len(s.expect) != len(usualEnd)) {
			t.Errorf("%s cannot share a sandbox with others", s.name)
		}
	}
}
