package wire

// Version is the protocol's number. A host accepts an agent of Version or Version-1, because agents outlive upgrades.
const Version = 1

// Protocol is the name in every Hello.
const Protocol = "belljar-agent"

// Hello opens every stream, in both directions: the host sends it first, together with its Request.
type Hello struct {
	Protocol string   `json:"protocol"` // "belljar-agent"
	Version  int      `json:"version"`
	Build    string   `json:"build,omitempty"`
	BootID   string   `json:"boot_id,omitempty"` // agent to host: made at the agent's start, reveals a restart
	Features []string `json:"features,omitempty"`
}

// Op is what a stream is for.
type Op string

// The operations. relay and connect are reserved: an agent answers them with CodeUnsupported.
const (
	OpPing    Op = "ping"   // answers the agent's Info
	OpExec    Op = "exec"   // starts a command and streams it; the same id again attaches instead
	OpAttach  Op = "attach" // streams a command again, from a position
	OpSignal  Op = "signal" // sends a signal, or ends the exec: TERM, grace, KILL
	OpList    Op = "list"   // the commands known
	OpForget  Op = "forget" // drops a finished command and its spool
	OpLease   Op = "lease"  // sets the lease
	OpRead    Op = "read"
	OpWrite   Op = "write"
	OpStat    Op = "stat"
	OpReadDir Op = "readdir"
	OpWalk    Op = "walk"
	OpMkdir   Op = "mkdir"
	OpRename  Op = "rename"
	OpDelete  Op = "delete"
	OpTarIn   Op = "tar_in"
	OpTarOut  Op = "tar_out"
	OpMerge   Op = "merge" // unpacks as tar_in does, all of it or nothing
	OpRelay   Op = "relay"
	OpConnect Op = "connect"
)

// The operations that came later. An agent lists those that it knows in [Hello.Features].
const (
	OpMergeNew Op = "merge_new" // merges, and replaces nothing that is there
	OpScan     Op = "scan"      // packs the text files among Paths, for a search
	OpSpace    Op = "space"     // what the workspace holds and may hold
)

// Request is the second frame of a stream, from the host.
type Request struct {
	Op    Op           `json:"op"`
	Exec  *Exec        `json:"exec,omitempty"`
	ID    string       `json:"id,omitempty"`   // attach, signal, forget
	From  int64        `json:"from,omitempty"` // attach: position of the first byte wanted
	Kill  *Kill        `json:"kill,omitempty"` // signal
	Lease int64        `json:"lease_ms,omitempty"`
	File  *FileRequest `json:"file,omitempty"`
}

// Exec is a command to start.
type Exec struct {
	ID    string    `json:"id"`              // the host's choice; starting the same id twice starts it once
	Argv  []string  `json:"argv,omitempty"`  // the program and its arguments
	Shell *ShellRun `json:"shell,omitempty"` // in place of Argv
	Env   []string  `json:"env"`             // the whole environment
	Cwd   string    `json:"cwd,omitempty"`   // "" is the workspace, and what a relative one starts from
	UID   int       `json:"uid"`
	GID   int       `json:"gid"`
	// Rlimits by name: nofile, nproc, core, fsize, cpu (seconds), stack, data; hard and soft alike.
	Rlimits map[string]uint64 `json:"rlimits,omitempty"`
	Stdin   bool              `json:"stdin,omitempty"` // false is /dev/null
	PTY     *Size             `json:"pty,omitempty"`   // a terminal instead of pipes; output is then all stdout
	// TimeoutMS ends the exec: TERM, GraceMS, KILL, enforced by the agent itself. 0 is no timeout.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	GraceMS   int64 `json:"grace_ms,omitempty"`
	// CPUTimeMS ends the exec in the same way when its processes together have used so much processor time; 0 is no limit. It
	// is invalid with Shell, and for agents that list [FeatureCPUTime].
	CPUTimeMS int64 `json:"cpu_time_ms,omitempty"`
	// OutputLimit is how many bytes of output are kept; what comes after is read, counted and dropped. 0 is no limit.
	OutputLimit int64 `json:"output_limit,omitempty"`
	// KillAll kills everything the command left behind when its first process has ended (a one-shot run). Otherwise
	// survivors live on and their output is read and dropped.
	KillAll bool `json:"kill_all,omitempty"`
	// Note is what the host wants to find again in OpList, after a restart of its own. It means nothing to the agent.
	Note string `json:"note,omitempty"` // at most MaxNote bytes
}

// MaxNote is how many bytes of Exec.Note an agent takes.
const MaxNote = 2 << 10

