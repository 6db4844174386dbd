package cli

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/image"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/quantity"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/snapshot"
	"github.com/belljar/belljar/internal/cli/volume"
)

// sessionCommands are belljar session ….
type sessionCommands struct {
	Open      sessionOpen      `cmd:"" help:"Find a session by its scope, or create it, and print its id."`
	Create    sessionCreate    `cmd:"" help:"Create a session and print its id."`
	LS        sessionList      `cmd:"" name:"ls" help:"List sessions."`
	Show      sessionShow      `cmd:"" help:"Show a session."`
	Exec      sessionExec      `cmd:"" help:"Run a command in a session."`
	Run       sessionRun       `cmd:"" help:"Run a program of this machine in a session."`
	Code      sessionCode      `cmd:"" help:"Execute code in a session's interpreter, which keeps its variables."`
	Shell     sessionShell     `cmd:"" help:"Open a terminal in a session, or reattach to one."`
	Files     sessionFiles     `cmd:"" help:"List the files of a session's workspace."`
	CP        sessionCopy      `cmd:"" name:"cp" help:"Copy files and folders into a session, or out of it."`
	Upload    sessionUpload    `cmd:"" help:"Put files into a session's workspace, all or none."`
	Network   sessionNetwork   `cmd:"" help:"Show or change what a session may reach."`
	Ports     sessionPorts     `cmd:"" help:"List the ports that programs in a session listen on."`
	Forward   sessionForward   `cmd:"" help:"Reach ports of a session at ports of this machine."`
	Fork      sessionFork      `cmd:"" help:"Make copies of a session and print their ids."`
	Hibernate sessionHibernate `cmd:"" help:"Save a session, and remove its sandbox until the session is used."`
	Close     sessionClose     `cmd:"" aliases:"rm" help:"End sessions."`
}

// jarFlags configure a session's sandbox. Their help differs from that of belljar run: they apply to all runs.
type jarFlags struct {
	Image          string              `placeholder:"REF" help:"Root file system (default host)."`
	Runtime        string              `placeholder:"NAME" help:"Isolation (default: the server's)."`
	Class          string              `name:"isolation" placeholder:"CLASS" help:"Weakest class of isolation to accept: namespace, user_space_kernel, microvm."`
	Trust          string              `placeholder:"LEVEL" help:"How far you trust its programs: trusted, standard, untrusted."`
	Env            []string            `short:"e" sep:"none" placeholder:"K=V" help:"Set a variable for every run; K alone takes the value from your environment. Repeatable."`
	TTL            *quantity.Seconds   `name:"ttl" placeholder:"TIME" help:"Life after the last use: 30m, 2h."`
	Lifetime       *quantity.Seconds   `placeholder:"TIME" help:"Total life, used or not."`
	IdleTimeout    *quantity.Seconds   `placeholder:"TIME" help:"End the session after this time without any output or input, even while a command runs."`
	MaxRuns        *quantity.Count     `placeholder:"N" help:"Number of runs in its whole life (default: no limit)."`
	Timeout        *quantity.Seconds   `placeholder:"TIME" help:"Time limit of a run that sets none."`
	CPUTime        *quantity.Seconds   `name:"cpu-time" placeholder:"TIME" help:"CPU time of a run that sets none."`
	StartupTimeout *quantity.Seconds   `placeholder:"TIME" help:"Time limit of the sandbox's start."`
	CPUs           *quantity.Cores     `name:"cpus" placeholder:"N" help:"Processors, for all runs together."`
	Memory         *quantity.Mebibytes `short:"m" placeholder:"SIZE" help:"Memory, for all runs together: 512m, 1g."`
	Pids           *quantity.Count     `placeholder:"N" help:"Processes and threads at once."`
	Workspace      *quantity.Mebibytes `placeholder:"SIZE" help:"Size of /workspace."`
	Allow          []string            `sep:"none" placeholder:"RULE" help:"Let its programs reach a host, all names below one (*.example.com), a network or an address. Repeatable."`
	Git            gitFlags            `embed:""`
	Snapshot       string              `placeholder:"ID" help:"Begin with the files of a snapshot. ID is its name, or the beginning of its id."`
	Template       string              `placeholder:"NAME" help:"Begin with a template: its image, packages, environment and files."`
	presetFlags
	packageFlags
	volume.Flags
	WorkspaceExec bool     `help:"Allow programs in /workspace to be executed; compiled languages need it."`
	AllowWeak     []string `placeholder:"LIST" help:"Protections that may be missing (operators only)."`
	JSON          bool     `name:"json" help:"Print the session as one JSON object."`

	secretFlags
}

