package cli

import (
	"context"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/show"
)

// logsCommand is belljar logs.
type logsCommand struct {
	ID      string `arg:"" name:"run" help:"The run: its id, or the beginning of it."`
	Follow  bool   `short:"f" help:"Follow new output until the run ends."`
	FromSeq uint64 `placeholder:"N" help:"Begin with this frame; the first is 1."`
	Stdout  bool   `help:"Only standard output."`
	Stderr  bool   `help:"Only standard error."`
	JSON    bool   `name:"json" help:"Print the frames, one JSON object a line."`
}

func (l *logsCommand) Help() string {
	return `The run's standard output goes to standard output, and its standard error to standard error. With --follow, output
resumes where it stopped if the connection breaks.`
}

// Run prints a log.
func (l *logsCommand) Run(ctx context.Context, c *console) error {
	c.lines = true
	return c.remote(func(s belljar.Service) error {
		id, err := ident.Run(ctx, s, l.ID)
		if err != nil {
			return err
		}
		run, err := s.Runs().Get(ctx, id)
		if err != nil {
			return err
		}
		until := run.LastSeq
		if l.Follow || run.Phase.Terminal() {
			until = 0
		} else if until < max(l.FromSeq, 1) {
			return nil // no log yet
		}
		for frame, err := range s.Runs().Frames(ctx, id, max(l.FromSeq, 1)) {
			if err != nil {
				return err
			}
			if until > 0 && frame.Seq > until {
				return nil
			}
			if err := l.print(c, frame); err != nil {
				return fmt.Errorf("writing the log: %w", err)
			}
			if frame.Seq == until {
				return nil
			}
		}
		return nil
	})
}

// print prints a frame that the flags select.
func (l *logsCommand) print(c *console, f belljar.Frame) error {
	to := c.stdout
	switch f.Type {
	case belljar.FrameStdout:
		if l.Stderr && !l.Stdout {
			return nil
		}
	case belljar.FrameStderr:
		if l.Stdout && !l.Stderr {
			return nil
		}
		to = c.Stderr
	case belljar.FrameTruncated:
		if !l.JSON {
			c.Print("the log was cut here: %s", f.Reason)
			return nil
		}
	default:
		if message, ok := f.Data["message"].(string); ok && f.Event == belljar.EventError && !l.JSON {
			c.Print("%s", message) // after the program's log
		}
		if !l.JSON {
			return nil
		}
	}
	if l.JSON {
		return show.JSONLine(c.stdout, f)
	}
	_, err := to.Write(f.Output)
	return err
}
