// Package image implements the operations of callers on images: list, pull, import, tag, remove and prune, and the pull for
// a sandbox whose image is not local.
package image

import (
	"context"
	"log/slog"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/queue"
)

// Options configures [Images].
type Options struct {
	Store image.Library
	Rules *admission.Rules
	// Unused removes images not used for this long. Keep caps the bytes of all images, evicting least recently used first. 0
	// disables each.
	Unused time.Duration
	Keep   int64

	Room    func(ctx context.Context, user string) error  // refuses to use the disk while it is full
	Users   func(digest string) (sessions, runs []string) // that use an image
	Begin   func() (end func(), ok bool)                  // begins a pull that the service waits for; false while it closes
	Denied  func(caller belljar.Caller, err error)        // records a refusal
	Record  func(e event.Event)                           // records an event
	Closing context.Context                               // ends when the service closes
	Clock   clock.Clock
	Log     *slog.Logger
}

// Images manages the root file systems of sandboxes.
type Images struct {
	o       Options
	pulling *queue.Queue // orders the pulls
}

// New returns the images of a service.
func New(o Options) *Images {
	return &Images{o: o, pulling: queue.New(queue.Options{Slots: pullsAtOnce, Length: pullsWaiting, Now: o.Clock.Now})}
}
