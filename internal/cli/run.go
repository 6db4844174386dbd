package cli

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/bmatcuk/doublestar/v4"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/image"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/program"
	"github.com/belljar/belljar/internal/cli/quantity"
	"github.com/belljar/belljar/internal/cli/repl"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/transfer"
	"github.com/belljar/belljar/internal/cli/volume"
	"github.com/belljar/belljar/internal/local"
)

// runCommand is belljar run.
type runCommand struct {
	programRunFlags
	secretFlags
	Image   string `group:"what" placeholder:"REF" help:"Root file system; host is this machine's own programs, read-only (default)."`
	Runtime string `group:"what" placeholder:"NAME" help:"Isolation: native is this kernel's namespaces (default), gvisor a kernel of its own, docker a container."`
	Class   string `group:"what" name:"isolation" placeholder:"CLASS" help:"Weakest class of isolation to accept: namespace, user_space_kernel, microvm. Belljar takes the fastest runtime that is strong enough."`
	Trust   string `group:"what" placeholder:"LEVEL" help:"How far you trust the program: trusted, standard, untrusted. The policy sets the isolation that each level needs."`

	Allow []string `group:"what" sep:"none" placeholder:"RULE" help:"Let the program reach a host, all names below one (*.example.com), a network or an address. Without it there is no network. Repeatable."`
	presetFlags
	packageFlags
	volume.Flags

	Git      gitFlags `embed:"" group:"input"`
	Snapshot string   `group:"input" placeholder:"ID" help:"Mount a snapshot of the server at /snapshot, read-only. ID is its name, or the beginning of its id."`
	Template string   `group:"input" placeholder:"NAME" help:"Begin with a template of the server: its image, packages, environment and files."`

	BuildMemory    *quantity.Mebibytes `group:"limits" placeholder:"SIZE" help:"Memory of the compiler (default: as --memory)."`
	CPUTime        *quantity.Seconds   `name:"cpu-time" group:"limits" placeholder:"TIME" help:"CPU time of the program and its children together (default: no limit)."`
	StartupTimeout *quantity.Seconds   `group:"limits" placeholder:"TIME" help:"Time limit of the sandbox's start (default 20s)."`
	CPUs           *quantity.Cores     `group:"limits" name:"cpus" placeholder:"N" help:"Processors: 2, 0.5 (default 1)."`
	Memory         *quantity.Mebibytes `group:"limits" short:"m" placeholder:"SIZE" help:"Memory: 512, 512m, 1g (default 512m)."`
	Pids           *quantity.Count     `group:"limits" placeholder:"N" help:"Processes and threads at once (default 256)."`
	Workspace      *quantity.Mebibytes `group:"limits" placeholder:"SIZE" help:"Size of /workspace (default 256m)."`
	Nofile         *quantity.Count     `group:"limits" placeholder:"N" help:"Open files per process (default 1024)."`
	Nproc          *quantity.Count     `group:"limits" placeholder:"N" help:"RLIMIT_NPROC (default: as --pids)."`
	WorkspaceExec  bool                `group:"limits" help:"Allow programs in /workspace to be executed. Compiled languages switch it on."`
	AllowWeak      []string            `group:"limits" placeholder:"LIST" help:"Protections that may be missing here, by the names that doctor prints."`

	IdempotencyKey string `group:"server" placeholder:"KEY" help:"Run once: a request that is repeated with this key returns the first result."`

	remote  bool          // runs on a server, which has its own programs
	session string        // session to run in, "" for none
	cwd     string        // working directory in the session
	shell   bool          // the session's shell runs the command
	snippet *repl.Snippet // code for a context of the session; nil for a program
}

func runGroups() []kong.Group {
	return []kong.Group{
		{Key: "what", Title: "Program and sandbox:"},
		{Key: "input", Title: "Environment, input and files:"},
		{Key: "limits", Title: "Limits:"},
		{Key: "output", Title: "Output:"},
		{Key: "session", Title: "Sharing:"},
		{Key: "server", Title: "Server:"},
	}
}

