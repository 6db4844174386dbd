package cli

import (
	"context"

	"github.com/belljar/belljar"
)

// sessionUpload is belljar session upload.
type sessionUpload struct {
	ID    string   `arg:"" name:"session" help:"The session; the beginning of its id will do."`
	Files []string `arg:"" optional:"" name:"src[:dst]" help:"Files, and where they go."`
	Dir   string   `placeholder:"DIR" help:"Put the contents of a folder into the workspace."`
	To    string   `placeholder:"DIR" help:"Folder of the workspace that everything goes into."`
	JSON  bool     `name:"json" help:"Print what was uploaded as one JSON object."`
}

// Help is the long help.
func (u *sessionUpload) Help() string {
	return `All of the files arrive, or after a failure none.

Examples:
  belljar session upload 01a1fe25-cb55 data.csv settings.json:config/settings.json
  belljar session upload 01a1fe25-cb55 --dir ./app --to app`
}

// Run uploads files.
func (u *sessionUpload) Run(ctx context.Context, c *console) error {
	return c.remote(u.JSON, func(s belljar.Service) error {
		files, err := u.collect()
		if err != nil {
			return err
		}
		defer files.close()
		id, err := findSession(ctx, s, u.ID)
		if err != nil {
			return err
		}
		most, err := boundsOf(ctx, s)
		if err != nil {
			return err
		}
		if !most.one(files) {
			return mistake("belljar session cp copies them piece by piece", "that is more than one upload may be: %v", most)
		}
		archive := files.reader()
		defer archive.Close()
		result, err := s.Sessions().Upload(ctx, id, belljar.Upload{
			Dir: u.To,
			Parts: func(yield func(belljar.UploadPart, error) bool) {
				yield(belljar.UploadPart{Format: belljar.UploadTar, Body: archive}, nil)
			},
		})
		if err != nil {
			return err
		}
		if u.JSON {
			return writeJSON(c.stdout, result)
		}
		c.aside("%s, %s", plural(result.FileCount, "file"), bytesOf(result.BytesReceived))
		return nil
	})
}

// collect checks the files before anything is sent.
func (u *sessionUpload) collect() (*upload, error) {
	files := &upload{}
	for _, flag := range u.Files {
		if err := files.addFile(flag); err != nil {
			return nil, err
		}
	}
	if u.Dir != "" {
		if err := files.addDir(u.Dir); err != nil {
			files.close()
			return nil, err
		}
	}
	if len(files.sources) == 0 {
		files.close()
		return nil, mistake("name files, or a folder with --dir", "nothing to upload")
	}
	return files, nil
}

// sessionRun is belljar session run: belljar run in a session.
type sessionRun struct {
	ID      string `arg:"" name:"session" help:"The session; the beginning of its id will do."`
	Program struct {
		Args []string `arg:"" optional:"" passthrough:"partial" name:"program" help:"FILE [ARGS], - [ARGS] for a program on standard input, or -- CMD [ARGS]."`
	} `embed:""`

	Code         *string  `group:"what" short:"c" placeholder:"TEXT" help:"Run this text, with ARGS, in place of a file: Python or a shell line, unless --lang says."`
	Lang         string   `group:"what" placeholder:"EXT" help:"Language of the program, as a file extension: py, js, sh …"`
	Env          []string `group:"input" short:"e" sep:"none" placeholder:"K=V" help:"Set a variable; K alone passes ours on. Repeatable."`
	File         []string `group:"input" short:"f" sep:"none" placeholder:"SRC[:DST]" help:"Put a file into the workspace. Repeatable."`
	Dir          string   `group:"input" placeholder:"DIR" help:"Put the contents of a folder into the workspace."`
	Stdin        string   `group:"input" placeholder:"FILE" help:"Feed the program from a file."`
	Interactive  bool     `group:"input" short:"i" help:"Pass our standard input on, also from a terminal."`
	Timeout      *seconds `group:"limits" placeholder:"TIME" help:"How long it may run: 30, 30s, 5m."`
	BuildTimeout *seconds `group:"limits" placeholder:"TIME" help:"How long a compiler may take before it runs (default 60s)."`
	Capture      []string `group:"output" sep:"none" placeholder:"GLOB" help:"Keep files of the workspace that match; ** crosses folders. Repeatable."`
	Out          string   `group:"output" short:"o" placeholder:"DIR" help:"Where captured files go."`
	JSON         bool     `group:"output" name:"json" help:"Print the outcome with stdout and stderr as one JSON object."`
	Quiet        bool     `group:"output" short:"q" help:"No notes of our own, only failures."`
}

