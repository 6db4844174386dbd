package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
)

// FuzzRecognise tests that any input is recognised as one of the three kinds of archive or refused, and that nothing is
// written.
func FuzzRecognise(f *testing.F) {
	add := func(pairs ...string) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := 0; i < len(pairs); i += 2 {
			h := &tar.Header{Name: pairs[i], Mode: 0o644, Size: int64(len(pairs[i+1])), Typeflag: tar.TypeReg}
			if to, ok := strings.CutPrefix(pairs[i+1], "→"); ok {
				h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
			}
			if err := w.WriteHeader(h); err != nil {
				f.Fatal(err)
			}
			if h.Size > 0 {
				_, _ = w.Write([]byte(pairs[i+1]))
			}
		}
		_ = w.Close()
		f.Add(b.Bytes())
	}
	config, _ := json.Marshal(manifest.Config{OS: "linux", Architecture: manifest.LocalPlatform().Arch})
	add("f", "x")
	add("oci-layout", "{}", "index.json", `{"schemaVersion":2,"manifests":[{"digest":"`+reference.DigestOf(config)+`","size":2}]}`, "blobs/sha256/"+reference.ShortDigest(reference.DigestOf(config)), string(config))
	add("manifest.json", `[{"Config":"c","RepoTags":["a:1"],"Layers":["l"]}]`, "c", string(config), "l", "→../l")
	add("manifest.json", `[{"Config":"c","RepoTags":["a:1"],"Layers":[]}]`, "c", string(config))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		file, err := os.Create(filepath.Join(dir, "archive"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		a := &Archive{File: file, Size: int64(len(data)), Digest: reference.DigestOf(data), MaxFiles: 1000, Platform: manifest.LocalPlatform()}
		m, err := a.Image(t.Context(), "name")
		if err != nil && belljar.CodeOf(err) == belljar.CodeInternal {
			t.Fatal(err)
		}
		if err == nil {
			if !reference.IsDigest(m.Digest) || len(m.Names) == 0 || m.Config == nil {
				t.Fatalf("%+v", m)
			}
			for _, src := range m.Layers {
				in, err := src.Open(t.Context())
				if err != nil || src.Size > int64(len(data)) {
					t.Fatalf("%+v %v", src, err)
				}
				_ = in.Close()
			}
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Fatalf("%v %v", list, err)
		}
	})
}
