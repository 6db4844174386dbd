package shelf

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/test/need"
)

// TestPutTree checks that a workspace is unpacked unchanged, and that a failed stream leaves nothing over.
func TestPutTree(t *testing.T) {
	at := time.Unix(1e9, 123456789)
	long := strings.Repeat("n", 255)
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "a\nb\xff", Mode: 0o600},
		{Typeflag: tar.TypeReg, Name: "closed/deep/file", Mode: 0o400, Size: 4, PAXRecords: map[string]string{paxAttribute + "user.origin": "x\x00y"}},
		{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o500},
		{Typeflag: tar.TypeLink, Name: "further", Linkname: "closed/deep/file"},
		{Typeflag: tar.TypeReg, Name: "hole", Mode: 0o644, Size: 8 << 20},
		{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "/etc/passwd"},
		{Typeflag: tar.TypeReg, Name: long, Mode: 0o755, Size: 4},
	} {
		h.Format, h.ModTime = tar.FormatPAX, at
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 4 {
			_, _ = w.Write(make([]byte, h.Size-4))
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, "text")
		}
	}
	_ = w.Close()
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 1 << 20, Max: 1 << 20}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 1000, 1001
	}
	l, err := s.PutTree("a", uid, gid, at, bytes.NewReader(raw.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	// The last 64 KiB of the file with a hole have text, and two files use a page each.
	if want := int64(64<<10 + 2*page); l.Bytes != want || l.Files != 7 {
		t.Errorf("%d bytes, want %d; %d files", l.Bytes, want, l.Files)
	}
	stat := func(name string) (st unix.Stat_t) {
		if err := unix.Lstat(filepath.Join(l.Dir, name), &st); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if int(st.Uid) != uid || int(st.Gid) != gid {
			t.Errorf("%q is of %d:%d", name, st.Uid, st.Gid)
		}
		return st
	}
	for name, mode := range map[string]uint32{
		"": syscall.S_IFDIR | 0o755, "a\nb\xff": syscall.S_IFREG | 0o600, "closed": syscall.S_IFDIR | 0o500, "closed/deep": syscall.S_IFDIR | 0o755,
		"closed/deep/file": syscall.S_IFREG | 0o400, "hole": syscall.S_IFREG | 0o644, "link": syscall.S_IFLNK | 0o777, long: syscall.S_IFREG | 0o755,
	} {
		st := stat(name)
		if st.Mode != mode {
			t.Errorf("%q has mode %o, want %o", name, st.Mode, mode)
		}
		if name != "" && name != "closed/deep" && (st.Mtim.Sec != at.Unix() || st.Mtim.Nsec != int64(at.Nanosecond())) {
			t.Errorf("%q is of %v", name, st.Mtim)
		}
	}
	if st := stat("further"); st.Nlink != 2 || st.Ino != stat("closed/deep/file").Ino {
		t.Errorf("%+v", st)
	}
	if st := stat("hole"); st.Size != 8<<20 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes in %d blocks", st.Size, st.Blocks)
	}
	value := make([]byte, 8)
	if n, err := unix.Getxattr(filepath.Join(l.Dir, "further"), "user.origin", value); !errors.Is(err, unix.ENOTSUP) && (err != nil || string(value[:n]) != "x\x00y") {
		t.Errorf("%q, %v", value, err)
	}
	if again, err := s.Get("a"); err != nil || again.Dir != l.Dir || again.Bytes != l.Bytes || again.Files != l.Files {
		t.Errorf("%+v, %v", again, err)
	} else {
		again.Release()
	}
	// Put also creates holes, and sets the times of links and folders.
	plain, err := (&Shelf{Dir: t.TempDir(), Keep: 1 << 20, Max: 16 << 20, Links: true}).Put("a", nil, at, bytes.NewReader(raw.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Release()
	for _, name := range []string{"closed", "hole", "link"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(plain.Dir, name), &st); err != nil || st.Blocks*512 > 1<<20 || st.Mtim.Nano() != at.UnixNano() {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
	if want := int64(64<<10 + 2*4); plain.Bytes != want {
		t.Errorf("%d bytes, want %d", plain.Bytes, want)
	}

	before, _ := os.ReadDir(s.Dir)
	large := &Shelf{Dir: s.Dir, Max: 100}
	broken := errors.New("broken")
	for what, c := range map[string]struct {
		of   *Shelf
		in   io.Reader
		want error
	}{
		"too large":        {large, bytes.NewReader(raw.Bytes()), ErrTooLarge},
		"cut":              {s, bytes.NewReader(raw.Bytes()[:2000]), io.ErrUnexpectedEOF},
		"damaged, at last": {s, io.MultiReader(bytes.NewReader(raw.Bytes()), failing{broken}), broken},
		"above":            {s, stream(t, file{name: "../x", text: "x"}), ErrBad},
		"below a link":     {s, stream(t, file{name: "l", target: "/etc"}, file{name: "l/x", text: "x"}), os.ErrExist},
		"device":           {s, stream(t, file{name: "d", kind: tar.TypeChar}), ErrBad},
	} {
		if l, err := c.of.PutTree("b", uid, gid, at, c.in); !errors.Is(err, c.want) || l != nil {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
	if after, _ := os.ReadDir(s.Dir); len(after) != len(before) {
		t.Errorf("%v are left of %v", after, before)
	}
}

// An unpacked workspace is valid until the next boot: its files are not synced, and a power cut can lose them.
func TestTreeAfterABoot(t *testing.T) {
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 1 << 20, Max: 1 << 20}
	put := func() *Layer {
		t.Helper()
		l, err := s.PutTree("a", os.Getuid(), os.Getgid(), time.Now(), stream(t, file{name: "x", text: "x", mode: 0o600}))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	before := put()
	before.Leave()
	kept, err := s.Get("a")
	if err != nil || kept == nil || kept.Dir != before.Dir {
		t.Fatalf("in the same boot: %+v, %v", kept, err)
	}
	kept.Leave()
	rec, err := s.read("a")
	if err != nil {
		t.Fatal(err)
	}
	rec.Boot = "another"
	if err := s.write("a", rec); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Get("a"); l != nil || err != nil {
		t.Errorf("after a boot: %+v, %v", l, err)
	}
	put().Release()
	if _, err := os.Stat(before.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the former files are kept: %v", err)
	}
	if l, err := s.Get("a"); l == nil || err != nil {
		t.Errorf("unpacked again: %+v, %v", l, err)
	} else {
		l.Release()
	}
}

// TestPowerCut checks that recorded packages are complete on a disk that stops immediately after their installation.
func TestPowerCut(t *testing.T) {
	if why, hint := disk.Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
	image := filepath.Join(t.TempDir(), "disk")
	if err := disk.Make(image, 64<<20, 1000); err != nil {
		t.Fatal(err)
	}
	mounted := func() (disk.Tree, *Shelf) { // where no other process can keep it mounted
		t.Helper()
		tree, err := disk.Mount(image)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tree.Close() })
		return tree, &Shelf{Dir: fmt.Sprintf("/proc/self/fd/%d/shelf", tree.Fd()), Keep: 1 << 20, Max: 1 << 20}
	}
	tree, s := mounted()
	text := strings.Repeat("all that the file holds\n", 1000)
	l, err := s.Put("a", []belljar.Package{{Name: "x", Version: "1"}}, time.Now(), stream(t, file{name: "x.py", text: text}))
	if err != nil {
		t.Fatal(err)
	}
	l.Leave()
	// The disk has the record, and with it its journal, which has the names of all files.
	rec, err := os.Open(s.in("a" + recordExt))
	if err != nil {
		t.Fatal(err)
	}
	const shutdown, withoutTheRest = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	if err := errors.Join(rec.Sync(), unix.IoctlSetPointerInt(int(rec.Fd()), shutdown, withoutTheRest), rec.Close(), tree.Close()); err != nil {
		t.Fatal(err)
	}

	_, s = mounted()
	l, err = s.Get("a")
	if err != nil || l == nil {
		t.Fatalf("%+v, %v", l, err)
	}
	if got, err := os.ReadFile(filepath.Join(l.Dir, "x.py")); err != nil || string(got) != text {
		t.Errorf("the file has %d bytes, want %d: %v", len(got), len(text), err)
	}
	l.Leave()
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestMask checks that the users of sandboxes can read packages, with any umask of the server.
func TestMask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	l, err := (&Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 100, Max: 100}).Put("a", nil, time.Now(), stream(t,
		file{name: "dir/"}, file{name: "dir/a", text: "a"}, file{name: "deep/er/b", text: "b"}))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	for name, want := range map[string]os.FileMode{"": 0o755, "dir": 0o755, "dir/a": 0o644, "deep": 0o755, "deep/er": 0o755, "deep/er/b": 0o644} {
		if info, err := os.Stat(filepath.Join(l.Dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", name, info.Mode(), err)
		}
	}
}

// With many layers that are in use and forgotten, one more or one less does not read the records of the others.
func TestManyForgotten(t *testing.T) {
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 1 << 30, Max: 1 << 20}
	put := func(key string) *Layer {
		t.Helper()
		l, err := s.PutTree(key, os.Getuid(), os.Getgid(), time.Now(), stream(t, file{name: "x", text: "x", mode: 0o600}))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	var held []*Layer
	for i := range 200 {
		key := fmt.Sprint(i)
		held = append(held, put(key))
		s.Forget(key)
	}
	// A named pipe in place of a record opens for its writer as often as it is read.
	trap := s.in("trap" + recordExt)
	if err := unix.Mkfifo(trap, 0o600); err != nil {
		t.Fatal(err)
	}
	reads, over := 0, make(chan struct{})
	opened := func() {
		f, err := os.OpenFile(trap, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		_ = f.Close()
	}
	var stop atomic.Bool
	go func() {
		defer close(over)
		for opened(); !stop.Load(); opened() {
			reads++
		}
	}()
	held[0].Release()
	if _, err := os.Stat(held[0].Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a forgotten layer is left: %v", err)
	}
	last := put("last")
	stop.Store(true)
	release, err := os.OpenFile(trap, os.O_RDWR, 0) // it does not wait for a writer
	if err != nil {
		t.Fatal(err)
	}
	<-over
	_ = release.Close()
	if reads > 0 {
		t.Errorf("the record of another layer was read %d times", reads)
	}
	if err := os.Remove(trap); err != nil {
		t.Fatal(err)
	}
	for _, l := range append(held, last) {
		l.Release()
	}
	if keys := s.Keys(); len(keys) != 1 || keys[0] != "last" {
		t.Errorf("%q are kept", keys)
	}
}

// Layers that this process adds are swept as soon as they exceed Keep.
func TestSweepAtKeep(t *testing.T) {
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 10 * (page + 1), Max: 60}
	for i := range 25 {
		putX(t, s, fmt.Sprint(i)).Release()
		if n := len(s.Keys()); n != min(i+1, 10) {
			t.Fatalf("after %d layers, %d are kept", i+1, n)
		}
	}
}