func (r *runCommand) Help() string {
	return `The program sees its workspace and the image. It has no other files of this machine, no network
except the hosts of --allow, and no variables except those of --env. Its output is printed as it comes.

Write flags before the program. Everything after it is an argument of the program.

The exit status is the program's own, or 124 timed out, 125 belljar failed,
126 not executable, 127 not found, 128+n ended by signal n, 137 out of memory.

Examples:
  belljar run -c 'print(6 * 7)'              Python
  belljar run -c 'ls -la / | head'           a shell line
  belljar run hello.py                       the extension selects the interpreter
  belljar run --memory 1g sort.c 3 1 2       compiled and run inside, with arguments
  belljar run -- sh -c 'ls -la /; id'        any command of the image
  belljar run --dir ./app --capture 'out/**' --out results main.js
  cat program | belljar run --lang py -      a program from standard input
  belljar run --allow api.example.com fetch.py   may reach one host
  belljar run --git https://example.com/app.git -- make test   the files of a repository
  belljar run --secret API_TOKEN fetch.py        your variable API_TOKEN as the file /run/secrets/API_TOKEN
  belljar run --secret API_TOKEN --broker API_TOKEN=api.example.com --allow api.example.com fetch.py
  belljar run --pip requests --pip rich report.py   with packages
  belljar run --json -- uname -a | jq .stdout`
}

// Run checks everything, then runs.
func (r *runCommand) Run(ctx context.Context, c *console) error {
	c.Quiet = r.Quiet
	status, err := r.run(ctx, c)
	if err != nil {
		return err
	}
	return exitStatus(status)
}

func (r *runCommand) run(ctx context.Context, c *console) (int, error) {
	r.remote = c.server.given()
	if r.IdempotencyKey != "" && !r.remote {
		return 0, mistake.New("--server URL, or BELLJAR_SERVER", "--idempotency-key needs a server that remembers it")
	}
	if kept := r.kept(); kept != "" && !r.remote {
		return 0, mistake.New("--server URL, or BELLJAR_SERVER", "%s needs a server", kept)
	}
	p, err := r.plan(ctx, c)
	if err != nil {
		return 0, err
	}
	defer p.close()
	for _, line := range p.notes {
		c.Note("%s", line)
	}
	if p.spec.BaseImage != local.HostImage {
		c.image = p.spec.BaseImage
	}
	e, err := c.open(r.Runtime, r.Class != "" || r.Trust != "")
	if err != nil {
		return 0, err
	}
	ctx, abandon := context.WithCancel(ctx)
	defer abandon()
	stop := interrupt.Watch(ctx, e, abandon)
	defer func() {
		// Signals are caught until the cleanup is complete, so that a repeated Ctrl-C leaves nothing.
		if err := e.Close(); err != nil {
			c.Print("cleaning up: %v", err)
		}
		stop.Close()
	}()
	return p.execute(ctx, c, e, stop)
}

// kept returns the first flag about objects that only a server keeps, "" if none is set.
func (r *runCommand) kept() string {
	switch {
	case r.Snapshot != "":
		return "--snapshot"
	case r.Template != "":
		return "--template"
	case r.Flags.Volume != "":
		return "--volume"
	case r.Flags.Disk != nil:
		return "--disk"
	}
	for _, flag := range r.Secret {
		if _, source, _ := strings.Cut(flag, "="); strings.HasPrefix(source, "from:") {
			return "--secret " + flag
		}
	}
	return ""
}

// plan is a validated run: everything that can be checked before the sandbox exists.
type plan struct {
	spec   belljar.RunSpec
	key    string // idempotency key, "" for none
	upload transfer.Upload
	stdin  io.Reader        // nil for none
	out    *transfer.OutDir // nil for none
	json   bool
	notes  []string
	python bool // the program is a text that is taken for Python
	closes []func() error
}

// close closes everything that plan has opened.
func (p *plan) close() {
	p.upload.Close()
	for _, f := range p.closes {
		f()
	}
}

