package template

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// lookEvery is the interval at which the progress of a build is polled.
const lookEvery = 500 * time.Millisecond

// follow shows the steps of a template's build and the output of its commands, until built is closed. It returns the run whose output it
// showed last.
func follow(ctx context.Context, w *notice.Writer, s belljar.Service, name string, built <-chan struct{}) (run string) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for step := ""; ; {
		select {
		case <-built:
			return run
		case <-tick.C:
		}
		x, err := s.Templates().Get(ctx, name)
		if err != nil || x.Building == step || x.Building == "" { // the build itself reports the error
			continue
		}
		step = x.Building
		if x.BuildRunID == "" {
			w.Note("template %s: %s", name, step)
			continue
		}
		run = x.BuildRunID
		w.Note("template %s: %s (run %s)", name, step, run)
		for f, err := range s.Runs().Frames(ctx, run, 1) {
			if err != nil {
				break
			}
			if f.Type == belljar.FrameStdout || f.Type == belljar.FrameStderr {
				_, _ = w.Stderr.Write(f.Output)
			}
		}
	}
}