// ShellRun is a command for a shell that lives on from one command to the next. The first exec that names a shell starts
// it: in its Cwd, with its Env, user and rlimits, which later ones do not change.
type ShellRun struct {
	Name string `json:"name,omitempty"` // of the shell
	Cmd  []byte `json:"cmd"`
	// Separate gives the command two pipes instead of a terminal, so that stdout and stderr stay separate.
	Separate bool `json:"separate,omitempty"`
}

// Size is that of a terminal.
type Size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Kill sends a signal or ends an exec.
type Kill struct {
	Signal  int   `json:"signal,omitempty"`   // to the command's first process's group; 0 with End
	End     bool  `json:"end,omitempty"`      // TERM, grace, KILL, and every process is gone
	GraceMS int64 `json:"grace_ms,omitempty"` // of End
}

// Control frames travel from the host on an exec or attach stream, besides stdin data.
type Control struct {
	Ack        *int64 `json:"ack,omitempty"` // every byte before this position may be dropped from the spool
	Resize     *Size  `json:"resize,omitempty"`
	Kill       *Kill  `json:"kill,omitempty"`
	CloseStdin bool   `json:"close_stdin,omitempty"`
	// Forget drops the command as OpForget does, and ends the stream; invalid while it runs. It is for agents that list
	// [FeatureForget].
	Forget bool `json:"forget,omitempty"`
}

// FeatureForget is an agent's that takes Control.Forget.
const FeatureForget = "forget"

// FeatureShell is an agent's that takes Exec.Shell.
const FeatureShell = "shell"

// FeatureCPUTime is an agent's that takes Exec.CPUTimeMS.
const FeatureCPUTime = "cpu_time"

// Stream is where output came from.
type Stream uint8

// The output streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Cause is why an exec ended.
type Cause string

// The causes.
const (
	CauseExited     Cause = "exited"      // the program ended by itself, also by a signal that the agent did not send
	CauseTimeout    Cause = "timeout"     // TimeoutMS was over
	CauseCPUTime    Cause = "cpu_time"    // CPUTimeMS was used up; the program may have ended by itself just then
	CauseEnded      Cause = "ended"       // a Kill with End
	CauseKillFailed Cause = "kill_failed" // processes outlived every kill: the host must destroy the sandbox
	CauseLost       Cause = "lost"        // the exec's keeper died: its status is unknown
)

// Started is the agent's answer to exec and attach, before any output.
type Started struct {
	ID       string `json:"id"`
	Attached bool   `json:"attached,omitempty"` // it ran already
	Pid      int    `json:"pid,omitempty"`
	From     int64  `json:"from"` // position of the first output byte that follows; more than asked for if some are gone
	// Stdin is the position of the next byte of stdin that the agent expects: what it has received so far. StdinLimit
	// is the position up to which the host may send; 0 when the exec has no stdin.
	Stdin      int64 `json:"stdin,omitempty"`
	StdinLimit int64 `json:"stdin_limit,omitempty"`
	// StdinClosed means that a host has ended the stdin, or that no process reads it.
	StdinClosed bool `json:"stdin_closed,omitempty"`
	// AgeMS is for how long the command had run when a host attached to it.
	AgeMS int64 `json:"age_ms,omitempty"`
}

// StdinWindow is how many bytes of stdin an agent holds for a program that does not read them.
const StdinWindow = 64 << 10

// Exit ends an exec stream: the command's outcome. It travels apart from the output, where no program can write.
type Exit struct {
	Code     int     `json:"code"`             // exit status, -1 if signalled
	Signal   int     `json:"signal,omitempty"` // that ended the first process
	Cause    Cause   `json:"cause"`
	Position int64   `json:"position"` // of the end of the kept output
	Dropped  int64   `json:"dropped,omitempty"`
	Cwd      string  `json:"cwd,omitempty"` // of a shell: where its next command starts
	WallMS   float64 `json:"wall_ms"`
	Usage    Usage   `json:"usage"`
	// Shell is how a command left its shell; nil for other execs, and for a command that never began.
	Shell *ShellExit `json:"shell,omitempty"`
}

// ShellExit is how a command left its shell.
type ShellExit struct {
	Replaced bool   `json:"replaced,omitempty"` // the shell has ended; the next command finds a new one
	Program  string `json:"program"`            // what the shell is: bash, or sh where there is none
}

// Usage is what an exec's processes used, and where that was read.
type Usage struct {
	UserMicros   uint64 `json:"user_us"`
	SystemMicros uint64 `json:"system_us"`
	MaxRSS       uint64 `json:"max_rss"` // bytes, of the largest process
	Source       string `json:"source"`  // cgroup2 | rusage | process clocks (where rusage misses some) | proc (of a shell, in ticks of 10 ms)
}