func (r *runCommand) plan(ctx context.Context, c *console) (_ *plan, err error) {
	p := &plan{json: r.JSON}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	limits, err := r.checkLimits()
	if err != nil {
		return nil, err
	}
	if err := r.checkCapture(); err != nil {
		return nil, err
	}
	prog, err := r.reading(ctx, c)
	if err != nil {
		return nil, err
	}
	p.notes, p.python, p.key = prog.Notes, prog.AsPython, r.IdempotencyKey
	env, err := environment(c, r.Env)
	if err != nil {
		return nil, err
	}
	p.spec = belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, Runtime: r.Runtime, BaseImage: image.Of(r.Image, r.Template), Template: r.Template, Command: prog.Argv, Language: prog.Lang, Env: env,
		Resources: r.resources(), StartupTimeoutSec: value(r.StartupTimeout), TimeoutSec: value(r.Timeout), BuildTimeoutSec: value(r.BuildTimeout), BuildMemoryMB: int(whole(r.BuildMemory)), CPUTimeSec: value(r.CPUTime),
		CapturePatterns: r.Capture, WorkspaceExec: r.WorkspaceExec || prog.Exec, AllowWeak: r.AllowWeak,
		Isolation: r.Class, TrustLevel: belljar.TrustLevel(r.Trust),
	}
	p.spec.NetworkPolicy, p.spec.Egress = allowed(r.Allow, r.AllowPreset)
	if p.spec.Git, err = r.Git.spec(); err != nil {
		return nil, err
	}
	if p.spec.Secrets, err = r.secrets(c); err != nil {
		return nil, err
	}
	p.spec.Packages, p.spec.Snapshot, p.spec.Warm, p.spec.Workspace = r.packages(), r.Snapshot, r.Warm, r.Flags.Workspace()
	if r.session != "" { // the session determines the image and execution
		p.spec.SessionID, p.spec.BaseImage, p.spec.WorkspaceExec = r.session, "", r.WorkspaceExec
		p.spec.Cwd, p.notes = r.cwd, nil
	}
	if r.shell {
		p.spec.Shell, p.spec.Command = &belljar.ShellCommand{Cmd: strings.Join(prog.Argv, " "), Separate: true}, nil
	}
	if r.snippet != nil {
		r.snippet.Fill(&p.spec)
	}
	checked := p.spec
	if checked.Snapshot != "" {
		checked.Snapshot = "found-later" // only the server knows the id that a name stands for
	}
	if err := checked.Validate(); err != nil {
		return nil, field.InFlags(err)
	}
	if err := r.fill(&p.upload, prog.Files, limits.WorkspaceMB); err != nil {
		return nil, err
	}
	if err := r.openStdin(c, p, prog.Stdin); err != nil {
		return nil, err
	}
	if r.Out != "" {
		if p.out, err = transfer.OpenOutDir(r.Out); err != nil {
			return nil, err
		}
		p.closes = append(p.closes, p.out.Close)
	}
	return p, nil
}

// asked returns the program arguments of the command line.
func (r *runCommand) asked(c *console) *program.Arguments {
	a := &program.Arguments{
		Args: r.Args, Code: r.Code, Lang: r.Lang, Host: !r.remote && image.Of(r.Image, r.Template) == local.HostImage,
		Exec: r.WorkspaceExec, Interactive: r.Interactive, Stdin: c.stdin, Usage: "belljar run",
	}
	if r.session != "" {
		a.Usage = "belljar session run SESSION"
	}
	a.Path, _ = c.getenv("PATH")
	return a
}

// fill collects the files for the workspace.
func (r *runCommand) fill(u *transfer.Upload, program []transfer.Source, workspaceMB int) error {
	for _, s := range program {
		if err := u.Add(s); err != nil {
			return err
		}
	}
	for _, flag := range r.File {
		if err := u.AddFile(flag); err != nil {
			return err
		}
	}
	if r.Dir != "" {
		if err := u.AddDir(r.Dir, r.remote); err != nil {
			return err
		}
	}
	return u.Fits(workspaceMB)
}

