package runtime

import (
	"context"
	"time"

	"github.com/belljar/belljar"
)

// As returns r, or a runtime that it decorates, as an optional interface: an [Imager], a [Claimer], a [Tester] … A decorator
// returns the runtime below it by a method Unwrap() Runtime.
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

// Imager is a runtime whose engine has images of its own, in addition to those that Belljar unpacks.
type Imager interface {
	// Image finds an image of the engine by a name or digest and does not pull it; [ErrNoImage] if it is missing.
	Image(ctx context.Context, ref string) (Root, error)
	// Pull makes the engine pull an image, even if it has one of that name, and returns when the pull is complete. progress may
	// be nil. If the registry lacks the image or denies access, the error has [belljar.CodeImageUnavailable].
	Pull(ctx context.Context, ref string, progress func(belljar.ImageProgress)) (Root, error)
	// Images lists the engine's images.
	Images(ctx context.Context) ([]belljar.Image, error)
}

// Releaser is a runtime that may hold images without a caller's sandbox, e.g. for sandboxes that are made in advance.
type Releaser interface {
	// Release releases the image with that digest, and reports whether the runtime held it. It returns when the release is
	// complete.
	Release(ctx context.Context, digest string) bool
}

// Pauser is a [Sandbox] whose processes, including the agent, can be paused and resumed. A paused sandbox takes no processor
// time; its lease continues. Both methods are idempotent.
type Pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// MemoryLimiter is a [Sandbox] whose programs can be limited to less memory for a time.
type MemoryLimiter interface {
	// LimitMemory limits programs to that many MiB, at most those of the sandbox's [Spec], before it returns. It fails
	// with [ErrMemoryHeld] if they hold more.
	LimitMemory(ctx context.Context, mb int) error
}

// Snapshotter is a [Sandbox] whose state can be saved: memory, files and processes.
type Snapshotter interface {
	// Snapshot writes the state into an empty folder, which only this runtime can read. The sandbox continues.
	Snapshot(ctx context.Context, dir string) error
}

// StepSnapshot is the step of a [StepError] of a snapshot that cannot be made, or does not fit the sandbox that it should
// become.
const StepSnapshot = "snapshot"

// Restorer is a [Runtime] that makes sandboxes from the snapshots of a [Snapshotter].
type Restorer interface {
	// Restore is Create, with the processes and files of a snapshot. spec has the image, workspace and limits of the saved
	// sandbox, and another id. The agent has the saved lease. One snapshot can be restored many times.
	Restore(ctx context.Context, spec Spec, dir string) (Sandbox, error)
}

// Bounded is a runtime with one memory limit for all its sandboxes together, including those of other Bounded runtimes of the
// same installation.
type Bounded interface {
	// Installation returns nil if there is no bound.
	Installation() Installation
}

// Installation is all sandboxes of an installation together.
type Installation interface {
	Bound() int64         // bytes; 0 for none
	Used() (int64, error) // bytes in use, including files in memory
	// Watch returns a watch of the memory in use. The kernel wakes it at the given percentages of the bound. Even with an error
	// the watch is usable, but the kernel never wakes it.
	Watch(percent ...int64) (Watch, error)
}

// Watch is for use by one goroutine.
type Watch interface {
	// Wait returns when the use may have changed, and at the latest after atMost.
	Wait(ctx context.Context, atMost time.Duration)
	Close()
}

// Yielder is a runtime that may hold memory without a request, e.g. for sandboxes that are made in advance.
type Yielder interface {
	// Yield frees that memory, and reports whether there was any.
	Yield() bool
}
