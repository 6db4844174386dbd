package image

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// maker makes an image, and closes its file so that later use fails.
type maker struct{ local.ImageMaker }

func (maker) Build(_ context.Context, _ local.Build, w io.Writer) error {
	return w.(*os.File).Close()
}

// An existing file stays if the image cannot be written, or if the file is not regular.
func TestWriteReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	good, link := filepath.Join(dir, "good"), filepath.Join(dir, "link")
	if err := os.WriteFile(good, []byte("good"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	m := Maker{Machine: maker{}, Writer: &notice.Writer{Stderr: io.Discard}}
	for name, want := range map[string]string{good: "already closed", link: "not a regular file", dir: "not a regular file"} {
		if err := m.Write(t.Context(), local.Build{}, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if got, err := os.ReadFile(good); err != nil || string(got) != "good" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
}

// A process that is killed while it makes an image leaves no file.
func TestFileHasNoName(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file keeps its name")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	err := File("", "shell", func(f *os.File) error {
		if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
			t.Errorf("%v, %v", list, err)
		}
		_, err := f.WriteString("tar")
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
