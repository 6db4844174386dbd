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
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// cabinet is the files of one session, as its owner works with them.
type cabinet struct {
	belljar.Files
	*bench
	belljar.Session
}

func (b *bench) cabinet() *cabinet {
	b.t.Helper()
	return &cabinet{b.service.As(service.Local()).Files(), b, b.open()}
}

func (d *cabinet) write(path, content string) {
	d.t.Helper()
	if _, err := d.Write(d.context(), d.ID, belljar.FileWrite{Path: path, Content: strings.NewReader(content), Overwrite: true}); err != nil {
		d.t.Fatalf("write %s: %v", path, err)
	}
}

func (d *cabinet) read(path string) string {
	d.t.Helper()
	_, body, err := d.Read(d.context(), d.ID, path, 0, 0)
	if err != nil {
		d.t.Fatalf("read %s: %v", path, err)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		d.t.Fatalf("read %s: %v", path, err)
	}
	return string(b)
}

// sh runs a script in the session.
func (d *cabinet) sh(script string) string {
	d.t.Helper()
	r := d.run(in(d.Session, script))
	r.want(d.t, belljar.PhaseCompleted, 0, "")
	return r.stdout
}

func TestFileWriteAndRead(t *testing.T) {
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Events = events })
	d := b.cabinet()
	entry, err := d.Write(d.context(), d.ID, belljar.FileWrite{Path: "/workspace/a/b.txt", Content: strings.NewReader("content"), Size: 7, Mode: 0o600})
	if err != nil || entry.Path != "a/b.txt" || entry.Size != 7 || entry.Mode != "0600" || entry.Type != "file" || entry.MtimeUnix == 0 {
		t.Fatalf("%+v, %v", entry, err)
	}
	if got := d.read("./a/b.txt"); got != "content" {
		t.Errorf("%q", got)
	}
	_, err = d.Write(d.context(), d.ID, belljar.FileWrite{Path: "a/b.txt", Content: strings.NewReader("new")})
	if belljar.CodeOf(err) != belljar.CodeConflict || belljar.HintOf(err) == "" || d.read("a/b.txt") != "content" {
		t.Errorf("over a file: %v", err)
	}
	entry, err = d.Write(d.context(), d.ID, belljar.FileWrite{Path: "a/b.txt", Content: strings.NewReader("new"), Overwrite: true})
	if err != nil || entry.Mode != "0644" || d.read("a/b.txt") != "new" {
		t.Errorf("%+v, %v", entry, err)
	}
	if list := events.named(event.Uploaded); len(list) != 2 || list[0].Count != 7 || list[0].Files != 1 || list[0].Kind != "file" || list[0].Session.ID != d.ID {
		t.Errorf("%+v", list)
	}
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{{0, 0, "new"}, {1, 0, "ew"}, {0, 2, "ne"}, {1, 1, "e"}, {3, 0, ""}, {9, 9, ""}} {
		entry, body, err := d.Read(d.context(), d.ID, "a/b.txt", c.offset, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		var viaReader bytes.Buffer
		if _, err := viaReader.ReadFrom(iotest.OneByteReader(body)); err != nil || viaReader.String() != c.want || entry.Size != 3 {
			t.Errorf("%d+%d: %q of %+v, %v", c.offset, c.limit, viaReader.String(), entry, err)
		}
		body.Close()
		body.Close()
	}
}

