package template

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// lookEvery is the interval at which the progress of a build is polled.
const lookEvery = 500 * time.Millisecond

// progress shows the build of a template: its steps, and the output of its commands.
type progress struct {
	w     *notice.Writer
	s     belljar.Service
	name  string
	shown int    // commands with their output
	run   string // of the last of them
}

// follow shows the steps of a build until built is closed, and the output of its commands. A step that was too short to be polled is left out,
// but not a command.
func (p *progress) follow(ctx context.Context, built <-chan struct{}) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for step := ""; ; {
		select {
		case <-built:
			return
		case <-tick.C:
		}
		x, err := p.s.Templates().Get(ctx, p.name)
		if err != nil || x.Building == step || x.Building == "" { // the build itself reports the error
			continue
		}
		if step = x.Building; x.BuildRunID == "" {
			p.w.Note("template %s: %s", p.name, step)
		} else {
			p.commands(ctx, x.BuildRunID)
		}
	}
}

// commands shows the commands of a build that were not shown yet; run is one of them. Each is a run in the session of the build.
func (p *progress) commands(ctx context.Context, run string) {
	one, err := p.s.Runs().Get(ctx, run)
	if err != nil {
		return
	}
	page, err := p.s.Runs().List(ctx, belljar.RunQuery{SessionID: one.SessionID, Sort: "created_at:asc", Limit: belljar.MaxPage})
	if err != nil {
		return
	}
	all := slices.DeleteFunc(page.Items, func(r belljar.Run) bool { return r.Labels["template"] != p.name }) // others are its owner's
	for _, r := range all[min(p.shown, len(all)):] {
		p.w.Note("template %s: run[%d] (run %s)", p.name, p.shown, r.ID)
		p.shown, p.run = p.shown+1, r.ID
		for f, err := range p.s.Runs().Frames(ctx, r.ID, 1) {
			if err != nil {
				break
			}
			if f.Type == belljar.FrameStdout || f.Type == belljar.FrameStderr {
				_, _ = p.w.Stderr.Write(f.Output)
			}
		}
	}
}

// rest shows what is left of a build that has ended: commands that began and ended between two polls, and the output of the one that failed.
func (p *progress) rest(ctx context.Context, made belljar.Template, err error) {
	last, out := made.BuildRunID, ""
	var e *belljar.Error
	if errors.As(err, &e) {
		last, _ = e.Details["run_id"].(string)
		out, _ = e.Details["output"].(string)
	}
	if last != "" && last != p.run {
		p.commands(ctx, last)
	}
	if last != p.run { // it could not be read
		_, _ = io.WriteString(p.w.Stderr, out)
	}
}
