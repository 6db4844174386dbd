package image

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/registry"
	"github.com/belljar/belljar/internal/image/stream"
	"github.com/belljar/belljar/internal/runtime"
)

// Options is what a [Store] is made of.
type Options struct {
	// Path is the store's folder, made if it is missing. Several processes may use one at the same time. "" is a store that
	// knows only host.
	Path string
	// Aliases are the operator's names for what has another name here, as python:3.11-slim for belljar/python. They go before
	// all names in the store.
	Aliases map[string]string
	// Registries are the hosts, with a port unless it is 443 or 80, that may be talked to although their addresses are not
	// public, and over plain HTTP if they do not speak TLS. Others must have public addresses and TLS.
	Registries []string
	// MaxBytes and MaxFiles bound an unpacked image; 0 is 16 GiB and 2,000,000.
	MaxBytes int64
	MaxFiles int
	// Free returns the free bytes on the store's disk; nothing is unpacked that would leave less than MinFree of them. nil is no
	// watermark.
	Free    func() (uint64, error)
	MinFree uint64
	// FreeFiles returns how many files that disk has room for and for how many it was made; where it counts them and there
	// is a watermark, the last two in a hundred stay free. nil does not ask.
	FreeFiles func() (free, all uint64, err error)
	// StallTimeout is how long a registry may keep a pull waiting for its next kibibyte; 0 is 30 s.
	StallTimeout time.Duration

	// Keychain has the credentials for registries; nil is Docker's and Podman's configuration of the user.
	Keychain authn.Keychain
	// KeychainTimeout is how long the keychain may take for an answer; 0 is 30 s. Its programs may want to ask a person.
	KeychainTimeout time.Duration
	// Transport talks to registries in place of one that keeps away from addresses that are not public; for tests.
	Transport http.RoundTripper
	// Platform is what images must be for, as linux/arm64/v8; "" is this machine.
	Platform string
	// Logger logs what was repaired and what could not be deleted; nil discards.
	Logger *slog.Logger
	// Clock is nil for the real one.
	Clock func() time.Time
}

// Store keeps unpacked images. The zero value knows one image, host, the machine's own /usr. Safe for concurrent use,
// by several processes too.
type Store struct {
	o        Options
	platform manifest.Platform
	disk     disk
	index    index
	layers   layers
	uses     uses
	flights  flights
	net      *registry.Network
}

// The defaults of [Options].
const (
	defaultBytes = 16 << 30
	defaultFiles = 2_000_000
	defaultStall = 30 * time.Second
)

// Open opens the store at o.Path and removes what a process that was killed has left half done.
func Open(o Options) (*Store, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultBytes
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = defaultFiles
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = defaultStall
	}
	s := &Store{o: o, platform: manifest.LocalPlatform()}
	if o.Platform != "" {
		var err error
		if s.platform, err = manifest.ParsePlatform(o.Platform); err != nil {
			return nil, err
		}
	}
	if o.Path == "" {
		return s, nil
	}
	s.net = registry.New(registry.Options{
		Registries: o.Registries, StallTimeout: o.StallTimeout, Keychain: o.Keychain, KeychainTimeout: o.KeychainTimeout, Transport: o.Transport, Streams: layersAtOnce,
	})
	s.disk.o = &s.o
	s.index.disk, s.index.path, s.index.most = &s.disk, s.disk.in(indexFile), mostIndex
	s.layers = layers{disk: &s.disk, index: &s.index, large: make(chan struct{}, stream.LargeWindows)}
	for _, dir := range []string{"", imagesFolder, layersFolder, tempFolder, locksFolder} {
		// Every user may pass through these folders, as far as those above allow it, and list none.
		if err := os.MkdirAll(s.disk.in(dir), 0o711); err != nil {
			return nil, fault.Wrap("make the store's folders", err)
		}
		if err := os.Chmod(s.disk.in(dir), 0o711); err != nil { // in spite of what the process keeps from its files (umask)
			return nil, fault.Wrap("make the store's folders", err)
		}
	}
	if _, err := s.index.load(); err != nil {
		return nil, err
	}
	if err := s.index.relieved(func() error { return s.sweep(context.Background()) }); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends the pulls that are under way, waits for them and releases the store. It may be called twice.
func (s *Store) Close() error {
	s.flights.close()
	if s.net != nil {
		s.net.Close()
	}
	return nil
}

// Find returns the image called ref; "" is host. It asks no registry and is fast. ref is an alias, a name as it was
// given, a name in any of its forms, or a digest (sha256: and at least 12 digits). A name with a digest stands for the
// image of that digest only if its repository is known to have it. What is not here is
// [belljar.CodeImageUnavailable], with the names of those that are in details.available. A successful look-up
// counts as a use.
func (s *Store) Find(_ context.Context, ref string) (Root, error) {
	r, err := s.lookup(ref)
	if err != nil {
		return Root{}, err
	}
	if r == nil {
		return Root{Ref: runtime.HostRef}, nil
	}
	s.index.touch(r)
	return s.index.root(r), nil
}

// lookup finds the record of ref whose files are there, nil for host.
func (s *Store) lookup(ref string) (*record, error) {
	target := s.alias(ref)
	if target == "" || target == runtime.HostRef {
		return nil, nil
	}
	if s.o.Path == "" {
		return nil, s.absent(ref)
	}
	v, err := s.index.load()
	if err != nil {
		return nil, err
	}
	r, _, err := v.find(target)
	if err != nil {
		return nil, err
	}
	if r == nil || !s.index.present(r) {
		return nil, s.absent(ref)
	}
	return r, nil
}

// alias returns the operator's image for ref, and ref without one.
func (s *Store) alias(ref string) string {
	if to, ok := s.o.Aliases[ref]; ok {
		return to
	}
	return ref
}

// layersWait is how long the layers of a pull that came to nothing wait for the next one.
const layersWait = time.Hour

// sweep deletes what processes that are gone left unfinished: spaces, folders of images that the index does not know, and
// layers that have waited for an image long enough. Locks keep it away from the work of processes that run.
func (s *Store) sweep(ctx context.Context) error {
	if err := s.disk.sweep(); err != nil {
		return err
	}
	if err := s.index.sweep(); err != nil {
		return err
	}
	_, err := s.layers.prune(ctx, layersWait)
	return err
}
