//go:build linux

package service_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// errAway is the only response of an unavailable engine.
var errAway = errors.New("the engine is away")

// distant is a runtime whose engine can be unavailable.
type distant struct {
	runtime.Runtime
	away *atomic.Bool
}

func (d distant) Probe(ctx context.Context) (runtime.Capabilities, error) {
	if d.away.Load() {
		return runtime.Capabilities{Reasons: []runtime.Reason{{Code: "away", Detail: errAway.Error()}}}, nil
	}
	return d.Runtime.Probe(ctx)
}

func (d distant) List(ctx context.Context) ([]string, error) {
	if d.away.Load() {
		return nil, errAway
	}
	return d.Runtime.List(ctx)
}

func (d distant) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	if d.away.Load() {
		return nil, errAway
	}
	return d.Runtime.Attach(ctx, id)
}

func (d distant) Remove(ctx context.Context, id string) error {
	if d.away.Load() {
		return errAway
	}
	return d.Runtime.Remove(ctx, id)
}

// Sandboxes on an engine that is unavailable when the server starts are reported as lost, and removed when the engine is
// back. Newer sandboxes stay.
func TestEngineIsBackAfterTheStart(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	left := p.open()
	p.kill()

	var away atomic.Bool
	away.Store(true)
	next := w.boot(func(o *service.Options) { o.Runtimes[0] = distant{o.Runtimes[0], &away} })
	next.state(left.ID, belljar.SessionLost)
	next.service.Reap(next.context())
	away.Store(false)
	stays := next.open()
	for range 2 {
		next.service.Reap(next.context())
	}
	if ids, err := w.runtime().List(next.context()); err != nil || !slices.Equal(ids, []string{stays.ID}) {
		t.Errorf("%v, %v: instead of %s alone", ids, err, stays.ID)
	}
	next.state(stays.ID, belljar.SessionActive)
	next.end(stays)
}
