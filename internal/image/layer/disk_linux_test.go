package layer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/layer"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

// unpacked unpacks one layer.
func unpacked(t testing.TB, list ...entry) (string, layer.Stats) {
	t.Helper()
	d := folder(t)
	stats, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, list...)), d, layer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d, stats
}

// elsewhere returns a folder on another file system than the temporary ones, or skips the test.
func elsewhere(t *testing.T) string {
	t.Helper()
	var here, there unix.Stat_t
	if unix.Stat(os.TempDir(), &here) != nil {
		t.Fatal("no temporary folder")
	}
	for _, candidate := range []string{"/dev/shm", "/tmp", "/var/tmp"} {
		if unix.Stat(candidate, &there) != nil || here.Dev == there.Dev {
			continue
		}
		d, err := os.MkdirTemp(candidate, "layer")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := layer.Remove(d); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	t.Skip("all folders are on one file system")
	return ""
}

// TestCopies tests that files that cannot be linked are copied, identical in everything.
func TestCopies(t *testing.T) {
	body := strings.Repeat("body", 10_000)
	lower, _ := unpacked(t, dir("a"), pax(entry{name: "a/f", body: body, mode: 0o555}, "SCHILY.xattr.user.note", "kept"), sym("a/s", "/etc"), hard("h", "a/f"), file("x", "1"))
	upper, _ := unpacked(t, file("x", "2"), file("a/.wh.s", ""))
	linked, copied := folder(t), elsewhere(t)
	if _, err := layer.Merge(t.Context(), linked, []string{lower, upper}); err != nil {
		t.Fatal(err)
	}
	stats, err := layer.Merge(t.Context(), copied, []string{lower, upper})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Copied != 5 || stats.Bytes < int64(2*len(body)) {
		t.Errorf("%+v", stats)
	}
	if diff := cmp.Diff(look(t, linked), look(t, copied)); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"a", "a/f", "x"} {
		one, _ := os.Lstat(filepath.Join(linked, name))
		other, _ := os.Lstat(filepath.Join(copied, name))
		if !one.ModTime().Equal(other.ModTime()) {
			t.Errorf("%s: %v and %v", name, one.ModTime(), other.ModTime())
		}
	}
}

// TestManyLinks tests that a file with the highest number of names is copied.
func TestManyLinks(t *testing.T) {
	tier.Soak(t)
	d, _ := unpacked(t, file("f", "x"), file("g", "y"))
	names := folder(t)
	full := false
	for i := range 66_000 {
		err := os.Link(filepath.Join(d, "f"), filepath.Join(names, fmt.Sprint(i)))
		if full = errors.Is(err, syscall.EMLINK); full {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !full {
		t.Skip("this file system lets a file have any number of names")
	}
	root := folder(t)
	stats, err := layer.Merge(t.Context(), root, []string{d})
	if err != nil || stats.Copied != 1 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if diff := cmp.Diff([]string{"f 644 x", "g 644 y"}, look(t, root)); diff != "" {
		t.Error(diff)
	}
}

// attr reads an extended attribute; "" if there is none.
func attr(name, key string) string {
	buf := make([]byte, 100)
	n, err := unix.Lgetxattr(name, key, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

func TestAttributes(t *testing.T) {
	probe := folder(t)
	if err := unix.Setxattr(probe, "user.x", []byte("1"), 0); err != nil {
		t.Skipf("no attributes here: %v", err)
	}
	all := []string{
		"SCHILY.xattr.user.note", "kept", "SCHILY.xattr.user.overlay.opaque", "n", "SCHILY.xattr.security.capability",
		"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "SCHILY.xattr.trusted.x", "1",
		"SCHILY.xattr.system.posix_acl_access", "1", "SCHILY.xattr.user." + strings.Repeat("n", 300), "1",
	}
	lower, stats := unpacked(t, pax(dir("d"), all...), pax(entry{name: "d/f", mode: 0o444}, all...), pax(dir("e"), all...), pax(sym("s", "d"), all...))
	if stats.Attrs != 15 {
		t.Errorf("%+v", stats)
	}
	upper, _ := unpacked(t, file("d/g", ""), dir("e"))
	root := folder(t)
	if _, err := layer.Merge(t.Context(), root, []string{lower, upper}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"d": "kept", "d/f": "kept", "e": ""} {
		if got := attr(filepath.Join(root, name), "user.note"); got != want {
			t.Errorf("%s: user.note is %q, want %q", name, got, want)
		}
		for _, key := range []string{"security.capability", "trusted.x", "system.posix_acl_access", "user.overlay.opaque"} {
			if got := attr(filepath.Join(root, name), key); got != "" {
				t.Errorf("%s has %s", name, key)
			}
		}
	}
	again, _ := unpacked(t, pax(dir("d"), "SCHILY.xattr.user.one", "1"), pax(dir("d"), "SCHILY.xattr.user.two", "2"))
	if attr(filepath.Join(again, "d"), "user.one") != "" || attr(filepath.Join(again, "d"), "user.two") != "2" {
		t.Error("of two entries the last is not the one that counts")
	}
}

// TestUmask tests that the umask makes no difference.
func TestUmask(t *testing.T) {
	list := []entry{dir("a"), entry{name: "a/f", mode: 0o755}, file("b/c/d", "x"), entry{name: "e/", mode: 0o311}, file("e/f", "")}
	want := []string{"a/ 755", "a/f 755 ", "b/ 755", "b/c/ 755", "b/c/d 644 x", "e/ 711", "e/f 644 "}
	for _, mask := range []int{0, 0o077, 0o777} {
		before := syscall.Umask(0)
		d, root := folder(t), folder(t)
		syscall.Umask(mask)
		_, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, list...)), d, layer.Options{})
		if err == nil {
			_, err = layer.Merge(t.Context(), root, []string{d})
		}
		syscall.Umask(before)
		if err != nil {
			t.Errorf("umask %o: %v", mask, err)
			continue
		}
		if diff := cmp.Diff(want, look(t, root)); diff != "" {
			t.Errorf("umask %o: %s", mask, diff)
		}
	}
}

// TestDiskFull has a thread of its own with a tiny file system, which no other thread sees and which ends with it.
func TestDiskFull(t *testing.T) {
	need.Root(t)
	dir := folder(t)
	type result struct{ bytes, files, merge, removed error }
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its mounts
		defer close(done)
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,nr_inodes=100")
		}
		if err != nil {
			t.Errorf("mount: %v", err)
			return
		}
		var r result
		try := func(name string, list ...entry) error {
			d := filepath.Join(dir, name)
			if err := os.Mkdir(d, 0o700); err != nil {
				return err
			}
			_, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, list...)), d, layer.Options{})
			return err
		}
		r.bytes = try("bytes", file("small", "x"), file("large", strings.Repeat("x", 1<<20)))
		r.removed = layer.Remove(filepath.Join(dir, "bytes"))
		r.files = try("files", many(200)...)
		r.removed = errors.Join(r.removed, layer.Remove(filepath.Join(dir, "files")))
		if err := errors.Join(try("layer", many(60)...), os.Mkdir(filepath.Join(dir, "root"), 0o700)); err != nil {
			t.Errorf("a layer that has room: %v", err)
		}
		_, r.merge = layer.Merge(t.Context(), filepath.Join(dir, "root"), []string{filepath.Join(dir, "layer")})
		done <- r
	}()
	r, ok := <-done
	if !ok {
		return
	}
	for what, err := range map[string]error{"bytes": r.bytes, "files": r.files, "merge": r.merge} {
		if belljar.CodeOf(err) != belljar.CodeDiskFull {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r.removed != nil {
		t.Error(r.removed)
	}
}
