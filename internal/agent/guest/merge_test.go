//go:build linux

package guest_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/need"
)

// pack makes a tar stream of "name=contents" files and "name/" folders, in this order.
func pack(t *testing.T, list ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, item := range list {
		name, contents, _ := strings.Cut(item, "=")
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(contents))}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o555
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(contents)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree lists a folder: "name/" or "name=contents", with the mode of special files.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	list := []string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		name, _ := filepath.Rel(dir, file)
		switch {
		case d.IsDir():
			name += "/"
		case d.Type().IsRegular():
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			name += "=" + string(b)
		default:
			name += " " + d.Type().String()
		}
		list = append(list, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// lay creates the files that pack would pack.
func lay(t *testing.T, dir string, list ...string) {
	t.Helper()
	for _, item := range list {
		name, contents, _ := strings.Cut(item, "=")
		err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name+"x")), 0o755)
		if err == nil && !strings.HasSuffix(name, "/") {
			err = os.WriteFile(filepath.Join(dir, name), []byte(contents), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMerge(t *testing.T) {
	for name, test := range map[string]struct {
		before []string
		into   string
		merge  []string
		after  []string
	}{
		"into nothing":   {nil, ".", []string{"a=1", "d/e/f=2", "empty/"}, []string{"a=1", "d/", "d/e/", "d/e/f=2", "empty/"}},
		"next to others": {[]string{"d/x=1"}, ".", []string{"d/y=2"}, []string{"d/", "d/x=1", "d/y=2"}},
		"over files":     {[]string{"a=old", "d/b=old"}, ".", []string{"a=new", "d/b=new"}, []string{"a=new", "d/", "d/b=new"}},
		"into a folder":  {[]string{"d/x=1"}, "d/new/er", []string{"y=2"}, []string{"d/", "d/new/", "d/new/er/", "d/new/er/y=2", "d/x=1"}},
		"absolute":       {nil, "/workspace/d", []string{"y=2"}, []string{"d/", "d/y=2"}},
		"full folder":    {[]string{"d/x=1"}, ".", []string{"d/"}, []string{"d/", "d/x=1"}},
		"nothing at all": {[]string{"a=1"}, ".", nil, []string{"a=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := begin(t, guest.Config{})
			lay(t, h.dir, test.before...)
			r := h.file(wire.OpMerge, wire.FileRequest{Path: test.into}).give(pack(t, test.merge...)).reply()
			if !r.Done {
				t.Fatalf("%+v", r.Error)
			}
			if diff := cmp.Diff(test.after, tree(t, h.dir)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// If a merge fails for any reason, the workspace is unchanged.
func TestMergeFails(t *testing.T) {
	good := pack(t, "a=new", "d/b=new", "new/x=1", "z=new")
	link := func() []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, head := range []tar.Header{{Name: "a", Typeflag: tar.TypeReg}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a"}} {
			if err := w.WriteHeader(&head); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		return b.Bytes()
	}
	for name, test := range map[string]struct {
		before []string
		into   string
		body   []byte
		code   wire.Code
	}{
		"file over folder":    {[]string{"a=1", "z/x=1"}, ".", good, wire.CodeExists},
		"folder over file":    {[]string{"a=1", "new=1"}, ".", good, wire.CodeExists},
		"into a file":         {[]string{"f=1"}, "f/x", good, wire.CodeExists},
		"cut off":             {[]string{"a=1"}, ".", good[:514], wire.CodeInvalid},
		"leads out":           {[]string{"a=1"}, ".", pack(t, "a=2", "../x=1"), wire.CodePathEscapes},
		"leads out elsewhere": {[]string{"a=1"}, "../x", good, wire.CodePathEscapes},
		"link":                {[]string{"a=1"}, ".", link(), wire.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			h := begin(t, guest.Config{})
			lay(t, h.dir, test.before...)
			before := tree(t, h.dir)
			h.file(wire.OpMerge, wire.FileRequest{Path: test.into}).give(test.body).failure(test.code)
			if diff := cmp.Diff(before, tree(t, h.dir)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A link in place of a folder counts as a link, whatever its target, and a file replaces the link itself.
func TestMergeAndLinks(t *testing.T) {
	h := begin(t, guest.Config{})
	outside := t.TempDir()
	for name, target := range map[string]string{"out": outside, "in": "d", "file": "d/f"} {
		if err := os.Symlink(target, filepath.Join(h.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	lay(t, h.dir, "d/f=kept")
	for _, dir := range []string{"out", "in"} {
		h.file(wire.OpMerge, wire.FileRequest{Path: dir}).give(pack(t, "x=1")).failure(wire.CodeExists)
		h.file(wire.OpMerge, wire.FileRequest{Path: "."}).give(pack(t, dir+"/x=1")).failure(wire.CodeExists)
	}
	if r := h.file(wire.OpMerge, wire.FileRequest{Path: "."}).give(pack(t, "file=new")).reply(); !r.Done {
		t.Fatalf("%+v", r.Error)
	}
	want := []string{"d/", "d/f=kept", "file=new", "in L---------", "out L---------"}
	if diff := cmp.Diff(want, tree(t, h.dir)); diff != "" || len(tree(t, outside)) > 0 {
		t.Errorf("outside %v, -want +got:\n%s", tree(t, outside), diff)
	}
}

// A host that disconnects in the middle leaves nothing, and listings hide an unfinished merge.
func TestMergeBreaksOff(t *testing.T) {
	h := begin(t, guest.Config{})
	lay(t, h.dir, "a=1")
	l := h.file(wire.OpMerge, wire.FileRequest{Path: "."})
	body := pack(t, "a=2", "b=2", "c="+strings.Repeat("x", 200_000))
	if err := l.w.Data(body[:10_000]); err != nil {
		t.Fatal(err)
	}
	// The agent has created its folder once it receives more than fits into the connection's buffers.
	for rest := body[10_000:200_000]; len(rest) > 0; rest = rest[min(len(rest), wire.MaxData):] {
		if err := l.w.Data(rest[:min(len(rest), wire.MaxData)]); err != nil {
			t.Fatal(err)
		}
	}
	var listed []string
	for _, f := range h.file(wire.OpWalk, wire.FileRequest{Path: "."}).reply().Files {
		listed = append(listed, f.Path)
	}
	if !slices.Equal(listed, []string{"a"}) {
		t.Errorf("listed: %q", listed)
	}
	l.conn.Close()
	h.agent.Close() // waits for the stream
	if got := tree(t, h.dir); !slices.Equal(got, []string{"a=1"}) {
		t.Errorf("left: %q", got)
	}
}

// small mounts a file system of 1 MiB and 20 files.
func small(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,nr_inodes=20"); err != nil {
		need.Missing(t, "a mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A merge without enough space changes nothing.
func TestMergeWithoutRoom(t *testing.T) {
	dir := small(t)
	h := begin(t, guest.Config{Workspace: dir})
	lay(t, dir, "a=1", "d/b=1")
	before := tree(t, dir)
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("f%d=", i))
	}
	h.file(wire.OpMerge, wire.FileRequest{Path: "."}).give(pack(t, "a=2", "large="+strings.Repeat("x", 2<<20))).failure(wire.CodeNoSpace)
	h.file(wire.OpMerge, wire.FileRequest{Path: "."}).give(pack(t, many...)).failure(wire.CodeNoSpace)
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// The remaining space is usable.
	if r := h.file(wire.OpMerge, wire.FileRequest{Path: "."}).give(pack(t, "a="+strings.Repeat("x", 500_000))).reply(); !r.Done {
		t.Errorf("%+v", r.Error)
	}
}

// A thousand files of another user take one request, and belong to that user.
func TestMergeAsAnotherUser(t *testing.T) {
	need.Root(t)
	h := begin(t, guest.Config{})
	if err := os.Chmod(h.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	lay(t, h.dir, "roots/f=1")
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("d%d/f%d=%d", i%7, i, i))
	}
	user := wire.FileRequest{Path: ".", UID: 4321, GID: 4321}
	for range 2 {
		if r := h.file(wire.OpMerge, user).give(pack(t, many...)).reply(); !r.Done {
			t.Fatalf("%+v", r.Error)
		}
	}
	if got := tree(t, h.dir); len(got) != 1007+2 {
		t.Errorf("%d entries", len(got))
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(h.dir, "d3/f3"), &st); err != nil || st.Uid != 4321 {
		t.Errorf("%v, owner %d", err, st.Uid)
	}
	// Files that the user cannot change stay, and the moves before them are undone.
	before := tree(t, h.dir)
	h.file(wire.OpMerge, user).give(pack(t, "d0/f0=changed", "new=1", "roots/f=2", "z=1")).failure(wire.CodeDenied)
	if diff := cmp.Diff(before, tree(t, h.dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The remains of a killed agent's merge in a volume are removed by a later merge. Another agent's merge in progress is
// not affected.
func TestMergeOfAKilledAgent(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, ".belljar-merge-old/a/b=1", ".belljar-merge-new/c=2", "mine=3")
	old := filepath.Join(dir, ".belljar-merge-old")
	past := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	h := begin(t, guest.Config{Workspace: dir})
	if r := h.file(wire.OpMerge, wire.FileRequest{Path: "."}).give(pack(t, "mine=4")).reply(); !r.Done {
		t.Fatalf("%+v", r.Error)
	}
	if diff := cmp.Diff([]string{".belljar-merge-new/", ".belljar-merge-new/c=2", "mine=4"}, tree(t, dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A file of a volume that an archive replaces is as before if the archive does not fit, and nothing of the archive's file is left.
func TestReplaceWithoutRoom(t *testing.T) {
	dir := small(t)
	h := begin(t, guest.Config{Workspace: dir})
	lay(t, dir, "a=1", "d/b=1", "e/c=1")
	if err := os.Link(filepath.Join(dir, "d/b"), filepath.Join(dir, "d/same")); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 2<<20)
	for _, op := range []wire.Op{wire.OpTarIn, wire.OpLoad} {
		before := tree(t, dir)
		h.file(op, wire.FileRequest{Path: "."}).give(pack(t, "a="+large)).failure(wire.CodeNoSpace)
		h.file(op, wire.FileRequest{Path: "."}).give(pack(t, "d/b="+large)).failure(wire.CodeNoSpace)
		h.file(op, wire.FileRequest{Path: "."}).give(pack(t, "new="+large)).failure(wire.CodeNoSpace)
		h.file(op, wire.FileRequest{Path: "."}).give(pack(t, "a="+large)[:4096]).failure(wire.CodeInvalid)
		h.file(op, wire.FileRequest{Path: "."}).give(pack(t, "e=2")).failure(wire.CodeNotFile)
		if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", op, diff)
		}
	}
	if r := h.file(wire.OpTarIn, wire.FileRequest{Path: "."}).give(pack(t, "a=2", "d/b=3")).reply(); !r.Done {
		t.Fatalf("%+v", r.Error)
	}
	if diff := cmp.Diff([]string{"a=2", "d/", "d/b=3", "d/same=1", "e/", "e/c=1"}, tree(t, dir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
