package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/local"
)

// benchCommand measures this host: Belljar beside the other ways of running /bin/true in isolation that it finds. All
// of them take turns in the same run, because the time of day changes a machine more than a program.
type benchCommand struct {
	Rounds   int    `default:"50" help:"Rounds; everything is measured once in each."`
	Idle     int    `default:"20" help:"Idle sandboxes to weigh."`
	Crowd    int    `default:"200" help:"Sandboxes to hold at once."`
	DockerOf string `name:"docker-image" placeholder:"IMAGE" help:"Also measure docker run of this image, which must have /bin/true."`
	JSON     bool   `name:"json" help:"Print one JSON object."`
	Report   string `placeholder:"FILE" help:"Also write that object to FILE."`
}

// timing is how long one thing took.
type timing struct {
	Name string  `json:"name"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	Min  float64 `json:"min_ms"`
	N    int     `json:"n"`
	// Ratio is its p50 over that of a run in process: above 1 is slower than Belljar.
	Ratio float64 `json:"ratio"`
}

// report is all that bench found out.
type benchReport struct {
	Host    map[string]string  `json:"host"`
	Timings []timing           `json:"timings"`
	Absent  []string           `json:"not_measured,omitempty"`
	Idle    *local.IdleWeight  `json:"idle,omitempty"`
	Crowd   *local.CrowdResult `json:"crowd,omitempty"`
}

// Run implements the command.
func (b *benchCommand) Run(ctx context.Context, c *console) error {
	if b.Rounds < 1 || b.Idle < 0 || b.Crowd < 0 {
		return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "bench counts must not be negative, and rounds at least 1"}
	}
	e, err := c.machine.OpenBench()
	if err != nil {
		return err
	}
	defer e.Close()
	report := benchReport{Host: machineFacts()}
	subjects, absent, cleanup, err := b.subjects(e)
	if err != nil {
		return err
	}
	defer cleanup()
	report.Absent = absent
	if report.Timings, err = b.race(ctx, c, e, subjects); err != nil {
		return err
	}
	if b.Idle > 0 {
		c.Note("weighing %d idle sandboxes", b.Idle)
		if report.Idle, err = e.Weigh(ctx, b.Idle); err != nil {
			return err
		}
	}
	if b.Crowd > 0 {
		c.Note("holding %d sandboxes at once", b.Crowd)
		if report.Crowd, err = e.Gather(ctx, b.Crowd); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if b.Report != "" {
		if err := os.WriteFile(b.Report, text, 0o644); err != nil {
			return err
		}
	}
	if b.JSON {
		_, err = c.stdout.Write(text)
		return err
	}
	return report.print(c)
}

// race measures every subject once a round, after a round that does not count. Each round has an order of its own: what a
// subject leaves to be done, as an engine's clearing up, must not always fall to the same one.
func (b *benchCommand) race(ctx context.Context, c *console, e *local.Bench, subjects []subject) ([]timing, error) {
	c.Note("measuring %d ways to run /bin/true, %d rounds", len(subjects), b.Rounds)
	took := make([][]time.Duration, len(subjects))
	for round := range b.Rounds + 1 {
		for _, i := range rand.Perm(len(subjects)) {
			s := subjects[i]
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			begin := time.Now()
			if err := s.run(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if d := time.Since(begin); round > 0 {
				took[i] = append(took[i], d)
			}
			e.Settle()
		}
	}
	list := make([]timing, len(subjects))
	for i, s := range subjects {
		slices.Sort(took[i])
		list[i] = timing{Name: s.name, P50: quantile(took[i], 0.5), P95: quantile(took[i], 0.95), Min: quantile(took[i], 0), N: len(took[i])}
	}
	for i := range list {
		list[i].Ratio = list[i].P50 / list[0].P50
	}
	return list, nil
}

// quantile is that of sorted durations, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	i := int(q * float64(len(sorted)-1))
	return float64(sorted[i]) / float64(time.Millisecond)
}

func (r benchReport) print(c *console) error {
	for _, name := range []string{"machine", "kernel", "cgroups", "user", "go"} {
		fmt.Fprintf(c.stdout, "%-8s %s\n", name, r.Host[name])
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nrun /bin/true\tp50 ms\tp95 ms\tmin ms\tn\ttimes belljar\t\n")
	for _, t := range r.Timings {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%d\t%.2f\t\n", t.Name, t.P50, t.P95, t.Min, t.N, t.Ratio)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, a := range r.Absent {
		fmt.Fprintf(c.stdout, "not measured: %s\n", a)
	}
	if r.Idle != nil {
		fmt.Fprintf(c.stdout, "\nidle sandbox, mean of %d: %.2f MiB charged to its cgroup, agent's share of memory %.2f MiB\n",
			r.Idle.Sandboxes, mib(r.Idle.Cgroup), mib(r.Idle.AgentPSS))
	}
	if r.Crowd != nil {
		fmt.Fprintf(c.stdout, "%d sandboxes at once: made in %.0f ms, gone in %.0f ms, %d things left over%s\n",
			r.Crowd.Sandboxes, r.Crowd.CreateMS, r.Crowd.DestroyMS, r.Crowd.Left, r.Crowd.LeftDetail)
	}
	return nil
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// subject is one way to run /bin/true.
type subject struct {
	name string
	run  func(ctx context.Context) error
}

// subjects are the ways found here, Belljar's first, and those that are missing with the reason.
func (b *benchCommand) subjects(e *local.Bench) (list []subject, absent []string, cleanup func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	list = []subject{
		{"belljar, in process", func(ctx context.Context) error { return runTrue(ctx, e.Runs()) }},
		{"belljar run, whole process", command(self, "run", "--quiet", "--", "/bin/true")},
		{"fork and exec, no isolation", command("/bin/true")},
	}
	dir, err := os.MkdirTemp("", "belljar-bench-")
	if err != nil {
		return nil, nil, nil, err
	}
	for _, peer := range peers(dir, b.DockerOf) {
		s, reason := peer()
		if reason != "" {
			absent = append(absent, reason)
			continue
		}
		list = append(list, s)
	}
	return list, absent, func() { os.RemoveAll(dir) }, nil
}

// runTrue is one cold run: accepted, made, executed, and its whole log read.
func runTrue(ctx context.Context, runs belljar.Runs) error {
	run, err := runs.Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: belljar.SpecVersion, BaseImage: "host", Command: []string{"/bin/true"}}})
	if err != nil {
		return err
	}
	for _, err := range runs.Frames(ctx, run.ID, 1) {
		if err != nil {
			return err
		}
	}
	if run, err = runs.Get(ctx, run.ID); err != nil {
		return err
	}
	if run.Phase != belljar.PhaseCompleted {
		return fmt.Errorf("run ended %s: %s", run.Phase, run.Message)
	}
	return nil
}
