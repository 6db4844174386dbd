package layer_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/layer"
)

// entry is an entry of a test's archive. kind 0 is a file, or a folder if the name ends in a slash.
type entry struct {
	name  string
	kind  byte
	body  string
	link  string
	mode  int64 // 0 is 0644, and 0755 for folders
	mtime time.Time
	pax   map[string]string
	major int64
	minor int64
}

func (e entry) header() *tar.Header {
	if e.kind == tar.TypeXGlobalHeader {
		return &tar.Header{Typeflag: e.kind, PAXRecords: e.pax}
	}
	h := &tar.Header{
		Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, ModTime: e.mtime, PAXRecords: e.pax,
		Devmajor: e.major, Devminor: e.minor,
	}
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
	}
	if h.Typeflag == tar.TypeReg {
		h.Size = int64(len(e.body))
	}
	if h.Mode == 0 {
		h.Mode = 0o644
		if h.Typeflag == tar.TypeDir {
			h.Mode = 0o755
		}
	}
	if e.pax != nil {
		h.Format = tar.FormatPAX // for times in nanoseconds
	}
	if h.ModTime.IsZero() {
		h.ModTime = time.Unix(1_700_000_000, 0)
	}
	return h
}

func tarOf(t testing.TB, list ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range list {
		h := e.header()
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("%q: %v", e.name, err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// folder makes an empty folder that is removed after the test, even if modes of its folders forbid that.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "layer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := layer.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// below makes an empty folder in another.
func below(t testing.TB, dir, name string) string {
	t.Helper()
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// image unpacks and merges layers.
func image(t testing.TB, layers ...[]byte) (string, error) {
	t.Helper()
	dir := folder(t)
	var dirs []string
	for i, l := range layers {
		d := below(t, dir, fmt.Sprintf("layer%d", i))
		if _, err := layer.Unpack(t.Context(), bytes.NewReader(l), d, layer.Options{}); err != nil {
			return "", err
		}
		dirs = append(dirs, d)
	}
	root := below(t, dir, "root")
	before := look(t, dirs...)
	_, err := layer.Merge(t.Context(), root, dirs)
	if diff := cmp.Diff(before, look(t, dirs...)); diff != "" {
		t.Errorf("merging changed a layer:\n%s", diff)
	}
	return root, err
}

// look lists the contents of folders: type, mode, name and contents.
func look(t testing.TB, dirs ...string) (list []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || p == dir {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(p, dir+"/")
			mode := info.Mode().Perm()
			if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				t.Errorf("%q has mode %v", name, info.Mode())
			}
			switch info.Mode().Type() {
			case fs.ModeDir:
				list = append(list, fmt.Sprintf("%s/ %o", name, mode))
			case fs.ModeSymlink:
				target, err := os.Readlink(p)
				if err != nil {
					return err
				}
				list = append(list, name+" -> "+target)
			case 0:
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				list = append(list, fmt.Sprintf("%s %o %.40s", name, mode, b))
			default:
				t.Errorf("%q is a %v", name, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(list)
	return list
}

// wantRule checks that err is a refusal that names the rule.
func wantRule(t testing.TB, err error, rule string) {
	t.Helper()
	var e *belljar.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v, want a belljar.Error", err)
	}
	if e.Code != belljar.CodeImageInvalid || e.Details["rule"] != rule || strings.ContainsAny(e.Message, "\x00\n") || len(e.Message) > 1000 {
		t.Errorf("%s, rule %v, %q; want rule %s", e.Code, e.Details["rule"], e.Message, rule)
	}
}

func file(name, body string) entry  { return entry{name: name, body: body} }
func dir(name string) entry         { return entry{name: name + "/"} }
func sym(name, to string) entry     { return entry{name: name, kind: tar.TypeSymlink, link: to} }
func hard(name, to string) entry    { return entry{name: name, kind: tar.TypeLink, link: to} }
func device(name string) entry      { return entry{name: name, kind: tar.TypeChar, major: 1, minor: 3} }
func overlayGone(name string) entry { return entry{name: name, kind: tar.TypeChar} }
func pax(e entry, kv ...string) entry {
	e.pax = map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		e.pax[kv[i]] = kv[i+1]
	}
	return e
}

func TestLayers(t *testing.T) {
	type layers [][]entry
	long := strings.Repeat("n", 255)
	for name, test := range map[string]struct {
		layers layers
		want   []string
	}{
		"no layers":   {layers{}, nil},
		"empty layer": {layers{{}}, nil},
		"plain": {
			layers{{dir("a"), file("a/b", "B"), sym("a/c", "b"), hard("a/d", "a/b")}},
			[]string{"a/ 755", "a/b 644 B", "a/c -> b", "a/d 644 B"},
		},
		"names as they come": {
			layers{{dir("./"), dir("./a"), file("./a//b", "B"), file("/c", "C"), file("a/./d", "D"), hard("/e", "./a//d")}},
			[]string{"a/ 755", "a/b 644 B", "a/d 644 D", "c 644 C", "e 644 D"},
		},
		"odd names": {
			layers{{file("new\nline", "1"), file("b\xffd", "2"), file(long, "3"), file(" ", "4"), file("a\\b", "5"), file("...", "6")}},
			[]string{"new\nline 644 1", "b\xffd 644 2", long + " 644 3", "  644 4", "a\\b 644 5", "... 644 6"},
		},
		"modes": {
			layers{{
				entry{name: "suid", mode: 0o6755}, entry{name: "own", mode: 0o700}, entry{name: "shadow", mode: 0o640},
				entry{name: "none", mode: 0o1}, entry{name: "all", mode: 0o7777}, entry{name: "write", mode: 0o222},
				entry{name: "tmp/", mode: 0o1777}, entry{name: "closed/", mode: 0o50}, entry{name: "sgid/", mode: 0o2750},
			}},
			[]string{
				"suid 755 ", "own 755 ", "shadow 644 ", "none 401 ", "all 755 ", "write 600 ",
				"tmp/ 755", "closed/ 750", "sgid/ 755",
			},
		},
		"missing parents":     {layers{{file("a/b/c", "C")}}, []string{"a/ 755", "a/b/ 755", "a/b/c 644 C"}},
		"parents of no entry": {layers{{entry{name: "a/", mode: 0o311}}, {file("a/b", "B")}}, []string{"a/ 711", "a/b 644 B"}},
		"parents, and later an entry": {
			layers{{entry{name: "a/", mode: 0o311}}, {file("a/b", "B"), entry{name: "a/", mode: 0o700}}},
			[]string{"a/ 755", "a/b 644 B"},
		},
		"the last wins": {
			layers{{file("a", "1"), file("a", "2"), dir("b"), file("b/c", "3"), file("b", "4"), file("d", "5"), dir("d"), file("d/e", "6"),
				sym("f", "a"), file("f", "7"), file("g", "8"), sym("g", "a")}},
			[]string{"a 644 2", "b 644 4", "d/ 755", "d/e 644 6", "f 644 7", "g -> a"},
		},
		"a file is a parent":           {layers{{file("a", "1"), file("a/b", "2")}}, []string{"a/ 755", "a/b 644 2"}},
		"a folder twice keeps its own": {layers{{dir("a"), file("a/b", "1"), entry{name: "a/", mode: 0o311}}}, []string{"a/ 711", "a/b 644 1"}},
		"a name with two files is no way to the other": {
			layers{{file("a", "1"), hard("b", "a"), file("a", "2")}},
			[]string{"a 644 2", "b 644 1"},
		},
		"hard links": {
			layers{{file("a", "1"), hard("b", "a"), hard("c", "b"), hard("a", "a"), hard("c", "a"), sym("s", "/etc/passwd"), hard("t", "s"), dir("d"), hard("d", "a")}},
			[]string{"a 644 1", "b 644 1", "c 644 1", "d 644 1", "s -> /etc/passwd", "t -> /etc/passwd"},
		},

		"whiteout":                {layers{{file("a", "1"), dir("b"), file("b/c", "2"), file("d", "3")}, {file(".wh.a", ""), file(".wh.b", "")}}, []string{"d 644 3"}},
		"whiteout of nothing":     {layers{{file("a", "1")}, {file(".wh.x", ""), file("b/.wh.y", "")}}, []string{"a 644 1", "b/ 755"}},
		"whiteout and entry":      {layers{{dir("a"), file("a/b", "1")}, {file("a/c", "2"), file(".wh.a", "")}}, []string{"a/ 755", "a/c 644 2"}},
		"entry and whiteout":      {layers{{file("a", "1")}, {file(".wh.a", ""), file("a", "2")}}, []string{"a 644 2"}},
		"whiteout in one layer":   {layers{{file("a", "1"), file(".wh.a", "")}}, []string{"a 644 1"}},
		"whiteouts, whatever":     {layers{{file("a", "1"), dir("b")}, {dir(".wh.a"), sym(".wh.b", "x")}}, nil},
		"whiteout of a link":      {layers{{dir("a"), file("a/b", "1"), sym("c", "a")}, {file("c/.wh.b", "")}}, []string{"a/ 755", "a/b 644 1", "c/ 755"}},
		"opaque":                  {layers{{dir("a"), file("a/b", "1")}, {dir("a"), file("a/.wh..wh..opq", ""), file("a/c", "2")}}, []string{"a/ 755", "a/c 644 2"}},
		"opaque, after":           {layers{{dir("a"), file("a/b", "1")}, {dir("a"), file("a/b", "2"), file("a/.wh..wh..opq", "")}}, []string{"a/ 755", "a/b 644 2"}},
		"opaque root":             {layers{{dir("a"), file("a/b", "1")}, {file(".wh..wh..opq", ""), file("c", "2")}}, []string{"c 644 2"}},
		"opaque by attribute":     {layers{{dir("a"), file("a/b", "1")}, {pax(dir("a"), "SCHILY.xattr.trusted.overlay.opaque", "y")}}, []string{"a/ 755"}},
		"not opaque by attribute": {layers{{dir("a"), file("a/b", "1")}, {pax(dir("a"), "SCHILY.xattr.trusted.overlay.opaque", "x")}}, []string{"a/ 755", "a/b 644 1"}},
		"overlay whiteout":        {layers{{file("a", "1"), file("b", "2")}, {overlayGone("a")}}, []string{"b 644 2"}},
		"storage driver's own": {
			layers{{dir(".wh..wh.plnk"), file(".wh..wh.plnk/1.2", "X"), file(".wh..wh.aufs", ""), dir(".wh..wh.orph"), hard("a", ".wh..wh.plnk/1.2")}},
			[]string{"a 644 X"},
		},
		"devices": {
			layers{{file("dev/null", "1"), file("dev/tty", "2")}, {device("dev/null"), device("dev/zero"), entry{name: "f", kind: tar.TypeFifo}, entry{name: "b", kind: tar.TypeBlock}, hard("dev/full", "dev/null")}},
			[]string{"dev/ 755", "dev/tty 644 2"},
		},
		"a file after a device":   {layers{{file("a", "1")}, {device("a"), file("a", "2")}}, []string{"a 644 2"}},
		"a device after a folder": {layers{{dir("a"), file("a/b", "1"), device("a")}}, nil},

		"a folder over a link":                        {layers{{dir("a"), file("a/b", "1"), sym("c", "a")}, {dir("c"), file("c/b", "2")}}, []string{"a/ 755", "a/b 644 1", "c/ 755", "c/b 644 2"}},
		"a folder over outside":                       {layers{{sym("etc", "/")}, {file("etc/passwd", "x")}}, []string{"etc/ 755", "etc/passwd 644 x"}},
		"a file over a folder":                        {layers{{dir("a"), file("a/b", "1")}, {file("a", "2")}}, []string{"a 644 2"}},
		"a link over a folder":                        {layers{{dir("a"), file("a/b", "1")}, {sym("a", "/")}}, []string{"a -> /"}},
		"a folder over a file":                        {layers{{file("a", "1")}, {dir("a")}}, []string{"a/ 755"}},
		"there and back":                              {layers{{file("a", "1")}, {dir("a"), file("a/b", "2")}, {file("a", "3")}, {file("a/c", "4")}}, []string{"a/ 755", "a/c 644 4"}},
		"gone and back":                               {layers{{dir("a"), file("a/b", "1")}, {file(".wh.a", "")}, {file("a/c", "2")}}, []string{"a/ 755", "a/c 644 2"}},
		"a link to over a link":                       {layers{{sym("a", "/x")}, {sym("a", "/y")}}, []string{"a -> /y"}},
		"parents by a link":                           {layers{{dir("usr"), dir("usr/lib"), sym("lib", "usr/lib"), file("lib/a", "1")}}, []string{"lib -> usr/lib", "usr/ 755", "usr/lib/ 755", "usr/lib/a 644 1"}},
		"parents by a later one":                      {layers{{sym("lib", "usr/lib"), file("lib/a", "1")}}, []string{"lib -> usr/lib", "usr/ 755", "usr/lib/ 755", "usr/lib/a 644 1"}},
		"a link to the root":                          {layers{{sym("etc", "/"), file("etc/passwd", "x")}}, []string{"etc -> /", "passwd 644 x"}},
		"a link above the root":                       {layers{{dir("a"), sym("a/b", "../../../../etc"), file("a/b/passwd", "x")}}, []string{"a/ 755", "a/b -> ../../../../etc", "etc/ 755", "etc/passwd 644 x"}},
		"a link by links":                             {layers{{sym("a", "b/c"), sym("b", "/d/../e"), file("a/f", "x")}}, []string{"a -> b/c", "b -> /d/../e", "d/ 755", "e/ 755", "e/c/ 755", "e/c/f 644 x"}},
		"a hard link by a link":                       {layers{{file("d/f", "x"), sym("l", "/d"), hard("h", "l/f")}}, []string{"d/ 755", "d/f 644 x", "h 644 x", "l -> /d"}},
		"a link to the outside that becomes a folder": {layers{{sym("a", "/etc"), dir("a"), file("a/passwd", "x")}}, []string{"a/ 755", "a/passwd 644 x"}},
		"every mount point a link": {
			layers{{sym("dev", "/"), sym("proc", "../.."), sym("sys", "/etc"), sym("workspace", "/root"), sym("tmp", "tmp")}},
			[]string{"dev -> /", "proc -> ../..", "sys -> /etc", "workspace -> /root", "tmp -> tmp"},
		},
		"global records": {layers{{entry{kind: tar.TypeXGlobalHeader, pax: map[string]string{"path": "../../evil", "comment": "c"}}, file("a", "1")}}, []string{"a 644 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var archives [][]byte
			for _, l := range test.layers {
				archives = append(archives, tarOf(t, l...))
			}
			root, err := image(t, archives...)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, look(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	at := func(sec, nsec int64) time.Time { return time.Unix(sec, nsec) }
	root, err := image(t,
		tarOf(t,
			pax(entry{name: "./", kind: tar.TypeDir, mtime: at(1000, 0)}),
			entry{name: "d/", mtime: at(2000, 0)}, entry{name: "d/f", mtime: at(1_600_000_000, 123456789), pax: map[string]string{"comment": "exact"}},
			entry{name: "d/s", kind: tar.TypeSymlink, link: "f", mtime: at(3000, 0)},
			entry{name: "old", mtime: at(-5_000_000_000, 0)}, entry{name: "new", mtime: at(1<<40, 0)},
		),
		tarOf(t, file("d/more", "x"), file(".wh.old", ""), entry{name: "old", mtime: at(-1, 0)}),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Time{
		".": at(1000, 0), "d": at(2000, 0), "d/f": at(1_600_000_000, 123456789), "d/s": at(3000, 0), "old": at(0, 0), "new": at(1<<33-1, 0),
	} {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.ModTime(); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestStats(t *testing.T) {
	d := folder(t)
	got, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t,
		file("a/b", "hello"), hard("c", "a/b"), sym("s", "x"), device("dev/null"), hard("dev/n", "dev/null"), file(".wh.x", ""), file("a/.wh..wh..opq", ""),
		pax(file("cap", ""), "SCHILY.xattr.security.capability", "\x01\x00\x00\x02", "SCHILY.xattr.trusted.x", "1"),
	)), d, layer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := layer.Stats{Files: 2, Folders: 2, Symlinks: 1, HardLinks: 1, Whiteouts: 2, Bytes: 5, Skipped: 2, Attrs: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	root := folder(t)
	got, err = layer.Merge(t.Context(), root, []string{d})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(layer.Stats{Files: 3, Folders: 2, Symlinks: 1}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := layer.Unpack(ctx, bytes.NewReader(tarOf(t, file("a", "1"))), folder(t), layer.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("unpack: %v", err)
	}
	d := folder(t)
	if _, err := layer.Unpack(t.Context(), bytes.NewReader(tarOf(t, file("a", "1"))), d, layer.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := layer.Merge(ctx, folder(t), []string{d}); !errors.Is(err, context.Canceled) {
		t.Errorf("merge: %v", err)
	}
}

// TestMergeRoot tests that every user can search an image's root, whatever mode a layer gives its own root.
func TestMergeRoot(t *testing.T) {
	for _, mode := range []int64{0o1, 0o10, 0o311, 0o700, 0o1777} {
		files, _ := unpacked(t, entry{name: "./", mode: mode}, file("f", "x"))
		root := t.TempDir()
		if _, err := layer.Merge(t.Context(), root, []string{files}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(root); err != nil || info.Mode().Perm()&0o555 != 0o555 {
			t.Errorf("%#o has become %v, %v", mode, info.Mode(), err)
		}
	}
}
