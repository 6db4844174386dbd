//go:build linux

package guest_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/sockdir"
)

// chain makes nested directories below dir, deeper than the maximum length of a path.
func chain(t *testing.T, dir string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := unix.Mkdirat(fd, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	if err := unix.Mknodat(fd, "bottom", unix.S_IFREG|0o600, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
}

// descriptors returns the number of open descriptors of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

func TestDeepTrees(t *testing.T) {
	h := begin(t, guest.Config{})
	deep := filepath.Join(h.dir, "deep")
	if err := os.Mkdir(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	chain(t, deep, 3_000)
	before := descriptors(t)
	l := h.file(wire.OpWalk, wire.FileRequest{Path: "deep"})
	n, most := 0, 0
	for {
		reply := l.reply()
		n += len(reply.Files)
		most = max(most, descriptors(t))
		if !reply.More {
			if !reply.Cut {
				t.Error("no one reports that there is more")
			}
			break
		}
	}
	if n != 255 {
		t.Errorf("%d entries", n)
	}
	if most > before+40 {
		t.Errorf("%d descriptors, %d before", most, before)
	}
	h.file(wire.OpDelete, wire.FileRequest{Path: "deep", Recursive: true}).done()
	if left, err := os.ReadDir(h.dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func (l *line) done() {
	l.h.Helper()
	if reply := l.reply(); !reply.Done {
		l.h.Errorf("%+v", reply)
	}
}

func TestRemove(t *testing.T) {
	h := begin(t, guest.Config{})
	outside := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tree := filepath.Join(h.dir, "tree")
	must(os.MkdirAll(filepath.Join(tree, "a/b/c"), 0o755))
	must(os.WriteFile(filepath.Join(outside, "kept"), []byte("x"), 0o644))
	must(os.Symlink(outside, filepath.Join(tree, "a/link")))
	must(unix.Mkfifo(filepath.Join(tree, "a/b/fifo"), 0o600))
	for i := range 1500 {
		must(os.WriteFile(filepath.Join(tree, "a/b/c", fmt.Sprint(i)), nil, 0o644))
	}
	must(os.Chmod(filepath.Join(tree, "a/b"), 0))
	h.file(wire.OpDelete, wire.FileRequest{Path: "tree"}).failure(wire.CodeInvalid)
	h.file(wire.OpDelete, wire.FileRequest{Path: ".", Recursive: true}).failure(wire.CodeInvalid)
	h.file(wire.OpDelete, wire.FileRequest{Path: "tree", Recursive: true}).done()
	h.file(wire.OpDelete, wire.FileRequest{Path: "tree", Recursive: true}).failure(wire.CodeNotFound)
	if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
		t.Error(err)
	}
	must(os.Symlink(outside, filepath.Join(h.dir, "gate")))
	h.file(wire.OpDelete, wire.FileRequest{Path: "gate", Recursive: true}).done()
	h.file(wire.OpDelete, wire.FileRequest{Path: "gate/kept", Recursive: true}).failure(wire.CodeNotFound)
	if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
		t.Error(err)
	}
}

// A program creates files in a tree while it is being removed.
func TestRemoveWhatIsWrittenTo(t *testing.T) {
	h := begin(t, guest.Config{})
	busy := filepath.Join(h.dir, "busy/a/b")
	if err := os.MkdirAll(busy, 0o755); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; !stop.Load(); i++ {
			_ = os.MkdirAll(busy, 0o755)
			_ = os.WriteFile(filepath.Join(busy, fmt.Sprint(i%100)), nil, 0o644)
		}
	}()
	for range 20 {
		reply := h.file(wire.OpDelete, wire.FileRequest{Path: "busy", Recursive: true}).reply()
		if e := reply.Error; e != nil && e.Code != wire.CodeNotFound && e.Errno != wire.ETIMEDOUT {
			t.Errorf("%+v", e)
		}
	}
	stop.Store(true)
	<-ended
	h.file(wire.OpDelete, wire.FileRequest{Path: "busy", Recursive: true}).reply()
	if _, err := os.Lstat(filepath.Join(h.dir, "busy")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Temporary files are hidden.
func TestUnfinishedFilesAreHidden(t *testing.T) {
	h := begin(t, guest.Config{})
	l := h.file(wire.OpWrite, wire.FileRequest{Path: "d/f", Parents: true})
	if err := l.w.Data(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	for _, op := range []wire.Op{wire.OpReadDir, wire.OpWalk} {
		if reply := h.file(op, wire.FileRequest{Path: "d"}).reply(); len(reply.Files) != 0 || reply.Cut {
			t.Errorf("%s: %+v", op, reply)
		}
	}
	if err := l.w.EOF(); err != nil {
		t.Fatal(err)
	}
	if info := l.reply().File; info == nil || info.Size != 1<<20 {
		t.Errorf("%+v", info)
	}
}

// A file that is being written has no name yet, so that a killed sandbox leaves none in a volume.
func TestUnfinishedFilesHaveNoName(t *testing.T) {
	h := begin(t, guest.Config{})
	if fd, err := unix.Open(h.dir, unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600); err != nil {
		need.Missing(t, "the file system has no files without a name: %v", err)
	} else {
		unix.Close(fd)
	}
	for _, name := range []string{"new", "known"} {
		if err := os.WriteFile(filepath.Join(h.dir, "known"), []byte("x"), 0o640); err != nil {
			t.Fatal(err)
		}
		l := h.file(wire.OpWrite, wire.FileRequest{Path: name})
		text := strings.Repeat("x", 1<<20) // more than fits into a socket: the agent has opened the file
		if err := l.w.Data([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if found, err := filepath.Glob(filepath.Join(h.dir, ".belljar-*")); err != nil || len(found) > 0 {
			t.Errorf("%s: %q, %v", name, found, err)
		}
		if err := l.w.EOF(); err != nil {
			t.Fatal(err)
		}
		if info := l.reply().File; info == nil || info.Size != 1<<20 || (info.Mode&0o777 == 0o640) != (name == "known") {
			t.Errorf("%s: %+v", name, info)
		}
		if got, err := os.ReadFile(filepath.Join(h.dir, name)); string(got) != text || err != nil {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// Listings and archives include the folder for temporary files only if the request names it.
func TestScratchFolderIsHidden(t *testing.T) {
	h := begin(t, guest.Config{})
	for _, name := range []string{".tmp/build", "sub/.tmp"} {
		if err := os.MkdirAll(filepath.Join(h.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		op    wire.Op
		path  string
		limit int64
		want  string
		cut   bool
	}{
		{wire.OpReadDir, ".", 0, "sub", false},
		{wire.OpReadDir, ".", 1, "sub", false},
		{wire.OpWalk, ".", 0, "sub sub/.tmp", false},
		{wire.OpWalk, ".", 1, "sub", true},
		{wire.OpWalk, ".tmp", 0, ".tmp/build", false},
		{wire.OpReadDir, "sub", 0, "sub/.tmp", false},
	} {
		reply := h.file(c.op, wire.FileRequest{Path: c.path, Limit: c.limit}).reply()
		var got []string
		for _, f := range reply.Files {
			got = append(got, f.Path)
		}
		if strings.Join(got, " ") != c.want || reply.Cut != c.cut {
			t.Errorf("%s of %s, limit %d: %q, cut %t", c.op, c.path, c.limit, got, reply.Cut)
		}
	}
	for path, want := range map[string]string{".": "sub/ sub/.tmp/", ".tmp": "build/"} {
		var got []string
		archive := tar.NewReader(bytes.NewReader(h.file(wire.OpTarOut, wire.FileRequest{Path: path}).take()))
		for head, err := archive.Next(); err != io.EOF; head, err = archive.Next() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, head.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the archive of %s has %q, want %q", path, got, want)
		}
	}
	if info := h.file(wire.OpStat, wire.FileRequest{Path: ".tmp"}).reply().File; info == nil || info.Type != "dir" {
		t.Errorf("%+v", info)
	}
}

// A listing that is cut has the folders and the first of the files, in whichever order the file system has them.
func TestListingIsCut(t *testing.T) {
	h := begin(t, guest.Config{})
	in := filepath.Join(h.dir, "many")
	if err := os.MkdirAll(filepath.Join(in, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("f%04d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("many/f%04d", i))
	}
	for _, c := range []struct {
		op    wire.Op
		limit int
		want  []string
	}{
		{wire.OpReadDir, 100, append([]string{"many/src"}, want[:99]...)},
		{wire.OpWalk, 100, want[:100]},
		{wire.OpReadDir, 3000, append([]string{"many/src"}, want[:2999]...)},
		{wire.OpReadDir, 3001, append(slices.Clone(want), "many/src")},
	} {
		var got []string
		cut := false
		for l, more := h.file(c.op, wire.FileRequest{Path: "many", Limit: int64(c.limit)}), true; more; {
			reply := l.reply()
			for _, f := range reply.Files {
				got = append(got, f.Path)
			}
			more, cut = reply.More, reply.Cut
		}
		if !slices.Equal(got, c.want) || cut != (c.limit <= 3000) {
			t.Errorf("%s, limit %d: %d entries, cut %t, to %q", c.op, c.limit, len(got), cut, got[max(0, len(got)-3):])
		}
	}
}

// A file that is removed while its folder is packed is left out.
func TestPackedMeanwhile(t *testing.T) {
	h := begin(t, guest.Config{})
	for name, size := range map[string]int{"a": 8 << 20, "b": 1, "c": 1} {
		if err := os.WriteFile(filepath.Join(h.dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := h.file(wire.OpTarOut, wire.FileRequest{Path: "."})
	first := bytes.Clone(l.next().Payload) // of a, which is larger than all buffers
	if err := os.Remove(filepath.Join(h.dir, "b")); err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(bytes.NewReader(append(first, l.take()...)))
	for _, want := range []string{"a", "c"} {
		if head, err := archive.Next(); err != nil || head.Name != want {
			t.Fatalf("%+v: %v", head, err)
		}
	}
	if _, err := archive.Next(); err != io.EOF {
		t.Error(err)
	}
}

func TestMkdirModes(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	h := begin(t, guest.Config{})
	h.file(wire.OpMkdir, wire.FileRequest{Path: "a/b", Mode: 0o777, Parents: true}).done()
	if info := h.file(wire.OpStat, wire.FileRequest{Path: "a/b"}).reply().File; info.Mode != 0o777 {
		t.Errorf("%o", info.Mode)
	}
	h.file(wire.OpMkdir, wire.FileRequest{Path: "a/b", Mode: 0o700, Parents: true}).done()
	if info := h.file(wire.OpStat, wire.FileRequest{Path: "a/b"}).reply().File; info.Mode != 0o777 {
		t.Errorf("one that was there has now %o", info.Mode)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h.file(wire.OpMkdir, wire.FileRequest{Path: "f", Parents: true}).failure(wire.CodeExists)
	if err := os.Symlink("a", filepath.Join(h.dir, "l")); err != nil {
		t.Fatal(err)
	}
	h.file(wire.OpMkdir, wire.FileRequest{Path: "l", Parents: true}).done()
	h.file(wire.OpMkdir, wire.FileRequest{Path: "l/c", Parents: true}).done()
}

func TestMergeNew(t *testing.T) {
	h := begin(t, guest.Config{})
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, name := range []string{"d/new", "d/old"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("N")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if reply := h.file(wire.OpMergeNew, wire.FileRequest{Path: "."}).give(packed.Bytes()).reply(); !reply.Done || reply.Bytes != 2 {
		t.Fatalf("%+v", reply)
	}
	if err := os.Remove(filepath.Join(h.dir, "d/new")); err != nil {
		t.Fatal(err)
	}
	h.file(wire.OpMergeNew, wire.FileRequest{Path: "."}).give(packed.Bytes()).failure(wire.CodeExists)
	if left, err := os.ReadDir(filepath.Join(h.dir, "d")); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestScan(t *testing.T) {
	h := begin(t, guest.Config{})
	for name, content := range map[string]string{
		"text": "hello\n", "empty": "", "binary": "a\x00b", "late": strings.Repeat("x", 9000) + "\x00", "long": strings.Repeat("line\n", 50_000),
	} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(h.dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("text", filepath.Join(h.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(h.dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := h.file(wire.OpScan, wire.FileRequest{Path: ".", Limit: 100_000, Paths: []string{"text", "none", "empty", "binary", "late", "dir", "link", "fifo", "long"}})
	r := tar.NewReader(bytes.NewReader(l.take()))
	var got []string
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(head.Name, " ", head.Size))
	}
	if want := []string{"text 6", "empty 0", "late 9001", "long 100000"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	h.file(wire.OpScan, wire.FileRequest{Path: ".", Paths: []string{"../x"}}).failure(wire.CodePathEscapes)
}

func TestSpace(t *testing.T) {
	dir := small(t)
	h := begin(t, guest.Config{Workspace: dir})
	lay(t, dir, "a=1", "b=1")
	s := h.file(wire.OpSpace, wire.FileRequest{Path: "."}).reply().Space
	if s == nil || *s != (wire.Space{Bytes: 8192, MaxBytes: 1 << 20, Files: 2, MaxFiles: 19}) {
		t.Errorf("%+v", s)
	}
}

// crowdedListener fails for a while from lack of resources.
type crowdedListener struct {
	net.Listener
	refusals atomic.Int32
}

func (l *crowdedListener) Accept() (net.Conn, error) {
	if n := l.refusals.Add(1); n <= 3 {
		errno := []unix.Errno{unix.EMFILE, unix.ENOSPC, unix.ENOBUFS}[n-1]
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errno)}
	}
	return l.Listener.Accept()
}

// An agent that runs out of descriptors, or of what its user may have, for a moment keeps its sandbox.
func TestCrowdedAgentLivesOn(t *testing.T) {
	a, err := guest.New(guest.Config{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	l, err := net.Listen("unix", filepath.Join(sockdir.New(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- a.Serve(&crowdedListener{Listener: l}) }()
	h := &host{TB: t, agent: a, socket: l.Addr().String()}
	if reply := h.ask(wire.Request{Op: wire.OpPing}).reply(); reply.Info == nil {
		t.Errorf("%+v", reply)
	}
	a.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
