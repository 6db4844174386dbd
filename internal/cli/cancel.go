package cli

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// cancelCommand is belljar cancel.
type cancelCommand struct {
	IDs  []string `arg:"" name:"run" help:"The runs: their ids, or the beginnings of them."`
	JSON bool     `name:"json" help:"Print the runs as one JSON array."`
}

func (k *cancelCommand) Help() string {
	return `The programs get TERM, a grace period, then KILL. The command prints the ids of the runs that were in progress.`
}

// Run cancels the given runs and reports those that it cannot cancel.
func (k *cancelCommand) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		runs := []belljar.Run{}
		var failed []error
		for _, prefix := range k.IDs {
			run, under, err := cancel(ctx, s, prefix)
			switch {
			case err != nil:
				failed = append(failed, mistake.In(prefix, err))
				continue
			case !k.JSON && under:
				fmt.Fprintln(c.stdout, run.ID)
			case !k.JSON:
				c.Note("%s had ended: %s", run.ID, run.Phase)
			}
			runs = append(runs, run)
		}
		if k.JSON && len(failed) == 0 {
			return show.JSON(c.stdout, runs)
		}
		return mistake.Of(runs, failed)
	})
}

// cancel cancels one run. It returns the run's new state, and whether it was still active.
func cancel(ctx context.Context, s belljar.Service, prefix string) (run belljar.Run, under bool, err error) {
	id, err := ident.Run(ctx, s, prefix)
	if err != nil {
		return run, false, err
	}
	if run, err = s.Runs().Get(ctx, id); err != nil || run.Phase.Terminal() {
		return run, false, err
	}
	if err = s.Runs().Cancel(ctx, id); err != nil {
		return run, false, err
	}
	run, err = s.Runs().Get(ctx, id)
	return run, true, err
}
