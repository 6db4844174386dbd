package placement

import (
	"maps"
	"slices"

	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/store"
)

// NoteImage returns the record of a sandbox's image, for the next process.
func NoteImage(root runtime.Root) *store.Image {
	if root.Ref == runtime.HostRef && root.GoCache == "" && len(root.Layers) == 0 {
		return nil
	}
	var layers map[string]string
	for _, l := range root.Layers {
		if layers == nil {
			layers = map[string]string{}
		}
		layers[l.Name] = l.Dir
	}
	return &store.Image{Layers: layers, GoCache: root.GoCache != "", Env: slices.Clone(root.Env), WorkingDir: root.WorkingDir, UID: root.UID, GID: root.GID}
}

// RecoveredImage returns the image of a sandbox of a previous process: the one on record, even if the name refers to another
// image now, or the image was removed.
func RecoveredImage(ref, digest string, noted *store.Image) runtime.Root {
	root := runtime.Root{Ref: ref, Digest: digest}
	if noted != nil {
		root.Env, root.WorkingDir, root.UID, root.GID = noted.Env, noted.WorkingDir, noted.UID, noted.GID
		for _, name := range slices.Sorted(maps.Keys(noted.Layers)) {
			root.Layers = append(root.Layers, runtime.Layer{Name: name, Dir: noted.Layers[name]})
		}
		if noted.GoCache {
			root.GoCache = runtime.GoCacheDir // its path for programs; its origin no longer matters
		}
	}
	return root
}

// Pinned returns a reference that resolves to a digest at a registry, or ref itself without a digest.
func Pinned(ref, digest string) string {
	r, err := reference.Parse(ref)
	if err != nil || digest == "" || r.Digest != "" || r.Repository == "" {
		return ref
	}
	return r.Repository + "@" + digest
}
