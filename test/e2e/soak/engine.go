//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob/spool"
	logbook "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/service"
	store "github.com/belljar/belljar/internal/store/memory"
)

// engine is belljar in this process, with its own installation.
type engine struct {
	belljar.Runs
	installation, runDir string
	close                func() error
}

func open(agent []byte) (*engine, error) {
	runDir, err := os.MkdirTemp("", "bj-") // short, because the path of a socket may have 107 bytes
	if err != nil {
		return nil, err
	}
	e := &engine{installation: fmt.Sprintf("soak-%d", os.Getpid()), runDir: runDir}
	rt, err := native.New(native.Options{Agent: bytes.NewReader(agent), RunDir: runDir, Installation: e.installation})
	if err != nil {
		return nil, err
	}
	blobs := &spool.Store{}
	svc, err := service.New(service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: store.New(), Logs: logbook.New(), Blobs: blobs, Require: service.CoreProtections(),
		Lifetime: runtime.LifetimeCreator, Concurrency: -1,
	})
	if err != nil {
		return nil, errors.Join(err, rt.Close())
	}
	e.Runs = svc.As(service.Local()).Runs()
	e.close = func() error { return errors.Join(svc.Close(), blobs.Close(), rt.Close()) }
	return e, nil
}

// left looks for control groups, folders, locks and sockets of a closed engine.
func (e *engine) left() error {
	var errs []error
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && filepath.Base(filepath.Dir(path)) == e.installation {
			errs = append(errs, fmt.Errorf("control group left: %s", path))
		}
		return nil // another process has removed it
	})
	entries, err := os.ReadDir(filepath.Join(e.runDir, native.Name, e.installation))
	if !errors.Is(err, fs.ErrNotExist) { // the runtime removes its empty folder
		errs = append(errs, err)
	}
	for _, entry := range entries {
		errs = append(errs, fmt.Errorf("left in the run folder: %s", entry.Name()))
	}
	return errors.Join(errs...)
}
