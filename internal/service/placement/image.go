package placement

import (
	"slices"

	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/store"
)

// NoteImage is what is put on record of a sandbox's image, for the next process.
func NoteImage(root runtime.Root) *store.Image {
	if root.Ref == runtime.HostRef && root.GoCache == "" {
		return nil
	}
	return &store.Image{GoCache: root.GoCache != "", Env: slices.Clone(root.Env), WorkingDir: root.WorkingDir, UID: root.UID, GID: root.GID}
}

// RecoveredImage is the image of a sandbox that a former process made: what was on record then, whatever the name stands for
// now and although the image may be gone.
func RecoveredImage(ref, digest string, noted *store.Image) runtime.Root {
	root := runtime.Root{Ref: ref, Digest: digest}
	if noted != nil {
		root.Env, root.WorkingDir, root.UID, root.GID = noted.Env, noted.WorkingDir, noted.UID, noted.GID
		if noted.GoCache {
			root.GoCache = runtime.GoCacheDir // programs see it there; where it came from no longer matters
		}
	}
	return root
}

// Pinned is a reference by which a registry gives that content; with no digest it is the reference itself.
func Pinned(ref, digest string) string {
	r, err := reference.Parse(ref)
	if err != nil || digest == "" || r.Digest != "" || r.Repository == "" {
		return ref
	}
	return r.Repository + "@" + digest
}
