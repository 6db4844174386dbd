package api

import (
	"errors"
	"testing"
	"time"
)

func TestLogThrottle(t *testing.T) {
	var l LogThrottle
	at := time.Unix(1_800_000_000, 0)
	for i, step := range []struct {
		fault, cause string
		after        time.Duration
		due          bool
	}{
		{"store", "full", 0, true},
		{"store", "full", 0, false},
		{"disk", "full", 0, true},
		{"store", "damaged", 0, true},
		{"store", "damaged", 59 * time.Second, false},
		{"store", "damaged", time.Second, true},
		{"store", "damaged", time.Second, false},
	} {
		at = at.Add(step.after)
		if due := l.Due(step.fault, errors.New(step.cause), at); due != step.due {
			t.Errorf("step %d: %t", i, due)
		}
	}
}
