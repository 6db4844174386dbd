package image

import (
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
)

// record is an image in the index.
type record struct {
	Digest   string              `json:"digest"`
	Also     []string            `json:"also,omitempty"`  // digests of the lists that led to it
	Names    []string            `json:"names"`           // the first is the primary name
	Pulls    []string            `json:"pulls,omitempty"` // those of Names that only pulls gave it, oldest first
	Folder   string              `json:"folder"`          // below images; a new one each time an image is unpacked
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

func (r *record) ref() string {
	if len(r.Names) == 0 {
		return r.Digest
	}
	return r.Names[0]
}

// in reports whether one of the image's names is in a repository: a digest refers to one repository's image.
func (r *record) in(repository string) bool {
	return slices.ContainsFunc(r.Names, func(name string) bool {
		n, err := reference.Parse(name)
		return err == nil && n.Repository == repository
	})
}

// copyOf returns a copy of the record, deep enough for an edit.
func (r *record) copyOf() *record {
	c := *r
	c.Names, c.Pulls, c.Also = slices.Clone(r.Names), slices.Clone(r.Pulls), slices.Clone(r.Also)
	return &c
}

// Parts of an image, in its folder.
const (
	rootFolder = "root"
	lockFile   = "lock"
	stampFile  = "used"
)

func hostImage() belljar.Image {
	return belljar.Image{Ref: runtime.HostRef, Names: []string{runtime.HostRef}, Source: manifest.Host, Platform: manifest.LocalPlatform().String()}
}