// spec returns the flags as a request.
func (j *jarFlags) spec(ctx context.Context, c *console, s belljar.Service) (belljar.SessionSpec, error) {
	env, err := environment(c, j.Env)
	if err != nil {
		return belljar.SessionSpec{}, err
	}
	secrets, err := j.secrets(c)
	if err != nil {
		return belljar.SessionSpec{}, err
	}
	saved, err := snapshot.Find(ctx, s, j.Snapshot)
	if err != nil {
		return belljar.SessionSpec{}, err
	}
	policy, egress := allowed(j.Allow, j.AllowPreset)
	repository, err := j.Git.spec()
	return belljar.SessionSpec{
		NetworkPolicy: policy, Egress: egress, Git: repository, Secrets: secrets, Packages: j.packages(), Snapshot: saved, Template: j.Template, Workspace: j.Flags.Workspace(),
		SpecVersion: belljar.SpecVersion, Runtime: j.Runtime, BaseImage: image.Of(j.Image, j.Template), Env: env,
		Resources: belljar.Resources{
			CPU: value(j.CPUs), MemoryMB: int(whole(j.Memory)), Pids: int(whole(j.Pids)), WorkspaceMB: int(whole(j.Workspace)),
		},
		StartupTimeoutSec: value(j.StartupTimeout), TimeoutSec: value(j.Timeout), CPUTimeSec: value(j.CPUTime), TTLSec: value(j.TTL),
		LifetimeSec: value(j.Lifetime), IdleTimeoutSec: value(j.IdleTimeout), MaxRuns: int(whole(j.MaxRuns)),
		WorkspaceExec: j.WorkspaceExec, AllowWeak: j.AllowWeak, Isolation: j.Class, TrustLevel: belljar.TrustLevel(j.Trust),
	}, err
}

// warn prints the warnings of a session.
func (c *console) warn(s belljar.Session) {
	for _, warning := range s.Warnings {
		c.Note("%s", warning)
	}
}

// sessionCreate is belljar session create.
type sessionCreate struct {
	Jar jarFlags `embed:""`
}

func (n *sessionCreate) Help() string {
	return `Examples:
  id=$(belljar session create --ttl 2h)
  belljar session cp ./app $id:app
  belljar session exec $id make -C app test
  belljar session close $id`
}

// Run creates a session.
func (n *sessionCreate) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		spec, err := n.Jar.spec(ctx, c, s)
		if err != nil {
			return err
		}
		if err := c.readyImage(ctx, s, spec.BaseImage, spec.Runtime); err != nil {
			return err
		}
		made, err := s.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: spec})
		if err != nil {
			return field.InFlags(err)
		}
		if made, err = c.approved(ctx, s, made, true); err != nil {
			return err
		}
		c.warn(made)
		if n.Jar.JSON {
			return show.JSON(c.stdout, made)
		}
		c.aside("expires at %s unless it is used", made.ExpiresAt.Local().Format(time.DateTime))
		return show.Lines(c.stdout, []string{made.ID})
	})
}

// sessionOpen is belljar session open.
type sessionOpen struct {
	Scope string   `arg:"" name:"scope" help:"NAMESPACE:ID[:NAME]; the namespace is workflow, agent, user or thread."`
	Jar   jarFlags `embed:""`
}

