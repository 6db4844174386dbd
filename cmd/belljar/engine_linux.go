package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar/internal/blob/spool"
	logbook "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/service"
	store "github.com/belljar/belljar/internal/store/memory"
)

// sweepTime bounds the search for what killed processes have left behind.
const sweepTime = 5 * time.Second

// openEngine builds everything that a command needs, from the bottom up: runtime, stores, service. name is the
// runtime that will be asked for, "" for the default; installation is whose the sandboxes are, "" for those of all
// commands.
func openEngine(c *console, name, installation string) (*engine, error) {
	if err := checkRuntime(name, []string{native.Name}); err != nil {
		return nil, err
	}
	agent, err := c.agent()
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	rt, err := native.New(native.Options{Agent: agent, Installation: installation})
	if err != nil {
		return nil, fmt.Errorf("runtime %s: %w", native.Name, err)
	}
	records, blobs := store.New(), &spool.Store{}
	svc, err := service.New(service.Options{
		Runtimes:    []runtime.Runtime{rt},
		Store:       records,
		Logs:        logbook.New(),
		Blobs:       blobs,
		Require:     service.CoreProtections(),
		Lifetime:    runtime.LifetimeCreator,
		Concurrency: -1, // whoever sits here may do with his machine what he likes
	})
	if err != nil {
		return nil, errors.Join(err, rt.Close())
	}
	return &engine{
		Service: svc.As(service.Local()),
		Probes:  []prober{tested{rt}},
		Settle:  svc.Settle,
		Weigh:   scale{rt}.weigh,
		Gather:  scale{rt}.gather,
		Kill:    rt.Remove, // a run's sandbox has the run's name
		Close: func() error {
			err := svc.Close()
			ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
			defer cancel()
			_, swept := rt.Sweep(ctx)
			return errors.Join(err, swept, blobs.Close(), records.Close(), rt.Close())
		},
	}, nil
}

// tested is a runtime whose probe proves what it says.
type tested struct{ *native.Runtime }

func (t tested) Probe(ctx context.Context) (runtime.Capabilities, error) { return t.Test(ctx) }
