//go:build linux

package seccomp

import "fmt"

// Combined builds one program from both filters, for commands of a sandbox in which an engine installs its own profile instead of
// the Agent filter. Calls that the profile refuses stay refused.
func Combined(o Options) (Program, error) {
	agent, exec, err := policies(o)
	if err != nil {
		return nil, err
	}
	for number, list := range exec.rules {
		had := agent.rules[number]
		switch {
		case len(had) == 0, len(had) == 1 && had[0].action != allow:
			// The agent may not either.
		case len(had) == 1:
			agent.rules[number] = list
		default:
			return nil, fmt.Errorf("seccomp: both filters have conditions for system call %d", number)
		}
	}
	return compile(agent)
}
