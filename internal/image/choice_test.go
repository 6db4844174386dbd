//go:build linux

package image_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// TestLists tests that the image for this machine is found in lists of every valid form, and that other entries are
// ignored.
func TestLists(t *testing.T) {
	layer := tarOf(t, "f", "x")
	ours := build(t, spec{layers: [][]byte{layer}})
	second := build(t, spec{layers: [][]byte{layer}, config: map[string]any{"Env": []string{"N=2"}}})
	other := build(t, spec{layers: [][]byte{layer}, arch: "s390x"})
	chart := build(t, spec{edit: func(m map[string]any) {
		m["config"].(map[string]any)["mediaType"] = "application/vnd.cncf.helm.config.v1+json"
	}})
	machine := func(os, arch string) map[string]any { return map[string]any{"os": os, "architecture": arch} }
	here, there, nowhere := machine("linux", runtime.GOARCH), machine("linux", "s390x"), machine("unknown", "unknown")
	type item struct {
		built
		platform map[string]any
		about    string // another image
	}
	list := func(items ...item) built {
		var ds []any
		for _, i := range items {
			d := map[string]any{"mediaType": ociManifest, "digest": i.digest(), "size": len(i.manifest)}
			if bytes.Contains(i.manifest, []byte(ociIndex)) {
				d["mediaType"] = ociIndex
			}
			if i.platform != nil {
				d["platform"] = i.platform
			}
			if i.about != "" {
				d["annotations"] = map[string]any{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": i.about}
			}
			ds = append(ds, d)
		}
		return built{manifest: encode(t, map[string]any{"schemaVersion": 2, "mediaType": ociIndex, "manifests": ds})}
	}
	of := func(b built) item { return item{built: b} }
	theirs, mine := list(item{built: other, platform: there}), list(item{built: ours, platform: here})
	deep := list(of(mine))
	deeper := list(of(deep))
	deepest := list(of(deeper))
	var crowd []item
	for range 30 {
		crowd = append(crowd, of(other))
	}
	tests := map[string]struct {
		list   built
		digest string // "" is none
		code   belljar.Code
		words  []string
	}{
		"one that says nothing":                  {list: list(of(ours)), digest: ours.digest()},
		"beside what is about it":                {list: list(of(ours), item{built: chart, about: ours.digest()}), digest: ours.digest()},
		"beside what is for nowhere":             {list: list(of(ours), item{built: chart, platform: nowhere}), digest: ours.digest()},
		"after one for another machine":          {list: list(of(other), of(ours)), digest: ours.digest()},
		"after one that says so":                 {list: list(item{built: other, platform: there}, of(ours)), digest: ours.digest()},
		"the first of two":                       {list: list(of(second), of(ours)), digest: second.digest()},
		"the one that says so":                   {list: list(of(second), item{built: ours, platform: here}), digest: ours.digest()},
		"after a chart":                          {list: list(of(chart), of(ours)), digest: ours.digest()},
		"of an empty platform":                   {list: list(item{built: ours, platform: machine("", "")}), digest: ours.digest()},
		"in the second of two lists":             {list: list(of(theirs), of(mine)), digest: ours.digest()},
		"three lists deep":                       {list: deep, digest: ours.digest()},
		"too deep":                               {list: deepest, code: belljar.CodeImageInvalid, words: []string{"lists in lists"}},
		"for another machine in all lists":       {list: list(of(theirs), of(other)), code: belljar.CodeImageUnavailable, words: []string{"linux/s390x"}},
		"nothing but a chart":                    {list: list(of(chart), of(chart)), code: belljar.CodeImageInvalid, words: []string{"helm"}},
		"nothing":                                {list: list(), code: belljar.CodeImageUnavailable, words: []string{"none for any platform"}},
		"too many to inspect":                    {list: list(append(crowd, of(ours))...), code: belljar.CodeImageInvalid, words: []string{"too many to inspect"}},
		"nothing but what is about other things": {list: list(item{built: chart, about: ours.digest()}), code: belljar.CodeImageUnavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			for _, b := range []built{ours, second, other, chart, theirs, mine, deep, deeper} {
				h.put("app:part", b)
			}
			h.put("app:latest", tt.list)
			got, err := open(t, image.Options{}, h).Pull(t.Context(), h.ref("app"), false, nil)
			if tt.digest == "" {
				wantError(t, err, tt.code, tt.words...)
			} else if err != nil || got.Digest != tt.digest {
				t.Errorf("%s, want %s, %v", got.Digest, tt.digest, err)
			}
		})
	}
}

// TestOldConfigs tests that old media types of configs are accepted; the content is checked in any case.
func TestOldConfigs(t *testing.T) {
	for _, kind := range []string{"application/octet-stream", "application/json", "text/html", ""} {
		h := newHub(t)
		h.put("app:latest", build(t, spec{layers: [][]byte{tarOf(t, "f", "x")}, edit: func(m map[string]any) {
			m["config"].(map[string]any)["mediaType"] = kind
		}}))
		s := open(t, image.Options{}, h)
		pull(t, s, h.ref("app"))
		if got := content(t, find(t, s, h.ref("app")), "f"); got != "x" {
			t.Errorf("%q: %q", kind, got)
		}
	}
}

// TestImportUnnamed tests that a layout's images without a name and a platform count as several, and that none is
// chosen.
func TestImportUnnamed(t *testing.T) {
	one := build(t, spec{layers: [][]byte{tarOf(t, "f", "1")}})
	two := build(t, spec{layers: [][]byte{tarOf(t, "f", "2")}})
	entry := func(b built, platform map[string]any) map[string]any {
		d := map[string]any{"mediaType": ociManifest, "digest": b.digest(), "size": len(b.manifest)}
		if platform != nil {
			d["platform"] = platform
		}
		return d
	}
	archive := func(entries ...any) *bytes.Reader {
		pairs := []string{"oci-layout", `{"imageLayoutVersion":"1.0.0"}`}
		for _, b := range []built{one, two} {
			pairs = append(pairs, blobName(b.digest()), string(b.manifest))
			for d, data := range b.blobs {
				pairs = append(pairs, blobName(d), string(data))
			}
		}
		return bytes.NewReader(tarOf(t, append(pairs, "index.json", string(encode(t, map[string]any{"schemaVersion": 2, "manifests": entries})))...))
	}
	s := open(t, image.Options{})
	_, err := s.Import(t.Context(), "app", archive(entry(one, nil), entry(two, nil)), nil)
	wantError(t, err, belljar.CodeInvalidRequest, "several images", one.digest(), two.digest())
	img, err := s.Import(t.Context(), "app", archive(entry(one, nil), entry(two, map[string]any{"os": "unknown", "architecture": "unknown"})), nil)
	if err != nil || img.Digest != one.digest() {
		t.Errorf("%s, %v", img.Digest, err)
	}
}
