package seccomp

// narrow reports whether the kernel reads only the lower 32 bits of an argument: it is an int or a pid there, or
// truncated to 32 bits like clone's flags. It must know every argument that a rule compares.
func narrow(name string, arg int) bool {
	switch name {
	case "fadvise64":
		return arg == 3
	case "fcntl":
		return arg == 1
	case "madvise":
		return arg == 2
	case "setsockopt":
		return arg == 1 || arg == 2
	case "socket", "socketpair":
		return arg <= 2
	case "ioctl", "setpriority", "ioprio_set", "sched_setscheduler":
		return arg <= 1
	case "clone", "personality", "prctl", "seccomp", "prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam":
		return arg == 0
	}
	return false
}
