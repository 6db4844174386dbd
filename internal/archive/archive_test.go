package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/archive"
)

// parts returns an upload of these parts.
func parts(list ...belljar.UploadPart) iter.Seq2[belljar.UploadPart, error] {
	return func(yield func(belljar.UploadPart, error) bool) {
		for _, p := range list {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func part(format belljar.UploadFormat, name string, b []byte) belljar.UploadPart {
	return belljar.UploadPart{Name: name, Format: format, Body: bytes.NewReader(b)}
}

// read reads one part.
func read(t *testing.T, format belljar.UploadFormat, b []byte, l archive.Limits) (*archive.Bundle, error) {
	t.Helper()
	dir := t.TempDir()
	bundle, err := archive.Read(t.Context(), parts(part(format, "file", b)), archive.Options{Limits: l, TempDir: dir})
	if err == nil {
		t.Cleanup(func() { bundle.Close() })
	}
	if left, e := os.ReadDir(dir); e != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, e)
	}
	return bundle, err
}

// unpack lists the entries of a packed bundle: path, with a slash for folders, mode and contents.
func unpack(t *testing.T, b *archive.Bundle) []string {
	t.Helper()
	var buf bytes.Buffer
	if err := b.WriteTar(t.Context(), &buf); err != nil {
		t.Fatalf("write: %v", err)
	}
	list := []string{}
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatalf("read back: %v", err)
		}
		contents, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("read back %s: %v", h.Name, err)
		}
		list = append(list, fmt.Sprintf("%s %o %s", h.Name, h.Mode, contents))
	}
}

// wantRule checks that err names the rule.
func wantRule(t *testing.T, err error, code belljar.Code, rule string) {
	t.Helper()
	var e *belljar.Error
	if !errors.As(err, &e) {
		t.Errorf("%v, want a belljar.Error", err)
		return
	}
	if e.Code != code || e.Details["rule"] != rule || e.Message == "" || strings.ContainsAny(e.Message, "\x00\n") {
		t.Errorf("%s, rule %v, %q; want %s, %s", e.Code, e.Details["rule"], e.Message, code, rule)
	}
}

// An archive that cannot be read is named, with what to do about it.
func TestBrokenArchive(t *testing.T) {
	whole := tarOf(t, entry{name: "a", body: strings.Repeat("x", 9000)})
	for name, p := range map[string]belljar.UploadPart{
		"tar":         part(belljar.UploadTar, "b.tar", whole[:5000]),
		"no end mark": part(belljar.UploadTar, "b.tar", whole[:len(whole)-1024]),
		"tar.gz":      part(belljar.UploadTarGz, "b.tgz", gz(t, whole)[:20]),
		"zip":         part(belljar.UploadZip, "b.zip", zipOf(t, entry{name: "a", body: "A"})[:30]),
		"no name":     part(belljar.UploadTar, "", whole[:5000]),
	} {
		_, err := archive.Read(t.Context(), parts(part(belljar.UploadFile, "f", nil), p), archive.Options{TempDir: t.TempDir()})
		var e *belljar.Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Hint, "the archive is damaged, incomplete") || p.Name != "" && e.Details["entry"] != p.Name {
			t.Errorf("%s: %v, hint %q, %v", name, err, belljar.HintOf(err), e)
		}
	}
}

