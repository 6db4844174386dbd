//go:build linux

package idmap

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a fake "/" as Discover reads it.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, kind := range []string{"uid_map", "gid_map"} {
		if files["/proc/self/"+kind] == "" {
			files["/proc/self/"+kind] = "0 0 4294967295\n"
		}
	}
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDiscover(t *testing.T) {
	const allCaps, noCaps = "CapEff:\t000001ffffffffff\n", "CapEff:\t0000000000000000\n"
	for _, tt := range []struct {
		name  string
		uid   int
		files map[string]string
		mode  Mode
		slots int
		hint  string
	}{
		{"root of the machine", 0, map[string]string{"/proc/self/status": allCaps}, ModeRoot, 4095, ""},
		{"root beside subordinate ids up there", 0, map[string]string{
			"/etc/subuid": fmt.Sprintf("x:%d:65536\n", 0x70000000+65536*7+5), // overlaps two slots
			"/etc/subgid": fmt.Sprintf("x:%d:10\n", 0x70000000),
		}, ModeRoot, 4092, ""},
		{"root in a container with 65,536 ids", 0, map[string]string{
			"/proc/self/uid_map": "0 100000 65536\n", "/proc/self/gid_map": "0 100000 65536\n",
		}, ModeRoot, (65534 - 10000) / 24, "maps few ids"},
		{"root without capabilities", 0, map[string]string{"/proc/self/status": noCaps}, ModeSingle, 0, "CAP_SETUID"},
		{"root of a namespace with one id", 0, map[string]string{
			"/proc/self/uid_map": "0 1000 1\n", "/proc/self/gid_map": "0 1000 1\n",
		}, ModeSingle, 0, "maps few ids"},
		{"a user with subordinate ids", 1000, map[string]string{
			"/etc/passwd": "ada:x:1000:1000::/:/bin/sh\n",
			"/etc/subuid": "ada:100000:65536\n", "/etc/subgid": "ada:100000:65536\n",
		}, ModeSub, 2730, ""},
		{"a user with too few of them", 1000, map[string]string{
			"/etc/subuid": "1000:100000:20\n", "/etc/subgid": "1000:100000:20\n",
		}, ModeSingle, 0, "usermod --add-subuids 100020-165555"},
		{"a user whose ranges lie apart", 1000, map[string]string{
			"/etc/subuid": "1000:100000:65536\n", "/etc/subgid": "1000:200000:65536\n",
		}, ModeSingle, 0, "usermod --add-subuids 265536-331071"},
		{"a user without", 1000, map[string]string{}, ModeSingle, 0, "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 1000"},
		{"a user without, after others", 1000, map[string]string{
			"/etc/passwd": "ada:x:1000:1000::/:/bin/sh\nsearch:x:250000:250000::/:/bin/sh\n",
			"/etc/subuid": "ben:100000:65536\n", "/etc/subgid": "ben:100000:65536\neva:165536:65536\n",
		}, ModeSingle, 0, "usermod --add-subuids 250001-315536 --add-subgids 250001-315536 ada"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := t.TempDir()
			for _, helper := range []string{"newuidmap", "newgidmap"} {
				if err := os.WriteFile(filepath.Join(bin, helper), []byte("#!/bin/sh\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", bin)
			p, err := Discover(Options{Root: machine(t, tt.files), UID: tt.uid, GID: tt.uid})
			if err != nil {
				t.Fatal(err)
			}
			if p.Mode != tt.mode || p.Slots != tt.slots || !strings.Contains(p.Hint, tt.hint) || tt.hint == "" && p.Hint != "" {
				t.Errorf("mode %s, %d slots, hint %q; want %s, %d, %q", p.Mode, p.Slots, p.Hint, tt.mode, tt.slots, tt.hint)
			}
		})
	}
	t.Run("a user without newuidmap", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		p, err := Discover(Options{Root: machine(t, map[string]string{"/etc/subuid": "1000:100000:65536\n"}), UID: 1000, GID: 1000})
		if err != nil || p.Mode != ModeSingle || !strings.Contains(p.Hint, "uidmap package") {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// A service manager or cron may start belljar with a PATH that lacks the folder of the helpers.
func TestHelpersOutsidePath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	root := machine(t, map[string]string{
		"/etc/subuid": "1000:100000:65536\n", "/etc/subgid": "1000:100000:65536\n", "/usr/bin/newuidmap": "#!/bin/sh\n", "/usr/bin/newgidmap": "#!/bin/sh\n",
	})
	for _, helper := range []string{"newuidmap", "newgidmap"} {
		if err := os.Chmod(filepath.Join(root, "usr/bin", helper), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := Discover(Options{Root: root, UID: 1000, GID: 1000}); err != nil || p.Mode != ModeSub || p.Slots == 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestSubordinateSlotsSpareTheUsersOwnID(t *testing.T) {
	for own := 1000; own < 1100; own++ {
		p := &Pool{}
		p.use(ModeSub, narrow(), without([]span{{960, 1200}}, []span{{int64(own), int64(own) + 1}}))
		for i := range p.Slots {
			for _, e := range p.layout.extents(p.slot(i)) {
				if own >= e.Outside && own < e.Outside+e.Count {
					t.Fatalf("slot %d maps our own id %d", i, own)
				}
			}
		}
	}
}