// Whatever is wrong with contents, the file that was there stays.
func TestFileWriteFails(t *testing.T) {
	d := newBench(t, limited(func(l *belljar.Limits) { l.WorkspaceMB = 2 })).cabinet()
	d.write("kept", "before")
	d.write("dir/x", "")
	mishap := errors.New("the line is cut")
	for name, c := range map[string]struct {
		write belljar.FileWrite
		code  belljar.Code
	}{
		"breaks off":     {belljar.FileWrite{Path: "kept", Content: io.MultiReader(strings.NewReader("after"), iotest.ErrReader(mishap))}, belljar.CodeInvalidRequest},
		"ends early":     {belljar.FileWrite{Path: "kept", Content: io.MultiReader(strings.NewReader("after"), iotest.ErrReader(io.ErrUnexpectedEOF))}, belljar.CodeInvalidRequest},
		"is shorter":     {belljar.FileWrite{Path: "kept", Content: strings.NewReader("after"), Size: 6}, belljar.CodeInvalidRequest},
		"is longer":      {belljar.FileWrite{Path: "kept", Content: strings.NewReader("after"), Size: 4}, belljar.CodeInvalidRequest},
		"too large":      {belljar.FileWrite{Path: "kept", Content: strings.NewReader("after"), Size: 1 << 40}, belljar.CodeTooLarge},
		"setuid":         {belljar.FileWrite{Path: "kept", Content: strings.NewReader("after"), Mode: 0o4755}, belljar.CodeInvalidRequest},
		"a folder":       {belljar.FileWrite{Path: "dir", Content: strings.NewReader("after")}, belljar.CodeConflict},
		"a folder's":     {belljar.FileWrite{Path: "new/", Content: strings.NewReader("after")}, belljar.CodeInvalidRequest},
		"below a file":   {belljar.FileWrite{Path: "kept/x", Content: strings.NewReader("after")}, belljar.CodeConflict},
		"the workspace":  {belljar.FileWrite{Path: "."}, belljar.CodeInvalidRequest},
		"no path":        {belljar.FileWrite{}, belljar.CodeInvalidRequest},
		"elsewhere":      {belljar.FileWrite{Path: "../kept"}, belljar.CodePathEscapes},
		"larger than it": {belljar.FileWrite{Path: "kept", Content: io.LimitReader(torrent{}, 3<<20)}, belljar.CodeTooLarge},
	} {
		c.write.Overwrite = true
		if _, err := d.Write(d.context(), d.ID, c.write); belljar.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%s), want %s", name, err, belljar.CodeOf(err), c.code)
		}
	}
	d.eventually("nothing is left", func() bool { // the agent takes half a file away when it has seen its stream end
		return d.sh("find . -type f ! -path './.tmp*' | sort; cat kept") == "./dir/x\n./kept\nbefore"
	})
}

// torrent is x without end.
type torrent struct{}

