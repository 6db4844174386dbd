//go:build linux

package jar

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/linux/idmap"
)

// If newuidmap may not map subordinate ids, as in a container without new privileges, the error names what it needs.
func TestHelperMayNotMap(t *testing.T) {
	dir := tempDir(t)
	r := open(t, dir)
	root, bin := filepath.Join(dir, "root"), filepath.Join(dir, "bin")
	for name, text := range map[string]string{
		filepath.Join(root, "etc/passwd"): "user:x:4242:4242::/:/bin/sh\n",
		filepath.Join(root, "etc/subuid"): "user:200000:65536\n", filepath.Join(root, "etc/subgid"): "user:200000:65536\n",
		filepath.Join(root, "proc/self/uid_map"): "0 0 4294967295\n", filepath.Join(root, "proc/self/gid_map"): "0 0 4294967295\n",
		filepath.Join(bin, "newuidmap"): "#!/bin/sh\necho not permitted >&2\nexit 1\n", filepath.Join(bin, "newgidmap"): "#!/bin/sh\nexit 1\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	var err error
	if r.IDs, err = idmap.Discover(idmap.Options{Dir: filepath.Join(dir, "ids"), Root: root, UID: 4242, GID: 4242}); err != nil {
		t.Fatal(err)
	}
	_, err = bear(t.Context(), r, "one", false, func() {})
	if e, is := errors.AsType[*stepError](err); !is || e.step != StepUserNS || !strings.Contains(e.Error(), "not permitted") || !strings.Contains(e.hint, "setuid") {
		t.Errorf("%+v", err)
	}
	nothingLeft(t, r)
}
