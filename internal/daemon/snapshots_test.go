package daemon

import (
	"archive/tar"
	"bytes"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/config"
)

// A snapshot that was made under a higher SNAPSHOT_MAX_MB can still be unpacked.
func TestSnapshotAboveALoweredMaximum(t *testing.T) {
	cfg, err := config.Load(config.Sources{Env: []string{"SANDBOX_SNAPSHOT_MAX_MB=1"}})
	if err != nil {
		t.Fatal(err)
	}
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, name := range []string{"a", "b"} {
		content := bytes.Repeat([]byte(name), 1<<20)
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := snapshotOptions(&cfg, t.TempDir()).Shelf.Put("key", nil, time.Now(), &raw)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
