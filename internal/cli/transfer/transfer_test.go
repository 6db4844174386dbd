package transfer

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

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

// service has a file, whose content is interrupted.
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

// A copy that is interrupted leaves no part of a file.
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
