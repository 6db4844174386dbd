package snapshot

import (
	"bytes"
	"io"
	"testing"

	"github.com/belljar/belljar"
)

// meanwhile is a buffer that fails the test if it is written to before done is set.
type meanwhile struct {
	bytes.Buffer
	t    *testing.T
	done *bool
}

func (m *meanwhile) Write(p []byte) (int, error) {
	if !*m.done {
		m.t.Error("the archive is used before it is sent, while the programs stand still")
	}
	return m.Buffer.Write(p)
}

// An archive is received completely before it is processed, and one that is too long is refused.
func TestReceived(t *testing.T) {
	s := &Snapshots{opts: Options{TempDir: t.TempDir(), Limits: Limits{MB: 1, Files: 1}}}
	text := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	done, full := false, error(nil)
	send := s.received(func() error { return full }, func(w io.Writer) (bool, error) {
		_, err := io.Copy(struct{ io.Writer }{w}, bytes.NewReader(text))
		done = true
		return true, err
	})
	to := &meanwhile{t: t, done: &done}
	if frozen, err := send(to); err != nil || !frozen || !bytes.Equal(to.Bytes(), text) {
		t.Errorf("%v, %v, %d bytes", frozen, err, to.Len())
	}
	full = &belljar.Error{Code: belljar.CodeDiskFull}
	if _, err := send(io.Discard); belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Errorf("on a disk that fills: %v", err)
	}
	full = nil
	text = append(text, make([]byte, 2*headBytes)...)
	if _, err := send(io.Discard); belljar.CodeOf(err) != belljar.CodeTooLarge {
		t.Errorf("one that is too long: %v", err)
	}
}
