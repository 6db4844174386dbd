//go:build linux

package image

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/test/need"
)

// library matches a line of ldd.
var library = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\t(?:.* => )?(/\S+) \(0x`) })

// Programs returns the tar of a root file system with busybox and these programs and folders of the machine, given by their paths, with the
// libraries that the programs need. It takes a second; an image of packages takes minutes.
func Programs(t testing.TB, paths ...string) string {
	t.Helper()
	return programs(t, nil, paths)
}

// Python returns the tar of a root file system with the machine's own Python and most of its library, in addition to the contents of
// [Programs].
func Python(t testing.TB) string {
	t.Helper()
	program, err := os.Readlink("/usr/bin/python3")
	if err != nil {
		need.Missing(t, "Debian's Python: %v", err)
	}
	library := filepath.Join("/usr/lib", program)
	modules, err := filepath.Glob(filepath.Join(library, "lib-dynload/*.so")) // for the libraries that they need
	if err != nil {
		t.Fatal(err)
	}
	return programs(t, map[string]string{"usr/bin/python": "python3"}, append(modules, "/usr/bin/python3", library))
}

// spared are folders of Python's library that no test uses.
var spared = []string{"config-*", "test", "idlelib", "lib2to3", "pydoc_data", "ensurepip", "tkinter", "turtledemo", "dist-packages"}

func programs(t testing.TB, links map[string]string, paths []string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "programs.tar")
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	base, err := os.Open(Busybox(t))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	w := tar.NewWriter(out)
	has := map[string]bool{"bin/": true}
	put := func(h *tar.Header, content io.Reader) {
		t.Helper()
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, content); err != nil {
			t.Fatal(err)
		}
	}
	for in := tar.NewReader(base); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		put(h, in)
	}
	add := func(path string) {
		t.Helper()
		inside := strings.TrimPrefix(path, "/")
		if has[inside] {
			return
		}
		has[inside] = true
		for i := range inside {
			if dir := inside[:i+1]; inside[i] == '/' && !has[dir] {
				has[dir] = true
				put(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, strings.NewReader(""))
			}
		}
		f, err := os.Open(path)
		if err != nil {
			need.Missing(t, "%v", err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		put(&tar.Header{Name: inside, Typeflag: tar.TypeReg, Mode: 0o755, Size: info.Size()}, f)
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			err := filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
				if err == nil && e.IsDir() && slices.ContainsFunc(spared, func(pattern string) bool {
					spare, _ := filepath.Match(pattern, e.Name())
					return spare
				}) {
					return fs.SkipDir
				}
				if err == nil && e.Type().IsRegular() {
					add(file)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		add(path)
		text, err := exec.Command("ldd", path).CombinedOutput()
		if err != nil {
			t.Fatalf("ldd %s: %v: %s", path, err, text)
		}
		for _, m := range library().FindAllStringSubmatch(string(text), -1) {
			add(m[1])
		}
	}
	for link, target := range links {
		put(&tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, strings.NewReader(""))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}
