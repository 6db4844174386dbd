package seccomp

// action is the result of a filter: a SECCOMP_RET_ value.
type action uint32

// The actions.
const (
	allow action = 0x7fff0000 // SECCOMP_RET_ALLOW
	kill  action = 0x80000000 // SECCOMP_RET_KILL_PROCESS
)

// fails returns the action that makes the call fail with errno.
func fails[T ~int | ~uint | ~uintptr](errno T) action {
	return 0x00050000 | action(errno&0xffff) // SECCOMP_RET_ERRNO
}

// rule decides about a call if all its conditions hold.
type rule struct {
	when   []condition
	action action
}

// policy is the compiler's input: the action for every call.
type policy struct {
	audit   uint32 // the architecture of the rules …
	foreign action // … and the action on every other
	// rules by number; the first one that holds decides. The last of each list has no conditions.
	rules     map[uint32][]rule
	otherwise action // for the numbers without rules
}

// op is a comparison of an argument with a value. All of them are unsigned.
type op uint8

// The comparisons.
const (
	equal op = iota
	notEqual
	less
	lessOrEqual
	greater
	greaterOrEqual
	masked // argument & mask == value
)

// condition compares one argument.
type condition struct {
	arg    int  // 0 to 5
	narrow bool // the kernel reads only the lower 32 bits of this argument
	op     op
	value  uint64
	mask   uint64 // masked only
}
