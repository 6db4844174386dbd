package cli

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/notice"
)

// psCommand is belljar ps.
type psCommand struct {
	All      bool   `short:"a" help:"Also runs that have ended."`
	Limit    int    `short:"n" default:"50" placeholder:"N" help:"At most N runs, newest first (default 50)."`
	Phase    string `placeholder:"PHASE" help:"Only runs in this phase: queued, starting, running, completed, failed, killed, timed_out."`
	Session  string `placeholder:"ID" help:"Only runs in this session."`
	Image    string `placeholder:"REF" help:"Only runs of this image."`
	Runtime  string `placeholder:"NAME" help:"Only runs on this runtime."`
	User     string `placeholder:"ID" help:"Runs of this user (operators only)."`
	AllUsers bool   `help:"Runs of all users (operators only)."`
	Quiet    bool   `short:"q" help:"Print whole ids only."`
	JSON     bool   `name:"json" help:"Print one JSON object."`
}

func (p *psCommand) Help() string {
	return `Examples:
  belljar ps                       runs that have not ended
  belljar ps --all --limit 5       the last five runs
  belljar ps -q | xargs belljar cancel`
}

// Run lists runs.
func (p *psCommand) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		if p.Limit < 1 {
			return mistake.New("", "--limit: must be more than 0, got %d", p.Limit)
		}
		if p.Session != "" {
			var err error
			if p.Session, err = ident.Session(ctx, s, p.Session); err != nil {
				return err
			}
		}
		page, err := p.list(ctx, s)
		if err != nil {
			return err
		}
		if page.HasMore {
			c.Note("%d of %d runs; --limit shows more", len(page.Items), page.Total)
		}
		if p.JSON {
			return show.JSON(c.stdout, page)
		}
		if p.Quiet {
			err = show.Lines(c.stdout, idsOf(page.Items))
		} else {
			err = show.Table(c.stdout, p.header(), p.rows(page.Items, time.Now()))
		}
		if err != nil {
			return err
		}
		if len(page.Items) == 0 && !p.All && p.Phase == "" && !p.Quiet {
			c.aside("no runs; --all lists ended runs, too")
		}
		return nil
	})
}

// list requests the runs: in all phases together, in one phase, or in each phase that is not final.
func (p *psCommand) list(ctx context.Context, s belljar.Service) (belljar.RunPage, error) {
	phases := []belljar.Phase{belljar.PhaseQueued, belljar.PhaseStarting, belljar.PhaseRunning}
	switch {
	case p.Phase != "":
		phases = []belljar.Phase{belljar.Phase(p.Phase)}
	case p.All:
		phases = []belljar.Phase{""}
	}
	all := belljar.RunPage{Items: []belljar.Run{}, Limit: p.Limit}
	seen := map[string]bool{} // a run may change its phase between requests
	for _, phase := range phases {
		for offset := 0; offset < p.Limit; {
			page, err := p.ask(ctx, s, belljar.RunQuery{
				UserID: p.User, Phase: phase, SessionID: p.Session, BaseImage: p.Image, Runtime: p.Runtime,
				Limit: min(p.Limit-offset, belljar.MaxPage), Offset: offset,
			})
			if err != nil {
				return all, err
			}
			for _, run := range page.Items {
				if !seen[run.ID] {
					seen[run.ID] = true
					all.Items = append(all.Items, run)
				}
			}
			if offset == 0 {
				all.Total += page.Total
			}
			if offset += len(page.Items); !page.HasMore || len(page.Items) == 0 {
				break
			}
		}
	}
	slices.SortStableFunc(all.Items, func(a, b belljar.Run) int { return b.CreatedAt.Compare(a.CreatedAt) })
	all.Items = all.Items[:min(len(all.Items), p.Limit)]
	all.HasMore = all.Total > len(all.Items)
	return all, nil
}

func (p *psCommand) ask(ctx context.Context, s belljar.Service, q belljar.RunQuery) (belljar.RunPage, error) {
	if p.User != "" || p.AllUsers {
		return s.Admin().Runs(ctx, q)
	}
	return s.Runs().List(ctx, q)
}

func (p *psCommand) header() string {
	if p.User != "" || p.AllUsers {
		return "ID USER PHASE EXIT AGE TOOK COMMAND"
	}
	return "ID PHASE EXIT AGE TOOK COMMAND"
}

func (p *psCommand) rows(runs []belljar.Run, now time.Time) (rows [][]string) {
	others := p.User != "" || p.AllUsers
	ids := idsOf(runs)
	if !others { // [ident.Run] finds only the caller's own runs by prefix
		ids = ident.Short(ids)
	}
	for i, run := range runs {
		row := []string{ids[i]}
		if others {
			row = append(row, run.UserID)
		}
		exit := ""
		if run.ExitCode != nil {
			exit = strconv.Itoa(*run.ExitCode)
		}
		rows = append(rows, append(row, string(run.Phase), exit, show.RoughDuration(now.Sub(run.CreatedAt)), took(run, now), commandLine(run.Command)))
	}
	return rows
}

// took returns how long a run has lasted.
func took(run belljar.Run, now time.Time) string {
	switch {
	case run.StartedAt == nil:
		return ""
	case run.FinishedAt == nil:
		return show.RoughDuration(now.Sub(*run.StartedAt))
	}
	return run.FinishedAt.Sub(*run.StartedAt).Round(time.Millisecond).String()
}

// mostCommand is the length of a command in lists, in characters.
const mostCommand = 60

// commandLine returns a command as the user could type it, on one line.
func commandLine(argv []string) string {
	line := []rune(notice.OneLine(show.Command(argv)))
	if len(line) > mostCommand {
		line = append(line[:mostCommand-1], '…')
	}
	return string(line)
}

func idsOf(runs []belljar.Run) []string {
	ids := make([]string, len(runs))
	for i, run := range runs {
		ids[i] = run.ID
	}
	return ids
}
