package archive_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/archive"
)

// An upload that began while there was room stops when there is none left, whatever its size.
func TestReadStopsWithoutRoom(t *testing.T) {
	full := &belljar.Error{Code: belljar.CodeDiskFull, Message: "the disk has 1 MiB left"}
	asked := 0
	body := bytes.NewReader(make([]byte, 1<<20))
	_, err := archive.Read(t.Context(), parts(belljar.UploadPart{Format: belljar.UploadFile, Name: "f", Body: iotest.OneByteReader(body)}),
		archive.Options{TempDir: t.TempDir(), Room: func() error {
			if asked++; asked > 100 {
				return full
			}
			return nil
		}})
	if !errors.Is(err, full) && belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Errorf("%v", err)
	}
	if left, _ := io.Copy(io.Discard, body); left < 1<<20-200 {
		t.Errorf("all but %d bytes were taken", left)
	}
}
