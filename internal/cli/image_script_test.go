package cli_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belljar/belljar/test/image"
	"github.com/belljar/belljar/test/registry"
)

// registryScript is the script command registry: it opens a registry with busybox:1, whose address is in REGISTRY, sets the
// script's own image store, and writes busybox.tar, a root file system, and layout, a folder with an OCI layout of its image.
func registryScript(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) > 0 {
			ts.Fatalf("usage: registry")
		}
		tree, err := os.ReadFile(image.Busybox(t))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("busybox.tar"), tree, 0o644))
		writeLayout(ts, tree)
		hub := registry.New(t)
		ref, digest := hub.Put(t, "busybox:1", registry.Image{Layer: tree, Config: map[string]any{"Env": []string{"GREETING=hello"}, "WorkingDir": "/bin"}})
		ts.Setenv("REGISTRY", hub.Host())
		ts.Setenv("IMAGE", ref)
		ts.Setenv("DIGEST", digest)
		ts.Setenv("SANDBOX_IMAGE_REGISTRIES", hub.Host())
		ts.Setenv("SANDBOX_DATA", ts.MkAbs("own"))
	}
}

// writeLayout writes the OCI layout of an image with one layer. Each blob is a link to the file that holds it.
func writeLayout(ts *testscript.TestScript, layer []byte) {
	blob := func(kind string, data []byte) map[string]any {
		digest := fmt.Sprintf("%x", sha256.Sum256(data))
		ts.Check(os.MkdirAll(ts.MkAbs("layout/blobs/sha256"), 0o755))
		ts.Check(os.WriteFile(ts.MkAbs("layout/blobs/"+digest), data, 0o644))
		ts.Check(os.Symlink("../"+digest, ts.MkAbs("layout/blobs/sha256/"+digest)))
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(data)}
	}
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		ts.Check(err)
		return data
	}
	tree := blob("layer.v1.tar", layer)
	config := blob("config.v1+json", encode(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH, "rootfs": map[string]any{"type": "layers", "diff_ids": []any{tree["digest"]}},
	}))
	manifest := blob("manifest.v1+json", encode(map[string]any{"schemaVersion": 2, "config": config, "layers": []any{tree}}))
	ts.Check(os.WriteFile(ts.MkAbs("layout/oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("layout/index.json"), encode(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}}), 0o644))
}
