//go:build linux

// Command soak makes very many sandboxes in one process, one after the other or concurrently, and compares the
// host before and after. It prints everything that was left, and then exits with status 1.
//
// It is a program and not a test because a process with a race detector takes ten times as long to fork.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	agent := flag.String("agent", "", "the agent's `binary`")
	consecutive := flag.Int("consecutive", 0, "how many, one after the other")
	parallel := flag.Int("parallel", 0, "how many that all live at the same time")
	flag.Parse()
	binary, err := os.ReadFile(*agent)
	if err != nil {
		return err
	}
	// A process that outlives its parent becomes a child of this process, and is therefore visible.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	// After a few runs, Go and the engine have made their one-time allocations.
	if err := soak(ctx, binary, 3, 0); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	before, err := observe()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := soak(ctx, binary, *consecutive, *parallel); err != nil {
		return err
	}
	after, err := observe()
	if err != nil {
		return err
	}
	fmt.Printf("%d runs in %.1f s\n", *consecutive+*parallel, time.Since(start).Seconds())
	return after.grown(before)
}

// soak makes the runs in a separate engine, closes it, and checks what that left.
func soak(ctx context.Context, agent []byte, consecutive, parallel int) (err error) {
	e, err := open(agent)
	if err != nil {
		return err
	}
	defer os.RemoveAll(e.runDir)
	for i := range consecutive {
		if runErr := e.run(ctx, i); runErr != nil {
			err = runErr
			break
		}
	}
	if err == nil && parallel > 0 {
		err = e.together(ctx, parallel)
	}
	if closed := e.close(); closed != nil {
		return errors.Join(err, fmt.Errorf("close: %w", closed))
	}
	return errors.Join(err, e.left())
}

// ample is a time limit for short operations on a busy machine, in seconds.
const ample = 600

// run runs one command to its end.
func (e *engine) run(ctx context.Context, i int) error {
	run, err := e.Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", Command: []string{"/bin/true"}, TimeoutSec: ample, StartupTimeoutSec: ample,
	}})
	if err != nil {
		return fmt.Errorf("run %d: %w", i, err)
	}
	return e.follow(ctx, i, run.ID, func(belljar.Frame) {})
}

// follow reads a run to its end, which must be successful.
func (e *engine) follow(ctx context.Context, i int, id string, saw func(belljar.Frame)) error {
	for frame, err := range e.Frames(ctx, id, 1) {
		if err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
		saw(frame)
	}
	run, err := e.Get(ctx, id)
	if err != nil {
		return fmt.Errorf("run %d: %w", i, err)
	}
	if run.Phase != belljar.PhaseCompleted {
		return fmt.Errorf("run %d ended %s %s: %s", i, run.Phase, run.ReasonCode, run.Message)
	}
	return nil
}

// together makes n runs whose programs wait for the end of their input, which comes when all of them run.
func (e *engine) together(ctx context.Context, n int) error {
	var ready, done sync.WaitGroup
	all := make(chan struct{})
	failures := make(chan error, n)
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			arrived := sync.OnceFunc(ready.Done)
			defer arrived() // a failed run must not block the others
			stdin, feed := io.Pipe()
			defer feed.Close()
			run, err := e.Start(ctx, belljar.RunRequest{
				RunSpec: belljar.RunSpec{
					SpecVersion: belljar.SpecVersion, BaseImage: "host", Command: []string{"/bin/sh", "-c", "echo ready; cat"},
					TimeoutSec: ample, StartupTimeoutSec: ample,
				},
				Input: stdin,
			})
			if err != nil {
				failures <- fmt.Errorf("run %d: %w", i, err)
				return
			}
			go func() {
				<-all
				feed.Close()
			}()
			failures <- e.follow(ctx, i, run.ID, func(f belljar.Frame) {
				if bytes.Contains(f.Output, []byte("ready")) {
					arrived()
				}
			})
		})
	}
	ready.Wait()
	close(all)
	done.Wait()
	close(failures)
	var errs []error
	for err := range failures {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