func (o *sessionOpen) Help() string {
	return `Opening a scope again returns the same session while it lives. Flags apply to a new session only: they do not change
an existing one. Write a colon in an id or a name as %3A, and a percent sign as %25.

Examples:
  id=$(belljar session open workflow:run_123)          the session of a workflow
  id=$(belljar session open workflow:run_123:build)    a second session of the same workflow
  belljar session close --prefix workflow:run_123:     ends them all`
}

// Run finds or creates a session.
func (o *sessionOpen) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		scope, err := ident.Scope(o.Scope)
		if err != nil {
			return err
		}
		spec, err := o.Jar.spec(ctx, c, s)
		if err != nil {
			return err
		}
		spec.Scope = scope
		if err := c.readyImage(ctx, s, spec.BaseImage, spec.Runtime); err != nil {
			return err
		}
		session, created, err := s.Sessions().Open(ctx, belljar.SessionRequest{SessionSpec: spec})
		if err != nil {
			return field.InFlags(err)
		}
		if session, err = c.approved(ctx, s, session, created); err != nil {
			return err
		}
		c.warn(session)
		flags := o.Jar
		if flags.JSON = false; !created && !reflect.ValueOf(flags).IsZero() {
			c.Note("the session already exists: flags apply to a new session only")
		}
		if o.Jar.JSON {
			return show.JSON(c.stdout, struct {
				belljar.Session
				Created bool `json:"created"`
			}{session, created})
		}
		if created {
			c.aside("created; expires at %s unless it is used", session.ExpiresAt.Local().Format(time.DateTime))
		} else {
			c.aside("reused an existing session, created %s ago", show.RoughDuration(time.Since(session.CreatedAt)))
		}
		return show.Lines(c.stdout, []string{session.ID})
	})
}

// sessionList is belljar session ls.
type sessionList struct {
	All    bool   `short:"a" help:"Also those that have ended."`
	Prefix string `placeholder:"SCOPE" help:"Only those whose scope begins so: workflow:run_123:"`
	Limit  int    `short:"n" default:"50" placeholder:"N" help:"At most that many (default 50)."`
	Quiet  bool   `short:"q" help:"Print whole ids only."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Run lists sessions.
func (l *sessionList) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		if l.Limit < 1 {
			return mistake.New("", "--limit: must be more than 0, got %d", l.Limit)
		}
		page, err := l.list(ctx, s)
		if err != nil {
			return err
		}
		if page.HasMore {
			c.Note("%d of %d sessions; --limit shows more", len(page.Items), page.Total)
		}
		ids := make([]string, len(page.Items))
		for i, session := range page.Items {
			ids[i] = session.ID
		}
		if l.JSON {
			return show.JSON(c.stdout, page)
		}
		rows, shown, now := [][]string{}, ident.Short(ids), time.Now()
		for i, session := range page.Items {
			left := ""
			if !session.State.Ended() {
				left = "in " + show.RoughDuration(session.ExpiresAt.Sub(now))
			}
			rows = append(rows, []string{
				shown[i], string(session.State), session.Runtime, session.BaseImage, show.RoughDuration(now.Sub(session.CreatedAt)), left, session.ScopeKey,
			})
		}
		if l.Quiet {
			err = show.Lines(c.stdout, ids)
		} else {
			err = show.Table(c.stdout, "ID STATE RUNTIME IMAGE AGE EXPIRES SCOPE", rows)
		}
		if err != nil {
			return err
		}
		return nil
	})
}

// list requests the sessions, and returns each once: a new one shifts the pages.
func (l *sessionList) list(ctx context.Context, s belljar.Service) (belljar.SessionPage, error) {
	all := belljar.SessionPage{Items: []belljar.Session{}, Limit: l.Limit, HasMore: true}
	seen := map[string]bool{}
	q := belljar.SessionQuery{All: l.All, KeyPrefix: l.Prefix, Limit: min(l.Limit, belljar.MaxPage)}
	for ; all.HasMore && len(all.Items) < l.Limit; q.Offset += q.Limit {
		page, err := s.Sessions().List(ctx, q)
		if err != nil {
			return all, err
		}
		for _, x := range page.Items {
			if !seen[x.ID] {
				seen[x.ID] = true
				all.Items = append(all.Items, x)
			}
		}
		all.Total, all.HasMore = page.Total, page.HasMore && len(page.Items) > 0
	}
	if len(all.Items) > l.Limit {
		all.Items, all.HasMore = all.Items[:l.Limit], true
	}
	return all, nil
}

// sessionShow is belljar session show.
type sessionShow struct {
	ID   string `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	JSON bool   `name:"json" help:"Print the session as one JSON object."`
}

