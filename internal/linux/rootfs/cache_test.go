//go:build linux

package rootfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/test/need"
)

// The host is examined again once it has lost files that sandboxes see, e.g. when a package is removed.
func TestCacheOfHost(t *testing.T) {
	shown := filepath.Join(t.TempDir(), "belljar-test")
	if err := os.Mkdir(shown, 0o755); err != nil {
		t.Fatal(err)
	}
	known := &Tree{Dir: "/", Parts: []Part{{Name: "etc/belljar-test", Kind: Bind, Source: shown[1:]}, {Name: "bin", Kind: Link, Target: "usr/bin"}}}
	var etc unix.Stat_t
	if err := unix.Lstat("/etc", &etc); err != nil {
		t.Fatal(err)
	}
	cache := Cache{trees: map[cacheKey]*Tree{{dev: uint64(etc.Dev), ino: etc.Ino, changed: etc.Ctim}: known}}
	open := func() *Tree {
		held, err := cache.Open(t.Context(), "", "", User{})
		if err != nil {
			t.Fatal(err)
		}
		held.Close()
		return held.Tree
	}
	if open() != known {
		t.Error("the host is looked at for each sandbox")
	}
	if err := os.Remove(shown); err != nil {
		t.Fatal(err)
	}
	again := open()
	if again.Find("etc/belljar-test") != nil || again.Find("usr") == nil {
		t.Errorf("%+v", again.Parts)
	}
	if open() != again {
		t.Error("the host is looked at for each sandbox, after it has changed")
	}
}

// The image host includes the certificates of Arch, to which links in /etc/ssl lead, and of Alpine. The next sandbox has the files in /etc of
// programs that were installed while a server runs.
func TestHostOfOthers(t *testing.T) {
	need.Root(t)
	const private = "BELLJAR_TEST_PRIVATE_ETC"
	if os.Getenv(private) == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestHostOfOthers$")
		again.Env = append(os.Environ(), private+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if text, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		return
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", "/etc", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll("/etc/ca-certificates/extracted", 0o755), os.Mkdir("/etc/ssl", 0o755), os.Symlink("certs/ca-certificates.crt", "/etc/ssl/cert.pem")); err != nil {
		t.Fatal(err)
	}
	var cache Cache
	find := func(name string) *Part {
		held, err := cache.Open(t.Context(), "", "", User{})
		if err != nil {
			t.Fatal(err)
		}
		held.Close()
		return held.Tree.Find(name)
	}
	for _, name := range []string{"etc/ca-certificates/extracted", "etc/ssl/cert.pem"} {
		if find(name) == nil {
			t.Errorf("%s is not shown", name)
		}
	}
	const later = "etc/java-21-openjdk"
	if p := find(later); p != nil {
		t.Fatalf("%+v", p)
	}
	changed := func() unix.Timespec {
		var etc unix.Stat_t
		if err := errors.Join(os.WriteFile("/etc/file", nil, 0o600), os.Remove("/etc/file"), unix.Lstat("/etc", &etc)); err != nil {
			t.Fatal(err)
		}
		return etc.Ctim
	}
	for first := changed(); changed() == first; { // the clock of the file system has steps of milliseconds
	}
	if err := os.Mkdir("/"+later, 0o755); err != nil {
		t.Fatal(err)
	}
	if find(later) == nil {
		t.Error("what was installed since is not shown")
	}
}
