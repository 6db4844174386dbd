package daemon

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/workspace/sandbox"
	"github.com/belljar/belljar/test/apitest"
)

func TestReady(t *testing.T) {
	w := apitest.NewWorld(t, nil)
	var text strings.Builder
	d := &server{service: w.Service, workspaces: &sandbox.Source{Engine: w.Service}, log: slog.New(slog.NewTextHandler(&text, nil))}
	cfg := &config.Config{MinFreeMB: 2}
	if checks := d.ready(cfg, &dataDir{path: t.TempDir()})(t.Context()); !checks["disk"].OK {
		t.Errorf("%+v", checks)
	}

	// The disk of a store outside the data folder counts, too: /proc has no room.
	elsewhere := &config.Config{MinFreeMB: 2, StoreDBPath: "/proc/belljar.db"}
	if checks := d.ready(elsewhere, &dataDir{path: t.TempDir()})(t.Context()); checks["disk"].OK || !strings.HasPrefix(checks["disk"].Detail, "0 MiB are free") {
		t.Errorf("a store on a full disk: %+v", checks)
	}

	// Any client may ask often. A fault is logged once.
	gone := d.ready(cfg, &dataDir{path: filepath.Join(t.TempDir(), "gone")})
	for range 5 {
		if checks := gone(t.Context()); checks["disk"].OK || checks["data"].OK {
			t.Errorf("without a data folder: %+v", checks)
		}
	}
	if lines := strings.Count(text.String(), "level=ERROR"); lines != 2 {
		t.Errorf("%d log lines: %s", lines, text.String())
	}
}
