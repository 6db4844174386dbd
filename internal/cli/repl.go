package cli

import (
	"cmp"
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/repl"
	"github.com/belljar/belljar/internal/local"
)

// replCommand is belljar repl.
type replCommand struct {
	Session string `arg:"" optional:"" name:"session" help:"A session on a server (default: a new one that ends with the command)."`
	Lang    string `default:"py" placeholder:"EXT" help:"Language: py, ipython, js or sh."`
	Context string `placeholder:"NAME" help:"Name of the context (default: the language's own)."`
	Image   string `placeholder:"REF" help:"Root file system of the new session (default host)."`
	Runtime string `placeholder:"NAME" help:"Isolation of the new session."`
}

func (x *replCommand) Help() string {
	return `Code is executed when it is complete. In Python, an empty line ends a block. Tab completes names, Ctrl-C interrupts and
keeps the variables, Ctrl-D ends, and the up arrow shows earlier input, also that of earlier sessions. Input from a file or
pipe is executed as a whole, and the exit status is that of the code.

Examples:
  belljar repl                       Python, in a sandbox on this machine
  belljar repl --lang js
  belljar repl 01a1fe25-cb55         in a session on a server`
}

// Run executes typed code.
func (x *replCommand) Run(ctx context.Context, c *console) (err error) {
	language, ok := belljar.ContextLanguage(x.Lang)
	if !ok {
		return mistake.New("--lang py, ipython, js or sh", "there are no contexts for %q", x.Lang)
	}
	if x.Session != "" && !c.server.given() {
		return mistake.New("--server URL, or BELLJAR_SERVER", "a session is on a server")
	}
	if x.Session != "" && (x.Image != "" || x.Runtime != "") {
		return mistake.New("leave them out: the session has its own", "--image and --runtime are for a new session")
	}
	ctx, stopped := interrupt.End(ctx) // in effect until the session has ended
	defer func() { err = stopped(err) }()
	if x.Image != local.HostImage {
		c.image = x.Image
	}
	e, err := c.open(x.Runtime, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	begin, begun := interrupt.Context(ctx) // Ctrl-C ends the command until the interpreter reads it
	r := repl.REPL{Service: e.Service, Session: x.Session, Stdin: c.stdin, Stdout: c.stdout, Stderr: c.Stderr, Notice: &c.Writer}
	made, err := x.begin(begin, c, &r, belljar.ContextSpec{Language: language, Name: x.Context})
	if made {
		defer func() { err = errors.Join(err, e.Sessions().Delete(context.WithoutCancel(ctx), r.Session)) }()
	}
	if err == nil {
		err = begin.Err()
	}
	if err = begun(err); err != nil {
		return err
	}
	if status, err := r.Run(ctx); err != nil || status != 0 {
		return cmp.Or[error](err, exitStatus(status))
	}
	return nil
}

// begin makes the context, in a session that it makes unless one is named. It reports whether it made one, also with an error.
func (x *replCommand) begin(ctx context.Context, c *console, r *repl.REPL, spec belljar.ContextSpec) (made bool, err error) {
	if r.Session != "" {
		r.Session, err = ident.Session(ctx, r.Service, r.Session)
	} else if err = c.readyImage(ctx, r.Service, x.Image, x.Runtime); err == nil {
		var session belljar.Session
		session, err = r.Service.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
			SpecVersion: belljar.SpecVersion, BaseImage: cmp.Or(x.Image, local.HostImage), Runtime: x.Runtime,
		}})
		if r.Session, made = session.ID, err == nil; made {
			_, err = c.approved(ctx, r.Service, session, false)
		}
	}
	if err == nil {
		r.Context, err = r.Service.Contexts().Create(ctx, r.Session, spec)
	}
	return made, err
}
