// Package install prepares the packages of a request: it installs them in a side sandbox that reaches only their index, and stores the
// result as a layer, which later sandboxes read.
package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/room"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/shelf"
	"github.com/belljar/belljar/internal/store"
)

// Options configures an [Installer].
type Options struct {
	Shelf *shelf.Shelf // nil disables packages
	Boxes *box.Maker
	// Egress decides about the network of an installation.
	Egress *admission.Egress
	// Mirrors are the operator's indexes, by tool. They replace the image's own. Only github has several.
	Mirrors map[string][]*url.URL
	TTL     time.Duration // how long resolved versions, and the expansions of presets, are reused
	Time    time.Duration // timeout of one installation
	MB      int           // maximum size of its result, and of its memory meanwhile
	// Room refuses to use the disk while it is full.
	Room func(ctx context.Context, user string) error
	Now  func() time.Time
	Log  *slog.Logger
}

// Mirrors parses a list of tool=URL.
func Mirrors(list []string) (map[string][]*url.URL, error) {
	mirrors := map[string][]*url.URL{}
	for _, pair := range list {
		name, text, _ := strings.Cut(pair, "=")
		u, err := parseIndex(text)
		if err == nil && u.User != nil {
			err = fmt.Errorf("has a password: a program could read it")
		}
		if p := presetOf(name); err == nil && p != nil && p.set != nil && len(mirrors[name]) > 0 {
			err = fmt.Errorf("is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("SANDBOX_PACKAGE_MIRRORS: the index of %.40q %w", name, err)
		}
		mirrors[name] = append(mirrors[name], u)
	}
	return mirrors, nil
}

// Installer prepares packages. It is safe for concurrent use.
type Installer struct {
	opts Options

	mu   sync.Mutex
	busy map[string]chan struct{} // keys of running installations; closed at the end
}

// New returns an installer.
func New(o Options) *Installer { return &Installer{opts: o, busy: map[string]chan struct{}{}} }

// Order is the packages and presets of one sandbox.
type Order struct {
	Caller    belljar.Caller
	Trust     belljar.TrustLevel
	Packages  belljar.Packages
	Egress    belljar.Egress          // of the request: an index may have its addresses
	Known     []belljar.NetworkPreset // expansions that the order's sandbox is already set up for; their tools are not queried again
	Placement *placement.Placement
	Made      func(runtime.Sandbox)   // receives the side sandbox; may be nil
	Record    func(egress.Event)      // receives the connections of the side sandbox; may be nil
	Charge    func(store.Charge)      // charges the caller for the CPU time and the traffic of an installation; may be nil
	Tell      func(tool, text string) // receives progress messages; may be nil
}

// Ready is the packages of one sandbox. They stay unchanged until Release.
type Ready struct {
	Layers []runtime.Layer
	Lock   belljar.PackageLock
	held   []*shelf.Layer
}

// With adds a held layer to packages that may be nil.
func (r *Ready) With(l runtime.Layer, held *shelf.Layer) *Ready {
	if r == nil {
		r = &Ready{}
	}
	r.Layers, r.held = append(r.Layers, l), append(r.held, held)
	return r
}

// Holding holds further layers without a path, with packages that may be nil. It ignores nil layers.
func (r *Ready) Holding(held ...*shelf.Layer) *Ready {
	if r == nil {
		r = &Ready{}
	}
	for _, l := range held {
		if l != nil {
			r.held = append(r.held, l)
		}
	}
	return r
}

// Release releases the packages. It may be called twice, and on nil.
func (r *Ready) Release() {
	if r == nil {
		return
	}
	for _, l := range r.held {
		l.Release()
	}
}

// Until releases the packages when a sandbox was removed. If ctx ends first, the next process holds them for it.
func (r *Ready) Until(ctx context.Context, sandbox runtime.Sandbox) {
	if r == nil || len(r.held) == 0 {
		return
	}
	go func() {
		if _, err := sandbox.Wait(ctx); err == nil && ctx.Err() == nil {
			r.Release()
			return
		}
		for _, l := range r.held {
			l.Leave()
		}
	}()
}

// Hold holds the layers of a sandbox of a previous process.
func (i *Installer) Hold(layers []runtime.Layer) *Ready {
	r := &Ready{Layers: layers}
	if i.opts.Shelf == nil {
		return r
	}
	for _, l := range layers {
		if held, err := i.opts.Shelf.Hold(l.Dir); err == nil && held != nil {
			r.held = append(r.held, held)
		}
	}
	return r
}

// Sweep removes what a killed process left. The layers of its sandboxes must already be held. It does nothing on nil.
func (i *Installer) Sweep() {
	if i == nil || i.opts.Shelf == nil {
		return
	}
	i.opts.Shelf.Sweep()
	i.sweepAnswers(filepath.Join(i.opts.Shelf.Dir, answersDir))
}

// Ready prepares packages. The image of the placement must be local. The error is a [belljar.Error], or the cause of ctx.
func (i *Installer) Ready(ctx context.Context, o Order) (r *Ready, err error) {
	if o.Packages.IsZero() {
		return nil, nil
	}
	if i.opts.Shelf == nil {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "packages cannot be kept here: there is no data folder",
			Details: map[string]any{"field": "packages"},
		}
	}
	if o.Tell == nil {
		o.Tell = func(string, string) {}
	}
	r = &Ready{}
	defer func() {
		if err != nil {
			r.Release()
		}
	}()
	for _, t := range tools() {
		wanted := t.wanted(o.Packages)
		if len(wanted) == 0 {
			continue
		}
		l, err := i.layer(ctx, t, wanted, o)
		if err != nil {
			return r, err
		}
		r.held = append(r.held, l)
		r.Layers = append(r.Layers, runtime.Layer{Name: t.name, Dir: l.Dir})
		if t.name == "pip" {
			r.Lock.Pip = l.Lock
		} else {
			r.Lock.Npm = l.Lock
		}
	}
	return r, nil
}

