package service

import "github.com/belljar/belljar"

// Local is the user of this machine's command line.
func Local() belljar.Caller {
	return belljar.Caller{ID: "local", Role: belljar.RoleAdmin, Source: "cli"}
}
