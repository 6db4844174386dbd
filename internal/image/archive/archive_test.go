package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
)

func archiveOf(t *testing.T, data []byte) *Archive {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &Archive{File: file, Size: int64(len(data)), Digest: reference.DigestOf(data), MaxFiles: 1000, Platform: manifest.LocalPlatform()}
}

// An entry may claim any size. If it would end beyond the largest file offset, the archive counts as cut off.
func TestSizeBeyondAllFiles(t *testing.T) {
	for _, size := range []int64{1 << 40, math.MaxInt64 - 1<<10, math.MaxInt64} {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "f", Mode: 0o644, Typeflag: tar.TypeReg, Size: size}); err != nil {
			t.Fatal(err)
		}
		b.Write(make([]byte, 4<<10))
		if _, err := archiveOf(t, b.Bytes()).Image(t.Context(), "name"); belljar.CodeOf(err) != belljar.CodeImageInvalid {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// leaving is a context that ends after a number of checks.
type leaving struct {
	context.Context
	looks int
}

func (l *leaving) Err() error {
	if l.looks--; l.looks < 0 {
		return context.Canceled
	}
	return nil
}

// layoutOf is an OCI layout whose index names one manifest as that many images.
func layoutOf(t *testing.T, images int, image []byte) *Archive {
	t.Helper()
	digest := reference.DigestOf(image)
	var list []string
	for i := range images {
		list = append(list, fmt.Sprintf(`{"digest":%q,"size":%d,"annotations":{%q:"docker.io/library/a:%d"}}`, digest, len(image), nameAnnotation, i))
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct{ name, text string }{
		{layoutFile, "{}"}, {layoutIndex, `{"schemaVersion":2,"manifests":[` + strings.Join(list, ",") + `]}`},
		{"blobs/sha256/" + reference.ShortDigest(digest), string(image)},
	} {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(f.text))})
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archiveOf(t, b.Bytes())
}

// Reading the images of an archive takes a while if there are many: a caller that cancels ends it.
func TestManyImagesInterrupted(t *testing.T) {
	const images = 50
	ctx := &leaving{t.Context(), images}
	a := layoutOf(t, images, []byte(`{"schemaVersion":2,"config":{"digest":"`+reference.DigestOf(nil)+`"},"layers":[]}`))
	if _, err := a.Image(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, with %d looks left", err, ctx.looks)
	}
}

// The number of bytes that are read to choose an image is limited.
func TestLargeManifests(t *testing.T) {
	a := layoutOf(t, 64, bytes.Repeat([]byte("x"), manifest.MaxManifest))
	if _, err := a.Image(t.Context(), ""); belljar.CodeOf(err) != belljar.CodeImageInvalid || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v", err)
	}
}
