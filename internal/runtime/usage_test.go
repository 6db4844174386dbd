package runtime_test

import (
	"testing"

	"github.com/belljar/belljar/internal/runtime"
)

func TestLessAgent(t *testing.T) {
	for name, tt := range map[string]struct {
		pids, peak, tasks, limit int64
		wantPids, wantPeak       int64
		refused, low             bool
	}{
		"none":                {pids: 9, peak: 12, wantPids: 9, wantPeak: 12},
		"below the limit":     {pids: 9, peak: 12, tasks: 5, limit: 64, wantPids: 4, wantPeak: 6, low: true},
		"at the limit":        {pids: 70, peak: 70, tasks: 5, limit: 64, wantPids: 65, wantPeak: 64, refused: true},
		"a few tasks less":    {pids: 66, peak: 67, tasks: 5, limit: 64, wantPids: 61, wantPeak: 61, refused: true},
		"a busy agent":        {pids: 20, peak: 70, tasks: 13, limit: 64, wantPids: 7, wantPeak: 56, refused: true},
		"a small limit":       {pids: 8, peak: 8, tasks: 5, limit: 4, wantPids: 3, wantPeak: 2},
		"a program of one":    {pids: 6, peak: 7, tasks: 5, limit: 1, wantPids: 1, wantPeak: 1},
		"no limit":            {pids: 70, peak: 70, tasks: 5, wantPids: 65, wantPeak: 64},
		"the agent has ended": {pids: 2, peak: 3, tasks: 5, limit: 64, wantPids: 0, wantPeak: 0, low: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := runtime.Usage{Pids: &tt.pids, PeakPids: &tt.peak, Sources: map[string]string{}}
			u.LessAgent(tt.tasks, tt.limit)
			if *u.Pids != tt.wantPids || *u.PeakPids != tt.wantPeak || (u.PidsRefused != nil) != tt.refused || u.PidsBelow != tt.low {
				t.Errorf("%d now, %d at most, refused %v, below the limit %v", *u.Pids, *u.PeakPids, u.PidsRefused != nil, u.PidsBelow)
			}
		})
	}
	empty := runtime.Usage{Sources: map[string]string{}}
	empty.LessAgent(5, 64)
	if empty.Pids != nil || empty.PeakPids != nil || len(empty.Sources) > 0 {
		t.Errorf("%+v", empty)
	}
}