// openStdin selects the program's input: --stdin FILE, our standard input unless it is a terminal or held the program, or nothing.
func (r *runCommand) openStdin(c *console, p *plan, taken bool) error {
	if r.Stdin != "" {
		if r.Interactive {
			return mistake.New("", "--stdin and -i exclude each other")
		}
		info, err := os.Stat(r.Stdin)
		if err != nil {
			return mistake.New("", "--stdin %s: %s", r.Stdin, mistake.Reason(err))
		}
		if info.IsDir() {
			return mistake.New("", "--stdin %s: is a directory", r.Stdin)
		}
		f, err := os.Open(r.Stdin)
		if err != nil {
			return mistake.New("", "--stdin %s: %s", r.Stdin, mistake.Reason(err))
		}
		p.stdin = f
		p.closes = append(p.closes, f.Close)
		return nil
	}
	if taken || c.stdin == nil {
		return nil
	}
	if f, ok := c.stdin.(*os.File); ok {
		info, err := f.Stat()
		if err != nil {
			return nil // the parent process closed it
		}
		if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
			return nil // equal to no input
		}
	}
	if r.Interactive || !show.IsTerminal(c.stdin) {
		p.stdin = c.stdin
		p.spec.Interactive = r.Interactive
	}
	return nil
}

// checkCapture validates the patterns of --capture, and that --capture and --out go together.
func (r *runCommand) checkCapture() error {
	switch {
	case len(r.Capture) > 0 && r.Out == "" && !r.JSON:
		return mistake.New("--out DIR, or --json to list the files", "--capture needs a place for the files")
	case len(r.Capture) == 0 && r.Out != "":
		return mistake.New("--capture '**' keeps everything", "--out needs --capture")
	}
	for _, pattern := range r.Capture {
		if _, err := belljar.CleanPath(pattern); err != nil {
			return mistake.New("patterns are relative to "+belljar.WorkspaceDir, "--capture %s: %v", pattern,
				strings.TrimPrefix(err.Error(), "path "))
		}
		if !doublestar.ValidatePattern(pattern) {
			return mistake.New("", "--capture %s: is not a pattern", pattern)
		}
	}
	return nil
}

// environment parses --env flags: K=V, or K alone for the value in our environment.
func environment(c *console, flags []string) (map[string]string, error) {
	env := make(map[string]string, len(flags))
	for _, flag := range flags {
		name, value, given := strings.Cut(flag, "=")
		if name == "" {
			return nil, mistake.New("--env K=V", "--env %s: has no name", flag)
		}
		if !given {
			if value, given = c.getenv(name); !given {
				return nil, mistake.New("--env "+name+"=VALUE", "--env %s: is not set here", name)
			}
		}
		env[name] = value
	}
	return env, nil
}

// checkLimits returns the limits from the flags. It refuses those above the maximum.
func (r *runCommand) checkLimits() (belljar.Limits, error) {
	most := belljar.MaxLimits()
	if r.remote { // the server checks the maximum
		return belljar.Limits{WorkspaceMB: max(int(whole(r.Workspace)), most.WorkspaceMB)}, nil
	}
	asked := belljar.RunSpec{
		Resources: r.resources(), StartupTimeoutSec: value(r.StartupTimeout), TimeoutSec: value(r.Timeout), BuildTimeoutSec: value(r.BuildTimeout), BuildMemoryMB: int(whole(r.BuildMemory)), CPUTimeSec: value(r.CPUTime),
	}
	limits, err := belljar.DefaultLimits().ResolveRun(&asked, most)
	return limits, field.InFlags(err)
}

func (r *runCommand) resources() belljar.Resources {
	return belljar.Resources{
		CPU: value(r.CPUs), MemoryMB: int(whole(r.Memory)), Pids: int(whole(r.Pids)),
		NoFile: int(whole(r.Nofile)), NProc: int(whole(r.Nproc)), WorkspaceMB: int(whole(r.Workspace)),
	}
}

func value[T ~float64](flag *T) float64 {
	if flag == nil {
		return 0
	}
	return float64(*flag)
}

func whole[T ~int](flag *T) T {
	if flag == nil {
		return 0
	}
	return *flag
}
