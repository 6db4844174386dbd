package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/bench"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// benchCommand is belljar bench.
type benchCommand struct {
	Rounds   int    `default:"50" help:"Rounds; everything is measured once in each."`
	Idle     int    `default:"20" help:"Idle sandboxes to weigh."`
	Crowd    int    `default:"200" help:"Sandboxes to hold at once."`
	DockerOf string `name:"docker-image" placeholder:"IMAGE" help:"Also measure docker run of this image, which must have /bin/true."`
	JSON     bool   `name:"json" help:"Print one JSON object."`
	Report   string `placeholder:"FILE" help:"Also write that object to FILE."`
}

// Run implements the command.
func (b *benchCommand) Run(ctx context.Context, c *console) error {
	if b.Rounds < 1 || b.Idle < 0 || b.Crowd < 0 {
		return mistake.New("", "bench counts must not be negative, and rounds at least 1")
	}
	e, err := c.machine.OpenBench()
	if err != nil {
		return err
	}
	defer e.Close()
	report, err := bench.Run(ctx, e, bench.Options{Rounds: b.Rounds, Idle: b.Idle, Crowd: b.Crowd, DockerImage: b.DockerOf}, c.Note)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	var failed error
	if b.Report != "" {
		failed = os.WriteFile(b.Report, text, 0o644)
	}
	switch { // a failure loses no measurements
	case !b.JSON:
		return errors.Join(report.Print(c.stdout), failed)
	case failed != nil:
		return cmp.Or[error](show.JSON(c.stdout, struct {
			bench.Report
			Error *belljar.Error `json:"error"`
		}{report, mistake.JSON(failed)}), exitStatus(c.fail(failed)))
	}
	return show.JSON(c.stdout, report)
}
