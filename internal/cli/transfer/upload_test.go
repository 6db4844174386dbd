package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// listing unpacks a tar stream into lines: name, mode, and content or link.
func listing(t *testing.T, r io.Reader) string {
	t.Helper()
	var b strings.Builder
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %o %s%s\n", h.Name, h.Mode, content, h.Linkname)
	}
}

func write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestUpload(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/one", "1", 0o644)
	write(t, dir+"/a/sub/run", "2", 0o755)
	write(t, dir+"/b", "3", 0o600)
	if err := os.Symlink("sub/run", dir+"/a/link"); err != nil {
		t.Fatal(err)
	}
	var u Upload
	defer u.Close()
	for _, err := range []error{
		u.AddFile(dir + "/b"), u.AddFile(dir + "/b:x/y/"), u.AddFile(dir + "/b"), u.AddFile(dir + "/a/one"), u.AddDir(dir+"/a", false),
		u.Add(Source{Dst: "main.sh", Content: []byte("4")}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := u.Reader()
	defer r.Close()
	want := "b 600 3\nx/y/b 600 3\none 644 1\nlink 777 sub/run\nsub/ 755 \nsub/run 755 2\nmain.sh 644 4\n"
	if got := listing(t, r); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// AddTree copies what links in the folder lead to, such as the packages of npm workspaces.
func TestLinkedFolders(t *testing.T) {
	for name, test := range map[string]struct {
		links map[string]string
		want  string // an error's part
	}{
		"workspaces":    {map[string]string{"node_modules/a": "../packages/a", "packages/a/deep/b": "../../b", "packages/b/all": "../../file"}, ""},
		"itself":        {map[string]string{"node_modules/top": ".."}, "node_modules/top: is a link to .., a folder that contains it"},
		"each other":    {map[string]string{"packages/a/b": "../b", "packages/b/a": "../a"}, "a folder that contains it"},
		"out of it":     {map[string]string{"node_modules/a": "../packages/a", "packages/a/etc": "/etc"}, "packages/a/etc: is a link to /etc, outside the folder"},
		"leads nowhere": {map[string]string{"node_modules/a": "../gone"}, "node_modules/a: is a link to ../gone, which is no file or folder in"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range []string{"file", "node_modules/x", "packages/a/deep/one", "packages/b/two"} {
				write(t, dir+"/"+file, "1", 0o644)
			}
			for link, to := range test.links {
				if err := os.Symlink(to, dir+"/"+link); err != nil {
					t.Fatal(err)
				}
			}
			var u Upload
			defer u.Close()
			err := u.AddTree(dir, "w")
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := u.Reader()
			defer r.Close()
			got := listing(t, r)
			for _, line := range []string{
				"w/node_modules/a/ 755 \n", "w/node_modules/a/deep/one 644 1\n", "w/node_modules/a/deep/b/two 644 1\n", "w/node_modules/a/deep/b/all 644 1\n",
				"w/packages/a/deep/b/all 644 1\n", "w/packages/b/all 644 1\n",
			} {
				if !strings.Contains(got, line) {
					t.Errorf("no %sin\n%s", line, got)
				}
			}
		})
	}
}

func TestUploadRefusesSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	var u Upload
	defer u.Close()
	if err := u.AddDir(dir, false); err == nil || !strings.HasSuffix(err.Error(), "fifo: is neither a file, a folder nor a link") {
		t.Errorf("--dir: %v", err)
	}
	if err := u.AddTree(dir, "x"); err == nil || !strings.HasPrefix(err.Error(), dir+"/fifo: is neither") {
		t.Errorf("without a flag: %v", err)
	}
	if err := u.AddArgument(dir + "/fifo"); err == nil || !strings.HasPrefix(err.Error(), dir+"/fifo: is not a regular file") {
		t.Errorf("an argument: %v", err)
	}
	if err := u.AddFile(dir + "/fifo"); err == nil || !strings.HasSuffix(err.Error(), "is not a regular file") {
		t.Errorf("--file: %v", err)
	}
}

// A server's uploads have no links: --dir sends what the programs of npm packages are linked to.
func TestDirForServer(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/node_modules/semver/bin/semver.js", "1", 0o755)
	write(t, dir+"/node_modules/.bin/other", "2", 0o755)
	link := dir + "/node_modules/.bin/semver"
	if err := os.Symlink("../semver/bin/semver.js", link); err != nil {
		t.Fatal(err)
	}
	var u, refused Upload
	defer u.Close()
	defer refused.Close()
	if err := u.AddDir(dir, true); err != nil {
		t.Fatal(err)
	}
	r := u.Reader()
	defer r.Close()
	want := "node_modules/.bin/semver 755 #!/bin/sh\n':' //; exec \"$(dirname \"$0\")\"/'../semver/bin/semver.js' \"$@\"\n"
	if got := listing(t, r); !strings.Contains(got, want) {
		t.Error(got)
	}
	if err := errors.Join(os.Remove(link), os.Symlink("../gone", link)); err != nil {
		t.Fatal(err)
	}
	err := refused.AddDir(dir, true)
	if want := "--dir " + link + ": is a link to ../gone, which is no file or folder in " + dir; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := refused.AddDir(dir+"/node_modules/.bin/other", true); err == nil || !strings.HasSuffix(err.Error(), "other: not a directory") {
		t.Errorf("a file: %v", err)
	}
}

// TestUploadShrinks: a file that changes after validation ends the upload with an error that names it.
func TestUploadShrinks(t *testing.T) {
	name := t.TempDir() + "/log"
	write(t, name, "long", 0o644)
	var u Upload
	if err := u.AddFile(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 1); err != nil {
		t.Fatal(err)
	}
	r := u.Reader()
	defer r.Close()
	_, err := io.Copy(io.Discard, r)
	if err == nil || !strings.Contains(err.Error(), "log: it shrank from 4 to 1 bytes") {
		t.Errorf("err %v", err)
	}
}
