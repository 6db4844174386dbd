package wire

// Version is the protocol's number. A host accepts an agent of Version or Version-1, because agents outlive upgrades.
const Version = 1

// WorkspaceAPI is the version of the workspace API that an agent's health service reports.
const WorkspaceAPI = "0.1.0"

// Protocol is the name in every Hello.
const Protocol = "belljar-agent"

// Hello opens every stream in both directions. The host sends it together with its Request.
type Hello struct {
	Protocol string   `json:"protocol"` // "belljar-agent"
	Version  int      `json:"version"`
	Build    string   `json:"build,omitempty"`
	BootID   string   `json:"boot_id,omitempty"` // agent to host: new at each start of the agent
	Features []string `json:"features,omitempty"`
}

// Op is the operation of a stream.
type Op string

// The operations.
const (
	OpPing    Op = "ping"   // returns the agent's Info
	OpExec    Op = "exec"   // starts a command and streams it; a known id attaches instead
	OpAttach  Op = "attach" // streams a command again, from a position
	OpSignal  Op = "signal" // sends a signal, or ends the exec: TERM, grace, KILL
	OpList    Op = "list"   // the known commands
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
	OpMerge   Op = "merge"   // unpacks as tar_in does, atomically
	OpRelay   Op = "relay"   // opens the relay, through which the agent asks for names and connections
	OpConnect Op = "connect" // connects to a program that listens inside
)

// The later operations. An agent lists those that it supports in [Hello.Features].
const (
	OpMergeNew Op = "merge_new" // merges, and replaces no existing file
	OpScan     Op = "scan"      // packs the text files among Paths, for a search
	OpSpace    Op = "space"     // use and size of the workspace's file system
	OpAccept   Op = "accept"    // carries a connection that the agent has asked for
	OpPorts    Op = "ports"     // the ports that OpConnect reaches
	OpSecret   Op = "secret"    // writes a file of the folder of secrets
	OpShells   Op = "shells"    // the named shells and kernels
	OpPark     Op = "park"      // starts the interpreter of Exec, which then waits for that command
	OpEndShell Op = "end_shell" // ends a named shell or kernel, with its commands
	OpPrograms Op = "programs"  // counts the processes of commands, without the idle shell of no name
	OpReplace  Op = "replace"   // writes as OpWrite does, if the file matches FileRequest.IfMatch
)

// Request is the second frame of a stream, from the host.
type Request struct {
	Op    Op           `json:"op"`
	Exec  *Exec        `json:"exec,omitempty"`
	ID    string       `json:"id,omitempty"`   // attach, signal, forget
	From  int64        `json:"from,omitempty"` // attach: position of the first byte to send
	Kill  *Kill        `json:"kill,omitempty"` // signal
	Lease int64        `json:"lease_ms,omitempty"`
	File  *FileRequest `json:"file,omitempty"`
	Relay *Relay       `json:"relay,omitempty"`
	Conn  uint64       `json:"conn,omitempty"` // accept: the ID of its [Ask]
	Port  uint16       `json:"port,omitempty"` // connect
}

// Exec is a command to start.
type Exec struct {
	ID    string    `json:"id"`              // chosen by the host; starting the same id twice starts it once
	Argv  []string  `json:"argv,omitempty"`  // the program and its arguments
	Shell *ShellRun `json:"shell,omitempty"` // in place of Argv
	Env   []string  `json:"env"`             // the whole environment
	Cwd   string    `json:"cwd,omitempty"`   // "" is the workspace; a relative one starts there
	UID   int       `json:"uid"`
	GID   int       `json:"gid"`
	// Rlimits by name: nofile, nproc, core, fsize, cpu (seconds), stack, data; hard and soft alike.
	Rlimits map[string]uint64 `json:"rlimits,omitempty"`
	Stdin   bool              `json:"stdin,omitempty"` // false is /dev/null
	PTY     *Size             `json:"pty,omitempty"`   // a terminal instead of pipes; output is then all stdout
	// TimeoutMS ends the exec: TERM, GraceMS, KILL. The agent enforces it. 0 is no timeout.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	GraceMS   int64 `json:"grace_ms,omitempty"`
	// CPUTimeMS ends the exec in the same way when its processes together have used this much CPU time; 0 is no limit. It is
	// invalid with Shell, and needs an agent that lists [FeatureCPUTime].
	CPUTimeMS int64 `json:"cpu_time_ms,omitempty"`
	// OutputLimit is the number of output bytes to keep; later output is read, counted and dropped. 0 is no limit.
	OutputLimit int64 `json:"output_limit,omitempty"`
	// KillAll kills every remaining process of the command when its first process has ended (a one-shot run). Without it,
	// survivors continue and their output is read and dropped.
	KillAll bool `json:"kill_all,omitempty"`
	// Warm lets the command use a parked interpreter, and in a session parks one for the next command. It needs an agent that lists
	// [FeatureWarm].
	Warm *Warm `json:"warm,omitempty"`
	// Note is for the host: OpList returns it, also after the host restarts. The agent ignores it.
	Note string `json:"note,omitempty"` // at most MaxNote bytes
}

