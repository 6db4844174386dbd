package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// sessionCommands are belljar session ….
type sessionCommands struct {
	Create sessionCreate `cmd:"" help:"Make a session and print its id."`
	LS     sessionList   `cmd:"" name:"ls" help:"List sessions."`
	Show   sessionShow   `cmd:"" help:"Show a session."`
	Upload sessionUpload `cmd:"" help:"Put files into a session's workspace."`
	Run    sessionRun    `cmd:"" help:"Run a program in a session."`
	RM     sessionRemove `cmd:"" name:"rm" help:"End sessions."`
}

// sessionCreate is belljar session create.
type sessionCreate struct {
	Image          string     `placeholder:"REF" help:"Root file system (default host)."`
	Runtime        string     `placeholder:"NAME" help:"Isolation; the server's default if it is not given."`
	Env            []string   `short:"e" sep:"none" placeholder:"K=V" help:"Set a variable for every run; K alone passes ours on. Repeatable."`
	TTL            *seconds   `name:"ttl" placeholder:"TIME" help:"How long it lives after its last use: 30m, 2h."`
	Timeout        *seconds   `placeholder:"TIME" help:"How long a run may take that does not say."`
	StartupTimeout *seconds   `placeholder:"TIME" help:"How long the sandbox may take to start."`
	CPUs           *cores     `name:"cpus" placeholder:"N" help:"Processors, for all runs together."`
	Memory         *mebibytes `short:"m" placeholder:"SIZE" help:"Memory, for all runs together: 512m, 1g."`
	Pids           *count     `placeholder:"N" help:"Processes and threads at once."`
	Workspace      *mebibytes `placeholder:"SIZE" help:"Size of /workspace."`
	WorkspaceExec  bool       `help:"Let programs in /workspace be executed."`
	AllowWeak      []string   `placeholder:"LIST" help:"Protections that may be missing (operators only)."`
	JSON           bool       `name:"json" help:"Print the session as one JSON object."`
}

// Help is the long help.
func (n *sessionCreate) Help() string {
	return `Examples:
  id=$(belljar session create --ttl 2h)
  belljar session upload $id --dir ./app
  belljar session run $id -- make -C app test
  belljar session rm $id`
}

// Run makes a session.
func (n *sessionCreate) Run(ctx context.Context, c *console) error {
	return c.remote(n.JSON, func(s belljar.Service) error {
		env, err := (&runCommand{Env: n.Env}).environment(c)
		if err != nil {
			return err
		}
		made, err := s.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
			SpecVersion: belljar.SpecVersion, Runtime: n.Runtime, BaseImage: cmp.Or(n.Image, runtime.HostRef), Env: env,
			Resources: belljar.Resources{
				CPU: value(n.CPUs), MemoryMB: int(whole(n.Memory)), Pids: int(whole(n.Pids)), WorkspaceMB: int(whole(n.Workspace)),
			},
			StartupTimeoutSec: value(n.StartupTimeout), TimeoutSec: value(n.Timeout), TTLSec: value(n.TTL),
			WorkspaceExec: n.WorkspaceExec, AllowWeak: n.AllowWeak,
		}})
		if err != nil {
			return inFlags(err)
		}
		if n.JSON {
			return writeJSON(c.stdout, made)
		}
		c.aside("it lives until %s, and longer when it is used", made.ExpiresAt.Local().Format(time.DateTime))
		return c.lines([]string{made.ID})
	})
}

// sessionList is belljar session ls.
type sessionList struct {
	All   bool `short:"a" help:"Also those that have ended."`
	Limit int  `short:"n" default:"50" placeholder:"N" help:"At most that many (default 50, at most 200)."`
	Quiet bool `short:"q" help:"Only ids, whole."`
	JSON  bool `name:"json" help:"Print one JSON object."`
}

