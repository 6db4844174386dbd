//go:build !linux

package docker

import "github.com/belljar/belljar/internal/runtime"

// group is empty: this machine has no cgroups.
type group struct{}

func findGroup(int, string) group { return group{} }

func (group) usage() (runtime.Usage, bool) { return runtime.Usage{}, false }

func (group) tasks() int64 { return 0 }