// Warm describes how an interpreter waits for its command.
type Warm struct {
	Preload []string `json:"preload,omitempty"` // modules for Python to import while it waits
}

// FeatureWarm means that an agent supports Exec.Warm and [OpPark].
const FeatureWarm = "warm"

// MaxNote is the maximum length of Exec.Note in bytes.
const MaxNote = 2 << 10

// ShellRun is a command for a persistent shell. The first exec that names a shell starts it with its Cwd, Env, user and rlimits,
// which later ones do not change.
type ShellRun struct {
	Name string `json:"name,omitempty"` // the shell's name
	Cmd  []byte `json:"cmd"`
	// Separate gives the command two pipes instead of a terminal, so that stdout and stderr stay separate.
	Separate bool `json:"separate,omitempty"`
	// Kernel selects an interpreter instead of a shell, such as [KernelPython]. It needs Separate, and an agent that lists
	// [FeatureKernel]. Its results are lines of JSON on the stream [Result].
	Kernel string `json:"kernel,omitempty"`
	// Complete makes Cmd the beginning of code that the kernel completes but does not execute. A shell executes it. In both cases it
	// does not count as a command of the user's.
	Complete bool `json:"complete,omitempty"`
	// IdleMS ends the process when it has been idle for that long; the next command gets a new process. 0 is never.
	IdleMS int64 `json:"idle_ms,omitempty"`
	// Fresh makes a new process start in the command's directory, not in the last one's. The last process is not reported as replaced.
	Fresh bool `json:"fresh,omitempty"`
}

// The kernels.
const (
	KernelPython  = "python"
	KernelIPython = "ipython" // Python by the image's IPython; without one, each command fails
	KernelNode    = "node"
)

// FeatureKernel means that an agent supports ShellRun.Kernel, [OpShells] and [OpEndShell].
const FeatureKernel = "kernel"

// Limits of a kernel's results, in bytes of JSON. The agent drops further results, and reports so in a line of type cut.
const (
	MaxResult  = 4 << 20  // one line
	MaxResults = 16 << 20 // all lines of one command
)

// ShellInfo is a named shell or kernel.
type ShellInfo struct {
	Name   string `json:"name"`
	Kernel string `json:"kernel,omitempty"`
	Cwd    string `json:"cwd,omitempty"`   // the directory in which its first process started
	Alive  bool   `json:"alive,omitempty"` // its process runs
	Busy   bool   `json:"busy,omitempty"`  // a command runs or waits
	AgeMS  int64  `json:"age_ms"`
	IdleMS int64  `json:"idle_ms"` // since its last command ended; 0 while it is busy
	Runs   int    `json:"runs"`    // commands so far, without completions
}

// Size is the size of a terminal.
type Size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Kill sends a signal or ends an exec.
type Kill struct {
	Signal  int   `json:"signal,omitempty"`   // to the command's first process's group; 0 with End
	End     bool  `json:"end,omitempty"`      // TERM, grace, KILL, until no process is left
	GraceMS int64 `json:"grace_ms,omitempty"` // of End
}

// Control frames go from the host to the agent on an exec or attach stream, alongside stdin data.
type Control struct {
	Ack        *int64 `json:"ack,omitempty"` // every byte before this position may be dropped from the spool
	Resize     *Size  `json:"resize,omitempty"`
	Kill       *Kill  `json:"kill,omitempty"`
	CloseStdin bool   `json:"close_stdin,omitempty"`
	// Forget drops the command as OpForget does, and ends the stream; it is invalid while the command runs. It needs an agent that
	// lists [FeatureForget].
	Forget bool `json:"forget,omitempty"`
	// Answer answers an [Ask], on a relay stream.
	Answer *Answer `json:"answer,omitempty"`
}

// FeatureForget means that an agent supports Control.Forget.
const FeatureForget = "forget"

// FeatureShell means that an agent supports Exec.Shell.
const FeatureShell = "shell"

// FeatureCPUTime means that an agent supports Exec.CPUTimeMS.
const FeatureCPUTime = "cpu_time"

