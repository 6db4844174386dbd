//go:build linux

package guest_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/need"
)

func (h *host) file(op wire.Op, req wire.FileRequest) *line {
	h.Helper()
	if req.UID == 0 {
		req.UID, req.GID = os.Getuid(), os.Getgid()
	}
	return h.ask(wire.Request{Op: op, File: &req})
}

// give sends contents. If the agent has refused them already, its reply shows it.
func (l *line) give(b []byte) *line {
	l.h.Helper()
	err := l.w.Data(b)
	if err == nil {
		err = l.w.EOF()
	}
	if err != nil && !errors.Is(err, unix.EPIPE) {
		l.h.Fatal(err)
	}
	return l
}

// take receives contents.
func (l *line) take() []byte {
	l.h.Helper()
	var out []byte
	for {
		switch f := l.next(); f.Kind {
		case wire.KindData:
			out = append(out, f.Payload...)
		case wire.KindEOF:
			return out
		default:
			l.h.Fatalf("frame of kind %d, %+v", f.Kind, l.decode(f).Error)
		}
	}
}

func TestWriteAndRead(t *testing.T) {
	h := begin(t, guest.Config{})
	big := bytes.Repeat([]byte("0123456789"), 50_000)
	info := h.file(wire.OpWrite, wire.FileRequest{Path: "/workspace/d/f", Parents: true, Mode: 0o640}).give(big).reply().File
	if info == nil || info.Path != "d/f" || info.Size != int64(len(big)) || info.Mode != 0o640 || info.Type != "file" {
		t.Fatalf("%+v", info)
	}
	l := h.file(wire.OpRead, wire.FileRequest{Path: "d/f", Offset: 3, Limit: 100_000})
	if l.reply().File == nil || !bytes.Equal(l.take(), big[3:100_003]) {
		t.Error("read something else")
	}
	h.file(wire.OpWrite, wire.FileRequest{Path: "d/f", NoReplace: true}).give(nil).failure(wire.CodeExists)
	// A replacement compares the content, and a different file is refused.
	if h.file(wire.OpWrite, wire.FileRequest{Path: "d/c", Mode: 0o600}).give([]byte("one")).reply().File == nil {
		t.Error("no file")
	}
	one := "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
	for name, req := range map[string]wire.FileRequest{
		"other content": {Path: "d/c", IfMatch: []string{strings.Repeat("0", 64)}}, "no file": {Path: "d/none", IfMatch: []string{"*"}},
	} {
		if h.file(wire.OpReplace, req).give([]byte("two")).failure(wire.CodeChanged); t.Failed() {
			t.Fatal(name)
		}
	}
	if info := h.file(wire.OpReplace, wire.FileRequest{Path: "d/c", IfMatch: []string{"x", one}}).give([]byte("two")).reply().File; info == nil || info.Mode != 0o600 {
		t.Errorf("%+v", info)
	}
	h.file(wire.OpReplace, wire.FileRequest{Path: "d/c", IfMatch: []string{one}}).give([]byte("three")).failure(wire.CodeChanged)
	if err := os.Remove(filepath.Join(h.dir, "d/c")); err != nil {
		t.Error(err)
	}
	// A stream without its end changes nothing and leaves nothing.
	l = h.file(wire.OpWrite, wire.FileRequest{Path: "d/f"})
	if err := l.w.Data([]byte("half")); err != nil {
		t.Fatal(err)
	}
	l.conn.Close()
	h.agent.Close() // waits for the stream
	entries, err := os.ReadDir(filepath.Join(h.dir, "d"))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if got, _ := os.ReadFile(filepath.Join(h.dir, "d/f")); !bytes.Equal(got, big) {
		t.Errorf("the file has %d bytes", len(got))
	}
}

