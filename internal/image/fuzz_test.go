package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// FuzzManifest: whatever a registry says is a manifest or a config is read within its limits or refused with a reason
// that can be printed.
func FuzzManifest(f *testing.F) {
	d := `"digest":"sha256:` + strings.Repeat("0", 64) + `","size":3`
	for _, s := range []string{
		`{}`, `[]`, `null`, `{"schemaVersion":1}`, `{"schemaVersion":2}`,
		`{"schemaVersion":2,"config":{` + d + `},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",` + d + `}]}`,
		`{"schemaVersion":2,"manifests":[{` + d + `,"platform":{"os":"linux","architecture":"amd64"}},{` + d + `}]}`,
		`{"schemaVersion":2,"manifests":[],"layers":[]}`, `{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.docker.image.rootfs.foreign.diff.tar"}],"config":{` + d + `}}`,
		`{"architecture":"amd64","os":"linux","config":{"Env":["A=b"],"Cmd":"ls","WorkingDir":"../x"},"rootfs":{"diff_ids":[]}}`,
		`{"config":{"Entrypoint":[1]}}`, `{"config":{"Env":["A=\u0000"]}}`,
	} {
		f.Add([]byte(s), "")
	}
	f.Add([]byte(`{"schemaVersion":2}`), kindIndex)
	f.Fuzz(func(t *testing.T, data []byte, kind string) {
		m, err := parseManifest(data, kind)
		said(t, err)
		if err == nil && m.list {
			found, there := m.candidates(localPlatform())
			if len(found) > len(m.Manifests) || len(there) > len(m.Manifests) {
				t.Fatalf("%v %v", found, there)
			}
		}
		if err == nil && !m.list && len(m.Layers) > mostLayers {
			t.Fatal("too many layers")
		}
		c, err := parseConfig(data, 0)
		said(t, err)
		if err == nil {
			kept, err := c.kept()
			said(t, err)
			if kept.WorkingDir != "" && (kept.WorkingDir[0] != '/' || strings.Contains(kept.WorkingDir, "/../")) {
				t.Fatalf("%q", kept.WorkingDir)
			}
		}
	})
}

// said checks that a failure is one of the caller's or the image's, in words that can be printed.
func said(t *testing.T, err error) {
	t.Helper()
	var e *belljar.Error
	if err == nil {
		return
	}
	if !errors.As(err, &e) || e.Code == belljar.CodeInternal {
		t.Fatalf("%v", err)
	}
	if printable(e.Message) != strings.ToValidUTF8(e.Message, "\uFFFD") && len(e.Message) < 300 {
		t.Fatalf("%q", e.Message)
	}
}

// FuzzRecognise: whatever is imported is found to be one of the three kinds of archive or refused, and nothing is written.
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
	config, _ := json.Marshal(config{OS: "linux", Architecture: localPlatform().Arch})
	add("f", "x")
	add("oci-layout", "{}", "index.json", `{"schemaVersion":2,"manifests":[{"digest":"`+digestOf(config)+`","size":2}]}`, "blobs/sha256/"+shortID(digestOf(config)), string(config))
	add("manifest.json", `[{"Config":"c","RepoTags":["a:1"],"Layers":["l"]}]`, "c", string(config), "l", "→../l")
	add("manifest.json", `[{"Config":"c","RepoTags":["a:1"],"Layers":[]}]`, "c", string(config))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		s, err := Open(Options{Path: filepath.Join(dir, "images"), MaxFiles: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		file, err := os.Create(filepath.Join(dir, "archive"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		a := &archive{f: file, size: int64(len(data)), most: 1000}
		m, sources, err := s.recognise(t.Context(), a, "name", digestOf(data))
		said(t, err)
		if err == nil {
			if !wholeDigest(m.digest) || len(m.names) == 0 || m.config == nil {
				t.Fatalf("%+v", m)
			}
			for _, src := range sources {
				in, err := src.open(t.Context())
				if err != nil || src.size > int64(len(data)) {
					t.Fatalf("%+v %v", src, err)
				}
				_ = in.Close()
			}
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
			t.Fatalf("%v %v", list, err)
		}
	})
}
