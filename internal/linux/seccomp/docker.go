//go:build linux

package seccomp

import (
	"fmt"
	"slices"

	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// dockerRules are the rules of Docker's default profile for a process without capabilities, by number, without the default action.
// Names that the architecture does not have are left out. newest is the highest number that the profile mentions: newer calls are
// unknown to it, not refused.
func dockerRules(a arch, goarch string, kernel Kernel) (rules map[uint32][]rule, newest uint32, err error) {
	rules = make(map[uint32][]rule, 400)
	for _, s := range profile.DefaultProfile().Syscalls {
		applies := includes(s.Includes, goarch, kernel) && !excludes(s.Excludes, goarch, kernel)
		for _, name := range s.Names {
			number, ok := a.number(name)
			if !ok {
				continue
			}
			newest = max(newest, number)
			if !applies {
				continue
			}
			r, err := dockerRule(name, s)
			if err != nil {
				return nil, 0, fmt.Errorf("seccomp: profile's rule for %s: %w", name, err)
			}
			if len(r.when) == 0 {
				rules[number] = append(rules[number], r)
			} else {
				rules[number] = slices.Insert(rules[number], 0, r)
			}
		}
	}
	return rules, newest, nil
}

func dockerRule(name string, s *profile.Syscall) (rule, error) {
	var r rule
	switch {
	case s.Action == specs.ActAllow:
		r.action = allow
	case s.Action == specs.ActErrno && s.ErrnoRet != nil:
		r.action = fails(*s.ErrnoRet)
	default:
		return rule{}, fmt.Errorf("unknown action %s", s.Action)
	}
	for _, arg := range s.Args {
		o, ok := operator(arg.Op)
		if !ok {
			return rule{}, fmt.Errorf("unknown operator %s", arg.Op)
		}
		c := condition{arg: int(arg.Index), narrow: narrow(name, int(arg.Index)), op: o, value: arg.Value}
		if o == masked {
			c.mask, c.value = arg.Value, arg.ValueTwo
		}
		r.when = append(r.when, c)
	}
	return r, nil
}

func operator(o specs.LinuxSeccompOperator) (op, bool) {
	switch o {
	case specs.OpEqualTo:
		return equal, true
	case specs.OpNotEqual:
		return notEqual, true
	case specs.OpLessThan:
		return less, true
	case specs.OpLessEqual:
		return lessOrEqual, true
	case specs.OpGreaterThan:
		return greater, true
	case specs.OpGreaterEqual:
		return greaterOrEqual, true
	case specs.OpMaskedEqual:
		return masked, true
	}
	return 0, false
}

// includes reports whether a rule with this inclusion filter applies: all of its parts must match, and no capability does.
func includes(f *profile.Filter, goarch string, kernel Kernel) bool {
	if f == nil {
		return true
	}
	return len(f.Caps) == 0 &&
		(len(f.Arches) == 0 || slices.Contains(f.Arches, goarch)) &&
		(f.MinKernel == nil || kernel.atLeast(f.MinKernel))
}

// excludes reports whether a rule with this exclusion filter is left out: one matching part suffices.
func excludes(f *profile.Filter, goarch string, kernel Kernel) bool {
	return f != nil && (slices.Contains(f.Arches, goarch) || f.MinKernel != nil && kernel.atLeast(f.MinKernel))
}