func TestReadParts(t *testing.T) {
	b, err := archive.Read(t.Context(), parts(
		part(belljar.UploadFile, "main.py", []byte("print()")),
		part(belljar.UploadTar, "", tarOf(t, entry{name: "./"}, entry{name: "./dir/", mode: 0o500}, entry{name: "./dir//a", body: "A", mode: 0o4755})),
		part(belljar.UploadTarGz, "", gz(t, tarOf(t, entry{name: "b", body: "BB"}))),
		part(belljar.UploadZip, "", zipOf(t, entry{name: "z/"}, entry{name: "z/c", body: "CCC", mode: 0o600})),
		part(belljar.UploadFile, "deep/er/d", nil),
	), archive.Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.Files() != 5 || b.Bytes() != 13 {
		t.Errorf("%d files, %d bytes", b.Files(), b.Bytes())
	}
	want := []string{
		"main.py 644 print()", "dir/ 700 ", "dir/a 755 A", "b 644 BB", "z/ 755 ", "z/c 600 CCC", "deep/er/d 644 ",
	}
	for range 2 { // WriteTar can be repeated
		if diff := cmp.Diff(want, unpack(t, b)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestClashBetweenParts(t *testing.T) {
	_, err := archive.Read(t.Context(), parts(
		part(belljar.UploadFile, "a/b", nil),
		part(belljar.UploadZip, "", zipOf(t, entry{name: "a", body: "x"})),
	), archive.Options{TempDir: t.TempDir()})
	wantRule(t, err, belljar.CodeInvalidRequest, "clash")
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestBodyBreaksOff(t *testing.T) {
	cause := errors.New("connection reset")
	late := &belljar.Error{Code: belljar.CodeTimeout, Message: "too slow"}
	read := func(ctx context.Context, err error) error {
		body := io.MultiReader(strings.NewReader("xyz"), failing{err})
		_, got := archive.Read(ctx, parts(belljar.UploadPart{Name: "a", Format: belljar.UploadFile, Body: body}),
			archive.Options{TempDir: t.TempDir()})
		return got
	}
	err := read(t.Context(), cause)
	wantRule(t, err, belljar.CodeInvalidRequest, "cut_off")
	if !errors.Is(err, cause) {
		t.Errorf("%v hides its cause", err)
	}
	if err := read(t.Context(), late); !errors.Is(err, late) {
		t.Errorf("%v instead of the error of the door", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := read(ctx, io.ErrUnexpectedEOF); !errors.Is(err, cause) {
		t.Errorf("%v instead of the reason to stop", err)
	}
	_, err = archive.Read(t.Context(), func(yield func(belljar.UploadPart, error) bool) { yield(belljar.UploadPart{}, late) },
		archive.Options{TempDir: t.TempDir()})
	if !errors.Is(err, late) {
		t.Errorf("%v instead of the reason why there is no part", err)
	}
}

// A cancellation during packing is reported as such, not as an error of the archive.
func TestWriteTarFails(t *testing.T) {
	b, err := read(t, belljar.UploadFile, []byte("x"), archive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken pipe")
	if err := b.WriteTar(t.Context(), failingWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	if err := b.WriteTar(ctx, io.Discard); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

// The rules for names are the same in all formats.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, test := range []struct {
		name string
		code belljar.Code
		rule string
	}{
		{"../x", belljar.CodePathEscapes, "traversal"},
		{"a/../../x", belljar.CodePathEscapes, "traversal"},
		{"a/..", belljar.CodePathEscapes, "traversal"},
		{"/etc/passwd", belljar.CodePathEscapes, "absolute"},
		{"//server/share", belljar.CodePathEscapes, "absolute"},
		{`..\x`, belljar.CodePathEscapes, "backslash"},
		{`a\b`, belljar.CodePathEscapes, "backslash"},
		{"C:/x", belljar.CodePathEscapes, "drive"},
		{"c:x", belljar.CodePathEscapes, "drive"},
		{"a\nb", belljar.CodeInvalidRequest, "control"},
		{"a\x1b[2J", belljar.CodeInvalidRequest, "control"},
		{"a\x7f", belljar.CodeInvalidRequest, "control"},
		{"a\u0085", belljar.CodeInvalidRequest, "control"},
		{"a\u2028b", belljar.CodeInvalidRequest, "control"},
		{"a\xffb", belljar.CodeInvalidRequest, "utf8"},
		{long, belljar.CodeInvalidRequest, "name"},
		{strings.Repeat("x/", 600) + "x", belljar.CodeInvalidRequest, "name"},
		{".", belljar.CodeInvalidRequest, "name"},
		{"1/2/3/4/5/6/7/8/9/10/11/file", belljar.CodeInvalidRequest, "depth"},
	} {
		for _, format := range []belljar.UploadFormat{belljar.UploadTar, belljar.UploadZip, belljar.UploadFile} {
			body := []byte("contents")
			switch format {
			case belljar.UploadTar:
				body = tarOf(t, entry{name: "first", body: "1"}, entry{name: test.name, body: "x"})
			case belljar.UploadZip:
				body = zipOf(t, entry{name: "first", body: "1"}, entry{name: test.name, body: "x"})
			}
			_, err := archive.Read(t.Context(), parts(part(format, test.name, body)), archive.Options{TempDir: t.TempDir()})
			t.Run(fmt.Sprintf("%s/%q", format, test.name), func(t *testing.T) { wantRule(t, err, test.code, test.rule) })
		}
	}
	for _, name := range []string{"a", "ä ö", "日本語/ファイル", "-rf", "ab:c", "..x", "...", ".hidden", "x..", "👩‍👩‍👧", "1/2/3/4/5/6/7/8/9/10/file"} {
		b, err := read(t, belljar.UploadTar, tarOf(t, entry{name: name, body: "x"}), archive.Limits{})
		if err != nil {
			t.Errorf("%q: %v", name, err)
		} else if got := unpack(t, b); len(got) != 1 || got[0] != name+" 644 x" {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

func TestSameNames(t *testing.T) {
	for _, test := range []struct{ first, second, rule string }{
		{"a", "a", "duplicate"},
		{"a", "./a", "duplicate"},
		{"a/b", "a", "clash"},
		{"a", "a/b", "clash"},
		{"a/", "a", "clash"},
	} {
		for _, format := range []belljar.UploadFormat{belljar.UploadTar, belljar.UploadZip} {
			pack := tarOf
			if format == belljar.UploadZip {
				pack = zipOf
			}
			_, err := read(t, format, pack(t, entry{name: test.first}, entry{name: test.second}), archive.Limits{})
			t.Run(string(format)+"/"+test.first, func(t *testing.T) { wantRule(t, err, belljar.CodeInvalidRequest, test.rule) })
		}
	}
	if _, err := read(t, belljar.UploadTar, tarOf(t, entry{name: "a/"}, entry{name: "a/"}, entry{name: "a/b"}), archive.Limits{}); err != nil {
		t.Errorf("a folder that comes twice: %v", err)
	}
	// A workspace is case-sensitive, and has names in each Unicode form.
	b, err := read(t, belljar.UploadTar, tarOf(t, entry{name: "Makefile"}, entry{name: "makefile"}, entry{name: "caf\u00e9"}, entry{name: "cafe\u0301"}), archive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := unpack(t, b); len(got) != 4 {
		t.Errorf("names that differ by case or Unicode form: %q", got)
	}
}

func TestLimits(t *testing.T) {
	small := archive.Limits{Bytes: 1000, Files: 3}
	four := []entry{{name: "1"}, {name: "2"}, {name: "3"}, {name: "4"}}
	large := []entry{{name: "1", body: strings.Repeat("xyz", 200)}, {name: "2", body: strings.Repeat("abc", 200)}}
	for name, test := range map[string]struct {
		entries []entry
		rule    string
	}{
		"files": {four, "files"}, "bytes": {large, "bytes"},
	} {
		for format, body := range map[belljar.UploadFormat][]byte{
			belljar.UploadTar: tarOf(t, test.entries...), belljar.UploadZip: zipOf(t, test.entries...),
			belljar.UploadTarGz: gz(t, tarOf(t, test.entries...)),
		} {
			_, err := read(t, format, body, small)
			t.Run(name+"/"+string(format), func(t *testing.T) { wantRule(t, err, belljar.CodeTooLarge, test.rule) })
		}
	}
	_, err := read(t, belljar.UploadFile, make([]byte, 1001), small)
	wantRule(t, err, belljar.CodeTooLarge, "bytes")
	if _, err := read(t, belljar.UploadFile, make([]byte, 1000), small); err != nil {
		t.Errorf("exactly what is allowed: %v", err)
	}
	if _, err := read(t, belljar.UploadTar, tarOf(t, four[:3]...), small); err != nil {
		t.Errorf("exactly what is allowed: %v", err)
	}
}

// An endless upload is cut off long before the disk is full.
func TestEndlessBody(t *testing.T) {
	count := &counting{}
	_, err := archive.Read(t.Context(), parts(belljar.UploadPart{Name: "x", Format: belljar.UploadTar, Body: count}),
		archive.Options{Limits: archive.Limits{Bytes: 1000, Files: 1}, TempDir: t.TempDir()})
	wantRule(t, err, belljar.CodeTooLarge, "bytes")
	if count.n > 4<<20 {
		t.Errorf("%d bytes were taken", count.n)
	}
}

type counting struct{ n int }

func (c *counting) Read(p []byte) (int, error) {
	clear(p)
	c.n += len(p)
	return len(p), nil
}

func TestUnknownFormat(t *testing.T) {
	_, err := read(t, "rar", nil, archive.Limits{})
	wantRule(t, err, belljar.CodeInvalidRequest, "type")
}
