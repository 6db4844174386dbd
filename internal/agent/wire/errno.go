package wire

// The errnos and signals of the protocol: Linux's, on every platform of the host.
const (
	ENOENT  = 2
	E2BIG   = 7
	ENOEXEC = 8
	EAGAIN  = 11
	EACCES  = 13
	EXDEV   = 18
	ENOTDIR = 20
	ENOSPC  = 28

	ENAMETOOLONG = 36
	ENOTEMPTY    = 39
	ETIMEDOUT    = 110

	SIGHUP = 1
)

// Steps of starting a program, as [Error].Step names them.
const (
	StepChdir   = "chdir"   // entering its directory
	StepPTY     = "pty"     // opening its terminal, or the pipes of a shell's command
	StepRlimits = "rlimits" // limiting its resources
)
