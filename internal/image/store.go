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

// Options configure a [Store].
type Options struct {
	// Path is the store's folder; a missing one is made. Several processes may use one at the same time. "" is a store that has
	// only host.
	Path string
	// Aliases are the operator's additional names of images, such as python:3.11-slim for belljar/python. They have precedence
	// over all names in the store.
	Aliases map[string]string
	// Registries are hosts, with a port unless it is 443 or 80, whose addresses may be private, and which may use plain HTTP if
	// they do not speak TLS. All others must have public addresses and TLS.
	Registries []string
	// MaxBytes and MaxFiles bound an unpacked image; 0 is 16 GiB and 2,000,000.
	MaxBytes int64
	MaxFiles int
	// Free returns the free bytes on the store's disk; unpacking fails if less than MinFree would be left. nil is no limit.
	Free    func() (uint64, error)
	MinFree uint64
	// FreeFiles returns how many files that disk still has room for, and its total number. If the file system counts them and
	// MinFree is set, two in a hundred stay free. nil does not check.
	FreeFiles func() (free, all uint64, err error)
	// StallTimeout is how long a registry may keep a pull waiting for its next kibibyte; 0 is 30 s.
	StallTimeout time.Duration

	// Keychain has the credentials for registries; nil is the user's configuration of Docker and Podman.
	Keychain authn.Keychain
	// KeychainTimeout is how long the keychain may take for an answer; 0 is 30 s. A credential helper may prompt a person.
	KeychainTimeout time.Duration
	// Transport replaces the transport that refuses private addresses; for tests.
	Transport http.RoundTripper
	// Platform is the platform of images, e.g. linux/arm64/v8; "" is this machine's.
	Platform string
	// Logger logs repairs and files that could not be deleted; nil discards.
	Logger *slog.Logger
	// Clock is nil for the real one.
	Clock func() time.Time
}

// Store keeps unpacked images. The zero value has one image, host, the machine's own /usr. Safe for concurrent use, also by
// several processes.
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

// Open opens the store at o.Path and removes the unfinished work of killed processes.
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
		// Every user may search these folders, as far as the folders above allow it, and list none.
		if err := os.MkdirAll(s.disk.in(dir), 0o711); err != nil {
			return nil, fault.Wrap("make the store's folders", err)
		}
		if err := os.Chmod(s.disk.in(dir), 0o711); err != nil { // in spite of the umask
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

// Close ends the pulls in progress, waits for them and releases the store. It may be called twice.
func (s *Store) Close() error {
	s.flights.close()
	if s.net != nil {
		s.net.Close()
	}
	return nil
}

// Find returns the image called ref; "" is host. It sends no request to a registry and is fast. ref is an alias, a name as
// given, a name in any of its forms, or a digest (sha256: and at least 12 digits). A name with a digest finds that digest's
// image only if the image has a name in the same repository. A missing image is [belljar.CodeImageUnavailable];
// details.available lists the existing names. A successful look-up counts as a use.
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

// lookup finds the record of ref whose files exist, nil for host.
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

// alias returns the operator's image for ref, or ref if there is none.
func (s *Store) alias(ref string) string {
	if to, ok := s.o.Aliases[ref]; ok {
		return to
	}
	return ref
}

// layersWait is how long the layers of a failed pull are kept for the next one.
const layersWait = time.Hour

// sweep deletes the unfinished work of dead processes: spaces, folders of images that are not in the index, and layers without
// an image that are old enough. Locks protect the work of living processes.
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