// Run lists sessions.
func (l *sessionList) Run(ctx context.Context, c *console) error {
	return c.remote(l.JSON, func(s belljar.Service) error {
		if l.Limit < 1 || l.Limit > belljar.MaxPage {
			return mistake("", "--limit: %d is not between 1 and %d", l.Limit, belljar.MaxPage)
		}
		page, err := s.Sessions().List(ctx, belljar.SessionQuery{All: l.All, Limit: l.Limit})
		if err != nil {
			return err
		}
		ids := make([]string, len(page.Items))
		for i, session := range page.Items {
			ids[i] = session.ID
		}
		switch {
		case l.JSON:
			return writeJSON(c.stdout, page)
		case l.Quiet:
			return c.lines(ids)
		}
		rows, shown, now := [][]string{}, short(ids), time.Now()
		for i, session := range page.Items {
			left := ""
			if !session.State.Ended() {
				left = "in " + rough(session.ExpiresAt.Sub(now))
			}
			rows = append(rows, []string{
				shown[i], string(session.State), session.Runtime, session.BaseImage, rough(now.Sub(session.CreatedAt)), left,
			})
		}
		if err := c.table("ID STATE RUNTIME IMAGE AGE EXPIRES", rows); err != nil {
			return err
		}
		if page.HasMore {
			c.aside("%d of %d sessions; --limit shows more", len(page.Items), page.Total)
		}
		return nil
	})
}

// sessionShow is belljar session show.
type sessionShow struct {
	ID   string `arg:"" name:"session" help:"The session; the beginning of its id will do."`
	JSON bool   `name:"json" help:"Print the session as one JSON object."`
}

// Run shows a session.
func (o *sessionShow) Run(ctx context.Context, c *console) error {
	return c.remote(o.JSON, func(s belljar.Service) error {
		id, err := findSession(ctx, s, o.ID)
		if err != nil {
			return err
		}
		session, err := s.Sessions().Get(ctx, id)
		if err != nil {
			return err
		}
		if o.JSON {
			return writeJSON(c.stdout, session)
		}
		l := session.Limits
		return c.facts([][2]string{
			{"session", session.ID}, {"user", session.UserID}, {"state", string(session.State)}, {"message", session.Message},
			{"runtime", strings.TrimSpace(session.Runtime + " " + session.RuntimeVersion)},
			{"image", strings.TrimSpace(session.BaseImage + " " + session.ImageDigest)},
			{"created", session.CreatedAt.Local().Format(time.DateTime)}, {"expires", session.ExpiresAt.Local().Format(time.DateTime)},
			{"limits", fmt.Sprintf("%g cpus, %d MiB memory, %d MiB workspace, %d processes, %gs a run",
				l.CPU, l.MemoryMB, l.WorkspaceMB, l.Pids, l.TimeoutSec)},
			{"policy", session.PolicyHash},
		})
	})
}

// sessionRemove is belljar session rm.
type sessionRemove struct {
	IDs  []string `arg:"" name:"session" help:"The sessions; the beginning of an id will do."`
	JSON bool     `name:"json" help:"Print the ids as one JSON array."`
}

// Run ends every session that it can, and tells of those that it could not.
func (r *sessionRemove) Run(ctx context.Context, c *console) error {
	return c.remote(r.JSON, func(s belljar.Service) error {
		ids := []string{}
		var failed []error
		for _, prefix := range r.IDs {
			id, err := findSession(ctx, s, prefix)
			if err == nil {
				err = s.Sessions().Delete(ctx, id)
			}
			if err != nil {
				failed = append(failed, named(prefix, err))
				continue
			}
			ids = append(ids, id)
		}
		if !r.JSON {
			if err := c.lines(ids); err != nil {
				return err
			}
		} else if len(failed) == 0 {
			return writeJSON(c.stdout, ids)
		}
		return c.several(failed)
	})
}

// lines prints one thing a line.
func (c *console) lines(all []string) error {
	for _, line := range all {
		if _, err := fmt.Fprintln(c.stdout, line); err != nil {
			return err
		}
	}
	return nil
}
