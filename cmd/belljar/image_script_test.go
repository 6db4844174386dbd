package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belljar/belljar/test/image"
	"github.com/belljar/belljar/test/registry"
)

// registryScript is a command of the scripts, registry: it opens a registry with busybox:1, whose address is in REGISTRY,
// has images kept in a folder of the script's own, and writes busybox.tar, a root file system.
func registryScript(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) > 0 {
			ts.Fatalf("usage: registry")
		}
		tree, err := os.ReadFile(image.Busybox(t))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("busybox.tar"), tree, 0o644))
		hub := registry.New(t)
		ref, digest := hub.Put(t, "busybox:1", registry.Image{Layer: tree, Config: map[string]any{"Env": []string{"GREETING=hello"}}})
		ts.Setenv("REGISTRY", hub.Host())
		ts.Setenv("IMAGE", ref)
		ts.Setenv("DIGEST", digest)
		ts.Setenv("SANDBOX_IMAGE_REGISTRIES", hub.Host())
		ts.Setenv("SANDBOX_DATA", ts.MkAbs("own"))
	}
}