func TestLinks(t *testing.T) {
	h := begin(t, guest.Config{})
	if err := os.WriteFile(filepath.Join(h.dir, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"inside": "/workspace/f", "root": "/", "up": "../../etc", "passwd": "/etc/passwd", "loop": "loop", "here": "/workspace",
	} {
		if err := os.Symlink(target, filepath.Join(h.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"inside", "here/f", "here/here/inside"} {
		l := h.file(wire.OpRead, wire.FileRequest{Path: path})
		l.reply()
		if got := l.take(); string(got) != "x" {
			t.Errorf("%s: %q", path, got)
		}
		h.file(wire.OpRead, wire.FileRequest{Path: path, NoFollow: true}).failure(wire.CodePathEscapes)
	}
	for _, path := range []string{"passwd", "root/etc/passwd", "up/passwd", "../x", "/etc/passwd", "loop"} {
		h.file(wire.OpRead, wire.FileRequest{Path: path}).failure(wire.CodePathEscapes)
	}
	for _, path := range []string{"root/tmp/x", "up/x", "passwd"} {
		h.file(wire.OpWrite, wire.FileRequest{Path: path}).failure(wire.CodePathEscapes)
	}
	if info := h.file(wire.OpStat, wire.FileRequest{Path: "root"}).reply().File; info.Type != "symlink" || info.Target != "/" {
		t.Errorf("%+v", info)
	}
	if err := unix.Mkfifo(filepath.Join(h.dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.file(wire.OpRead, wire.FileRequest{Path: "fifo"}).failure(wire.CodeNotFile)
	h.file(wire.OpRead, wire.FileRequest{Path: "fifo", NoFollow: true}).failure(wire.CodeNotFile)
	h.file(wire.OpWrite, wire.FileRequest{Path: "fifo"}).failure(wire.CodeNotFile)
	h.file(wire.OpRead, wire.FileRequest{Path: "none"}).failure(wire.CodeNotFound)
}

func TestFilesOfAnotherUser(t *testing.T) {
	need.Root(t)
	h := begin(t, guest.Config{})
	if err := os.WriteFile(filepath.Join(h.dir, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.file(wire.OpRead, wire.FileRequest{Path: "secret", UID: 4321, GID: 4321}).failure(wire.CodeDenied)
	h.file(wire.OpWrite, wire.FileRequest{Path: "new", UID: 4321, GID: 4321}).failure(wire.CodeDenied)
	if err := os.Chmod(h.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if h.file(wire.OpWrite, wire.FileRequest{Path: "new", UID: 4321, GID: 5432}).give([]byte("x")).reply().File == nil {
		t.Fatal("not written")
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(h.dir, "new"), &st); err != nil || st.Uid != 4321 || st.Gid != 5432 {
		t.Errorf("%v: %d:%d", err, st.Uid, st.Gid)
	}
}

// TestSaveChangingFiles saves a workspace while its files are truncated and written again, as a program without cgroups does. Every save is whole.
func TestSaveChangingFiles(t *testing.T) {
	h := begin(t, guest.Config{})
	stop := make(chan struct{})
	var writing sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		writing.Wait()
	})
	for name, size := range map[string]int{"small": 2, "large": 1 << 20} {
		content := bytes.Repeat([]byte("x"), size)
		change := func() error { return os.WriteFile(filepath.Join(h.dir, name), content, 0o666) }
		if err := change(); err != nil {
			t.Fatal(err)
		}
		writing.Go(func() {
			for err := error(nil); err == nil; err = change() {
				select {
				case <-stop:
					return
				default:
				}
			}
			t.Error("a file cannot be written")
		})
	}
	for range 300 {
		saved := tar.NewReader(bytes.NewReader(h.file(wire.OpSave, wire.FileRequest{Path: "."}).take()))
		n := 0
		for _, err := saved.Next(); err != io.EOF; _, err = saved.Next() {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 2 {
			t.Fatalf("%d files", n)
		}
	}
}

func TestTar(t *testing.T) {
	h := begin(t, guest.Config{})
	pack := func(heads ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, head := range heads {
			if head.Typeflag == tar.TypeReg {
				head.Size = 3
			}
			if err := w.WriteHeader(&head); err != nil {
				t.Fatal(err)
			}
			if head.Typeflag == tar.TypeReg {
				io.WriteString(w, "abc")
			}
		}
		w.Close()
		return b.Bytes()
	}
	good := pack(
		tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o555},
		tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Mode: 0o6755},
		tar.Header{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../d/f"},
	)
	if r := h.file(wire.OpTarIn, wire.FileRequest{Path: "in"}).give(good).reply(); !r.Done || r.Bytes != 3 {
		t.Fatalf("%+v", r.Error)
	}
	written := time.Unix(1_700_000_000, 900_000_000)
	if err := os.Chtimes(filepath.Join(h.dir, "in/d/f"), written, written); err != nil {
		t.Fatal(err)
	}
	out := tar.NewReader(bytes.NewReader(h.file(wire.OpTarOut, wire.FileRequest{Path: "in"}).take()))
	for _, want := range []tar.Header{
		{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o555},
		{Name: "d/f", Typeflag: tar.TypeReg, Mode: 0o755},
		{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../d/f", Mode: 0o777},
	} {
		got, err := out.Next()
		if err != nil || got.Name != want.Name || got.Typeflag != want.Typeflag || got.Mode != want.Mode || got.Linkname != want.Linkname {
			t.Errorf("%v: %+v", err, got)
		}
		if got != nil && got.Name == "d/f" && got.ModTime.After(written) {
			t.Errorf("%s is of %v, later than it was written", got.Name, got.ModTime)
		}
	}
	if _, err := out.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("more: %v", err)
	}
	for code, bad := range map[wire.Code][]tar.Header{
		wire.CodePathEscapes: {
			{Name: "../x", Typeflag: tar.TypeReg}, {Name: "/x", Typeflag: tar.TypeReg}, {Name: "a/../../x", Typeflag: tar.TypeDir},
			{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../../x"}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		},
		wire.CodeInvalid: {
			{Name: "h", Typeflag: tar.TypeLink, Linkname: "f"}, {Name: "p", Typeflag: tar.TypeFifo}, {Name: "c", Typeflag: tar.TypeChar},
		},
	} {
		for _, head := range bad {
			h.file(wire.OpTarIn, wire.FileRequest{Path: "bad"}).give(pack(head)).failure(code)
		}
	}
}

func TestWalkIsBoundedAndSorted(t *testing.T) {
	h := begin(t, guest.Config{})
	for _, dir := range []string{"b/c", "a"} {
		if err := os.MkdirAll(filepath.Join(h.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..", filepath.Join(h.dir, "b/up")); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{0: "a b b/c b/up", 3: "a b b/c", 4: "a b b/c b/up"} {
		r := h.file(wire.OpWalk, wire.FileRequest{Path: ".", Limit: limit}).reply()
		got := ""
		for _, f := range r.Files {
			got += " " + f.Path
		}
		if got != " "+want || r.Cut != (limit == 3) || r.More {
			t.Errorf("limit %d: %q, cut %t", limit, got, r.Cut)
		}
	}
}

// A file can be executed once its writer has the reply, even while another command is starting, whose child holds copies of the
// descriptors of all files being written.
func TestWrittenFileCanBeExecuted(t *testing.T) {
	program := []byte("#!/bin/true\n")
	archive := func(name string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(program))}
		if err := errors.Join(w.WriteHeader(head), second(w.Write(program)), w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		op   wire.Op
		req  wire.FileRequest
		sent []byte
	}{
		"write": {wire.OpWrite, wire.FileRequest{Path: "p", Mode: 0o755}, program},
		"tar":   {wire.OpTarIn, wire.FileRequest{Path: "."}, archive("p")},
		"merge": {wire.OpMerge, wire.FileRequest{Path: "."}, archive("p")},
	} {
		t.Run(name, func(t *testing.T) {
			h := begin(t, guest.Config{})
			l := h.file(c.op, c.req)
			half := bytes.Index(c.sent, program) + 1
			if err := l.w.Data(c.sent[:half]); err != nil {
				t.Fatal(err)
			}
			for len(filesBelow(t, h.dir)) == 0 && !unnamedBelow(h.dir) { // until the agent has the file open
				runtime.Gosched()
			}
			hung := h.exec(wire.Exec{ID: "hung", Argv: []string{leased(t)}, UID: os.Getuid(), GID: os.Getgid(), TimeoutMS: 300})
			for h.ask(wire.Request{Op: wire.OpPing}).reply().Info.Execs == 0 {
				runtime.Gosched()
			}
			if err := errors.Join(l.w.Data(c.sent[half:]), l.w.EOF()); err != nil {
				t.Fatal(err)
			}
			if r := l.reply(); r.Error != nil {
				t.Fatalf("%+v", r.Error)
			}
			p := h.exec(wire.Exec{ID: "p", Argv: []string{filepath.Join(h.dir, "p")}, UID: os.Getuid(), GID: os.Getgid()})
			p.started()
			if exit := p.exit(); exit.Code != 0 {
				t.Errorf("%+v", exit)
			}
			hung.started()
			hung.exit()
		})
	}
}

// unnamedBelow reports whether this process has a file without a name open, in a folder.
func unnamedBelow(dir string) bool {
	open, _ := filepath.Glob("/proc/self/fd/*")
	return slices.ContainsFunc(open, func(fd string) bool {
		to, _ := os.Readlink(fd)
		return strings.HasPrefix(to, dir+"/#")
	})
}

// filesBelow returns the names of all files below a folder.
func filesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

func second(_ int, err error) error { return err }