// Stream identifies an output stream.
type Stream uint8

// The output streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
	Result Stream = 3 // results of a kernel: lines of JSON
)

// Cause is why an exec ended.
type Cause string

// The causes.
const (
	CauseExited     Cause = "exited"      // the program ended on its own, also by a signal that the agent did not send
	CauseTimeout    Cause = "timeout"     // TimeoutMS has passed
	CauseCPUTime    Cause = "cpu_time"    // CPUTimeMS is used up; the program may have ended on its own at that moment
	CauseEnded      Cause = "ended"       // a Kill with End
	CauseKillFailed Cause = "kill_failed" // processes survived every kill: the host must destroy the sandbox
	CauseLost       Cause = "lost"        // the exec's keeper died: the status is unknown
)

// Started is the agent's reply to exec and attach, before any output.
type Started struct {
	ID       string `json:"id"`
	Attached bool   `json:"attached,omitempty"` // it was already running
	Pid      int    `json:"pid,omitempty"`
	From     int64  `json:"from"` // position of the first output byte that follows; later than requested if output is gone
	// Stdin is the number of bytes of stdin that the agent has received, and so the position of the next one. StdinLimit is the
	// position up to which the host may send; 0 when the exec has no stdin.
	Stdin      int64 `json:"stdin,omitempty"`
	StdinLimit int64 `json:"stdin_limit,omitempty"`
	// StdinClosed means that a host has ended the stdin, or that no process reads it.
	StdinClosed bool `json:"stdin_closed,omitempty"`
	Warm        bool `json:"warm,omitempty"` // its interpreter was parked
	// AgeMS is how long the command has run when a host attaches, in milliseconds.
	AgeMS int64 `json:"age_ms,omitempty"`
}

// StdinWindow is the number of unread bytes of stdin that an agent buffers for a program.
const StdinWindow = 64 << 10

// Exit ends an exec stream with the command's outcome. It is separate from the output, so no program can forge it.
type Exit struct {
	Code     int     `json:"code"`             // exit status, -1 if signalled
	Signal   int     `json:"signal,omitempty"` // signal that ended the first process
	Cause    Cause   `json:"cause"`
	Position int64   `json:"position"` // end of the kept output
	Dropped  int64   `json:"dropped,omitempty"`
	Cwd      string  `json:"cwd,omitempty"` // of a shell: directory of its next command
	WallMS   float64 `json:"wall_ms"`
	Usage    Usage   `json:"usage"`
	// Shell is the state of the shell; nil for other execs, and for a command that never started.
	Shell *ShellExit `json:"shell,omitempty"`
}

// ShellExit is the state of a shell after a command.
type ShellExit struct {
	Replaced bool   `json:"replaced,omitempty"` // the command has ended its shell, or began in a new one because the earlier one had ended
	Renewed  bool   `json:"renewed,omitempty"`  // it began in a new one, not the first, and has not ended that; older agents never send this
	Program  string `json:"program"`            // the shell's program: bash or sh
}

// Usage is the resource usage of an exec's processes, and its source.
type Usage struct {
	UserMicros   uint64 `json:"user_us"`
	SystemMicros uint64 `json:"system_us"`
	MaxRSS       uint64 `json:"max_rss"` // bytes, of the largest process
	Source       string `json:"source"`  // cgroup2 | rusage | process clocks (where rusage misses some) | proc (of a shell, in ticks of 10 ms)
}

// ExecInfo is an entry of OpList.
type ExecInfo struct {
	ID       string `json:"id"`
	Running  bool   `json:"running"`
	Position int64  `json:"position"` // output bytes so far
	Acked    int64  `json:"acked"`
	Exit     *Exit  `json:"exit,omitempty"`
	Note     string `json:"note,omitempty"` // as in Exec
	PTY      *Size  `json:"pty,omitempty"`  // current size of a running exec's terminal
}

// FileRequest names files. Paths are relative to the workspace; /workspace/x and x are the same file, "." is the
// workspace itself.
type FileRequest struct {
	Path      string   `json:"path"`
	To        string   `json:"to,omitempty"` // rename
	Mode      uint32   `json:"mode,omitempty"`
	Offset    int64    `json:"offset,omitempty"` // read
	Limit     int64    `json:"limit,omitempty"`  // read: bytes, scan: bytes of each file, walk and readdir: entries; 0 is the agent's own limit
	Parents   bool     `json:"parents,omitempty"`
	NoReplace bool     `json:"no_replace,omitempty"`
	NoFollow  bool     `json:"no_follow,omitempty"` // no symbolic link anywhere on the path
	Recursive bool     `json:"recursive,omitempty"` // delete
	IfMatch   []string `json:"if_match,omitempty"`  // replace: SHA-256 of contents in hexadecimal; "*" is any file
	Paths     []string `json:"paths,omitempty"`     // tar_out, scan: only these
	UID       int      `json:"uid"`                 // user of the operation
	GID       int      `json:"gid"`
}