func (torrent) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestFileBatch(t *testing.T) {
	d := newBench(t).cabinet()
	file := func(path, content string) belljar.FileWrite {
		return belljar.FileWrite{Path: path, Content: strings.NewReader(content)}
	}
	entries, err := d.WriteAll(d.context(), d.ID, []belljar.FileWrite{file("a/1", "one"), {Path: "/workspace/a/2", Mode: 0o755}, file("3", "three")})
	if err != nil || len(entries) != 3 || entries[0].Path != "a/1" || entries[0].Size != 3 || entries[1].Mode != "0755" {
		t.Fatalf("%+v, %v", entries, err)
	}
	for i, want := range entries {
		if got, err := d.Stat(d.context(), d.ID, want.Path); err != nil || got != want {
			t.Errorf("%d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	if none, err := d.WriteAll(d.context(), d.ID, nil); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
	over := func(w belljar.FileWrite) belljar.FileWrite {
		w.Overwrite = true
		return w
	}
	many := make([]belljar.FileWrite, belljar.MaxBatchFiles+1)
	for i := range many {
		many[i] = file(fmt.Sprint("m", i), "")
	}
	for name, c := range map[string]struct {
		list []belljar.FileWrite
		code belljar.Code
	}{
		"one exists":     {[]belljar.FileWrite{file("new", "x"), file("3", "x")}, belljar.CodeConflict},
		"one escapes":    {[]belljar.FileWrite{file("new", "x"), file("../3", "x")}, belljar.CodePathEscapes},
		"one is twice":   {[]belljar.FileWrite{file("new", "x"), file("./new", "x")}, belljar.CodeInvalidRequest},
		"one is broken":  {[]belljar.FileWrite{file("new", "x"), {Path: "y", Content: iotest.ErrReader(io.ErrUnexpectedEOF)}}, belljar.CodeInvalidRequest},
		"mixed":          {[]belljar.FileWrite{file("new", "x"), over(file("3", "x"))}, belljar.CodeInvalidRequest},
		"file on folder": {[]belljar.FileWrite{over(file("new", "x")), over(file("a", "x"))}, belljar.CodeConflict},
		"in each other":  {[]belljar.FileWrite{file("new", "x"), file("new/er", "x")}, belljar.CodeConflict},
		"too many":       {many, belljar.CodeTooLarge},
		"too large":      {[]belljar.FileWrite{file("new", "x"), {Path: "y", Content: io.LimitReader(torrent{}, belljar.MaxBatchBytes)}}, belljar.CodeTooLarge},
	} {
		if _, err := d.WriteAll(d.context(), d.ID, c.list); belljar.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%s), want %s", name, err, belljar.CodeOf(err), c.code)
		}
	}
	if _, err := d.WriteAll(d.context(), d.ID, []belljar.FileWrite{over(file("a/1", "uno")), over(file("4", "four"))}); err != nil {
		t.Error(err)
	}
	d.eventually("nothing is left of the others", func() bool {
		return d.sh("find . -type f ! -path './.tmp*' | sort; cat a/1 3 4") == "./3\n./4\n./a/1\n./a/2\nunothreefour"
	})
}

func TestFileChanges(t *testing.T) {
	d := newBench(t).cabinet()
	ctx := d.context()
	d.write("a", "A")
	d.write("b", "B")
	d.write("dir/x", "X")
	codes := func(what string, err error, want belljar.Code) {
		t.Helper()
		if belljar.CodeOf(err) != want {
			t.Errorf("%s: %v (%s), want %s", what, err, belljar.CodeOf(err), want)
		}
	}
	codes("mkdir", d.Mkdir(ctx, d.ID, "m/n", 0o750), "")
	codes("mkdir again", d.Mkdir(ctx, d.ID, "m/n", 0), "")
	codes("mkdir over a file", d.Mkdir(ctx, d.ID, "a", 0), belljar.CodeConflict)
	codes("mkdir below a file", d.Mkdir(ctx, d.ID, "a/b", 0), belljar.CodeConflict)
	codes("mkdir sticky", d.Mkdir(ctx, d.ID, "s", 0o1777), belljar.CodeInvalidRequest)
	if e, err := d.Stat(ctx, d.ID, "m/n"); err != nil || e.Mode != "0750" || e.Type != "dir" {
		t.Errorf("%+v, %v", e, err)
	}
	codes("rename over", d.Rename(ctx, d.ID, "a", "b", false), belljar.CodeConflict)
	codes("rename nothing", d.Rename(ctx, d.ID, "none", "new/c", true), belljar.CodeNotFound)
	if _, err := d.Stat(ctx, d.ID, "new"); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("a folder was made for nothing: %v", err)
	}
	codes("rename into itself", d.Rename(ctx, d.ID, "dir", "dir/sub", true), belljar.CodeInvalidRequest)
	codes("rename over a folder", d.Rename(ctx, d.ID, "a", "dir", true), belljar.CodeConflict)
	codes("rename over a full folder", d.Rename(ctx, d.ID, "m", "dir", true), belljar.CodeConflict)
	codes("rename", d.Rename(ctx, d.ID, "a", "b", true), "")
	codes("rename", d.Rename(ctx, d.ID, "dir", "deep/er/dir", false), "")
	if d.read("b") != "A" || d.read("deep/er/dir/x") != "X" {
		t.Error("renamed wrongly")
	}
	codes("delete a full folder", d.Delete(ctx, d.ID, "deep", false), belljar.CodeConflict)
	codes("delete the workspace", d.Delete(ctx, d.ID, "/workspace/.", true), belljar.CodeInvalidRequest)
	codes("delete", d.Delete(ctx, d.ID, "deep", true), "")
	codes("delete again", d.Delete(ctx, d.ID, "deep", true), belljar.CodeNotFound)
	codes("delete an empty folder", d.Delete(ctx, d.ID, "m/n", false), "")
	codes("delete a file", d.Delete(ctx, d.ID, "b", false), "")
	if got := d.sh("ls"); got != "m\n" {
		t.Errorf("%q", got)
	}
}

