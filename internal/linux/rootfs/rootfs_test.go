//go:build linux

package rootfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/rootfs"
)

// image makes a folder from files: names that end in / are folders, texts that begin with -> links, and | is a pipe.
func image(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.Mkdir(dir, 0o755))
	for name, text := range files {
		at := filepath.Join(dir, name)
		check(os.MkdirAll(filepath.Dir(at), 0o755))
		target, link := strings.CutPrefix(text, "->")
		switch {
		case strings.HasSuffix(name, "/"):
			check(os.MkdirAll(at, 0o755))
		case link:
			check(os.Symlink(target, at))
		case text == "|":
			check(unix.Mkfifo(at, 0o644))
		default:
			check(os.WriteFile(at, []byte(text), 0o644))
		}
	}
	return dir
}

// brief formats a part as one line.
func brief(p rootfs.Part) string {
	over := ""
	if p.Over {
		over = " over"
	}
	switch p.Kind {
	case rootfs.Folder:
		return p.Name + "/" + over
	case rootfs.Link:
		return p.Name + " -> " + p.Target + over
	case rootfs.Text:
		return p.Name + " text" + over
	case rootfs.BindWritable:
		return p.Name + " again " + p.Target + over
	}
	what := "folder"
	if p.File {
		what = "file"
	}
	return p.Name + " " + what + " " + p.Source + over
}

func briefs(tree *rootfs.Tree) (list []string) {
	for _, p := range tree.Parts {
		list = append(list, brief(p))
	}
	return list
}

// ours are Belljar's files for a root without /etc.
var ours = []string{
	"etc/passwd text", "etc/group text", "etc/hostname text", "etc/hosts text", "etc/resolv.conf text", "etc/nsswitch.conf text",
}

var noVar = []string{"var/tmp -> /tmp", "var/run -> /run"}

func TestImage(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"empty": {nil, slices.Concat(ours, noVar)},
		"usual": {map[string]string{
			"bin": "->usr/bin", "usr/bin/sh": "", "etc/passwd": "root:x:0:0::/:/bin/sh\n", "etc/group": "", "etc/hosts": "", "etc/hostname": "", "etc/resolv.conf": "",
			"var/tmp/": "", "var/run": "->/run", "dev/": "", "proc/": "", "sys/": "", "tmp/": "", "run/": "", "file": "",
		}, []string{
			"bin -> usr/bin", "etc folder etc", "etc/passwd text over", "etc/group text over", "etc/hostname text over", "etc/hosts text over",
			"etc/resolv.conf text over", "file file file", "usr folder usr", "var folder var", "var/tmp again tmp over",
		}},
		"a user who has a name": {map[string]string{"etc/passwd": "me:x:1000:1000::/:\n", "etc/group": "sandbox:x:7:\n", "etc/hosts": "", "etc/resolv.conf": ""}, slices.Concat(
			[]string{"etc folder etc", "etc/passwd text over", "etc/hosts text over", "etc/resolv.conf text over"}, noVar)},
		"no hosts": {map[string]string{"etc/passwd": "", "etc/group": "", "etc/ssl/cert": "", "etc/rc": "->../rc", "etc/pipe": "|"}, slices.Concat(
			[]string{"etc/rc -> ../rc", "etc/ssl folder etc/ssl", "etc/passwd text", "etc/group text", "etc/hostname text", "etc/hosts text",
				"etc/resolv.conf text", "etc/nsswitch.conf text"}, noVar)},
		"no resolver": {map[string]string{"etc/passwd": "", "etc/group": "", "etc/hosts": "", "etc/rc": ""}, slices.Concat(
			[]string{"etc/rc file etc/rc", "etc/passwd text", "etc/group text", "etc/hosts text", "etc/hostname text",
				"etc/resolv.conf text", "etc/nsswitch.conf text"}, noVar)},
		"files that are none": {map[string]string{"etc/passwd": "->/x", "etc/group": "|", "etc/hosts/": "", "etc/resolv.conf": "->/run/x"}, slices.Concat(
			[]string{"etc/hosts folder etc/hosts", "etc/passwd -> /x", "etc/hostname text", "etc/resolv.conf text", "etc/nsswitch.conf text"}, noVar)},
		"a resolver that is none": {map[string]string{"etc/passwd": "->/x", "etc/group": "|", "etc/hosts/": "", "etc/resolv.conf/": ""}, slices.Concat(
			[]string{"etc folder etc"}, noVar)},
		"links":          {map[string]string{"etc": "->/x", "var": "->../../x", "dev": "->/", "proc": "->/", "tmp": "->/", "workspace": "->/"}, []string{"etc -> /x", "var -> ../../x"}},
		"files":          {map[string]string{"etc": "", "var": "", "dev": "", "run": ""}, []string{"etc file etc", "var file var"}},
		"pipes":          {map[string]string{"etc": "|", "var": "|", "x": "|"}, slices.Concat(ours, noVar)},
		"writable links": {map[string]string{"var/tmp": "->/x", "var/run/": ""}, slices.Concat([]string{"var folder var", "var/run again run over"}, ours)},
		"text with a zero": {map[string]string{"etc/passwd": "a\x00b", "etc/group": strings.Repeat("x", 70_000), "etc/hosts": "", "etc/resolv.conf": ""}, slices.Concat(
			[]string{"etc folder etc", "etc/hosts text over", "etc/resolv.conf text over"}, noVar)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := image(t, c.files)
			tree, err := rootfs.Image(dir, rootfs.User{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, briefs(tree)); diff != "" || tree.Dir != dir {
				t.Errorf("(-want +got):\n%s", diff)
			}
			sound(t, tree)
		})
	}
}

