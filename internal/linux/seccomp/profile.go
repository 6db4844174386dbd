//go:build linux

package seccomp

import (
	"encoding/json"
	"maps"
	"slices"

	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Profile is the Agent filter as a profile for container engines, for both architectures. The format is limited: it lists the allowed
// calls and returns EPERM for the rest, and it cannot exclude several values of an argument. [Combined], installed for every command,
// is complete. Calls that both filters always refuse are refused here, too.
func Profile(o Options) ([]byte, error) {
	var all []string // allowed for all arguments
	conditions := map[string][]*profile.Syscall{}
	for _, goarch := range []string{"amd64", "arm64"} {
		o.Arch = goarch
		a, err := archFor(goarch)
		if err != nil {
			return nil, err
		}
		agent, exec, err := policies(o)
		if err != nil {
			return nil, err
		}
		for _, c := range a.calls {
			list := agent.rules[c.number]
			if len(list) == 0 || c.name != "clone3" && refused(exec.rules[c.number]) {
				continue
			}
			if c.name == "socket" || list[len(list)-1].action == allow {
				list = list[len(list)-1:]
			}
			if list[0].action == allow && len(list[0].when) == 0 {
				all = append(all, c.name)
				continue
			}
			conditions[c.name] = nil
			for _, r := range list[:len(list)-1] {
				if r.action == allow {
					conditions[c.name] = append(conditions[c.name], allowed(c.name, r.when...))
				}
			}
		}
	}
	conditions["socket"] = sockets()
	slices.Sort(all)
	errno := uint(unix.EPERM)
	p := profile.Seccomp{
		LinuxSeccomp: specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &errno},
		ArchMap:      []profile.Architecture{{Arch: specs.ArchX86_64}, {Arch: specs.ArchAARCH64}},
		Syscalls:     []*profile.Syscall{{LinuxSyscall: specs.LinuxSyscall{Names: slices.Compact(all), Action: specs.ActAllow}}},
	}
	for _, name := range slices.Sorted(maps.Keys(conditions)) {
		p.Syscalls = append(p.Syscalls, conditions[name]...)
	}
	text, err := json.MarshalIndent(p, "", "\t")
	return append(text, '\n'), err
}

// refused reports whether a list refuses every call.
func refused(list []rule) bool { return len(list) == 1 && list[0].action != allow }

// sockets returns the rules for sockets that the format can express: the families, and netlink's one protocol.
func sockets() []*profile.Syscall {
	family := func(v uint64) condition { return condition{arg: 0, op: equal, value: v} }
	return []*profile.Syscall{
		allowed("socket", family(unix.AF_UNIX)), allowed("socket", family(unix.AF_INET)), allowed("socket", family(unix.AF_INET6)),
		allowed("socket", family(unix.AF_NETLINK), condition{arg: 2, op: equal, value: unix.NETLINK_ROUTE}),
	}
}

func allowed(name string, when ...condition) *profile.Syscall {
	s := &profile.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow}}
	for _, c := range when {
		arg := specs.LinuxSeccompArg{Index: uint(c.arg), Value: c.value, Op: specs.OpEqualTo}
		if c.op == masked {
			arg.Op, arg.Value, arg.ValueTwo = specs.OpMaskedEqual, c.mask, c.value
		}
		s.Args = append(s.Args, arg)
	}
	return s
}