func paths(list belljar.FileList) (names []string) {
	for _, e := range list.Entries {
		names = append(names, e.Path)
	}
	return names
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
	for path, code := range map[string]belljar.Code{"none": belljar.CodeNotFound, "a/1/x": belljar.CodeConflict, "..": belljar.CodePathEscapes} {
		if _, err := d.List(ctx, d.ID, belljar.FileQuery{Path: path}); belljar.CodeOf(err) != code {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, limit := range []int{-1, belljar.MaxListEntries + 1} {
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
	if err != nil || len(got.Matches) != 1 || got.Matches[0].Line != 1 || len(got.Matches[0].Text) != belljar.MaxMatchedBytes {
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
	// What comes out goes in again.
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

// shut takes nothing.
type shut struct{}

func (shut) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// everyOperation asks for everything that can be done with files.
func everyOperation(t *testing.T, f belljar.Files, id string) map[string]error {
	ctx := t.Context()
	errs := map[string]error{}
	_, errs["write"] = f.Write(ctx, id, belljar.FileWrite{Path: "x", Content: strings.NewReader("x")})
	_, errs["batch"] = f.WriteAll(ctx, id, []belljar.FileWrite{{Path: "x"}})
	_, body, err := f.Read(ctx, id, "x", 0, 0)
	if errs["read"] = err; err == nil {
		body.Close()
	}
	_, errs["stat"] = f.Stat(ctx, id, "x")
	_, errs["list"] = f.List(ctx, id, belljar.FileQuery{})
	errs["mkdir"] = f.Mkdir(ctx, id, "x", 0)
	errs["rename"] = f.Rename(ctx, id, "x", "y", false)
	errs["delete"] = f.Delete(ctx, id, "x", false)
	_, errs["search"] = f.Search(ctx, id, belljar.FileSearch{Name: "*"})
	errs["archive"] = f.Archive(ctx, id, "", belljar.UploadTar, io.Discard)
	_, errs["space"] = f.Space(ctx, id)
	return errs
}

// Sessions that are not there, are somebody else's, or are over.
func TestFilesOfOtherSessions(t *testing.T) {
	b := newBench(t)
	d := b.cabinet()
	d.write("x", "private")
	bob := b.service.As(belljar.Caller{ID: "bob", Role: belljar.RoleUser}).Files()
	for name, err := range everyOperation(t, bob, d.ID) {
		if belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("%s of another user's session: %v", name, err)
		}
	}
	for name, err := range everyOperation(t, d.Files, belljar.NewID()) {
		if belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("%s of no session: %v", name, err)
		}
	}
	if err := b.mine().Delete(b.context(), d.ID); err != nil {
		t.Fatal(err)
	}
	for name, err := range everyOperation(t, d.Files, d.ID) {
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["state"] != "closed" || e.Hint == "" {
			t.Errorf("%s of a closed session: %v", name, err)
		}
	}
}

// A session that ends does not wait for a body that does not come, nor for a reader who does not read.
func TestFilesEndWithTheirSession(t *testing.T) {
	b := newBench(t)
	d := b.cabinet()
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		_, err := d.Write(b.context(), d.ID, belljar.FileWrite{Path: "x", Content: r})
		wrote <- err
	}()
	if _, err := w.Write([]byte("half of it")); err != nil {
		t.Fatal(err)
	}
	d.write("large", strings.Repeat("x", 8<<20))
	_, body, err := d.Read(b.context(), d.ID, "large", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error, 1)
	go func() { deleted <- b.mine().Delete(b.context(), d.ID) }()
	if err := <-wrote; belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("write: %v", err)
	}
	w.CloseWithError(io.ErrClosedPipe)
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, body); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("read: %v", err)
	}
	body.Close()
}

// Using files keeps a session, and reading one does as long as it takes.
func TestFilesKeepASession(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock, o.SessionTTL = clock, time.Hour })
	d := b.cabinet()
	for range 3 {
		clock.pass(50 * time.Minute)
		d.write("x", "content")
	}
	_, body, err := d.Read(b.context(), d.ID, "x", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	clock.pass(2 * time.Hour)
	if s, err := b.mine().Get(b.context(), d.ID); err != nil || s.State != belljar.SessionActive {
		t.Errorf("while a file is read: %+v, %v", s, err)
	}
	body.Close()
	clock.pass(59 * time.Minute)
	if got := d.read("x"); got != "content" {
		t.Errorf("%q", got)
	}
	clock.pass(61 * time.Minute)
	if _, err := d.Stat(b.context(), d.ID, "x"); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Error(err)
	}
}

// A hundred at once get their own back.
func TestFilesAtOnce(t *testing.T) {
	d := newBench(t).cabinet()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			path := fmt.Sprintf("d%d/%d", i%5, i)
			d.write(path, path)
			if got := d.read(path); got != path {
				t.Errorf("%s reads %q", path, got)
			}
			if _, err := d.List(d.context(), d.ID, belljar.FileQuery{Recursive: true}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
