//go:build linux

package image_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

var zeroTime time.Time

func TestPull(t *testing.T) {
	for _, pack := range []string{"", "gzip", "zstd", "far zstd"} {
		t.Run("layers "+pack, func(t *testing.T) {
			h := newHub(t)
			lower := tarOf(t, "etc/", "", "etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1234:77::/:/bin/sh\n", "a", "old", "gone", "x")
			upper := tarOf(t, "a", "new", ".wh.gone", "")
			b := build(t, spec{layers: [][]byte{lower, upper, lower}, pack: pack, config: map[string]any{
				"User": "app", "Env": []string{"PATH=/bin", "=", "junk"}, "WorkingDir": "srv/../app/", "Cmd": []string{"sh"}, "Labels": map[string]string{"k": "v"},
			}})
			h.put("team/app:v1", b)
			s := open(t, image.Options{}, h)

			var phases []string
			img, err := s.Pull(t.Context(), h.ref("team/app:v1"), false, func(p belljar.ImageProgress) {
				if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
					phases = append(phases, p.Phase)
				}
			})
			if err != nil {
				t.Fatal(err, errorOf(err))
			}
			if phases[0] != belljar.ImageResolving || phases[len(phases)-1] != belljar.ImageDone {
				t.Errorf("phases %v", phases)
			}
			if img.AddedAt.IsZero() || img.LastUsedAt.IsZero() || img.Bytes == 0 {
				t.Errorf("%+v", img)
			}
			img.AddedAt, img.LastUsedAt, img.Bytes = zeroTime, zeroTime, 0
			want := belljar.Image{
				Ref: h.ref("team/app:v1"), Names: []string{h.ref("team/app:v1")}, Digest: b.digest(), Source: "pull", Platform: "linux/" + runtime.GOARCH, Layers: 3,
				Config:    belljar.ImageConfig{User: "app", Env: []string{"PATH=/bin"}, WorkingDir: "/app", Cmd: []string{"sh"}, Labels: map[string]string{"k": "v"}},
				CreatedAt: time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC),
			}
			if diff := cmp.Diff(want, img); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}

			for _, ref := range []string{h.ref("team/app:v1"), b.digest(), b.digest()[:7+12], h.ref("team/app@") + b.digest()} {
				root := find(t, s, ref)
				if root.Digest != b.digest() || root.UID != 1234 || root.GID != 77 || content(t, root, "a") != "old" {
					t.Errorf("Find(%q): %+v", ref, root)
				}
			}
			if n := h.count("/blobs/"); n != 3 {
				t.Errorf("%d blobs were fetched, want a config and 2 layers", n)
			}
			pull(t, s, h.ref("team/app:v1"))
			if n := h.count("/manifests/"); n != 1 {
				t.Errorf("the registry was asked %d times for what is here", n)
			}
		})
	}
}

// TestPullFaultNames tests that the error of a pull names the image and the layer at fault.
func TestPullFaultNames(t *testing.T) {
	h := newHub(t)
	s := open(t, image.Options{}, h)
	for name, sp := range map[string]spec{
		"user":  {layers: [][]byte{tarOf(t, "f", "x")}, config: map[string]any{"User": "nobody-here"}},
		"layer": {layers: [][]byte{tarOf(t, "f", "x"), []byte(strings.Repeat("no tar ", 1000))}},
	} {
		b := build(t, sp)
		h.put(name+":1", b)
		_, err := s.Pull(t.Context(), h.ref(name+":1"), false, nil)
		wantError(t, err, belljar.CodeImageInvalid, "image \""+h.ref(name+":1")+"\" cannot be used: ")
		if e := errorOf(err); name == "layer" && !strings.Contains(e.Message, "layer sha256:") {
			t.Errorf("%s", e.Message)
		}
	}
}

// TestTooLargeAsAWhole tests that no more layers are fetched and unpacked once they are too large together.
func TestTooLargeAsAWhole(t *testing.T) {
	var layers [][]byte
	for i := range 12 {
		layers = append(layers, tarOf(t, fmt.Sprintf("f%d", i), strings.Repeat("\x00", 700<<10)))
	}
	h := newHub(t)
	b := build(t, spec{layers: layers, pack: "gzip"})
	h.put("app:latest", b)
	s := open(t, image.Options{MaxBytes: 1 << 20}, h)
	_, err := s.Pull(t.Context(), h.ref("app"), false, nil)
	wantError(t, err, belljar.CodeImageInvalid, "more than 1048576 bytes of files")
	// Two layers exceed the limit. Three are fetched at a time, and the first one that ends is followed by one more.
	if n := h.count("/blobs/") - h.count(digest(b.config)); n > 4 {
		t.Errorf("%d of %d layers were fetched", n, len(layers))
	}
}

// TestLayersOfFailures tests that the layers of a failed pull are kept for the next one, but not for ever.
func TestLayersOfFailures(t *testing.T) {
	good := tarOf(t, "f", "fine")
	h := newHub(t)
	h.put("bad:latest", build(t, spec{layers: [][]byte{good}, config: map[string]any{"User": "nobody-knows"}}))
	h.put("good:latest", build(t, spec{layers: [][]byte{tarOf(t, "other", "x")}}))
	var later time.Duration
	o := image.Options{Path: filepath.Join(t.TempDir(), "images"), Clock: func() time.Time { return time.Now().Add(later) }}
	s := open(t, o, h)
	_, err := s.Pull(t.Context(), h.ref("bad"), false, nil)
	wantError(t, err, belljar.CodeImageInvalid, "nobody-knows")
	there := func() bool {
		return slices.Contains(entries(t, o.Path, "layers"), strings.TrimPrefix(digest(good), "sha256:"))
	}
	pull(t, s, h.ref("good"))
	if !there() {
		t.Error("it did not wait")
	}
	later = 2 * time.Hour
	if _, err := s.Pull(t.Context(), h.ref("good"), true, nil); err != nil {
		t.Fatal(err)
	}
	if there() {
		t.Error("it waits for ever")
	}
	if got := content(t, find(t, s, h.ref("good")), "other"); got != "x" {
		t.Errorf("the other image has %q", got)
	}
}
