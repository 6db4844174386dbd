package image

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// record is an image in the index.
type record struct {
	Digest   string              `json:"digest"`
	Also     []string            `json:"also,omitempty"` // digests of lists that have led to it
	Names    []string            `json:"names"`          // the first is what it is called
	Folder   string              `json:"folder"`         // below images; another one each time an image is unpacked
	Source   string              `json:"source"`
	Platform string              `json:"platform"`
	Bytes    int64               `json:"bytes"`
	Layers   []part              `json:"layers"`
	Config   belljar.ImageConfig `json:"config"`
	UID      int                 `json:"uid,omitempty"`
	GID      int                 `json:"gid,omitempty"`
	Created  time.Time           `json:"created,omitzero"`
	Added    time.Time           `json:"added"`
}

// part is a layer of an image.
type part struct {
	ID    string `json:"id"`    // digest of its uncompressed tar
	Bytes int64  `json:"bytes"` // of its files
}

// The sources of images.
const (
	sourcePull   = "pull"
	sourceImport = "import"
	sourceBuild  = "build"
	sourceHost   = "host"
)

func (r *record) ref() string {
	if len(r.Names) == 0 {
		return r.Digest
	}
	return r.Names[0]
}

// in reports whether one of the image's names is in a repository: a digest pins what a repository has, not what anybody has.
func (r *record) in(repository string) bool {
	return slices.ContainsFunc(r.Names, func(name string) bool {
		n, err := Parse(name)
		return err == nil && n.Repository == repository
	})
}

// copyOf is a record of its own as far as an edit changes it.
func (r *record) copyOf() *record {
	c := *r
	c.Names, c.Also = slices.Clone(r.Names), slices.Clone(r.Also)
	return &c
}

// Where the parts of an image are, below its folder.
const (
	rootFolder = "root"
	lockFile   = "lock"
	stampFile  = "used"
)

func (s *Store) folder(r *record) string { return filepath.Join(s.o.Path, imagesFolder, r.Folder) }

func (s *Store) root(r *record) Root {
	dir := s.folder(r)
	return Root{
		Ref: r.ref(), Digest: r.Digest, Dir: filepath.Join(dir, rootFolder), Lock: filepath.Join(dir, lockFile),
		Config: r.Config, UID: r.UID, GID: r.GID,
	}
}

// image is what the caller sees of a record. Whether it is used costs a look at its lock.
func (s *Store) image(r *record) belljar.Image {
	dir := s.folder(r)
	return belljar.Image{
		Ref: r.ref(), Names: append([]string{}, r.Names...), Digest: r.Digest, Source: r.Source, Platform: r.Platform,
		Bytes: r.Bytes, Layers: len(r.Layers), Config: r.Config, CreatedAt: r.Created, AddedAt: r.Added,
		LastUsedAt: stamped(filepath.Join(dir, stampFile)).Truncate(time.Minute), InUse: held(filepath.Join(dir, lockFile)),
	}
}

func hostImage() belljar.Image {
	return belljar.Image{Ref: runtime.HostRef, Names: []string{runtime.HostRef}, Source: sourceHost, Platform: localPlatform().String()}
}
