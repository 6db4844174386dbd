package sync

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/need"
)

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// scan scans dir at a later time, so that the files' times can be trusted.
func scan(t testing.TB, dir string, o Options, last Manifest) (*Plan, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return Scan(t.Context(), root, o, last)
}

func names(m Manifest) []string { return slices.Sorted(maps.Keys(m)) }

// The rules are Git's: for random ignore files, in the folder, below it and above it, a scan includes exactly the files that Git
// would add.
func TestIgnoreIsGits(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		need.Missing(t, "git")
	}
	dir := t.TempDir()
	run := func(where string, args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir = where
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run(dir, "init", "-q")
	tree := map[string]string{}
	parts := []string{"a", "b", "ab", "abc", "a b", "a-b", "[a]", "!a", "#a", "x.txt", "é", `a\b`}
	for _, one := range parts {
		tree["f/"+one] = ""
		for _, two := range parts[:8] {
			tree["f/d/"+one+"/"+two] = ""
			tree["f/d/"+one+"/e/"+two] = ""
		}
	}
	delete(tree, "f/a")
	tree["f/a/b/a"], tree["f/a/c"] = "", ""
	write(t, dir, tree)
	root, err := os.OpenRoot(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	piece := rapid.SampledFrom([]string{
		"a", "b", "ab", "c", "d", "e", "x", ".txt", "é", "*", "**", "?", "/", "/**/", "[ab]", "[!a]", "[^b]", "[a-c]", "[[:alpha:]]", "[[:bad:]]", "[]a]", "[a", "-",
		`\a`, `\*`, `\`, " ", `\ `, "!", "#", `\!a`, `\#a`, "[[]a]", "\t", "\r",
	})
	line := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "", "", "!", "/"}).Draw(t, "start") + strings.Join(rapid.SliceOfN(piece, 1, 5).Draw(t, "pieces"), "") +
			rapid.SampledFrom([]string{"", "", "/", " "}).Draw(t, "end")
	})
	file := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(line, 0, 4).Draw(t, "lines"), rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end"))
	})
	rapid.Check(t, func(rt *rapid.T) {
		for _, name := range []string{".gitignore", "f/.gitignore", "f/d/.gitignore", "f/d/ab/.gitignore", ".git/info/exclude"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(file.Draw(rt, name)), 0o644); err != nil {
				rt.Fatal(err)
			}
		}
		// If an ignore file above ignores the whole folder, the user has still chosen to open it.
		if strings.Contains(run(dir, "status", "--porcelain", "-z", "--ignored", "-unormal", "f"), "!! f/\x00") {
			rt.Skip("the folder itself is ignored")
		}
		plan, err := Scan(t.Context(), root, Options{}, nil)
		if err != nil {
			rt.Fatal(err)
		}
		var want []string
		for name := range strings.SplitSeq(run(filepath.Join(dir, "f"), "ls-files", "-z", "--others", "--exclude-standard"), "\x00") {
			if name != "" && !strings.Contains(name, `\`) { // an upload has no such names
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if d := cmp.Diff(want, names(plan.Next)); d != "" {
			rt.Errorf("git (-) and this package (+):\n%s", d)
		}
	})
}

// A hostile pattern costs limited time.
func TestPatternTime(t *testing.T) {
	begin := time.Now()
	parseRules("", strings.Repeat("**/a*", 60)+"b").judge(strings.Repeat("a/a", 1000), false)
	if took := time.Since(begin); took > time.Minute { // without the limit it takes practically forever
		t.Errorf("one pattern took %s", took)
	}
}

func TestWhatIsTaken(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	write(t, out, map[string]string{"secret": "s", "more/secret": "s"})
	write(t, dir, map[string]string{
		"main.py": "x", "a/b.txt": "x", "a/c.png": "x", "a/data": "x\x00y", "node_modules/m/i.js": "x", ".git/config": "x", "a/.git/hooks/x": "x",
		"dist/o.js": "x", "line\nbreak": "x", `back\slash`: "x", "skip/me": "x", ".belljarignore": "skip\n!.git\n!.git/\n!secret\n", "deep/1/2/3/x": "x", "huge.txt": strings.Repeat("x", 3000),
	})
	for link, to := range map[string]string{
		"out": filepath.Join(out, "secret"), "outdir": out, "in": "a/b.txt", "indir": "a", "gone": "nowhere", "up": "../" + filepath.Base(out) + "/secret",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := scan(t, dir, Options{MaxFile: 2000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".belljarignore", "a/b.txt", "deep/1/2/3/x", "in", "main.py"}, names(plan.Next)); d != "" {
		t.Error(d)
	}
	var skipped []string
	for _, s := range plan.Skipped {
		skipped = append(skipped, s.Path)
	}
	if d := cmp.Diff([]string{"a/c.png", "a/data", `back\slash`, "gone", "huge.txt", "indir", "line\nbreak", "out", "outdir", "up"}, skipped); d != "" {
		t.Error(d)
	}
	plan, err = scan(t, dir, Options{Ignore: []string{"*.py"}, Allow: []string{"node_modules/", "*.png", ".git", "skip"}, Must: []string{"dist/o.js"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".belljarignore", "a/b.txt", "a/c.png", "deep/1/2/3/x", "dist/o.js", "huge.txt", "in", "node_modules/m/i.js", "skip/me"}, names(plan.Next)); d != "" {
		t.Error(d)
	}
	for name, reason := range map[string]string{
		"out": "a link that leads out", "up": "a link that leads out", "a/c.png": "binary", "nowhere": "does not exist", ".git/config": "version control", "a": "not a file",
	} {
		if _, err := scan(t, dir, Options{Only: []string{name}}, nil); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %s", name, err, reason)
		}
	}
	_, err = scan(t, dir, Options{MaxTotal: 1000}, nil)
	if belljar.CodeOf(err) != belljar.CodeTooLarge || !strings.Contains(err.Error(), "the largest files are huge.txt (") {
		t.Errorf("%v", err)
	}
}

// A repository may contain links to its own version control files, which may hold a password.
func TestLinksToControl(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{".git/config": "[http]\n\textraheader = secret\n", "a/b": "x", "main.py": "x"})
	for link, to := range map[string]string{"direct": ".git/config", "a/up": "../.git/config", "folder": ".git", "a/through": "../folder/config", "twice": "direct", "fine": "a/b"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := scan(t, dir, Options{Allow: []string{"*"}, Must: []string{"main.py"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a/b", "fine", "main.py"}, names(plan.Next)); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"direct", "a/up", "a/through", "twice", "folder/config"} {
		if _, err := scan(t, dir, Options{Only: []string{name}}, nil); err == nil || !strings.Contains(err.Error(), "version control") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A text that is not on disk yet is sent, unless a rule ignores its file.
func TestUnsaved(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{".gitignore": ".env\n/out\n*.pem\n", "a/.belljarignore": "*.key\n"})
	buffers := map[string]string{}
	for _, name := range []string{"new.py", "a/new.py", ".env", "a/.env", "out/x", "a/b.key", "a/new/c.key", "node_modules/m.js", "d.pem", "a/must.key"} {
		buffers[name] = "unsaved"
	}
	plan, err := scan(t, dir, Options{Buffers: buffers, Allow: []string{"*.pem"}, Must: []string{"a/must.key"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".gitignore", "a/.belljarignore", "a/must.key", "a/new.py", "d.pem", "new.py"}, names(plan.Next)); d != "" {
		t.Error(d)
	}
}

// Changed files are sent, missing ones are deleted, and buffers replace files.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "1", "b": "1", "c/d": "1"})
	old := time.Now().Add(-time.Hour)
	touch := func(name string) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c/d"} {
		touch(name)
	}
	first, err := scan(t, dir, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "b", "c/d"}, first.Upload); d != "" {
		t.Error(d)
	}
	// If size and time are unchanged, nothing is sent and no content is read. A change of the content alone is not detected.
	write(t, dir, map[string]string{"a": "2"})
	touch("a")
	same, err := scan(t, dir, Options{}, first.Next)
	if err != nil || len(same.Upload)+len(same.Delete) != 0 {
		t.Errorf("%v %v %v", same.Upload, same.Delete, err)
	}
	write(t, dir, map[string]string{"b": "22", "new": "1"})
	if err := os.Remove(filepath.Join(dir, "c/d")); err != nil {
		t.Fatal(err)
	}
	next, err := scan(t, dir, Options{Buffers: map[string]string{"a": "unsaved", "x/y": "not on disk"}}, first.Next)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "b", "new", "x/y"}, next.Upload); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"c/d"}, next.Delete); d != "" { // c still exists
		t.Error(d)
	}
	var packed bytes.Buffer
	if err := next.Pack(&packed, Archive{Names: next.Upload}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for archive := tar.NewReader(&packed); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		text, err2 := io.ReadAll(archive)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(text)
	}
	if d := cmp.Diff(map[string]string{"a": "unsaved", "b": "22", "new": "1", "x/y": "not on disk"}, got); d != "" {
		t.Error(d)
	}
	// The buffer is gone, so the file is sent again.
	back, err := scan(t, dir, Options{}, next.Next)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(back.Upload, "a") || !slices.Contains(back.Delete, "x") {
		t.Errorf("%v %v", back.Upload, back.Delete)
	}
	// A missing folder is deleted as a whole. A folder with a buffer in it still exists.
	last := Manifest{"e/f/1": {}, "e/f/2": {}, "e/3": {}, "g/h/4": {}, "g/i": {}}
	less, err := scan(t, dir, Options{Buffers: map[string]string{"g/5": ""}}, last)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"e", "g/h", "g/i"}, less.Delete); d != "" {
		t.Error(d)
	}
	next.Next = Manifest{"a": {Size: 6}, "b": {Size: 6}, "c": {Size: 20}, "d": {Size: 1}}
	next.Upload = []string{"a", "b", "c", "d"}
	if d := cmp.Diff([]Archive{{"", []string{"a"}}, {"", []string{"b"}}, {"", []string{"c"}}, {"", []string{"d"}}}, next.Archives(Bounds{9, 10, 0})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Archive{{"", []string{"a", "b"}}, {"", []string{"c", "d"}}}, next.Archives(Bounds{2, 100, 0})); d != "" {
		t.Error(d)
	}
	next.Upload = []string{"1/2/3/a", "1/2/b", "1/2/c/d", "1/2/3/4/5", "z"}
	want := []Archive{{"", []string{"1/2/b", "z"}}, {"1/2/", []string{"1/2/3/a", "1/2/c/d", "1/2/3/4/5"}}}
	if d := cmp.Diff(want, next.Archives(Bounds{9, 9, 2})); d != "" {
		t.Error(d)
	}
}