// Help is the long help.
func (r *sessionRun) Help() string {
	return `As belljar run, in a session: files that the program leaves in its workspace are there for the next run, and
so are processes that it leaves behind. A compiled language needs a session with --workspace-exec.`
}

// Run runs a program in a session.
func (r *sessionRun) Run(ctx context.Context, c *console) error {
	run := &runCommand{
		Args: r.Program.Args, Code: r.Code, Lang: r.Lang, Env: r.Env, File: r.File, Dir: r.Dir, Stdin: r.Stdin, Interactive: r.Interactive,
		Timeout: r.Timeout, BuildTimeout: r.BuildTimeout, Capture: r.Capture, Out: r.Out, JSON: r.JSON, Quiet: r.Quiet,
	}
	err := c.remote(false, func(s belljar.Service) (err error) {
		run.session, err = findSession(ctx, s, r.ID)
		return err
	})
	if err != nil {
		if r.JSON {
			return c.failJSON(err)
		}
		return err
	}
	return run.Run(ctx, c)
}

// sessionExec is belljar session exec.
type sessionExec struct {
	ID      string `arg:"" name:"session" help:"The session; the beginning of its id will do."`
	Program struct {
		Args []string `arg:"" optional:"" passthrough:"partial" name:"cmd" help:"The command and its arguments."`
	} `embed:""`

	Shell       bool     `group:"what" short:"s" help:"Give it to the session's shell, which keeps its directory, variables and jobs."`
	Cwd         string   `group:"what" placeholder:"DIR" help:"Folder of the workspace to run it in."`
	Env         []string `group:"input" short:"e" sep:"none" placeholder:"K=V" help:"Set a variable; K alone passes ours on. Repeatable."`
	Stdin       string   `group:"input" placeholder:"FILE" help:"Feed the command from a file."`
	Interactive bool     `group:"input" short:"i" help:"Pass our standard input on, also from a terminal."`
	Timeout     *seconds `group:"limits" placeholder:"TIME" help:"How long it may run: 30, 30s, 5m."`
	JSON        bool     `group:"output" name:"json" help:"Print the outcome with stdout and stderr as one JSON object."`
	Quiet       bool     `group:"output" short:"q" help:"No notes of our own, only failures."`
}

// Help is the long help.
func (x *sessionExec) Help() string {
	return `What the command writes to the workspace stays, and so does what it leaves running.

Examples:
  belljar session exec 01a1fe25-cb55 python3 main.py
  belljar session exec 01a1fe25-cb55 --cwd app make test
  belljar session exec --shell 01a1fe25-cb55 'cd app; export CI=1'
  belljar session exec --shell 01a1fe25-cb55 'make test'     in app, with CI=1`
}

// Run runs a command in a session.
func (x *sessionExec) Run(ctx context.Context, c *console) error {
	args := x.Program.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	run := &runCommand{
		Args: append([]string{"--"}, args...), Env: x.Env, Stdin: x.Stdin, Interactive: x.Interactive, Timeout: x.Timeout,
		JSON: x.JSON, Quiet: x.Quiet, cwd: x.Cwd, shell: x.Shell,
	}
	err := c.remote(false, func(s belljar.Service) (err error) {
		if len(args) == 0 || args[0] == "" {
			return mistake("belljar session exec SESSION CMD [ARGS]; belljar session shell SESSION opens a terminal", "no command to run")
		}
		if x.Shell && (x.Cwd != "" || len(x.Env) > 0) {
			return mistake("cd and export in the shell itself", "--cwd and --env do not go with --shell, which keeps its own")
		}
		run.session, err = findSession(ctx, s, x.ID)
		return err
	})
	if err != nil {
		if x.JSON {
			return c.failJSON(err)
		}
		return err
	}
	return run.Run(ctx, c)
}
