//go:build linux

package native_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A sandbox reads its image's Go build cache and writes to its own copy; the image's does not change.
func TestGoCache(t *testing.T) {
	r := open(t, t.TempDir())
	caps, err := r.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !caps.GoCache {
		if known, err := os.ReadFile("/proc/filesystems"); err != nil || strings.Contains(string(known), "overlay") {
			t.Errorf("the kernel has overlays, %v", err)
		}
		return // such a kernel gets no Go build cache: nothing to test
	}
	cache := filepath.Join(t.TempDir(), "cache")
	if err := os.MkdirAll(filepath.Join(cache, "a7"), 0o755); err != nil {
		t.Fatal(err)
	}
	entry := filepath.Join(cache, "a7", "entry")
	if err := os.WriteFile(entry, []byte("shared\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		exec   bool
		script string
		want   string
	}{
		{"read and written", true, `cd /run/go-build && cat a7/entry && echo mine > a7/mine && cat a7/mine && ls a7`, "shared\nmine\nentry\nmine\n"},
		{"changed for itself, if at all", true, `cd /run/go-build; (echo theirs > a7/entry; rm -f a7/entry; mv a7 b7) 2>/dev/null; true`, ""},
		{"nothing of it in /tmp", true, `ls -A /tmp; touch /tmp/a && mv /tmp/a /tmp/b && ls /tmp; stat -c %a /tmp`, "b\n1777\n"},
		{"where nothing can be executed", false, `ls -A /run; true`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec()
			s.Root.GoCache, s.Workspace.Exec = cache, c.exec
			box, err := r.Create(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if got := output(t, box, "sh", "-c", c.script); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if err := box.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			names, err := os.ReadDir(filepath.Join(cache, "a7"))
			if raw, _ := os.ReadFile(entry); err != nil || len(names) != 1 || string(raw) != "shared\n" {
				t.Errorf("the cache has %v, %v, and %q", names, err, raw)
			}
		})
	}
}
