//go:build linux

package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/image/archive"
	"github.com/belljar/belljar/internal/image/stream"
)

// layoutOf makes an OCI layout as a tar: images by name, "" for one without.
func layoutOf(t testing.TB, images map[string]built) []byte {
	t.Helper()
	pairs := []string{"oci-layout", `{"imageLayoutVersion":"1.0.0"}`, "blobs/", "", "blobs/sha256/", ""}
	var list []any
	for name, b := range images {
		d := map[string]any{"mediaType": ociManifest, "digest": b.digest(), "size": len(b.manifest)}
		if name != "" {
			d["annotations"] = map[string]any{"org.opencontainers.image.ref.name": name}
		}
		list = append(list, d)
		pairs = append(pairs, blobName(b.digest()), string(b.manifest))
		for d, data := range b.blobs {
			pairs = append(pairs, blobName(d), string(data))
		}
	}
	pairs = append(pairs, "index.json", string(encode(t, map[string]any{"schemaVersion": 2, "manifests": list})))
	return tarOf(t, pairs...)
}

func blobName(digest string) string { return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:") }

// savedOf makes the archive that docker save makes of an image, in its old form, with extra entries.
func savedOf(t testing.TB, b built, tags []string, layers [][]byte, extra ...string) []byte {
	t.Helper()
	config := strings.TrimPrefix(digest(b.config), "sha256:") + ".json"
	var names, pairs []string
	for i, l := range layers {
		names = append(names, fmt.Sprintf("%d/layer.tar", i))
		pairs = append(pairs, fmt.Sprintf("%d/", i), "", names[i], string(l))
	}
	pairs = append(pairs, config, string(b.config), "manifest.json",
		string(encode(t, []any{map[string]any{"Config": config, "RepoTags": tags, "Layers": names}})), "repositories", "{}")
	return tarOf(t, append(pairs, extra...)...)
}

func TestImport(t *testing.T) {
	plain := tarOf(t, "hello", "world")
	b := build(t, spec{layers: [][]byte{plain}, pack: "gzip", config: map[string]any{"User": "33:44"}})
	bare := build(t, spec{layers: [][]byte{plain}})
	made := build(t, spec{layers: [][]byte{plain}, edit: func(m map[string]any) {
		m["annotations"] = map[string]any{archive.SourceAnnotation: "build"}
	}})
	twice := build(t, spec{layers: [][]byte{plain, plain}})
	linked := savedOf(t, twice, []string{"old:1"}, [][]byte{plain}, "x/", "", "x/layer.tar", "→../0/layer.tar", "y.tar", "→x/layer.tar",
		"manifest.json", string(encode(t, []any{map[string]any{
			"Config": strings.TrimPrefix(digest(twice.config), "sha256:") + ".json", "RepoTags": []string{"old:1"}, "Layers": []string{"0/layer.tar", "y.tar"},
		}})))
	tests := map[string]struct {
		archive []byte
		name    string
		ref     string // the resulting name
		digest  string // "" is any
		source  string
		uid     int
		layers  int
	}{
		"layout":                    {archive: layoutOf(t, map[string]built{"team/app:2": b}), ref: "docker.io/team/app:2", digest: b.digest(), uid: 33},
		"layout, named":             {archive: layoutOf(t, map[string]built{"latest": b}), name: "mine", ref: "docker.io/library/mine:latest", digest: b.digest(), uid: 33},
		"layout, one of two":        {archive: layoutOf(t, map[string]built{"a:1": b, "b:1": bare}), name: "b:1", ref: "docker.io/library/b:1", digest: bare.digest()},
		"layout, gzip":              {archive: gzipped(t, layoutOf(t, map[string]built{"": b})), name: "z", ref: "docker.io/library/z:latest", digest: b.digest(), uid: 33},
		"layout, zstd":              {archive: zstded(t, layoutOf(t, map[string]built{"": b})), name: "z", ref: "docker.io/library/z:latest", digest: b.digest(), uid: 33},
		"layout, built":             {archive: layoutOf(t, map[string]built{"": made}), name: "z", ref: "docker.io/library/z:latest", digest: made.digest(), source: "build"},
		"docker save":               {archive: savedOf(t, bare, []string{"busy:1", "busy:2"}, [][]byte{plain}), ref: "docker.io/library/busy:1"},
		"docker save, layer packed": {archive: savedOf(t, bare, []string{"busy:1"}, [][]byte{gzipped(t, plain)}), ref: "docker.io/library/busy:1"},
		"docker save, links":        {archive: linked, ref: "docker.io/library/old:1", layers: 2},
		"docker save, without tags": {archive: savedOf(t, bare, nil, [][]byte{plain}), name: "x/y:z", ref: "docker.io/x/y:z"},
		"root file system":          {archive: plain, name: "belljar/tiny", ref: "docker.io/belljar/tiny:latest"},
		"root file system, packed":  {archive: zstded(t, plain), name: "r.example:5000/tiny:1", ref: "r.example:5000/tiny:1"},
		"one with a manifest.json":  {archive: tarOf(t, "manifest.json", "[]", "hello", "world"), name: "t", ref: "docker.io/library/t:latest"},
		"one with repositories":     {archive: tarOf(t, "repositories", "{}", "hello", "world", "x/layer.tar", ""), name: "t", ref: "docker.io/library/t:latest"},
		"one with ./ before names":  {archive: tarOf(t, "./", "", "./hello", "world"), name: "t", ref: "docker.io/library/t:latest"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "images")
			s := open(t, image.Options{Path: path})
			var last belljar.ImageProgress
			img, err := s.Import(t.Context(), tt.name, bytes.NewReader(tt.archive), func(p belljar.ImageProgress) { last = p })
			if err != nil {
				t.Fatal(err, errorOf(err))
			}
			if img.Ref != tt.ref || tt.digest != "" && img.Digest != tt.digest || img.Source != max(tt.source, "import") && tt.source != "build" || img.Layers != max(1, tt.layers) {
				t.Errorf("%+v", img)
			}
			if tt.source != "" && img.Source != tt.source {
				t.Errorf("source %q", img.Source)
			}
			if last.Phase != belljar.ImageDone {
				t.Errorf("the last word was %+v", last)
			}
			root := find(t, s, tt.ref)
			if content(t, root, "hello") != "world" || root.UID != tt.uid {
				t.Errorf("%+v", root)
			}
			if left := leftovers(t, path); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			again, err := s.Import(t.Context(), tt.name, bytes.NewReader(tt.archive), nil)
			if err != nil || again.Digest != img.Digest {
				t.Errorf("once more: %v %v", again.Digest, err)
			}
		})
	}
}

