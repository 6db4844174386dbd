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
	templateName = "belljar.json" // what it was made from
	stateName    = "state"        // gVisor's, a folder
)

// saved is what a snapshot states about itself.
type saved struct {
	template
	Files map[string]string `json:"files"` // of the state: SHA-256 by name
}

// Pause implements [runtime.Pauser].
func (s *sandbox) Pause(ctx context.Context) error { return s.order(ctx, orderPause, nil, "paused") }

// Resume implements [runtime.Pauser].
func (s *sandbox) Resume(ctx context.Context) error { return s.order(ctx, orderResume, nil, "running") }

// order has the keep do something. already is the state in which it need not be done. What is begun is not given up midway:
// the kernel inside would have done it, and runsc not know.
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

// wake has the agent look at what it was sent while the kernel inside was saved: that alone wakes no process, and what is in the
// pipe is read with whatever comes next, which is a stream that ends at once.
func (s *sandbox) wake() {
	ctx, cancel := context.WithTimeout(context.Background(), wakeTime)
	defer cancel()
	if conn, err := s.Dial(ctx); err == nil {
		conn.Close()
	} // else it is gone, and no caller waits
}

// wakeTime bounds a dial of a keep that lives.
const wakeTime = 10 * time.Second

// Attach implements [runtime.Runtime]. A daemon may have died while the kernel inside was saved, which goes on without it. What the agent is
// sent meanwhile it would not see until the next time (see wake), so that is waited for.
func (r *Runtime) Attach(ctx context.Context, id string) (runtime.Sandbox, error) {
	box, err := r.Rack.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	if conn, err := box.(*sandbox).DialSocket(ctx, orderSocket); err == nil {
		_ = sendOrder(ctx, conn.(*net.UnixConn), orderNone, nil) // it is refused, but not before the one that is executed is over
		conn.Close()
	} // else it is gone, as its next use finds
	return box, nil
}

// ending reports whether the keep is on its way out.
func (s *sandbox) ending() bool {
	return errors.Is(s.Signal(0), unix.ESRCH)
}

// Snapshot implements [runtime.Snapshotter]. If ctx ends meanwhile it still returns when the sandbox continues, and leaves nothing.
func (s *sandbox) Snapshot(ctx context.Context, dir string) (err error) {
	if s.Base <= 0 {
		return &runtime.StepError{Step: stepSnapshot, Err: errors.New("its users are unknown")}
	}
	f, err := openState(dir, true)
	if err != nil {
		return &runtime.StepError{Step: stepSnapshot, Err: err}
	}
	defer f.file.Close()
	defer func() {
		if err != nil {
			os.RemoveAll(filepath.Join(dir, stateName))
		}
	}()
	// Its writers have no rights here. They reach it by descriptor: the folder above is closed to them.
	if err := f.file.Chmod(0o777); err != nil {
		return &runtime.StepError{Step: stepSnapshot, Err: err}
	}
	err = s.order(ctx, orderSave, f.file, "")
	s.wake()
	if err != nil {
		return &runtime.StepError{Step: stepSnapshot, Err: err}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.file.Chmod(0o755); err != nil {
		return &runtime.StepError{Step: stepSnapshot, Err: err}
	}
	sums, err := f.sums()
	if err != nil {
		return &runtime.StepError{Step: stepSnapshot, Err: err}
	}
	text, err := json.Marshal(saved{s.template, sums})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, templateName), text, 0o600)
	}
	if err != nil {
		return &runtime.StepError{Step: stepSnapshot, Err: err}
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
		return nil, &runtime.StepError{Step: stepSnapshot, Err: err}
	}
	f, err := openState(dir, false)
	if err != nil {
		return nil, &runtime.StepError{Step: stepSnapshot, Err: err}
	}
	defer f.file.Close()
	if err := f.intact(was.Files); err != nil {
		return nil, &runtime.StepError{Step: stepSnapshot, Err: err}
	}
	return r.create(ctx, spec, f)
}

// sized is a workspace, for people.
func sized(w runtime.Workspace) string {
	text := fmt.Sprintf("%d MiB and %d inodes", w.Bytes>>20, w.Inodes)
	if w.Exec {
		text += ", to execute programs in"
	}
	return text
}

// fits refuses what a snapshot cannot become.
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
	return differ("the limits", [3]int{was.TmpMB, was.Inodes, was.Pids}, [3]int{is.TmpMB, is.Inodes, is.Pids})
}
