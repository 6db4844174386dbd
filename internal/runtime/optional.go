package runtime

import (
	"context"
	"time"

	"github.com/belljar/belljar"
)

// As finds what r, or what it decorates, can do beyond [Runtime]: an [Imager], a [Claimer], a [Tester] … A decorator says
// what is below it by a method Unwrap() Runtime.
func As[T any](r Runtime) (T, bool) {
	for r != nil {
		if t, ok := r.(T); ok {
			return t, true
		}
		d, ok := r.(interface{ Unwrap() Runtime })
		if !ok {
			break
		}
		r = d.Unwrap()
	}
	var none T
	return none, false
}

// Imager is a runtime whose engine keeps images of its own, besides those that Belljar unpacks.
type Imager interface {
	// Image finds an image of the engine by a name or digest and fetches nothing; [ErrNoImage] if it is missing.
	Image(ctx context.Context, ref string) (Root, error)
	// Pull has the engine fetch an image, whether it has one of that name or not, and returns when it is there. progress
	// may be nil. An image that the registry does not have, or not for us, is a [belljar.CodeImageUnavailable] error.
	Pull(ctx context.Context, ref string, progress func(belljar.ImageProgress)) (Root, error)
	// Images lists what the engine has.
	Images(ctx context.Context) ([]belljar.Image, error)
}

// Releaser is a runtime that may hold on to images although no caller's sandbox has them, as for sandboxes that are made ahead.
type Releaser interface {
	// Release releases the image with that digest, and reports whether there was anything to release. It returns when
	// that is gone.
	Release(ctx context.Context, digest string) bool
}

// Pauser is a [Sandbox] whose processes, the agent among them, can be stopped and set going again. Stopped, it takes no
// processor time; its lease continues. Both are idempotent.
type Pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// MemoryLimiter is a [Sandbox] in which programs can have less memory than it was made with, for a time.
type MemoryLimiter interface {
	// LimitMemory has programs held at that many MiB, at most those of the sandbox's [Spec], from its return on. It fails
	// where they hold more.
	LimitMemory(ctx context.Context, mb int) error
}

// Snapshotter is a [Sandbox] whose state can be saved: memory, files and processes.
type Snapshotter interface {
	// Snapshot writes the state into an empty folder, which only this runtime can read. The sandbox continues.
	Snapshot(ctx context.Context, dir string) error
}

// StepSnapshot is the step of a [StepError] of a snapshot that cannot be made, or does not fit what it is to be restored to.
const StepSnapshot = "snapshot"

// Restorer is a [Runtime] that makes sandboxes from what a [Snapshotter] has saved.
type Restorer interface {
	// Restore is Create, with the processes and files of a snapshot. spec has the image, workspace and limits of the
	// sandbox that was saved, and another id. The agent's lease is the one that was saved. Many may be made of one snapshot.
	Restore(ctx context.Context, spec Spec, dir string) (Sandbox, error)
}

// Bounded is a runtime that has one bound on the memory of all its sandboxes together, and of those of other runtimes of its
// installation that have it too.
type Bounded interface {
	// Installation is nil where there is no bound.
	Installation() Installation
}

// Installation is all sandboxes together.
type Installation interface {
	Bound() int64         // bytes; 0 for none
	Used() (int64, error) // bytes in use, files in memory included
	// Watch returns a watch of the memory in use, which the kernel wakes at parts of the bound, in per cent. With an error it
	// never wakes.
	Watch(percent ...int64) (Watch, error)
}

// Watch is for one goroutine.
type Watch interface {
	// Wait returns when there is something to look at, and after a time in any case.
	Wait(ctx context.Context, atMost time.Duration)
	Close()
}

// Yielder is a runtime that may hold memory without a request, as for sandboxes that are made ahead.
type Yielder interface {
	// Yield gives it back, and reports whether there was any.
	Yield() bool
}
