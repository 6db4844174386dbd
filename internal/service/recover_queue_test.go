//go:build linux

package service_test

import (
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// Requests of queued runs count again after a restart, and all of them fit.
func TestRecoveredRequestsCount(t *testing.T) {
	var o service.Options
	b := newBench(t, one, func(o *service.Options) { o.UserRequests = 1 << 20 }, parts(&o))
	long := command("sleep", "1000")
	long.Stdin = strings.Repeat("x", 400<<10)
	var rows []store.Run
	for range 3 {
		row := leftRow(belljar.PhaseQueued, &long.RunSpec)
		leave(t, o, row, phases(belljar.PhaseQueued))
		rows = append(rows, row)
	}
	b.recover()
	if _, err := b.Start(b.context(), long); belljar.CodeOf(err) != belljar.CodeRateLimited {
		t.Errorf("another one: %v", err)
	}
	for _, row := range rows {
		if err := b.Cancel(b.context(), row.ID); err != nil {
			t.Fatal(err)
		}
		b.follow(row.ID)
	}
	for range 2 {
		run := b.start(long)
		defer b.Cancel(b.context(), run.ID)
	}
}
