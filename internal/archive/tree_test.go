package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"math"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// treeOf packs headers, each followed by as many bytes as its size.
func treeOf(t testing.TB, list ...tar.Header) []byte {
	t.Helper()
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, h := range list {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

// TestCopyTree checks what a copy keeps, and that it drops owners, bits beyond permissions, and system attributes.
func TestCopyTree(t *testing.T) {
	at, first := time.Unix(1e9, 123456789).UTC(), time.Unix(0, 5).UTC()
	in := treeOf(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeDir, Name: "./d/", Mode: 0o4755, ModTime: at, Format: tar.FormatPAX},
		tar.Header{
			Typeflag: tar.TypeReg, Name: "./d/a\nb\xff", Mode: 0o6755, Size: 3, Uid: 7, Gid: 8, Uname: "root", ModTime: at, Format: tar.FormatPAX,
			PAXRecords: map[string]string{"SCHILY.xattr.user.a": "v", "SCHILY.xattr.security.capability": "c", "SCHILY.xattr.trusted.overlay.opaque": "y"},
		},
		tar.Header{Typeflag: tar.TypeLink, Name: "d/link", Linkname: "./d/a\nb\xff", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "s", Linkname: "/etc/passwd", ModTime: first, Format: tar.FormatPAX},
		tar.Header{Typeflag: tar.TypeReg, Name: "implied/x", Mode: 0o600},
		tar.Header{Typeflag: tar.TypeDir, Name: "implied/", Mode: 0o700},
	)
	var out bytes.Buffer
	got, err := CopyTree(t.Context(), &out, bytes.NewReader(in), Limits{})
	if err != nil || got != (Tree{Bytes: 3, Files: 4}) {
		t.Fatalf("%+v, %v", got, err)
	}
	r := tar.NewReader(bytes.NewReader(out.Bytes()))
	for _, want := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755, ModTime: at}, {Typeflag: tar.TypeReg, Name: "d/a\nb\xff", Mode: 0o755, Size: 3, ModTime: at},
		{Typeflag: tar.TypeLink, Name: "d/link", Linkname: "d/a\nb\xff", Mode: 0o755}, {Typeflag: tar.TypeSymlink, Name: "s", Linkname: "/etc/passwd", ModTime: first},
		{Typeflag: tar.TypeReg, Name: "implied/x", Mode: 0o600}, {Typeflag: tar.TypeDir, Name: "implied/", Mode: 0o700},
	} {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != want.Typeflag || h.Name != want.Name || h.Linkname != want.Linkname || h.Mode != want.Mode || h.Size != want.Size || h.Uid+h.Gid != 0 || h.Uname != "" ||
			!want.ModTime.IsZero() && !h.ModTime.Equal(want.ModTime) {
			t.Errorf("%+v, want %+v", h, want)
		}
		for name := range h.PAXRecords {
			if strings.HasPrefix(name, "SCHILY.") && name != "SCHILY.xattr.user.a" {
				t.Errorf("%s has %s", h.Name, name)
			}
		}
	}
	large := treeOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": strings.Repeat("v", 64<<10)}, Format: tar.FormatPAX})
	if _, err := CopyTree(t.Context(), io.Discard, bytes.NewReader(large), Limits{}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("many attributes: %v", err)
	}
	var huge bytes.Buffer
	w := tar.NewWriter(&huge)
	for _, h := range []tar.Header{{Name: "a", Size: 1}, {Name: "b", Size: math.MaxInt64, Format: tar.FormatGNU}} {
		_ = w.WriteHeader(&h)
		_, _ = w.Write([]byte("x"))
	}
	if _, err := CopyTree(t.Context(), io.Discard, &huge, Limits{}); belljar.CodeOf(err) != belljar.CodeTooLarge {
		t.Errorf("sizes beyond 64 bits: %v", err)
	}
	full := errors.New("full")
	if _, err := CopyTree(t.Context(), failing{full}, bytes.NewReader(in), Limits{}); !errors.Is(err, full) || belljar.CodeOf(err) != belljar.CodeInternal {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzCopyTree checks that a copy is within the limits, has no name that leads elsewhere, and copies to itself.
func FuzzCopyTree(f *testing.F) {
	f.Add(treeOf(f, tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, tar.Header{Typeflag: tar.TypeReg, Name: "d/f", Size: 3}, tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "d/f"}))
	f.Add(treeOf(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "s", Linkname: ".."}, tar.Header{Typeflag: tar.TypeReg, Name: "../x"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		limits := Limits{Bytes: 1 << 16, Files: 100}
		var once, twice bytes.Buffer
		tree, err := CopyTree(t.Context(), &once, bytes.NewReader(raw), limits)
		if err != nil {
			return
		}
		if tree.Bytes > limits.Bytes || tree.Files > limits.Files {
			t.Fatalf("%+v", tree)
		}
		files := map[string]byte{}
		for r := tar.NewReader(bytes.NewReader(once.Bytes())); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(h.Name, "/")
			if path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") || path.IsAbs(name) || h.Mode > 0o777 {
				t.Fatalf("%+v", h)
			}
			for up := path.Dir(name); up != "."; up = path.Dir(up) {
				if kind, is := files[up]; is && kind != tar.TypeDir {
					t.Fatalf("%s lies below %s", name, up)
				}
			}
			if h.Typeflag == tar.TypeLink && files[h.Linkname] != tar.TypeReg {
				t.Fatalf("%s links to %s", name, h.Linkname)
			}
			files[name] = h.Typeflag
		}
		again, err := CopyTree(t.Context(), &twice, bytes.NewReader(once.Bytes()), limits)
		if err != nil || again != tree || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("the copy of a copy: %+v, %v", again, err)
		}
	})
}

// TestTreeRefusal checks that a refusal names the fault of a tree, for which more is allowed than for an upload.
func TestTreeRefusal(t *testing.T) {
	for _, test := range []struct {
		head          tar.Header
		message, hint string
	}{
		{tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, "pipe is a FIFO", "leave it out of the archive: a snapshot has files, folders and links only"},
		{tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("d/", 300) + "x"}, "is longer than 4096 bytes, or more than 256 folders deep", ""},
	} {
		_, err := CopyTree(t.Context(), io.Discard, bytes.NewReader(treeOf(t, test.head)), Limits{})
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || !strings.HasSuffix(e.Message, test.message) || e.Hint != test.hint {
			t.Errorf("%s: %+v", test.head.Name, err)
		}
	}
}

// TestTreeWithoutTemporary checks that trees omit a workspace's temporary files.
func TestTreeWithoutTemporary(t *testing.T) {
	var raw, out bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, name := range []string{".tmp/", ".tmp/x", "./.tmp/deep/y", ".tmpfile", "d/.tmp"} {
		h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1}
		if name[len(name)-1] == '/' {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		_ = w.WriteHeader(&h)
		_, _ = w.Write(make([]byte, h.Size))
	}
	_ = w.Close()
	tree, err := CopyTree(t.Context(), &out, &raw, Limits{})
	if err != nil || tree.Files != 2 || tree.Bytes != 2 {
		t.Fatalf("%+v, %v", tree, err)
	}
	var names []string
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != ".tmpfile d/.tmp" {
		t.Errorf("%s", got)
	}
}
