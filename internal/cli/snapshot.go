package cli

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/quantity"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/snapshot"
)

// snapshotCommands are belljar snapshot ….
type snapshotCommands struct {
	Make   snapshotMake   `cmd:"" help:"Save the files of a session and print the snapshot's id."`
	LS     snapshotList   `cmd:"" name:"ls" help:"List snapshots."`
	RM     snapshotRemove `cmd:"" name:"rm" help:"Remove snapshots."`
	Export snapshotExport `cmd:"" help:"Write a snapshot to a tar file."`
	Import snapshotImport `cmd:"" help:"Make a snapshot from a tar file and print its id."`
}

func (snapshotCommands) Help() string {
	return `A snapshot is the files of a session's workspace, kept on the server.

Examples:
  id=$(belljar snapshot make $session --name before)
  belljar session create --snapshot $id           another session begins with the files
  belljar run --snapshot $id -- ls /snapshot      a run reads them`
}

// snapshotMake is belljar snapshot make.
type snapshotMake struct {
	ID   string `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Name string `placeholder:"NAME" help:"Name of the snapshot, which commands take in place of its id."`
	Live bool   `help:"Save memory and processes, too, on a runtime that can (gvisor)."`
	JSON bool   `name:"json" help:"Print the snapshot as one JSON object."`
}

// Run makes a snapshot.
func (m *snapshotMake) Run(ctx context.Context, c *console) error {
	return c.inSession(ctx, m.ID, func(s belljar.Service, id string) error {
		made, err := s.Snapshots().Make(ctx, id, belljar.SnapshotSpec{Name: m.Name, Live: m.Live})
		return snapshot.Print(c.stdout, c.aside, c.Note, made, m.JSON, field.InFlags(err))
	})
}

// snapshotList is belljar snapshot ls.
type snapshotList struct {
	JSON bool `name:"json" help:"Print one JSON array."`
}

// Run lists snapshots.
func (l *snapshotList) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		all, err := snapshot.All(ctx, s)
		switch {
		case err != nil:
			return err
		case l.JSON:
			return show.JSON(c.stdout, all)
		}
		return snapshot.Table(c.stdout, all, time.Now())
	})
}

// snapshotRemove is belljar snapshot rm.
type snapshotRemove struct {
	IDs  []string `arg:"" name:"snapshot" help:"The snapshots: their names, or the beginnings of their ids."`
	JSON bool     `name:"json" help:"Print the ids as one JSON array."`
}

// Run removes snapshots and reports those that it cannot remove.
func (r *snapshotRemove) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error { return snapshot.Remove(ctx, s, r.IDs, r.JSON, c.stdout) })
}

// snapshotExport is belljar snapshot export.
type snapshotExport struct {
	ID  string `arg:"" name:"snapshot" help:"The snapshot: its name, or the beginning of its id."`
	Out string `short:"o" placeholder:"FILE" help:"The tar file (default: standard output)."`
}

// Run exports a snapshot.
func (e *snapshotExport) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error { return snapshot.Export(ctx, s, e.ID, e.Out, c.stdout) })
}

// snapshotImport is belljar snapshot import.
type snapshotImport struct {
	File string `arg:"" name:"file" help:"A tar file, plain or compressed with gzip or zstd; - is standard input."`
	Name string `placeholder:"NAME" help:"Name of the snapshot, which commands take in place of its id."`
	JSON bool   `name:"json" help:"Print the snapshot as one JSON object."`
}

// Run imports a snapshot.
func (i *snapshotImport) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		made, err := snapshot.Import(ctx, s, belljar.SnapshotSpec{Name: i.Name}, i.File, c.stdin)
		return snapshot.Print(c.stdout, c.aside, c.Note, made, i.JSON, err)
	})
}

// sessionFork is belljar session fork.
type sessionFork struct {
	ID    string          `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Count *quantity.Count `placeholder:"N" help:"Number of copies, 1 to 32 (default 1)."`
	Live  bool            `help:"Copy memory and processes, too, on a runtime that can (gvisor)."`
	JSON  bool            `name:"json" help:"Print the answer as one JSON object."`
}

func (f *sessionFork) Help() string {
	return `A copy has the files, limits and network of the session, and the directory, variables and functions of its shell, if
that is bash, runs no command, and has at most about 256 KiB of them. It has no terminals and no secrets and, without
--live, no processes.`
}

// Run makes copies of a session and prints their ids.
func (f *sessionFork) Run(ctx context.Context, c *console) error {
	return c.inSession(ctx, f.ID, func(s belljar.Service, id string) error {
		made, err := s.Snapshots().Fork(ctx, id, belljar.ForkSpec{Count: int(whole(f.Count)), Live: f.Live})
		switch {
		case err != nil:
			return field.InFlags(err)
		case f.JSON:
			return show.JSON(c.stdout, made)
		}
		for _, note := range snapshot.ForkNotes(ctx, s, id, made) {
			c.Note("%s", note)
		}
		var ids []string
		for _, x := range made.Sessions {
			ids = append(ids, x.ID)
		}
		return show.Lines(c.stdout, ids)
	})
}

// sessionHibernate is belljar session hibernate.
type sessionHibernate struct {
	ID    string `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Force bool   `help:"End runs and terminals, and contexts and background processes that cannot be saved. Without it, these keep the session awake."`
	JSON  bool   `name:"json" help:"Print the session as one JSON object."`
}

// Run hibernates a session.
func (h *sessionHibernate) Run(ctx context.Context, c *console) error {
	return c.inSession(ctx, h.ID, func(s belljar.Service, id string) error {
		state, err := s.Sessions().Hibernate(ctx, id, belljar.HibernateSpec{Force: h.Force})
		if err != nil || !h.JSON {
			return field.InFlags(err)
		}
		return show.JSON(c.stdout, state)
	})
}
