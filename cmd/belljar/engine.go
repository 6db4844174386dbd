package main

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// engine is what stands behind the commands: here and now the service in this process, later also a client of a
// server.
type engine struct {
	Runs   belljar.Runs
	Probes []prober // the runtimes of this binary
	Close  func() error
}

// prober is the part of a runtime that doctor needs.
type prober interface {
	Name() string
	Probe(ctx context.Context) (runtime.Capabilities, error)
}
