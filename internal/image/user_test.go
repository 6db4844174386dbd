package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestResolveUser(t *testing.T) {
	dir := t.TempDir()
	write := func(dir, name, data string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(dir, "etc/passwd", "root:x:0:0::/root:/bin/sh\n# comment\n\nbroken\nshort:x\nodd:x:abc:5::/:\nboss:x:0:9::/:\napp:x:101:102:App:/app:/bin/sh\nfar:x:70000:5::/:\n"+
		"7777:x:50:51::/:\nlong:"+strings.Repeat("x", 70_000)+":60:61::/:\nlast:x:61:62::/:")
	write(dir, "etc/group", "root:x:0:\nstaff:x:50:app\nfar:x:70000:\n")
	bare := t.TempDir()
	link := t.TempDir()
	outside := t.TempDir()
	write(outside, "passwd", "app:x:1:1::/:/bin/sh\n")
	for _, path := range []string{filepath.Join(outside, "passwd"), "../../../../../../../../" + filepath.Join(outside, "passwd")} {
		l := t.TempDir()
		if err := os.Mkdir(filepath.Join(l, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(l, "etc/passwd")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := resolveUser(l, "app"); belljar.CodeOf(err) != belljar.CodeImageInvalid {
			t.Errorf("a link to %s: %v", path, err)
		}
	}
	write(link, "usr/etc/passwd", "app:x:11:12::/:\n")
	if err := os.Mkdir(filepath.Join(link, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../usr/etc/passwd", filepath.Join(link, "etc/passwd")); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "etc/passwd"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		dir, user string
		uid, gid  int
		bad       bool
	}{
		{dir, "", 0, 0, false}, {dir, "root", 0, 0, false}, {dir, "0", 0, 0, false}, {dir, "0:0", 0, 0, false}, {dir, "root:staff", 0, 0, false}, {dir, "boss", 0, 0, false},
		{dir, "app", 101, 102, false}, {dir, "app:staff", 101, 50, false}, {dir, "app:77", 101, 77, false}, {dir, "app:root", 101, 0, false}, {dir, "app:", 101, 102, false},
		{dir, "101", 101, 102, false}, {dir, "101:3", 101, 3, false}, {dir, "4242", 4242, 0, false}, {dir, "4242:4343", 4242, 4343, false}, {dir, "7777", 50, 51, false},
		{dir, "last", 61, 62, false}, {dir, "long", 60, 61, false},
		{dir, "nobody", 0, 0, true}, {dir, "app:nobody", 0, 0, true}, {dir, "far", 0, 0, true}, {dir, "65535", 0, 0, true}, {dir, "1:65535", 0, 0, true}, {dir, "4294967296", 0, 0, true},
		{dir, "-1", 0, 0, true}, {dir, "odd", 0, 0, true}, {dir, "app:far", 0, 0, true},
		{bare, "1000", 1000, 0, false}, {bare, "app", 0, 0, true}, {bare, "1000:app", 0, 0, true},
		{link, "app", 11, 12, false}, {folder, "app", 0, 0, true}, {folder, "5", 5, 0, false},
	}
	for _, tt := range tests {
		uid, gid, err := resolveUser(tt.dir, tt.user)
		if tt.bad != (err != nil) || uid != tt.uid || gid != tt.gid || tt.bad && belljar.CodeOf(err) != belljar.CodeImageInvalid {
			t.Errorf("%q is %d:%d, %v; want %d:%d", tt.user, uid, gid, err, tt.uid, tt.gid)
		}
	}
}