// ExecInfo is a line of OpList.
type ExecInfo struct {
	ID       string `json:"id"`
	Running  bool   `json:"running"`
	Position int64  `json:"position"` // output bytes so far
	Acked    int64  `json:"acked"`
	Exit     *Exit  `json:"exit,omitempty"`
	Note     string `json:"note,omitempty"` // as in Exec
	PTY      *Size  `json:"pty,omitempty"`  // of a running exec's terminal, as it is now
}

// FileRequest names files. Paths are relative to the workspace; /workspace/x and x are the same file, "." is the
// workspace itself.
type FileRequest struct {
	Path      string   `json:"path"`
	To        string   `json:"to,omitempty"` // rename
	Mode      uint32   `json:"mode,omitempty"`
	Offset    int64    `json:"offset,omitempty"` // read
	Limit     int64    `json:"limit,omitempty"`  // read: bytes, scan: bytes of each file, walk and readdir: entries; 0 is the agent's own bound
	Parents   bool     `json:"parents,omitempty"`
	NoReplace bool     `json:"no_replace,omitempty"`
	NoFollow  bool     `json:"no_follow,omitempty"` // no symbolic link anywhere on the path
	Recursive bool     `json:"recursive,omitempty"` // delete
	Paths     []string `json:"paths,omitempty"`     // tar_out, scan: these only
	UID       int      `json:"uid"`                 // whose rights the operation uses
	GID       int      `json:"gid"`
}

// FileInfo is one file. Type is file, dir, symlink or other.
type FileInfo struct {
	Path    string `json:"path"`
	Type    string `json:"type"`
	Size    int64  `json:"size"`
	Mode    uint32 `json:"mode"`
	ModTime int64  `json:"mtime_ns"`
	Target  string `json:"target,omitempty"` // of a symlink
}

// Space is what the file system of a workspace holds and may hold. Files are all that takes an inode.
type Space struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
	Files    int64 `json:"files"`
	MaxFiles int64 `json:"max_files"`
}

// Reply is the agent's control answer. Exactly one field is set, apart from More and Cut, which qualify Files, and
// Bytes, which comes with Done.
type Reply struct {
	Error   *Error     `json:"error,omitempty"`
	Info    *Info      `json:"info,omitempty"`
	Started *Started   `json:"started,omitempty"`
	Exit    *Exit      `json:"exit,omitempty"`
	Execs   []ExecInfo `json:"execs,omitempty"`
	File    *FileInfo  `json:"file,omitempty"`
	Files   []FileInfo `json:"files,omitempty"` // one batch; More means that others follow
	More    bool       `json:"more,omitempty"`
	Cut     bool       `json:"cut,omitempty"` // the listing stopped at its bound
	Space   *Space     `json:"space,omitempty"`
	Bytes   int64      `json:"bytes,omitempty"`
	Done    bool       `json:"done,omitempty"`
	// StdinLimit, on an exec or attach stream, is the new position up to which the host may send stdin.
	StdinLimit *int64 `json:"stdin_limit,omitempty"`
}

// Info is what an agent states about itself.
type Info struct {
	BootID  string `json:"boot_id"`
	Build   string `json:"build"`
	Pid     int    `json:"pid"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Cgroup  bool   `json:"cgroup"` // execs have a cgroup of their own
	LeaseMS int64  `json:"lease_ms"`
	Execs   int    `json:"execs"`
}

// Code is what went wrong in the agent.
type Code string

// The agent's error codes.
const (
	CodeProtocol    Code = "protocol"    // a message the other side must not send
	CodeUnsupported Code = "unsupported" // a known operation that this agent does not do
	CodeVersion     Code = "version"
	CodeNotFound    Code = "not_found"
	CodeExists      Code = "exists"
	CodeInvalid     Code = "invalid"
	CodePathEscapes Code = "path_escapes"
	CodeNotFile     Code = "not_a_file" // a FIFO, socket or device: never opened
	CodeNoSpace     Code = "no_space"
	CodeDenied      Code = "denied"
	CodeTooLarge    Code = "too_large"
	CodeExecFailed  Code = "exec_failed" // the program could not be started; Errno and Step say why
	CodeInternal    Code = "internal"
)

// Error is a failure of a request.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Errno   int    `json:"errno,omitempty"`
	Step    string `json:"step,omitempty"` // of starting a program
	Path    string `json:"path,omitempty"` // what it is about, where that is below what was asked for
}

func (e *Error) Error() string { return e.Message }

// SpoolSize bounds the output of one exec that the agent holds until it is acknowledged, in bytes.
const SpoolSize = 8 << 20

// TerminalSpool bounds it instead, in bytes, for an exec with a terminal while a host is attached: who interrupts a
// program that floods its terminal does not want to see 8 MiB more.
const TerminalSpool = 1 << 20
