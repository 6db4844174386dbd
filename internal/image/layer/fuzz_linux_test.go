package layer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/layer"
)

// committed lists the attacks that are in testdata, so that every fuzzing begins with them.
func committed() []string {
	return []string{
		"dotdot", "pax path", "gnu path", "below a whiteout by link", "hard link by a link up", "hard link deep in itself",
		"links that double", "declared as huge", "sparse", "pax negative size", "whiteout of the one above", "cut in a file",
	}
}

// FuzzUnpack tests that no input has an effect outside, and that a refusal has a reason. An accepted layer can be merged,
// and has only files, folders and links that no other user can write.
func FuzzUnpack(f *testing.F) {
	f.Add(tarOf(f, dir("usr/lib"), sym("lib", "usr/lib"), file("lib/a", "x"), hard("b", "lib/a"), file(".wh.c", ""), device("dev/null")))
	f.Add(tarOf(f, sym("a", "/"), file("a/sentinel/x", "evil"), sym("b", "../sentinel"), file("b/x", "evil"), hard("c", "b/x")))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := newRig(t)
		o := layer.Options{MaxBytes: 1 << 20, MaxFiles: 200, MaxDepth: 10}
		stats, err := layer.Unpack(t.Context(), bytes.NewReader(body), r.dir, o)
		r.untouched(t)
		if err != nil {
			var e *belljar.Error
			if !errors.As(err, &e) || e.Code != belljar.CodeImageInvalid || e.Details["rule"] == nil || !utf8.ValidString(e.Message) {
				t.Fatalf("refused without a reason: %#v", err)
			}
			return
		}
		if stats.Bytes > o.MaxBytes || stats.Files+stats.HardLinks+stats.Symlinks+stats.Folders > o.MaxFiles {
			t.Fatalf("%+v", stats)
		}
		root := folder(t)
		if _, err := layer.Merge(t.Context(), root, []string{r.dir, r.dir}); err != nil {
			t.Fatalf("unpacked, but not to be merged: %v", err)
		}
		check(t, root)
		r.untouched(t)
	})
}

// check verifies that a root contains only what is allowed.
func check(t testing.TB, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		m := info.Mode()
		kind := m.Type()
		if kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink || m&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 ||
			kind != fs.ModeSymlink && m.Perm()&0o022 != 0 || kind == fs.ModeDir && m.Perm()&0o700 != 0o700 ||
			strings.HasPrefix(d.Name(), ".wh.") {
			return fmt.Errorf("%q has mode %v", p, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCorpus compares the committed corpus; with BELLJAR_UPDATE_CORPUS set it writes it.
func TestCorpus(t *testing.T) {
	attacks := hostile(t)
	for _, name := range committed() {
		body := attacks[name].body
		file := filepath.Join("testdata", "fuzz", "FuzzUnpack", strings.ReplaceAll(name, " ", "_"))
		want := fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", body)
		if os.Getenv("BELLJAR_UPDATE_CORPUS") != "" {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not the corpus's: run with BELLJAR_UPDATE_CORPUS=1", file)
		}
	}
}
