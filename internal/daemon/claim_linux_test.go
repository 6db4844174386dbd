package daemon

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/roster"
	"github.com/belljar/belljar/internal/linux/rundir"
	"github.com/belljar/belljar/test/need"
)

// A server removes the locks of killed servers only if their data folders are gone.
func TestClaimSweeps(t *testing.T) {
	servers, err := roster.Open(rundir.Default(), []string{"servers"}, belljar.ValidID)
	if err != nil {
		need.Missing(t, "%v", err)
	}
	data := t.TempDir()
	left := func(name, data string) string {
		path := servers.Lock(name + "-" + belljar.NewID())
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		return path
	}
	gone, here, starting := left("gone", data+"/gone"), left("here", data), left("starting", "")
	release, err := (&dataDir{path: data}).claim("own-" + belljar.NewID())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	}()
	for path, want := range map[string]bool{gone: false, here: true, starting: true} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) == want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
