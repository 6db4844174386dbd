package wire

// The errnos and signals that agents report and take: Linux's, whatever machine the host side is built for.
const (
	ENOENT  = 2
	ENOEXEC = 8
	EAGAIN  = 11
	EACCES  = 13
	EXDEV   = 18
	ENOTDIR = 20
	ENOSPC  = 28

	ENAMETOOLONG = 36
	ENOTEMPTY    = 39

	SIGHUP = 1
)

// Steps of starting a program, as [Error].Step names them.
const (
	StepChdir = "chdir" // it enters its directory
	StepPTY   = "pty"   // it gets its terminal, and a shell's command its pipes
)
