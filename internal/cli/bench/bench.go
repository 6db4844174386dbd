// Package bench measures this host: Belljar and the other ways of running /bin/true in isolation that it finds.
package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/local"
)

// Options select the subjects, and how often to measure them.
type Options struct {
	Rounds      int    // every subject is measured once in each
	Idle        int    // idle sandboxes whose memory is measured
	Crowd       int    // sandboxes to hold at the same time
	DockerImage string // image for docker run; "" skips it
}

// Timing is the duration of one operation.
type Timing struct {
	Name string  `json:"name"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	Min  float64 `json:"min_ms"`
	N    int     `json:"n"`
	// Ratio is its p50 over that of a run in process: above 1 is slower than Belljar.
	Ratio float64 `json:"ratio"`
}

// Report is the result of a benchmark.
type Report struct {
	Host    map[string]string  `json:"host"`
	Timings []Timing           `json:"timings"`
	Absent  []string           `json:"not_measured,omitempty"`
	Idle    *local.IdleWeight  `json:"idle,omitempty"`
	Crowd   *local.CrowdResult `json:"crowd,omitempty"`
}

// Run measures. All ways to run /bin/true take turns within one benchmark, because load on the machine varies more over the day
// than between programs.
func Run(ctx context.Context, e *local.Bench, o Options, note func(format string, args ...any)) (Report, error) {
	report := Report{Host: machineFacts()}
	subjects, absent, cleanup, err := subjectsHere(e, o.DockerImage)
	if err != nil {
		return report, err
	}
	defer cleanup()
	report.Absent = absent
	note("measuring %d ways to run /bin/true, %d rounds", len(subjects), o.Rounds)
	if report.Timings, err = race(ctx, e, subjects, o.Rounds); err != nil {
		return report, err
	}
	if o.Idle > 0 {
		note("weighing %d idle sandboxes", o.Idle)
		if report.Idle, err = e.MeasureIdle(ctx, o.Idle); err != nil {
			return report, err
		}
	}
	if o.Crowd > 0 {
		note("holding %d sandboxes at once", o.Crowd)
		if report.Crowd, err = e.MeasureCrowd(ctx, o.Crowd); err != nil {
			return report, err
		}
	}
	return report, nil
}

// race measures every subject once a round, after one round of warm-up. The order differs in each round: the work that a subject
// leaves, such as an engine's cleanup, must not always slow down the same successor.
func race(ctx context.Context, e *local.Bench, subjects []subject, rounds int) ([]Timing, error) {
	took := make([][]time.Duration, len(subjects))
	for round := range rounds + 1 {
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
			e.WaitIdle()
		}
	}
	list := make([]Timing, len(subjects))
	for i, s := range subjects {
		slices.Sort(took[i])
		list[i] = Timing{Name: s.name, P50: quantile(took[i], 0.5), P95: quantile(took[i], 0.95), Min: quantile(took[i], 0), N: len(took[i])}
	}
	for i := range list {
		list[i].Ratio = list[i].P50 / list[0].P50
	}
	return list, nil
}

// quantile returns the quantile q of sorted durations, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	i := int(q * float64(len(sorted)-1))
	return float64(sorted[i]) / float64(time.Millisecond)
}

// Print writes the report for people.
func (r Report) Print(out io.Writer) error {
	for _, name := range []string{"machine", "kernel", "cgroups", "user", "go"} {
		fmt.Fprintf(out, "%-8s %s\n", name, r.Host[name])
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nrun /bin/true\tp50 ms\tp95 ms\tmin ms\tn\ttimes belljar\t\n")
	for _, t := range r.Timings {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%d\t%.2f\t\n", t.Name, t.P50, t.P95, t.Min, t.N, t.Ratio)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, a := range r.Absent {
		fmt.Fprintf(out, "not measured: %s\n", a)
	}
	if r.Idle != nil {
		fmt.Fprintf(out, "\nidle sandbox, mean of %d: %.2f MiB charged to its cgroup, agent's share of memory %.2f MiB\n",
			r.Idle.Sandboxes, mib(r.Idle.Cgroup), mib(r.Idle.AgentPSS))
	}
	if r.Crowd != nil {
		fmt.Fprintf(out, "%d sandboxes at once: made in %.0f ms, removed in %.0f ms, %d things left over%s\n",
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

// subjectsHere returns the subjects available on this host, Belljar's first, and the reason for each one that is missing.
func subjectsHere(e *local.Bench, dockerImage string) (list []subject, absent []string, cleanup func(), err error) {
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
	for _, peer := range peers(dir, dockerImage) {
		s, reason := peer()
		if reason != "" {
			absent = append(absent, reason)
			continue
		}
		list = append(list, s)
	}
	return list, absent, func() { os.RemoveAll(dir) }, nil
}

// runTrue is one cold run: it is accepted, its sandbox is created, the program runs, and the whole log is read.
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
