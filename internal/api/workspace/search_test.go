package workspace

import (
	"testing"
	"testing/synctest"
	"time"
)

// A pattern that takes long to compare ends the search with what it has found.
func TestSlowPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := finds{Path: "."}
		out.choose([]find{{Path: "a"}, {Path: "b/c"}, {Path: "d"}}, func(string) bool {
			time.Sleep(lookTime*2/3 + 1)
			return true
		})
		if len(out.Results) != 2 || out.cut != (cut{true, "time_limited"}) {
			t.Errorf("%+v", out)
		}
	})
}
