package cgroup

// Limits and usage figures, by the names of their controllers.
const (
	Memory  = "memory"
	Pids    = "pids"
	CPU     = "cpu"
	cpuacct = "cpuacct" // v1 only: measures CPU time, limits nothing
)

// Limits bounds a group's usage. A zero field is no limit.
type Limits struct {
	Memory int64   // bytes, rounded up to whole pages; swap is off whenever it is set
	Pids   int64   // processes and threads
	CPU    float64 // cores; at least 0.01
}

func (l Limits) asks(controller string) bool {
	switch controller {
	case Memory:
		return l.Memory > 0
	case Pids:
		return l.Pids > 0
	case CPU:
		return l.CPU > 0
	}
	return false
}

// Capability describes how one limit is enforced on this host.
type Capability struct {
	Name     string // [Memory], [Pids] or [CPU]
	Enforced bool
	By       string // the file that enforces it, e.g. "cgroup2 memory.max"
	Weaker   string // what the limit does not cover
	Hint     string // how to fix it
}

// LimitError is a limit that cannot be enforced.
type LimitError struct {
	Limit string // the controller's name
	File  string // the file that refused the limit, "" if the host has none
	Hint  string
	Err   error // nil if this process has no such controller
}

func (e *LimitError) Error() string {
	msg := "limit " + e.Limit + " cannot be enforced"
	if e.File != "" {
		msg += ": " + e.File
	}
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Unwrap returns the cause.
func (e *LimitError) Unwrap() error { return e.Err }