// Run shows a session.
func (o *sessionShow) Run(ctx context.Context, c *console) error {
	return c.inSession(ctx, o.ID, func(s belljar.Service, id string) error {
		session, err := s.Sessions().Get(ctx, id)
		if err != nil {
			return err
		}
		if o.JSON {
			return show.JSON(c.stdout, session)
		}
		l := session.Limits
		return show.Pairs(c.stdout, [][2]string{
			{"session", session.ID}, {"user", session.UserID}, {"scope", session.ScopeKey}, {"state", string(session.State)}, {"message", session.Message},
			{"runtime", strings.TrimSpace(session.Runtime + " " + session.RuntimeVersion)},
			{"isolation", session.Isolation + ", because " + session.RuntimeReason},
			{"image", strings.TrimSpace(session.BaseImage + " " + session.ImageDigest)},
			{"created", session.CreatedAt.Local().Format(time.DateTime)}, {"expires", session.ExpiresAt.Local().Format(time.DateTime)},
			{"limits", fmt.Sprintf("%g cpus, %d MiB memory, %d MiB workspace, %d processes, %gs a run",
				l.CPU, l.MemoryMB, l.WorkspaceMB, l.Pids, l.TimeoutSec)},
			{"policy", session.PolicyHash},
		})
	})
}

// sessionClose is belljar session close.
type sessionClose struct {
	IDs    []string          `arg:"" optional:"" name:"session" help:"The sessions: their ids, or the beginnings of them."`
	Prefix string            `placeholder:"SCOPE" help:"End every session whose scope begins with this text: workflow:run_123:"`
	Retain *quantity.Seconds `placeholder:"TIME" help:"With --prefix: cancel their runs and free their scopes now, and end the sessions after this time."`
	JSON   bool              `name:"json" help:"Print the ids as one JSON array."`
}

func (r *sessionClose) check() error {
	switch {
	case r.Prefix == "" && len(r.IDs) == 0:
		return mistake.New("name sessions, or a scope with --prefix", "nothing to close")
	case r.Prefix != "" && len(r.IDs) > 0:
		return mistake.New("", "--prefix does not go with sessions by id")
	case r.Prefix == "" && r.Retain != nil:
		return mistake.New("", "--retain goes with --prefix only")
	}
	return nil
}

// Run ends the given sessions and reports those that it cannot end.
func (r *sessionClose) Run(ctx context.Context, c *console) error {
	if err := r.check(); err != nil {
		return err
	}
	return c.remote(func(s belljar.Service) error {
		if r.Prefix != "" {
			closed, err := s.Sessions().CloseAll(ctx, belljar.CloseRequest{KeyPrefix: r.Prefix, RetainSec: value(r.Retain)})
			return c.printDone(r.JSON, append([]string{}, closed...), err)
		}
		ids, err := mistake.Each(r.IDs, func(prefix string) (string, error) {
			id, err := ident.Session(ctx, s, prefix)
			if err == nil {
				err = s.Sessions().Delete(ctx, id)
			}
			return id, err
		})
		return c.printDone(r.JSON, ids, err)
	})
}
