package outcome

import (
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

func TestWallTimeIsToTheMicrosecond(t *testing.T) {
	for ms, want := range map[float64]float64{9.829451: 0.009829, 3.31483: 0.003315, 1000: 1, 0: 0} {
		if got := ResourceUsage(Ending{Exit: &wire.Exit{WallMS: ms}}, 7, 0, 0).WallTimeSec; got != want {
			t.Errorf("%v ms are %v s, want %v", ms, got, want)
		}
	}
}
