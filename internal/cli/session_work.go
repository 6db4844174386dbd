package cli

import (
	"cmp"
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/transfer"
)

// sessionUpload is belljar session upload.
type sessionUpload struct {
	ID    string   `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Files []string `arg:"" optional:"" name:"src[:dst]" help:"Files of this machine, each with its path in the workspace if that differs."`
	Dir   string   `placeholder:"DIR" help:"Put the contents of a folder into the workspace."`
	To    string   `placeholder:"DIR" help:"Folder of the workspace that everything goes into."`
	JSON  bool     `name:"json" help:"Print what was uploaded as one JSON object."`
}

func (u *sessionUpload) Help() string {
	return `Either all files are uploaded or, after an error, none.

Examples:
  belljar session upload 01a1fe25-cb55 data.csv settings.json:config/settings.json
  belljar session upload 01a1fe25-cb55 --dir ./app --to app`
}

// Run uploads files.
func (u *sessionUpload) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		files, err := u.collect()
		if err != nil {
			return err
		}
		defer files.Close()
		id, err := ident.Session(ctx, s, u.ID)
		if err != nil {
			return err
		}
		session, err := s.Sessions().Get(ctx, id)
		if err != nil {
			return err
		}
		most, err := transfer.BoundsOf(ctx, s, session)
		if err != nil {
			return err
		}
		if !most.One(files) {
			return mistake.New("belljar session cp copies them piece by piece", "that is more than one upload may be: %v", most)
		}
		archive := files.Reader()
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
			return show.JSON(c.stdout, result)
		}
		c.aside("%s, %s", show.Plural(result.FileCount, "file"), show.Bytes(result.BytesReceived))
		return nil
	})
}

// collect validates the files before anything is sent.
func (u *sessionUpload) collect() (*transfer.Upload, error) {
	files := &transfer.Upload{}
	for _, file := range u.Files {
		if err := files.AddArgument(file); err != nil {
			return nil, err
		}
	}
	if u.Dir != "" {
		if err := files.AddDir(u.Dir, true); err != nil {
			files.Close()
			return nil, err
		}
	}
	if files.Empty() {
		files.Close()
		return nil, mistake.New("name files, or a folder with --dir", "nothing to upload")
	}
	return files, nil
}

// sessionRun is belljar session run: belljar run in a session.
type sessionRun struct {
	ID string `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	programRunFlags
}

func (r *sessionRun) Help() string {
	return `Like belljar run, in a session: files and processes that the program leaves stay for the next run. A
compiled language needs a session with --workspace-exec. Flags stand before the program.`
}

// Run runs a program in a session.
func (r *sessionRun) Run(ctx context.Context, c *console) error {
	run := &runCommand{programRunFlags: r.programRunFlags}
	err := c.remote(func(s belljar.Service) (err error) {
		run.session, err = ident.Session(ctx, s, r.ID)
		return err
	})
	if err != nil {
		return err
	}
	return run.Run(ctx, c)
}

// sessionExec is belljar session exec.
type sessionExec struct {
	ID      string `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Program struct {
		Args []string `arg:"" optional:"" passthrough:"partial" name:"cmd" help:"The command and its arguments."`
	} `embed:""`

	Shell bool   `group:"what" short:"s" help:"Run it in the session's shell, which keeps its directory, variables and jobs."`
	Cwd   string `group:"what" placeholder:"DIR" help:"Folder of the workspace in which it runs."`
	inputFlags
	timeFlags
	outcomeFlags
}

func (x *sessionExec) Help() string {
	return `Files that the command writes to the workspace stay, and background processes that it starts continue.

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
	run := &runCommand{cwd: cmp.Or(x.Cwd, "."), shell: x.Shell} // the workspace, not the image's WORKDIR
	if x.Shell {
		run.cwd = ""
	}
	run.Args, run.inputFlags, run.timeFlags, run.outcomeFlags = append([]string{"--"}, args...), x.inputFlags, x.timeFlags, x.outcomeFlags
	err := c.remote(func(s belljar.Service) (err error) {
		if len(args) == 0 || args[0] == "" {
			return mistake.New("belljar session exec SESSION CMD [ARGS]; belljar session shell SESSION opens a terminal", "no command to run")
		}
		if x.Shell && (x.Cwd != "" || len(x.Env) > 0) {
			return mistake.New("cd and export in the shell itself", "--cwd and --env do not go with --shell, which keeps its own")
		}
		run.session, err = ident.Session(ctx, s, x.ID)
		return err
	})
	if err != nil {
		return err
	}
	return run.Run(ctx, c)
}
