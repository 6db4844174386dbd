package apitest

import (
	"context"
	"path/filepath"
	"testing"

	imagestore "github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/registry"
)

// WithImage returns the name of an image with this config, and a change that adds it to a [World].
func WithImage(tb testing.TB, config map[string]any) (ref string, change func(*service.Options)) {
	tb.Helper()
	hub := registry.New(tb)
	ref, _ = hub.Put(tb, "app:1", registry.Image{Files: map[string]string{"bin/tool": "x"}, Config: config})
	store, err := imagestore.Open(imagestore.Options{Path: filepath.Join(tb.TempDir(), "images"), Registries: []string{hub.Host()}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return ref, func(o *service.Options) { o.Images, o.Runtimes[0] = store, unpacked{o.Runtimes[0]} }
}

// unpacked is a runtime that accepts images. It still runs the host's programs.
type unpacked struct{ runtime.Runtime }

func (u unpacked) Probe(ctx context.Context) (runtime.Capabilities, error) {
	caps, err := u.Runtime.Probe(ctx)
	caps.Unpacked = true
	return caps, err
}
