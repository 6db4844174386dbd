package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
)

// FuzzManifest tests that any manifest or config is read within its limits or refused with a printable reason.
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
	f.Add([]byte(`{"schemaVersion":2}`), KindIndex)
	f.Fuzz(func(t *testing.T, data []byte, kind string) {
		m, err := Parse(data, kind)
		explained(t, err)
		if err == nil && m.List {
			found, there := m.candidates(LocalPlatform())
			if len(found) > len(m.Manifests) || len(there) > len(m.Manifests) {
				t.Fatalf("%v %v", found, there)
			}
		}
		if err == nil && !m.List && len(m.Layers) > MaxLayers {
			t.Fatal("too many layers")
		}
		c, err := ParseConfig(data, 0)
		explained(t, err)
		if err == nil {
			kept, err := c.Kept()
			explained(t, err)
			if kept.WorkingDir != "" && (kept.WorkingDir[0] != '/' || strings.Contains(kept.WorkingDir, "/../")) {
				t.Fatalf("%q", kept.WorkingDir)
			}
		}
	})
}

// explained checks that an error is the caller's or the image's, and that its text is printable.
func explained(t *testing.T, err error) {
	t.Helper()
	var e *belljar.Error
	if err == nil {
		return
	}
	if !errors.As(err, &e) || e.Code == belljar.CodeInternal {
		t.Fatalf("%v", err)
	}
	if fault.Printable(e.Message) != strings.ToValidUTF8(e.Message, "\uFFFD") && len(e.Message) < 300 {
		t.Fatalf("%q", e.Message)
	}
}