// everyone is the owner of shared layers.
const everyone = ""

// key is the cache key of a layer: all inputs that determine it, except the index's current versions, and its owner.
func (i *Installer) key(t *tool, wanted []string, o Order, owner string) string {
	image := o.Placement.Image
	identity := image.Digest
	if image.Ref == runtime.HostRef {
		identity = placement.HostProgram(o.Placement.Environment(""), t.programs...)
	}
	if identity == "" {
		identity = belljar.NewID() // it cannot be identified, so it is installed each time
	}
	mirror := ""
	if u := i.mirror(t); u != nil {
		mirror = u.String()
	}
	list := slices.Sorted(slices.Values(wanted))
	raw, _ := json.Marshal([]any{t.name, image.Ref == runtime.HostRef, identity, list, o.Packages.Build, mirror, owner == everyone, owner})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// sharable reports whether users may share a layer: its files come from the operator's index, verified by hashes, and none of the
// packages' programs has run.
func (i *Installer) sharable(t *tool, o Order) bool {
	return i.mirror(t) != nil && !o.Packages.Build
}

// mirror returns the operator's index; nil for the image's own.
func (i *Installer) mirror(t *tool) *url.URL {
	if list := i.opts.Mirrors[t.name]; len(list) > 0 {
		return list[0]
	}
	return nil
}

func hashed(lock []belljar.Package) bool {
	return !slices.ContainsFunc(lock, func(p belljar.Package) bool { return p.Hash == "" })
}

// layer returns the layer of a tool, and installs it if it is missing. Concurrent calls of one user for the same layer install it
// once. Users do not wait for each other: an installation is as slow as the limits of its request.
func (i *Installer) layer(ctx context.Context, t *tool, wanted []string, o Order) (*shelf.Layer, error) {
	key := i.key(t, wanted, o, o.Caller.ID)
	keys := []string{key}
	if i.sharable(t, o) {
		keys = []string{i.key(t, wanted, o, everyone), key}
	}
	begun := i.opts.Now()
	for {
		l, err := i.kept(keys, begun, o.Packages.Refresh)
		if l != nil || err != nil {
			return l, err
		}
		done, first := i.begin(key)
		if first {
			defer i.end(key)
			return i.make(ctx, t, keys, wanted, o)
		}
		o.Tell(t.name, "waiting for another installation of the same packages")
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// kept returns the cached layer whose versions were resolved last, if that was recently enough; with fresh, since begun.
func (i *Installer) kept(keys []string, begun time.Time, fresh bool) (last *shelf.Layer, err error) {
	since := i.opts.Now().Add(-i.opts.TTL)
	if fresh {
		since = begun
	}
	for _, key := range keys {
		l, err := i.opts.Shelf.Get(key)
		if err != nil {
			last.Release()
			return nil, noRoom("read the packages that are kept", err)
		}
		if l == nil {
			continue
		}
		if l.Resolved.Before(since) || last != nil && !l.Resolved.After(last.Resolved) {
			l.Release()
			continue
		}
		last.Release()
		last = l
	}
	return last, nil
}

// begin begins an installation, unless one is running. In that case the channel is closed at its end.
func (i *Installer) begin(key string) (<-chan struct{}, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if done := i.busy[key]; done != nil {
		return done, false
	}
	i.busy[key] = make(chan struct{})
	return nil, true
}

func (i *Installer) end(key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.busy[key])
	delete(i.busy, key)
}

// make installs packages and stores them.
func (i *Installer) make(ctx context.Context, t *tool, keys, wanted []string, o Order) (l *shelf.Layer, err error) {
	now := i.opts.Now()
	err = i.install(ctx, t, wanted, o, func(ctx context.Context, b *box.Box, lock []belljar.Package, whole bool) error {
		key := keys[0]
		if !hashed(lock) || !whole {
			key = keys[len(keys)-1]
		}
		if l, err = i.opts.Shelf.Get(key); err == nil && l != nil {
			if slices.Equal(l.Lock, lock) && !o.Packages.Refresh { // a new resolution had the same result
				return i.opts.Shelf.Renew(key, now)
			}
			l.Release()
		}
		files, err := b.Agent.OpenTar(ctx, b.File(layerFolder))
		if err != nil {
			return err
		}
		defer files.Close()
		l, err = i.opts.Shelf.Put(key, lock, now, room.Reader(files, func() error { return i.opts.Room(ctx, "") }))
		return err
	})
	if err != nil {
		l.Release()
		return nil, i.fault(ctx, t, err)
	}
	return l, nil
}