// TestImportDocker25 tests archives of docker save that list other platforms in their layout, without their blobs.
func TestImportDocker25(t *testing.T) {
	plain := tarOf(t, "hello", "world")
	b := build(t, spec{layers: [][]byte{plain}})
	config, layer := blobName(digest(b.config)), blobName(digest(plain))
	archive := tarOf(t, "oci-layout", `{"imageLayoutVersion":"1.0.0"}`, config, string(b.config), layer, string(plain),
		"index.json", string(encode(t, map[string]any{"schemaVersion": 2, "manifests": []any{
			map[string]any{"mediaType": ociIndex, "digest": digest([]byte("elsewhere")), "size": 9, "annotations": map[string]any{"io.containerd.image.name": "docker.io/library/app:1"}},
		}})),
		"manifest.json", string(encode(t, []any{map[string]any{"Config": config, "RepoTags": []string{"app:1"}, "Layers": []string{layer}}})))
	s := open(t, image.Options{})
	img, err := s.Import(t.Context(), "", bytes.NewReader(archive), nil)
	if err != nil {
		t.Fatal(err, errorOf(err))
	}
	if img.Ref != "docker.io/library/app:1" {
		t.Errorf("%+v", img)
	}
}

func TestImportRefused(t *testing.T) {
	plain := tarOf(t, "hello", "world")
	b := build(t, spec{layers: [][]byte{plain}})
	other := build(t, spec{layers: [][]byte{tarOf(t, "other", "")}})
	foreign := build(t, spec{layers: [][]byte{plain}, arch: "s390x"})
	layout := layoutOf(t, map[string]built{"a:1": b})
	config := strings.TrimPrefix(digest(b.config), "sha256:") + ".json"
	leaving := func(link string) []byte {
		return tarOf(t, config, string(b.config), "0/", "", "0/layer.tar", "→"+link,
			"manifest.json", string(encode(t, []any{map[string]any{"Config": config, "RepoTags": []string{"a:1"}, "Layers": []string{"0/layer.tar"}}})))
	}
	tests := map[string]struct {
		archive []byte
		name    string
		code    belljar.Code
		words   []string
	}{
		"nothing":                    {nil, "x", belljar.CodeImageInvalid, []string{"empty"}},
		"an empty tar":               {tarOf(t), "x", belljar.CodeImageInvalid, []string{"empty"}},
		"no tar":                     {bytes.Repeat([]byte("words "), 1000), "x", belljar.CodeImageInvalid, []string{"not a tar"}},
		"xz":                         {[]byte("\xfd7zXZ\x00rest"), "x", belljar.CodeImageInvalid, []string{"xz"}},
		"bad gzip":                   {append([]byte{0x1f, 0x8b}, bytes.Repeat([]byte{7}, 100)...), "x", belljar.CodeImageInvalid, []string{"gzip"}},
		"gzip cut off":               {gzipped(t, plain)[:40], "x", belljar.CodeImageInvalid, nil},
		"cut off":                    {plain[:514], "x", belljar.CodeImageInvalid, nil},
		"a layout cut off":           {layout[:len(layout)/2], "x", belljar.CodeImageInvalid, nil},
		"no name":                    {plain, "", belljar.CodeInvalidRequest, []string{"no name"}},
		"a bad name":                 {plain, "No Name", belljar.CodeInvalidRequest, []string{"not an image name"}},
		"host":                       {plain, "host", belljar.CodeInvalidRequest, []string{"host"}},
		"a digest for a name":        {plain, "a@" + b.digest(), belljar.CodeInvalidRequest, nil},
		"several":                    {layoutOf(t, map[string]built{"a:1": b, "b:1": other}), "", belljar.CodeInvalidRequest, []string{"several images", "a:1, b:1"}},
		"several, another name":      {layoutOf(t, map[string]built{"a:1": b, "b:1": other}), "c", belljar.CodeInvalidRequest, []string{"several images"}},
		"another platform":           {layoutOf(t, map[string]built{"a:1": foreign}), "", belljar.CodeImageUnavailable, []string{"linux/s390x", runtime.GOARCH}},
		"another layer":              {savedOf(t, b, []string{"a:1"}, [][]byte{tarOf(t, "evil", "")}), "", belljar.CodeImageInvalid, []string{"has come as"}},
		"another config":             {bytes.Replace(savedOf(t, b, []string{"a:1"}, [][]byte{plain}), []byte(`"linux"`), []byte(`"linuz"`), 1), "", belljar.CodeImageInvalid, []string{"config is another one"}},
		"another blob":               {bytes.Replace(layout, []byte("world"), []byte("w0rld"), 1), "", belljar.CodeImageInvalid, []string{"has come as"}},
		"another manifest":           {bytes.Replace(layout, []byte(`"layers":[{`), []byte(`"layers": {`), 1), "", belljar.CodeImageInvalid, nil},
		"a link out of the archive":  {leaving("../../../../etc/passwd"), "", belljar.CodeImageInvalid, []string{"missing in the archive"}},
		"an absolute link":           {leaving("/etc/passwd"), "", belljar.CodeImageInvalid, []string{"missing in the archive"}},
		"a link to itself":           {leaving("layer.tar"), "", belljar.CodeImageInvalid, []string{"missing in the archive"}},
		"a layer that is missing":    {leaving("nothing"), "", belljar.CodeImageInvalid, []string{"missing in the archive"}},
		"saved by an old Docker":     {tarOf(t, "repositories", "{}", strings.Repeat("ab", 32)+"/layer.tar", string(plain)), "x", belljar.CodeImageInvalid, []string{"before 1.10"}},
		"a name that is none inside": {savedOf(t, b, []string{"UPPER:\x1b[31m"}, [][]byte{plain}), "", belljar.CodeImageInvalid, []string{"calls its image"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "images")
			s := open(t, image.Options{Path: path})
			_, err := s.Import(t.Context(), tt.name, bytes.NewReader(tt.archive), nil)
			wantError(t, err, tt.code, tt.words...)
			if strings.ContainsRune(fmt.Sprint(err, errorOf(err)), 0x1b) {
				t.Errorf("hostile words: %q", err)
			}
			if left := append(leftovers(t, path), entries(t, path, "images")...); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// TestImportLimits tests a small archive of a large image, and an endless one.
func TestImportLimits(t *testing.T) {
	o := image.Options{MaxBytes: 1 << 20, MaxFiles: 100}
	large := tarOf(t, "zeros", strings.Repeat("\x00", 2<<20))
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("f%d", i), "")
	}
	for name, archive := range map[string][]byte{"bytes": gzipped(t, large), "files": gzipped(t, tarOf(t, many...))} {
		_, err := open(t, o).Import(t.Context(), "x", bytes.NewReader(archive), nil)
		wantError(t, err, belljar.CodeImageInvalid, "limit")
		_ = name
	}
	_, err := open(t, o).Import(t.Context(), "x", io.MultiReader(bytes.NewReader(tarOf(t, "f", "")), endless{}), nil)
	wantError(t, err, belljar.CodeImageInvalid, "more than")
	half := tarOf(t, "zeros", strings.Repeat("\x00", 700<<10))
	other := tarOf(t, "ones", strings.Repeat("\x01", 700<<10))
	b := build(t, spec{layers: [][]byte{half, other}, pack: "gzip"})
	_, err = open(t, o).Import(t.Context(), "x", bytes.NewReader(layoutOf(t, map[string]built{"": b})), nil)
	wantError(t, err, belljar.CodeImageInvalid, "more than 1048576 bytes of files")
	again := func(layer []byte) error {
		b := build(t, spec{layers: slices.Repeat([][]byte{layer}, 120)})
		_, err := open(t, o).Import(t.Context(), "x", bytes.NewReader(layoutOf(t, map[string]built{"": b})), nil)
		return err
	}
	wantError(t, again(tarOf(t, many[:120]...)), belljar.CodeImageInvalid, "more than 100 files")
	if err := again(tarOf(t)); err != nil {
		t.Errorf("an empty layer again and again: %v", err)
	}
}

// endless returns zeros for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestImportSlowly tests that archives whose decompression needs much memory do not wait for others that come slowly.
func TestImportSlowly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Options{Path: path})
	far := farZstded(t, noise(t, 4<<20))
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	for range stream.LargeWindows {
		r, w := io.Pipe()
		slow.Go(func() {
			if _, err := s.Import(ctx, "slow", r, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("an archive that does not end: %v", err)
			}
			r.Close()
		})
		if _, err := w.Write(far[:3<<20]); err != nil { // more than is read ahead
			t.Fatal(err)
		}
	}
	soon, late := context.WithTimeout(t.Context(), time.Minute)
	defer late()
	if _, err := s.Import(soon, "fast", bytes.NewReader(far), nil); err != nil {
		t.Errorf("another archive: %v", err)
	}
	cancel()
	slow.Wait()
	if left := leftovers(t, path); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestImportInterrupted tests that a cancelled import does not wait for its reader, and that a reader's own error is
// returned.
func TestImportInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Options{Path: path})
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		_, _ = w.Write(tarOf(t, "f", "x")[:600])
		cancel() // while the pipe stays open
	}()
	if _, err := s.Import(ctx, "x", r, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_, err := s.Import(t.Context(), "x", iotest.ErrReader(&belljar.Error{Code: belljar.CodeTooLarge, Message: "too large"}), nil)
	wantError(t, err, belljar.CodeTooLarge)
	_, err = s.Import(t.Context(), "x", iotest.ErrReader(io.ErrUnexpectedEOF), nil)
	wantError(t, err, belljar.CodeImageInvalid, "cut off")
	if left := leftovers(t, path); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