// sound checks the properties of every tree.
func sound(t *testing.T, tree *rootfs.Tree) {
	t.Helper()
	seen := map[string]rootfs.Part{}
	for _, p := range tree.Parts {
		if had, ok := seen[p.Name]; ok {
			t.Errorf("twice: %s and %s", brief(had), brief(p))
		}
		seen[p.Name] = p
		for dir := path.Dir(p.Name); dir != "."; dir = path.Dir(dir) {
			above, ok := seen[dir]
			if p.Over && !ok || ok && (above.Kind != rootfs.Folder) != p.Over {
				t.Errorf("%s, in %s", brief(p), brief(above))
			}
		}
		if first, _, _ := strings.Cut(p.Name, "/"); slices.Contains(rootfs.Reserved(), first) || !fs.ValidPath(p.Name) && p.Kind != rootfs.Bind {
			t.Errorf("%q is not a name for a part", p.Name)
		}
		if p.Kind == rootfs.Text && strings.ContainsRune(p.Text, 0) {
			t.Errorf("%q", p.Text)
		}
	}
	if bytes, inodes := tree.Room(); bytes < 0 || inodes < int64(len(tree.Parts)) {
		t.Errorf("room for %d bytes, %d inodes", bytes, inodes)
	}
}

func TestImageUser(t *testing.T) {
	dir := image(t, map[string]string{"etc/passwd": "root:x:0:0::/:/bin/sh", "etc/group": "root:x:0:\nwww:x:34:\n", "etc/hosts": "", "etc/resolv.conf": ""})
	tree, err := rootfs.Image(dir, rootfs.User{UID: 33, GID: 34})
	if err != nil {
		t.Fatal(err)
	}
	if p := tree.Find("etc/passwd"); p == nil || p.Text != "root:x:0:0::/:/bin/sh\nsandbox:x:33:34:sandbox:/workspace:/bin/sh\n" {
		t.Errorf("%+v", p)
	}
	if err := os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("root:x:0:0::/:/bin/sh\nwww:x:33:33:w:/var/www:/bin/no\ntoo:x:33:33::/:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	named, err := rootfs.Image(dir, rootfs.User{UID: 33, GID: 34})
	if err != nil {
		t.Fatal(err)
	}
	if p := named.Find("etc/passwd"); p == nil || p.Text != "root:x:0:0::/:/bin/sh\nwww:x:33:33:w:/workspace:/bin/no\ntoo:x:33:33::/:\n" {
		t.Errorf("%+v", p)
	}
	if p := tree.Find("etc/group"); p != nil {
		t.Errorf("the group has a name, but %+v", p)
	}
}

func TestImageRefused(t *testing.T) {
	many := map[string]string{}
	for i := range 1001 {
		many[fmt.Sprint(i)] = ""
	}
	if _, err := rootfs.Image(image(t, many), rootfs.User{}); !errors.Is(err, rootfs.ErrImage) {
		t.Errorf("too many names: %v", err)
	}
	dir := image(t, nil)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := rootfs.Image(link, rootfs.User{}); err == nil {
		t.Error("a link was followed")
	}
	if _, err := rootfs.Image(dir+"/missing", rootfs.User{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := rootfs.Image("/proc/self/status", rootfs.User{}); err == nil {
		t.Error("a file was taken for an image")
	}
}

// An /etc with too many names to assemble stays unchanged.
func TestImageLargeEtc(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprint("etc/", i)] = ""
	}
	tree, err := rootfs.Image(image(t, files), rootfs.User{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Concat([]string{"etc folder etc"}, noVar), briefs(tree)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHost(t *testing.T) {
	tree, err := rootfs.Host(rootfs.User{UID: 1234, GID: 5678})
	if err != nil {
		t.Fatal(err)
	}
	sound(t, tree)
	list := briefs(tree)
	if _, err := os.Stat("/etc/maven/m2.conf"); err == nil && !slices.Contains(list, "etc/maven/m2.conf file etc/maven/m2.conf") {
		t.Errorf("mvn cannot start: %q", list)
	}
	for _, want := range slices.Concat([]string{"usr folder usr", "opt/", "mnt/"}, ours, noVar) {
		if !slices.Contains(list, want) {
			t.Errorf("no %q in %q", want, list)
		}
	}
	for _, p := range tree.Parts {
		for _, secret := range []string{"etc/shadow", "etc/sudoers", "etc/maven", "etc/maven/settings.xml", "root", "home", "var/lib"} {
			if p.Name == secret {
				t.Errorf("%s is shown", secret)
			}
		}
	}
	if p := tree.Find("etc/passwd"); p == nil || !strings.Contains(p.Text, "sandbox:x:1234:5678:sandbox:/workspace:/bin/sh\n") {
		t.Errorf("%+v", p)
	}
}

// For any account file of an image, nothing of it is lost but the user's home, and the resulting text ends with a complete line.
func FuzzPasswd(f *testing.F) {
	f.Add("root:x:0:0::/:/bin/sh\n", 33)
	f.Add("", 1000)
	f.Add("::::\nsandbox", 7)
	f.Add("a:x:7:7::/home/a:/bin/sh\nb:x:7:7::/:", 7)
	f.Fuzz(func(t *testing.T, text string, uid int) {
		if uid <= 0 || uid > 65535 {
			return
		}
		dir := image(t, map[string]string{"etc/group": "", "etc/hosts": "", "etc/resolv.conf": ""})
		if err := os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		tree, err := rootfs.Image(dir, rootfs.User{UID: uid, GID: uid})
		if err != nil {
			t.Fatal(err)
		}
		sound(t, tree)
		p := tree.Find("etc/passwd")
		if p != nil && strings.Count(p.Text, "\n") == strings.Count(text, "\n") {
			id := strconv.Itoa(uid)
			for now := range strings.Lines(p.Text) {
				before, rest, _ := strings.Cut(text, "\n")
				text = rest
				was, is := strings.Split(before, ":"), strings.Split(strings.TrimSuffix(now, "\n"), ":")
				if len(was) == 7 && was[2] == id && is[5] == "/workspace" {
					was[5] = is[5]
				}
				if !slices.Equal(was, is) {
					t.Errorf("%q became %q", before, now)
				}
			}
		} else if p != nil && (!strings.HasPrefix(p.Text, text) || !strings.HasSuffix(p.Text, fmt.Sprintf("sandbox:x:%d:%d:sandbox:/workspace:/bin/sh\n", uid, uid))) {
			t.Errorf("%q became %q", text, p.Text)
		}
	})
}
