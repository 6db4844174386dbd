//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/runtime"
)

// Names in the folder of a snapshot.
const (
	templateName = "belljar.json" // the template
	stateName    = "state"        // gVisor's state, a folder
)

// saved is a snapshot's own description.
type saved struct {
	template
	Files map[string]string `json:"files"` // files of the state: SHA-256 by name
}

// Pause implements [runtime.Pauser].
func (s *sandbox) Pause(ctx context.Context) error { return s.order(ctx, orderPause, nil, "paused") }

// Resume implements [runtime.Pauser].
func (s *sandbox) Resume(ctx context.Context) error { return s.order(ctx, orderResume, nil, "running") }

// order sends an order to the keep. already is the state in which the order does nothing. An order that has begun is not interrupted: the
// kernel inside could execute it without runsc's knowledge.
func (s *sandbox) order(ctx context.Context, name string, file *os.File, already string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	conn, err := s.DialSocket(ctx, orderSocket)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = sendOrder(ctx, conn.(*net.UnixConn), name, file)
	if err != nil && already != "" && strings.Contains(err.Error(), "in state "+already) {
		return nil
	}
	if err != nil && s.ending() {
		return runtime.ErrGone
	}
	return err
}

// wake makes the agent read data that arrived while the kernel inside was saved. Such data alone wakes no process; the agent reads it with
// the next data. So wake opens a stream and closes it again.
func (s *sandbox) wake() {
	ctx, cancel := context.WithTimeout(context.Background(), wakeTime)
	defer cancel()
	if conn, err := s.Dial(ctx); err == nil {
		conn.Close()
	} // else the sandbox is gone, and no caller waits
}

// wakeTime bounds a dial of a keep that lives.
const wakeTime = 10 * time.Second

// Attach implements [runtime.Runtime]. A daemon may have died during a snapshot, which continues without it. The agent would not notice data
// that arrives meanwhile (see wake), so Attach waits for the snapshot's end.
func (r *Runtime) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	box, err := r.Rack.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	if conn, err := box.(*sandbox).DialSocket(ctx, orderSocket); err == nil {
		_ = sendOrder(ctx, conn.(*net.UnixConn), orderNone, nil) // the keep refuses it, but only after the order in progress
		conn.Close()
	} // else the sandbox is gone, which its next use reports
	return box, nil
}

// ending reports whether the keep is about to end.
func (s *sandbox) ending() bool {
	return errors.Is(s.Signal(0), unix.ESRCH)
}

// Snapshot implements [runtime.Snapshotter]. If ctx ends meanwhile, Snapshot still waits until the sandbox continues, and leaves nothing.
func (s *sandbox) Snapshot(ctx context.Context, dir string) (err error) {
	if s.Base <= 0 {
		return &runtime.StepError{Step: stepSnapshot, Err: errors.New("its users are unknown")}
	}
	f, err := openState(dir, true)
	if err != nil {
		return runtime.FailedStep(stepSnapshot, err, "")
	}
	defer f.file.Close()
	defer func() {
		if err != nil {
			os.RemoveAll(filepath.Join(dir, stateName))
		}
	}()
	// The processes that write to it have no rights here. They reach it by descriptor: the folder above is closed to them.
	if err := f.file.Chmod(0o777); err != nil {
		return runtime.FailedStep(stepSnapshot, err, "")
	}
	err = s.order(ctx, orderSave, f.file, "")
	s.wake()
	if err != nil {
		return runtime.FailedStep(stepSnapshot, err, "")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.file.Chmod(0o755); err != nil {
		return runtime.FailedStep(stepSnapshot, err, "")
	}
	sums, err := f.sums()
	if err != nil {
		return runtime.FailedStep(stepSnapshot, err, "")
	}
	text, err := json.Marshal(saved{s.template, sums})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, templateName), text, 0o600)
	}
	if err != nil {
		return runtime.FailedStep(stepSnapshot, err, "")
	}
	return nil
}

// Restore implements [runtime.Restorer].
func (r *Runtime) Restore(ctx context.Context, spec runtime.Spec, dir string) (runtime.Sandbox, error) {
	text, err := os.ReadFile(filepath.Join(dir, templateName))
	if err != nil {
		return nil, &runtime.StepError{Step: stepSnapshot, Err: fmt.Errorf("no snapshot: %w", err)}
	}
	var was saved
	if err := json.Unmarshal(text, &was); err != nil {
		return nil, &runtime.StepError{Step: stepSnapshot, Err: fmt.Errorf("%s: %w", templateName, err)}
	}
	spec.Lease = time.Duration(was.LeaseMS) * time.Millisecond
	is, err := r.templateOf(spec)
	if err != nil {
		return nil, err
	}
	if err := fits(was.template, is); err != nil {
		return nil, runtime.FailedStep(stepSnapshot, err, "")
	}
	f, err := openState(dir, false)
	if err != nil {
		return nil, runtime.FailedStep(stepSnapshot, err, "")
	}
	defer f.file.Close()
	if err := f.intact(was.Files); err != nil {
		return nil, runtime.FailedStep(stepSnapshot, err, "")
	}
	return r.create(ctx, spec, f)
}

// sized describes a workspace for people.
func sized(w runtime.Workspace) string {
	text := fmt.Sprintf("%d MiB and %d inodes", w.Bytes>>20, w.Inodes)
	if w.Exec {
		text += ", to execute programs in"
	}
	return text
}

// fits refuses a sandbox that a snapshot cannot become.
func fits(was, is template) error {
	differ := func(what string, was, is any) error {
		return fmt.Errorf("it was saved with %s %v, and not %v", what, was, is)
	}
	switch {
	case reflect.DeepEqual(was, is):
		return nil
	case was.GVisor != is.GVisor:
		return differ("gVisor", was.GVisor, is.GVisor)
	case was.Platform != is.Platform:
		return differ("the platform", was.Platform, is.Platform)
	case was.Agent != is.Agent:
		return errors.New("it was saved by another belljar: its agent is another program")
	case was.Image != is.Image:
		return differ("the image", was.Image, is.Image)
	case was.User != is.User:
		return differ("the user", was.User, is.User)
	case was.Workspace != is.Workspace:
		return differ("a workspace of", sized(was.Workspace), sized(is.Workspace))
	case !slices.Equal(was.Layers, is.Layers):
		return errors.New("it was saved with other packages, or other installations of them")
	}
	return differ("limits of", limited(was), limited(is))
}

// limited describes the limits of a sandbox for people.
func limited(t template) string {
	return fmt.Sprintf("%d MiB of /tmp, %d inodes and %d processes", t.TmpMB, t.Inodes, t.Pids)
}
