package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/archive"
)

func FuzzTar(f *testing.F)   { fuzz(f, belljar.UploadTar) }
func FuzzTarGz(f *testing.F) { fuzz(f, belljar.UploadTarGz) }
func FuzzZip(f *testing.F)   { fuzz(f, belljar.UploadZip) }

func FuzzName(f *testing.F) {
	for _, name := range []string{"a", "a/b", "../x", "/x", "C:\\x", "./a//b/.", "a\x00", "\xff", "caf\u0301e", ".", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) { hold(t, belljar.UploadFile, name, []byte("x")) })
}

// fuzz starts with one archive of every kind in the tests, valid and invalid. testdata has more.
func fuzz(f *testing.F, format belljar.UploadFormat) {
	good := []entry{{name: "dir/"}, {name: "dir/a", body: "hello"}, {name: "b", mode: 0o755}}
	slip := []entry{{name: "../../etc/cron.d/x", body: "evil"}}
	link := []entry{{name: "a", kind: tar.TypeSymlink, link: "/etc"}, {name: "a/passwd", body: "evil"}}
	for _, list := range [][]entry{good, slip, link} {
		switch format {
		case belljar.UploadTar:
			f.Add(tarOf(f, list...))
		case belljar.UploadTarGz:
			f.Add(gz(f, tarOf(f, list...)))
		case belljar.UploadZip:
			f.Add(zipOf(f, list...))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) { hold(t, format, "part", body) })
}

// hold checks the invariant of every upload: it is refused with a reason, or the packed stream is safe and has the size
// that the bundle reports.
func hold(t *testing.T, format belljar.UploadFormat, name string, body []byte) {
	limits := archive.Limits{Bytes: 1 << 20, Files: 50, Depth: 5}
	b, err := archive.Read(t.Context(), parts(part(format, name, body)), archive.Options{Limits: limits, TempDir: t.TempDir()})
	if err != nil {
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code == belljar.CodeInternal || e.Details["rule"] == nil || !utf8.ValidString(e.Message) {
			t.Fatalf("refused without a reason: %#v", err)
		}
		return
	}
	defer b.Close()
	var out bytes.Buffer
	if err := b.WriteTar(t.Context(), &out); err != nil {
		t.Fatalf("checked, but not to be packed: %v", err)
	}
	files, total, seen := 0, int64(0), map[string]bool{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		p := strings.TrimSuffix(h.Name, "/")
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir || h.Mode&^0o777 != 0 || p != path.Clean(p) ||
			path.IsAbs(p) || p == "." || strings.HasPrefix(p, "..") && (p == ".." || p[2] == '/') || !utf8.ValidString(p) ||
			strings.ContainsAny(p, "\x00\n\\") || strings.Count(p, "/") > limits.Depth {
			t.Fatalf("%q of type %q and mode %o", h.Name, h.Typeflag, h.Mode)
		}
		n, err := io.Copy(io.Discard, r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if seen[p] {
				t.Fatalf("%q comes twice", p)
			}
			seen[p] = true
			files++
			total += n
		}
	}
	if files != b.Files() || total != b.Bytes() || files > limits.Files || total > limits.Bytes {
		t.Fatalf("%d files with %d bytes, counted as %d with %d", files, total, b.Files(), b.Bytes())
	}
}

// corpus keeps the attacks under testdata, so that every fuzz run starts with them.
func TestCorpusIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		format belljar.UploadFormat
		body   []byte
	}{
		"FuzzZip/overlap":    {belljar.UploadZip, quoted(t, 5, 300)},
		"FuzzZip/slip":       {belljar.UploadZip, zipOf(t, entry{name: `..\..\x`, body: "evil"})},
		"FuzzZip/bomb":       {belljar.UploadZip, zipOf(t, entry{name: "a", body: strings.Repeat("\x00", 2<<20)})},
		"FuzzTar/sparse":     {belljar.UploadTar, append(paxHeader("GNU.sparse.size=99999|GNU.sparse.numblocks=1|GNU.sparse.map=99998,1"), tarOf(t, entry{name: "a", body: "x"})...)},
		"FuzzTar/path":       {belljar.UploadTar, append(paxHeader("path=../../x"), tarOf(t, entry{name: "a"})...)},
		"FuzzTar/device":     {belljar.UploadTar, tarOf(t, entry{name: "a", kind: tar.TypeBlock})},
		"FuzzTarGz/twice":    {belljar.UploadTarGz, bytes.Repeat(gz(t, tarOf(t, entry{name: "a"})), 2)},
		"FuzzTarGz/bomb":     {belljar.UploadTarGz, gz(t, tarOf(t, entry{name: "a", body: strings.Repeat("\x00", 2<<20)}))},
		"FuzzTarGz/not_tar":  {belljar.UploadTarGz, gz(t, []byte("hello"))},
		"FuzzTar/newline":    {belljar.UploadTar, append(paxHeader("path=a\nb"), tarOf(t, entry{name: "a"})...)},
		"FuzzZip/two_of_one": {belljar.UploadZip, zipOf(t, entry{name: "a"}, entry{name: "./a"})},
	} {
		keep(t, name, test.body)
		if _, err := read(t, test.format, test.body, archive.Limits{}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
