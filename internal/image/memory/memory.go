// Package memory keeps images in memory: names, digests and bytes, without files that a runtime could use. Use it in tests.
package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
)

// Store keeps images in memory. Make one with [New].
type Store struct {
	mu        sync.Mutex
	images    []*held
	published map[string][]byte // by complete reference
}

var _ image.Library = (*Store)(nil)

type held struct {
	belljar.Image
	used  time.Time
	users int
}

// New returns a store that has only host.
func New() *Store { return &Store{published: map[string][]byte{}} }

// Publish makes an image that can be pulled by a reference.
func (s *Store) Publish(ref string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published[whole(ref)] = content
}

// Use keeps an image in use, like a sandbox, until end is called.
func (s *Store) Use(digest string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.find(digest)
	if h == nil {
		return func() {}
	}
	h.users++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.users--
	})
}

// Names lists the names of the images.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names()
}

func (s *Store) names() []string {
	var names []string
	for _, h := range s.images {
		names = append(names, h.Names...)
	}
	slices.Sort(names)
	return append([]string{runtime.HostRef}, names...)
}

// List describes every image.
func (s *Store) List(context.Context) ([]belljar.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []belljar.Image{host()}
	for _, h := range s.images {
		list = append(list, h.shown())
	}
	slices.SortFunc(list, func(a, b belljar.Image) int { return strings.Compare(a.Ref, b.Ref) })
	return list, nil
}

// Get describes one image.
func (s *Store) Get(_ context.Context, ref string) (belljar.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if whole(ref) == runtime.HostRef {
		return host(), nil
	}
	h := s.find(ref)
	if h == nil {
		return belljar.Image{}, image.NotFound(image.Absent(ref, s.names()))
	}
	return h.shown(), nil
}

// Find returns one image for a runtime.
func (s *Store) Find(_ context.Context, ref string) (image.Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if whole(ref) == runtime.HostRef {
		return image.Root{Ref: runtime.HostRef}, nil
	}
	h := s.find(ref)
	if h == nil {
		return image.Root{}, image.Absent(ref, s.names())
	}
	h.used = time.Now()
	return image.Root{Ref: h.shown().Ref, Digest: h.Digest, Config: h.Config}, nil
}

// Pull takes a published image.
func (s *Store) Pull(_ context.Context, ref string, always bool, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := whole(ref)
	if name == runtime.HostRef {
		return host(), nil
	}
	if h := s.find(ref); h != nil && !always {
		return h.shown(), nil
	}
	content, ok := s.published[name]
	if !ok {
		return belljar.Image{}, image.Absent(ref, s.names())
	}
	return s.add(name, content, "pull", progress), nil
}

// Import takes the bytes of an archive as an image.
func (s *Store) Import(_ context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	name = whole(name)
	if err := reference.CheckName(name); err != nil {
		return belljar.Image{}, err
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return belljar.Image{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(name, content, "import", progress), nil
}

// Tag gives an image an additional name.
func (s *Store) Tag(_ context.Context, ref, name string) (belljar.Image, error) {
	if err := reference.CheckName(name); err != nil {
		return belljar.Image{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if whole(ref) == runtime.HostRef {
		return belljar.Image{}, image.RefuseHost("be given another name")
	}
	h := s.find(ref)
	if h == nil {
		return belljar.Image{}, image.NotFound(image.Absent(ref, s.names()))
	}
	s.give(h, name)
	return h.shown(), nil
}

// Remove removes a name, and with its last name the image.
func (s *Store) Remove(_ context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if whole(ref) == runtime.HostRef {
		return image.RefuseHost("be removed")
	}
	h := s.find(ref)
	if h == nil {
		return image.NotFound(image.Absent(ref, s.names()))
	}
	rest := slices.DeleteFunc(slices.Clone(h.Names), func(n string) bool { return n == ref || n == whole(ref) })
	if len(rest) > 0 && len(rest) < len(h.Names) {
		h.Names = rest
		return nil
	}
	if h.users > 0 {
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: "image " + h.Digest + " is in use", Details: map[string]any{"image": ref, "digest": h.Digest},
		}
	}
	s.images = slices.DeleteFunc(s.images, func(other *held) bool { return other == h })
	return nil
}

// Prune removes unused images, least recently used first.
func (s *Store) Prune(_ context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	done := belljar.ImagePruned{Images: []string{}}
	if err := image.CheckPrune(p); err != nil {
		return done, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var total int64
	for _, h := range s.images {
		total += h.Bytes
	}
	byUse := slices.SortedFunc(slices.Values(s.images), func(a, b *held) int { return a.used.Compare(b.used) })
	for _, h := range byUse {
		old := p.UnusedSec > 0 && time.Since(h.used).Seconds() >= p.UnusedSec
		if h.users > 0 || !p.All && !old && (p.KeepBytes == 0 || total <= p.KeepBytes) {
			continue
		}
		total -= h.Bytes
		done.Bytes += h.Bytes
		done.Images = append(done.Images, h.Digest)
		s.images = slices.DeleteFunc(s.images, func(other *held) bool { return other == h })
	}
	return done, nil
}

// add adds an image. The caller holds the lock, also for all functions below.
func (s *Store) add(name string, content []byte, source string, progress func(belljar.ImageProgress)) belljar.Image {
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	h := s.find(digest)
	if h == nil {
		h = &held{Image: belljar.Image{Digest: digest, Source: source, Bytes: int64(len(content)), Layers: 1, AddedAt: time.Now()}, used: time.Now()}
		s.images = append(s.images, h)
	}
	s.give(h, name)
	if progress != nil {
		progress(belljar.ImageProgress{Phase: belljar.ImageDone})
	}
	return h.shown()
}

// give gives h a name, and takes it from any other image.
func (s *Store) give(h *held, name string) {
	for _, other := range s.images {
		other.Names = slices.DeleteFunc(other.Names, func(n string) bool { return n == name })
	}
	h.Names = append(h.Names, name)
}

// find returns the image of a name or a digest, or nil.
func (s *Store) find(ref string) *held {
	parsed, err := reference.Parse(ref)
	for _, h := range s.images {
		switch {
		case slices.Contains(h.Names, ref):
			return h
		case err != nil:
		case slices.Contains(h.Names, parsed.Name):
			return h
		case parsed.Digest != "" && strings.HasPrefix(h.Digest, parsed.Digest) && (parsed.Repository == "" || h.in(parsed.Repository)):
			return h
		}
	}
	return nil
}

// in reports whether an image has a name in a repository.
func (h *held) in(repository string) bool {
	return slices.ContainsFunc(h.Names, func(n string) bool {
		parsed, err := reference.Parse(n)
		return err == nil && parsed.Repository == repository
	})
}

func (h *held) shown() belljar.Image {
	out := h.Image
	out.Names, out.InUse, out.Ref = slices.Clone(h.Names), h.users > 0, h.Digest
	if len(out.Names) > 0 {
		out.Ref = out.Names[0]
	}
	return out
}

func host() belljar.Image {
	return belljar.Image{Ref: runtime.HostRef, Names: []string{runtime.HostRef}, Source: "host"}
}

// whole returns a reference completed like Docker's, or unchanged if it is invalid.
func whole(ref string) string {
	if parsed, err := reference.Parse(ref); err == nil {
		return parsed.Name
	}
	return ref
}
