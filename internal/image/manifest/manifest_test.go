package manifest

import (
	"errors"
	"fmt"
	"runtime"
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

// TestKept tests that a config is kept without labels that make it large, and refused if its variables do.
func TestKept(t *testing.T) {
	c := &Config{}
	c.Config.Env = []string{"A=b"}
	c.Config.Labels = map[string]string{"long": strings.Repeat("x", mostLabel), "short": "x"}
	if kept, err := c.Kept(); err != nil || len(kept.Labels) != 1 || kept.Labels["short"] != "x" {
		t.Errorf("%v, %v", kept.Labels, err)
	}
	for n := range 100 {
		c.Config.Labels[fmt.Sprint("label", n)] = strings.Repeat("\x01", 100) // 600 bytes as JSON
	}
	if kept, err := c.Kept(); err != nil || len(kept.Labels) != 0 || len(kept.Env) != 1 {
		t.Errorf("%d labels, %v", len(kept.Labels), err)
	}
	for n := range 100 {
		c.Config.Env = append(c.Config.Env, fmt.Sprint("E", n, "=", strings.Repeat("\x01", 100)))
	}
	if _, err := c.Kept(); belljar.CodeOf(err) != belljar.CodeImageInvalid {
		t.Error(err)
	}
}

// TestValues tests that manifests and configs of very many values are refused before they are decoded: each value takes far more memory
// than its bytes.
func TestValues(t *testing.T) {
	for name, read := range map[string]func() error{
		"layers":    func() error { _, err := Parse(bomb(`{"schemaVersion":2,"layers":[0`, `,0`, `]}`), ""); return err },
		"list":      func() error { _, err := Parse(bomb(`{"schemaVersion":2,"manifests":[{}`, `,{}`, `]}`), ""); return err },
		"names":     func() error { _, err := Parse(bomb(`{"annotations":{"":""`, `,"a,":""`, `}}`), ""); return err },
		"layer ids": func() error { _, err := ParseConfig(bomb(`{"rootfs":{"diff_ids":[0`, `,0`, `]}}`), 1); return err },
		"platform": func() error {
			c := &Chooser{Config: func(Descriptor) ([]byte, error) { return bomb(`{"config":{"Env":[0`, `,0`, `]}}`), nil }}
			_, err := c.platform(Chosen{Manifest: &Manifest{}})
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		explained(t, err)
		if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 16<<20 {
			t.Errorf("%s: %d MiB for an error, %v", name, got>>20, err)
		}
	}
	if _, err := ParseConfig([]byte(`{"history":"`+strings.Repeat(`[{\",`, 100_000)+`"}`), 0); err != nil {
		t.Error(err)
	}
}

func bomb(begin, value, end string) []byte {
	return []byte(begin + strings.Repeat(value, (MaxConfig-len(begin)-len(end))/len(value)) + end)
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
