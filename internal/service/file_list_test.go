//go:build linux

package service_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
)

func paths(list belljar.FileList) (names []string) {
	for _, e := range list.Entries {
		names = append(names, e.Path)
	}
	return names
}

// Paths that are very long on average end a list and a search: their answers hold all of them.
func TestLongPaths(t *testing.T) {
	d := newBench(t).cabinet()
	d.sh(`for i in 1 2 3 4 5; do n=$(printf %0240d $i); mkdir $n; cd $n; done; seq -f a%04g 500 | xargs touch`)
	list, err := d.List(d.context(), d.ID, belljar.FileQuery{Recursive: true, Limit: 1000})
	if total := len(strings.Join(paths(list), "")); err != nil || !list.Truncated || total > 1000*256 {
		t.Errorf("%d entries with %d bytes of paths, %v", len(list.Entries), total, err)
	}
	found, err := d.Search(d.context(), d.ID, belljar.FileSearch{Name: "a*", MaxResults: 1000})
	total := 0
	for _, m := range found.Matches {
		total += len(m.Path)
	}
	if err != nil || !found.Truncated || total > 1000*512 || total == 0 {
		t.Errorf("%d matches with %d bytes of paths, %v", len(found.Matches), total, err)
	}
}

func TestFileList(t *testing.T) {
	d := newBench(t).cabinet()
	ctx := d.context()
	d.sh("rm -rf .tmp; mkdir -p a/b empty; echo 1 >a/1; echo 2 >a/b/2; ln -s a/1 link; mkfifo a/fifo")
	for _, c := range []struct {
		q    belljar.FileQuery
		want []string
		cut  bool
	}{
		{belljar.FileQuery{}, []string{"a", "empty", "link"}, false},
		{belljar.FileQuery{Path: "/workspace"}, []string{"a", "empty", "link"}, false},
		{belljar.FileQuery{Path: "a"}, []string{"a/1", "a/b", "a/fifo"}, false},
		{belljar.FileQuery{Recursive: true}, []string{"a", "a/1", "a/b", "a/b/2", "a/fifo", "empty", "link"}, false},
		{belljar.FileQuery{Recursive: true, Limit: 3}, []string{"a", "a/1", "a/b"}, true},
		{belljar.FileQuery{Recursive: true, Limit: 7}, []string{"a", "a/1", "a/b", "a/b/2", "a/fifo", "empty", "link"}, false},
		{belljar.FileQuery{Path: "empty"}, nil, false},
		{belljar.FileQuery{Path: "a/1"}, []string{"a/1"}, false},
		{belljar.FileQuery{Path: "a/fifo", Recursive: true}, []string{"a/fifo"}, false},
	} {
		list, err := d.List(ctx, d.ID, c.q)
		if got := paths(list); err != nil || !slices.Equal(got, c.want) || list.Truncated != c.cut || list.Entries == nil {
			t.Errorf("%+v: %q, %v, %v", c.q, got, list.Truncated, err)
		}
	}
	d.sh("mkdir -p many/src; cd many; seq -f a%04g 3000 | xargs touch")
	list, err := d.List(ctx, d.ID, belljar.FileQuery{Path: "many", Limit: 100})
	if got := paths(list); err != nil || len(got) != 100 || got[0] != "many/a0001" || got[98] != "many/a0099" || got[99] != "many/src" || !list.Truncated {
		t.Errorf("a folder that is cut: %q, %v, %v", got, list.Truncated, err)
	}
	for path, code := range map[string]belljar.Code{"none": belljar.CodeNotFound, "a/1/x": belljar.CodeConflict, "..": belljar.CodePathEscapes} {
		if _, err := d.List(ctx, d.ID, belljar.FileQuery{Path: path}); belljar.CodeOf(err) != code {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, limit := range []int{-1, 10000 + 1} {
		if _, err := d.List(ctx, d.ID, belljar.FileQuery{Limit: limit}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%d: %v", limit, err)
		}
	}
}

func TestFileSearch(t *testing.T) {
	d := newBench(t).cabinet()
	ctx := d.context()
	d.sh(`rm -rf .tmp; mkdir -p src/deep docs; printf 'package x\n\nfunc Hello() {}\r\n' >src/x.go; printf 'package y // hello hello\n' >src/deep/y.go
		printf 'Hello.\n' >docs/r.md; printf 'hello\0' >bin; ln -s docs/r.md link; mkfifo fifo; head -c 300000 /dev/zero | tr '\0' 'a' >long; printf 'hello\n' >>long; : >empty`)
	for _, c := range []struct {
		name  string
		q     belljar.FileSearch
		want  []belljar.FileMatch
		trunc bool
	}{
		{"name", belljar.FileSearch{Name: "*.go"}, []belljar.FileMatch{{Path: "src/deep/y.go"}, {Path: "src/x.go"}}, false},
		{"path", belljar.FileSearch{Name: "src/*.go"}, []belljar.FileMatch{{Path: "src/x.go"}}, false},
		{"below", belljar.FileSearch{Path: "src", Name: "**/*.go"}, []belljar.FileMatch{{Path: "src/deep/y.go"}, {Path: "src/x.go"}}, false},
		{"folders", belljar.FileSearch{Name: "d*"}, []belljar.FileMatch{{Path: "docs"}, {Path: "src/deep"}}, false},
		{"content", belljar.FileSearch{Name: "*.{go,md}", Content: "Hello"}, []belljar.FileMatch{{Path: "docs/r.md", Line: 1, Text: "Hello."}, {Path: "src/x.go", Line: 3, Text: "func Hello() {}"}}, false},
		{"once a line", belljar.FileSearch{Path: "src", Content: "hello"}, []belljar.FileMatch{{Path: "src/deep/y.go", Line: 1, Text: "package y // hello hello"}}, false},
		{"any case", belljar.FileSearch{Path: "docs", Content: "HELLO.", IgnoreCase: true}, []belljar.FileMatch{{Path: "docs/r.md", Line: 1, Text: "Hello."}}, false},
		{"not an expression", belljar.FileSearch{Path: "src", Content: "H.llo"}, nil, false},
		{"expression", belljar.FileSearch{Path: "src", Content: `^func\s+[A-Z]`, Regexp: true}, []belljar.FileMatch{{Path: "src/x.go", Line: 3, Text: "func Hello() {}"}}, false},
		{"the end of a line", belljar.FileSearch{Path: "src", Content: `\{\}$`, Regexp: true}, []belljar.FileMatch{{Path: "src/x.go", Line: 3, Text: "func Hello() {}"}}, false},
		{"one file", belljar.FileSearch{Path: "docs/r.md", Content: "H"}, []belljar.FileMatch{{Path: "docs/r.md", Line: 1, Text: "Hello."}}, false},
		{"one file's name", belljar.FileSearch{Path: "docs/r.md", Name: "*.md"}, []belljar.FileMatch{{Path: "docs/r.md"}}, false},
		{"nothing", belljar.FileSearch{Path: "docs", Content: "none"}, nil, false},
		{"not text", belljar.FileSearch{Name: "bin", Content: "hello"}, nil, false},
		{"at most", belljar.FileSearch{Name: "*.go", Content: "package", MaxResults: 1}, []belljar.FileMatch{{Path: "src/deep/y.go", Line: 1, Text: "package y // hello hello"}}, true},
		{"the end of a long line", belljar.FileSearch{Name: "long", Content: "hello"}, nil, true},
	} {
		got, err := d.Search(ctx, d.ID, c.q)
		if c.want == nil {
			c.want = []belljar.FileMatch{}
		}
		if diff := cmp.Diff(c.want, got.Matches); err != nil || diff != "" || got.Truncated != c.trunc {
			t.Errorf("%s: %v, truncated %v\n%s", c.name, err, got.Truncated, diff)
		}
	}
	got, err := d.Search(ctx, d.ID, belljar.FileSearch{Name: "long", Content: "a"})
	if err != nil || len(got.Matches) != 1 || got.Matches[0].Line != 1 || len(got.Matches[0].Text) != 500 {
		t.Errorf("%v, %v", got, err)
	}
	for name, q := range map[string]belljar.FileSearch{
		"nothing": {}, "bad glob": {Name: "[a"}, "bad expression": {Content: "(", Regexp: true}, "greedy": {Content: "(((a{10}){10}){10}b{100}){2}", Regexp: true},
		"line break": {Content: "a\nb"}, "NUL": {Content: "\x00"}, "not UTF-8": {Content: "\xff"}, "long": {Content: strings.Repeat("x", 1025)},
		"many": {Name: "*", MaxResults: 1001}, "negative": {Name: "*", MaxResults: -1}, "expression of nothing": {Name: "*", Regexp: true},
		"back reference": {Content: `(a)\1`, Regexp: true}, "long name": {Name: strings.Repeat("x", 1025)},
	} {
		if _, err := d.Search(ctx, d.ID, q); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Search(ctx, d.ID, belljar.FileSearch{Path: "none", Name: "*"}); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Error(err)
	}
}

func TestFileArchive(t *testing.T) {
	d := newBench(t).cabinet()
	ctx := d.context()
	d.sh(`rm -rf .tmp; mkdir -p p/sub p/empty; echo one >p/1; echo two >p/sub/2; chmod 755 p/sub/2; ln -s 1 p/in; ln -s ../1 p/sub/up; ln -s ../../x p/sub/out; ln -s /etc/passwd p/abs
		ln -s /workspace/p/sub/2 p/home; ln -s sub/../../../x p/sly; mkfifo p/fifo; echo bs >'p/a\b'; echo us >p/a_b; echo colon >p/C:x`)
	untar := func(r io.Reader) map[string]string {
		t.Helper()
		got := map[string]string{}
		in := tar.NewReader(r)
		for {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				return got
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(in)
			if _, twice := got[h.Name]; err != nil || twice {
				t.Errorf("%s: %v, twice %v", h.Name, err, twice)
			}
			got[h.Name] = fmt.Sprintf("%o %s%s", h.Mode, content, h.Linkname)
		}
	}
	want := map[string]string{
		"1": "644 one\n", "a\\b": "644 bs\n", "a_b": "644 us\n", "C:x": "644 colon\n", "empty/": "755 ", "home": "777 sub/2", "in": "777 1", "sub/": "755 ", "sub/2": "755 two\n", "sub/up": "777 ../1",
	}
	var buf bytes.Buffer
	if err := d.Archive(ctx, d.ID, "p", belljar.UploadTar, &buf); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, untar(&buf)); diff != "" {
		t.Error(diff)
	}
	buf.Reset()
	if err := d.Archive(ctx, d.ID, "p", belljar.UploadTarGz, &buf); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, untar(z)); diff != "" {
		t.Error(diff)
	}
	buf.Reset()
	if err := d.Archive(ctx, d.ID, "p", belljar.UploadZip, &buf); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	unpacked, err := zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range unpacked.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		mode := ""
		if f.Mode()&fs.ModeSymlink != 0 {
			mode = "link "
		}
		got[f.Name] = mode + string(content)
	}
	if diff := cmp.Diff(map[string]string{
		"1": "one\n", "a_b": "bs\n", "a_b~2": "us\n", "C_x": "colon\n", "empty/": "", "home": "link sub/2", "in": "link 1", "sub/": "", "sub/2": "two\n", "sub/up": "link ../1",
	}, got); diff != "" {
		t.Error(diff)
	}
	buf.Reset()
	if err := d.Archive(ctx, d.ID, "p/1", belljar.UploadTar, &buf); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"1": "644 one\n"}, untar(&buf)); diff != "" {
		t.Error(diff)
	}
	// The exported archive can be uploaded again.
	buf.Reset()
	if err := d.Archive(ctx, d.ID, "p/sub/2", belljar.UploadZip, &buf); err != nil {
		t.Fatal(err)
	}
	up := packed(belljar.UploadZip, &buf)
	up.Dir = "again"
	if _, err := d.mine().Upload(ctx, d.ID, up); err != nil || d.read("again/2") != "two\n" {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		path   string
		format belljar.UploadFormat
		code   belljar.Code
	}{
		"nothing": {"none", belljar.UploadZip, belljar.CodeNotFound}, "elsewhere": {"p/../..", belljar.UploadTar, belljar.CodePathEscapes},
		"a file": {"p", belljar.UploadFile, belljar.CodeInvalidRequest}, "no format": {"p", "", belljar.CodeInvalidRequest},
	} {
		buf.Reset()
		if err := d.Archive(ctx, d.ID, c.path, c.format, &buf); belljar.CodeOf(err) != c.code || buf.Len() != 0 {
			t.Errorf("%s: %v, %d bytes", name, err, buf.Len())
		}
	}
	if err := d.Archive(ctx, d.ID, "p", belljar.UploadTar, shut{}); belljar.CodeOf(err) != belljar.CodeCanceled {
		t.Error(err)
	}
}
