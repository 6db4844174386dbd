//go:build linux

package seccomp

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Options describe the target of the filters. The zero value is this machine, with commands that run as another user than the
// agent.
type Options struct {
	Arch   string // a GOARCH: amd64 or arm64; "" for this program's own
	Kernel Kernel // the kernel that the filters will run on
	// Clone3 means that clone3 makes no namespaces on that kernel, as in our gVisor, so that commands may use it. Commands
	// may also install filters there, which an agent inside must do.
	Clone3 bool
	// SharedUID means that agent and commands run as the same user, so that only Exec can protect the agent.
	SharedUID bool
	// Disk means that commands can write to a disk, so that they may flush it. Otherwise all that they can write to is memory.
	Disk bool
	// Reader means that another sandbox writes to the workspace of these commands, so that they may connect to no Unix socket: over one in the
	// workspace it would pass them descriptors of its memory, its files and its network.
	Reader bool
}

// Filter is the pair of programs of a sandbox. Building one takes a fraction of a millisecond; it may be kept and
// used for any number of sandboxes.
type Filter struct {
	Agent Program // for the agent and its children; installed before the agent is executed
	Exec  Program // for commands, on top of Agent; installed right before the command is executed
}

// Sandbox builds the filters. It fails on an architecture that has no table of system calls.
func Sandbox(o Options) (Filter, error) {
	agent, exec, err := policies(o)
	if err != nil {
		return Filter{}, err
	}
	var f Filter
	if f.Agent, err = compile(agent); err != nil {
		return Filter{}, err
	}
	if f.Exec, err = compile(exec); err != nil {
		return Filter{}, err
	}
	return f, nil
}

// NoFlush builds a filter that allows all calls but those that flush disks, which report success and do nothing. It is for a kernel
// in user space without a disk: the kernel passes its programs' flushes on to the host, for files that they can only read, too.
func NoFlush() (Program, error) {
	a, err := archFor(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	p := policy{audit: a.audit, foreign: allow, rules: make(map[uint32][]rule), otherwise: allow}
	for _, name := range flushes {
		if number, ok := a.number(name); ok {
			p.rules[number] = []rule{{action: fails(0)}}
		}
	}
	return compile(p)
}

// policies returns the policies of the two filters.
func policies(o Options) (agent, exec policy, err error) {
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	a, err := archFor(o.Arch)
	if err != nil {
		return policy{}, policy{}, err
	}
	if o.Kernel == (Kernel{}) {
		if o.Kernel, err = Running(); err != nil {
			return policy{}, policy{}, err
		}
	}
	rules, newest, err := dockerRules(a, o.Arch, o.Kernel)
	if err != nil {
		return policy{}, policy{}, err
	}
	for _, c := range a.calls {
		list := rules[c.number]
		if len(list) == 0 && c.number > newest {
			continue // falls to ENOSYS
		}
		if len(list) == 0 || len(list[len(list)-1].when) != 0 {
			rules[c.number] = append(list, rule{action: fails(unix.EPERM)})
		}
	}
	for name, list := range conditional(o) {
		if number, ok := a.number(name); ok {
			rules[number] = list
		}
	}
	for _, name := range denied {
		if number, ok := a.number(name); ok {
			rules[number] = []rule{{action: fails(unix.EPERM)}}
		}
	}
	agent = policy{audit: a.audit, foreign: kill, rules: rules, otherwise: fails(unix.ENOSYS)}

	exec = policy{audit: a.audit, foreign: kill, rules: make(map[uint32][]rule), otherwise: allow}
	for name, list := range execRules(o) {
		if number, ok := a.number(name); ok {
			exec.rules[number] = list
		}
	}
	return agent, exec, nil
}
