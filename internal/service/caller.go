package service

import "github.com/belljar/belljar"

// Local is the person at this machine's command line.
func Local() belljar.Caller {
	return belljar.Caller{ID: "local", Role: belljar.RoleAdmin, Source: "cli"}
}
