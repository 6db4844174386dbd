package image

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

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
	// Free tells the room on the store's disk, in bytes, and what would leave less than MinFree of it is not unpacked. nil is no
	// watermark.
	Free    func() (uint64, error)
	MinFree uint64
	// FreeFiles tells how many files that disk has room for yet and for how many it has been made; where it counts them and there
	// is a watermark, the last two in a hundred stay free. nil does not ask.
	FreeFiles func() (free, all uint64, err error)
	// Stall is how long a registry may keep a pull waiting for its next kibibyte; 0 is 30 s.
	Stall time.Duration

	// Keychain has the credentials for registries; nil is Docker's and Podman's configuration of the user.
	Keychain authn.Keychain
	// Asking is how long the keychain may take for an answer; 0 is 30 s. Its programs may want to ask a person.
	Asking time.Duration
	// Transport talks to registries in place of one that keeps away from addresses that are not public; for tests.
	Transport http.RoundTripper
	// Platform is what images must be for, as linux/arm64/v8; "" is this machine.
	Platform string
	// Logger hears what is healed and what could not be deleted; nil for nobody.
	Logger *slog.Logger
	// Clock is nil for the real one.
	Clock func() time.Time
}

// Store keeps unpacked images. The zero value knows one image, host, the machine's own /usr. Safe for concurrent use,
// by several processes too.
type Store struct {
	o        Options
	platform platform
	index    index
	touched  sync.Map // folder of an image → when its use was written down last
	flights  flights
	large    chan struct{} // has room for each stream that may be decompressed with much memory at the same time
	net      *network
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
	if o.Stall <= 0 {
		o.Stall = defaultStall
	}
	if o.Asking <= 0 {
		o.Asking = defaultAsking
	}
	s := &Store{o: o, platform: localPlatform(), large: make(chan struct{}, largeWindows)}
	if o.Platform != "" {
		var err error
		if s.platform, err = parsePlatform(o.Platform); err != nil {
			return nil, err
		}
	}
	if o.Path == "" {
		return s, nil
	}
	s.net = newNetwork(o)
	s.index.path, s.index.most = s.path(indexFile), mostIndex
	for _, dir := range []string{"", imagesFolder, layersFolder, tempFolder, locksFolder} {
		// Whoever runs a sandbox may go through these folders, as far as those above allow it, and see no names.
		if err := os.MkdirAll(s.path(dir), 0o711); err != nil {
			return nil, failed("make the store's folders", err)
		}
		if err := os.Chmod(s.path(dir), 0o711); err != nil { // in spite of what the process keeps from its files (umask)
			return nil, failed("make the store's folders", err)
		}
	}
	if _, err := s.index.load(); err != nil {
		return nil, err
	}
	if err := s.relieved(func() error { return s.sweep(context.Background()) }); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends the pulls that are under way, waits for them and lets go of the store. It may be called twice.
func (s *Store) Close() error {
	s.flights.close()
	if s.net != nil {
		s.net.close()
	}
	return nil
}

// Find returns the image called ref; "" is host. It asks no registry and is fast. ref is an alias, a name as it was
// given, a name in any of its forms, or a digest (sha256: and at least 12 digits). A name with a digest stands for the
// image of that digest only if its repository is known to have it. What is not here is
// [belljar.CodeImageUnavailable], with the names of those that are in details.available. That somebody has looked for an image
// counts as its use.
func (s *Store) Find(_ context.Context, ref string) (Root, error) {
	r, err := s.lookup(ref)
	if err != nil {
		return Root{}, err
	}
	if r == nil {
		return Root{Ref: runtime.HostRef}, nil
	}
	s.touch(r)
	return s.root(r), nil
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
	if r == nil || !s.present(r) {
		return nil, s.absent(ref)
	}
	return r, nil
}

// present reports whether the files of an image are where they should be: somebody may have deleted them by hand.
func (s *Store) present(r *record) bool {
	_, err := os.Lstat(filepath.Join(s.folder(r), rootFolder))
	return err == nil
}

// alias returns what the operator says that ref stands for, and ref if he says nothing.
func (s *Store) alias(ref string) string {
	if to, ok := s.o.Aliases[ref]; ok {
		return to
	}
	return ref
}

func (s *Store) now() time.Time {
	if s.o.Clock != nil {
		return s.o.Clock()
	}
	return time.Now()
}

func (s *Store) warn(message string, args ...any) {
	if s.o.Logger != nil {
		s.o.Logger.Warn(message, args...)
	}
}
