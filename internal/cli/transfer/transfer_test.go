package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/notice"
)

func TestPlaceOf(t *testing.T) {
	for text, want := range map[string]place{
		"01a1:": {"01a1", ""}, "01a1:src/x": {"01a1", "src/x"}, "01a1:/workspace/x": {"01a1", "/workspace/x"}, "a:b:c": {"a", "b:c"},
	} {
		if got, ok := placeOf(text); !ok || got != want {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"file", "./a:b", "/x/a:b", ":x", "../a:b"} {
		if got, ok := placeOf(text); ok {
			t.Errorf("%s is taken for %v", text, got)
		}
	}
}

// service has a file whose transfer is interrupted.
type service struct{ belljar.Service }

func (service) Files() belljar.Files { return files{} }

type files struct{ belljar.Files }

func (files) Stat(context.Context, string, string) (belljar.FileEntry, error) {
	return belljar.FileEntry{Type: "file"}, nil
}

func (files) Read(ctx context.Context, _, _ string, _, _ int64) (belljar.FileEntry, io.ReadCloser, error) {
	return belljar.FileEntry{}, io.NopCloser(interrupted{ctx}), nil
}

type interrupted struct{ ctx context.Context }

func (x interrupted) Read([]byte) (int, error) {
	if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(os.Interrupt) != nil {
		return 0, errors.New("cannot interrupt")
	}
	<-x.ctx.Done()
	return 0, x.ctx.Err()
}

// An interrupted copy leaves no partial file.
func TestCopyInterrupted(t *testing.T) {
	dir := t.TempDir()
	c := Copy{Service: service{}, Notice: &notice.Writer{Stderr: io.Discard}, Session: func(context.Context, string) (string, error) { return "s", nil }}
	var status interrupt.Status
	if _, err := c.Run(t.Context(), []string{"s:x"}, dir); !errors.As(err, &status) || status != 130 {
		t.Errorf("%v, want status 130", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// kept is a service with a file and a folder, both with a modification time.
type kept struct{ belljar.Service }

func (kept) Files() belljar.Files { return keptFiles{} }

type keptFiles struct{ belljar.Files }

func (keptFiles) Stat(_ context.Context, _, name string) (belljar.FileEntry, error) {
	return belljar.FileEntry{Type: map[bool]string{true: "dir", false: "file"}[name == "dir"], Mode: "0644", MtimeUnix: 1e9}, nil
}

func (keptFiles) Read(context.Context, string, string, int64, int64) (belljar.FileEntry, io.ReadCloser, error) {
	return belljar.FileEntry{}, io.NopCloser(strings.NewReader("text")), nil
}

func (keptFiles) Archive(_ context.Context, _, _ string, _ belljar.UploadFormat, w io.Writer) error {
	out := tar.NewWriter(w)
	err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "inner", Mode: 0o644, Size: 4, ModTime: time.Unix(1e9, 0)})
	_, _ = out.Write([]byte("text"))
	return errors.Join(err, out.Close())
}

// A copy keeps the modification time of the workspace's file, because make compares times. A device in the
// destination's place stays.
func TestCopyOut(t *testing.T) {
	dir := t.TempDir()
	c := Copy{Service: kept{}, Notice: &notice.Writer{Stderr: io.Discard}, Session: func(context.Context, string) (string, error) { return "s", nil }}
	for source, name := range map[string]string{"s:file": "file", "s:dir": "dir/inner"} {
		if _, err := c.Run(t.Context(), []string{source}, dir); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.ModTime().Unix() != 1e9 {
			t.Errorf("%s: %v, %v", name, info.ModTime(), err)
		}
	}
	empty := t.TempDir()
	if _, err := c.Run(t.Context(), []string{"s:a/file", "s:other", "s:b/file"}, empty); err == nil || !strings.Contains(err.Error(), "would be both s:a/file and s:b/file") {
		t.Errorf("two files of one name: %v", err)
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("copied: %v, %v", left, err)
	}
	if got, err := c.Run(t.Context(), []string{"s:a/file", "s:/workspace/a/file"}, empty); err != nil || got.Files != 1 {
		t.Errorf("one file named twice: %+v, %v", got, err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := c.Run(t.Context(), []string{"s:file"}, filepath.Join(dir, "socket")); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
		t.Errorf("into a socket: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "socket")); err != nil || info.Mode().Type() != os.ModeSocket {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
}
