package archive

import (
	"archive/tar"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
)

// An entry may claim any size: one that would end beyond the last byte that a file can have is an archive that is cut off.
func TestSizeBeyondAllFiles(t *testing.T) {
	for _, size := range []int64{1 << 40, math.MaxInt64 - 1<<10, math.MaxInt64} {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "f", Mode: 0o644, Typeflag: tar.TypeReg, Size: size}); err != nil {
			t.Fatal(err)
		}
		b.Write(make([]byte, 4<<10))
		path := filepath.Join(t.TempDir(), "archive")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		a := &Archive{File: file, Size: int64(b.Len()), Digest: reference.DigestOf(b.Bytes()), MaxFiles: 1000, Platform: manifest.LocalPlatform()}
		if _, err := a.Image(t.Context(), "name"); belljar.CodeOf(err) != belljar.CodeImageInvalid {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