// FileInfo is one file. Type is file, dir, symlink or other.
type FileInfo struct {
	Path    string `json:"path"`
	Type    string `json:"type"`
	Size    int64  `json:"size"`
	Mode    uint32 `json:"mode"`
	ModTime int64  `json:"mtime_ns"`         // the nearest that an int64 holds: of 1677 to 2262
	Target  string `json:"target,omitempty"` // of a symlink
	Lossy   bool   `json:"lossy,omitempty"`  // the path is not UTF-8, which JSON cannot carry: no request reaches the file
}

// Space is the use and the size of the workspace's file system. Files count inodes.
type Space struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
	Files    int64 `json:"files"`
	MaxFiles int64 `json:"max_files"`
}

// Reply is the agent's reply. Exactly one field is set, apart from More and Cut, which qualify Files and Listeners, and Bytes and
// Listeners, which come with Done.
type Reply struct {
	Error   *Error     `json:"error,omitempty"`
	Info    *Info      `json:"info,omitempty"`
	Started *Started   `json:"started,omitempty"`
	Exit    *Exit      `json:"exit,omitempty"`
	Execs   []ExecInfo `json:"execs,omitempty"`
	File    *FileInfo  `json:"file,omitempty"`
	Files   []FileInfo `json:"files,omitempty"` // one batch; More means that others follow
	More    bool       `json:"more,omitempty"`
	Cut     bool       `json:"cut,omitempty"` // the listing stopped at its limit
	Space   *Space     `json:"space,omitempty"`
	Bytes   int64      `json:"bytes,omitempty"`
	Frozen  bool       `json:"frozen,omitempty"` // see [OpSave]
	Done    bool       `json:"done,omitempty"`
	// StdinLimit, on an exec or attach stream, is the new position up to which the host may send stdin.
	StdinLimit *int64 `json:"stdin_limit,omitempty"`
	// Ask, on a relay stream, is a request to the host.
	Ask *Ask `json:"ask,omitempty"`
	// Shells are the named shells, with Done.
	Shells []ShellInfo `json:"shells,omitempty"`
	// Programs is the number of processes, with Done.
	Programs int `json:"programs,omitempty"`
	// Listeners are the ports that programs listen on.
	Listeners []Listener `json:"listeners,omitempty"`
}

// Info is an agent's description of itself.
type Info struct {
	BootID  string `json:"boot_id"`
	Build   string `json:"build"`
	Pid     int    `json:"pid"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Cgroup  bool   `json:"cgroup"` // each exec has its own cgroup
	LeaseMS int64  `json:"lease_ms"`
	Execs   int    `json:"execs"`
}

// Code is the kind of an agent's error.
type Code string

// The agent's error codes.
const (
	CodeProtocol    Code = "protocol"    // the other side violated the protocol
	CodeUnsupported Code = "unsupported" // a known operation that this agent does not support
	CodeVersion     Code = "version"
	CodeNotFound    Code = "not_found"
	CodeExists      Code = "exists"
	CodeChanged     Code = "changed" // the file does not match FileRequest.IfMatch, or changed while it was packed
	CodeInvalid     Code = "invalid"
	CodePathEscapes Code = "path_escapes"
	CodeNotFile     Code = "not_a_file" // a FIFO, socket or device: never opened
	CodeNoSpace     Code = "no_space"
	CodeDenied      Code = "denied"
	CodeTooLarge    Code = "too_large"
	CodeExecFailed  Code = "exec_failed" // the program could not be started; Errno and Step give the reason
	CodeInternal    Code = "internal"
)

// Error is a failure of a request.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Errno   int    `json:"errno,omitempty"`
	Step    string `json:"step,omitempty"` // of starting a program
	Path    string `json:"path,omitempty"` // the affected path, if it is below the requested one
}

func (e *Error) Error() string { return e.Message }

// SpoolSize is the maximum unacknowledged output of one exec that the agent holds, in bytes.
const SpoolSize = 8 << 20

// TerminalSpool is the maximum for an exec with a terminal and an attached host, in bytes. It is smaller, so that after an
// interrupt the user does not see another 8 MiB of output.
const TerminalSpool = 1 << 20
