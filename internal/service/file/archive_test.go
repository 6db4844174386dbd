package file

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp/syntax"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// stream returns a tar stream like that of a hostile agent.
func stream(t testing.TB, heads ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range heads {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func repacked(format belljar.UploadFormat, root string, in []byte) ([]byte, error) {
	var out bytes.Buffer
	p := &repacker{out: newFormat(format, &out), root: root, left: 1 << 20, seen: map[string]string{}, used: map[string]bool{}, next: map[string]int{}}
	err := p.repack(bytes.NewReader(in))
	return out.Bytes(), err
}

// Entries of an agent's stream that no workspace can contain are not passed on.
func TestRepackRefuses(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1} }
	dir := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }
	for name, heads := range map[string][]tar.Header{
		"up":                 {file("../x")},
		"up in the midst":    {dir("a/"), file("a/../../x")},
		"absolute":           {file("/etc/passwd")},
		"dot":                {file("./x")},
		"empty folder name":  {dir("a//")},
		"twice":              {file("a"), file("a")},
		"folder twice":       {dir("a/"), dir("a/")},
		"file and folder":    {file("a"), dir("a/")},
		"below a file":       {file("a"), file("a/b")},
		"below a link":       {{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "b"}, file("a/b")},
		"without its folder": {file("a/b")},
		"hard link":          {file("a"), {Typeflag: tar.TypeLink, Name: "b", Linkname: "a"}},
		"device":             {{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}},
		"fifo":               {{Typeflag: tar.TypeFifo, Name: "f"}},
		"too much":           {{Typeflag: tar.TypeReg, Name: "a", Size: 1<<20 + 1}},
	} {
		for _, format := range []belljar.UploadFormat{belljar.UploadTar, belljar.UploadZip} {
			if _, err := repacked(format, ".", stream(t, heads...)); err == nil {
				t.Errorf("%s goes into a %s", name, format)
			}
		}
	}
	whole := stream(t, file("a"))
	for _, cut := range []int{1, 511} {
		if _, err := repacked(belljar.UploadTar, ".", whole[:cut]); err == nil {
			t.Errorf("cut after %d bytes", cut)
		}
	}
}

// Files whose names coincide in a format get different names, at constant cost for each file.
func TestRepackManyOfOneName(t *testing.T) {
	const many = 4000
	var heads []tar.Header
	for n := range many {
		name := []byte("aaaaaaaaaaaa")
		for bit := range name {
			if n>>bit&1 != 0 {
				name[bit] = ':'
			} else {
				name[bit] = '\\'
			}
		}
		heads = append(heads, tar.Header{Typeflag: tar.TypeReg, Name: string(name)})
	}
	var called []string
	p := &repacker{seen: map[string]string{}, used: map[string]bool{}, next: map[string]int{}}
	p.out = newFormat(belljar.UploadZip, io.Discard)
	allocs := testing.AllocsPerRun(1, func() {
		called, p.seen, p.used, p.next = nil, map[string]string{}, map[string]bool{}, map[string]int{}
		for _, h := range heads {
			name, err := p.name(&h)
			if err != nil {
				t.Fatal(err)
			}
			called = append(called, name)
		}
	})
	for n, want := range map[int]string{0: "____________", 1: "____________~2", 2: "____________~3", many - 1: fmt.Sprintf("____________~%d", many)} {
		if called[n] != want {
			t.Errorf("name %d is %q, want %q", n, called[n], want)
		}
	}
	if allocs > 30*many {
		t.Errorf("%d names of one kind take %.0f allocations", many, allocs)
	}
}

func TestLinkTargets(t *testing.T) {
	for _, c := range []struct{ root, name, target, want string }{
		{".", "l", "x", "x"}, {".", "l", "a/b", "a/b"}, {".", "l", "./x", "./x"}, {".", "l", ".", "."}, {".", "d/l", "../x", "../x"}, {".", "d/l", "..", ".."},
		{".", "l", "../x", ""}, {".", "l", "..", ""}, {".", "d/l", "../../x", ""}, {".", "l", "a/../x", ""}, {".", "d/l", "a/../../x", ""}, {".", "d/l", "../a/..", ""},
		{".", "l", "", ""}, {".", "l", "a\x00", ""}, {".", "l", strings.Repeat("a/", 2049), ""},
		{".", "l", "/workspace/x", "x"}, {".", "d/e/l", "/workspace/x", "../../x"}, {".", "l", "/workspace", "."}, {".", "l", "/etc/passwd", ""}, {".", "l", "/workspacex", ""},
		{"p/q", "l", "/workspace/p/q/x", "x"}, {"p/q", "d/l", "/workspace/p/q", "../."}, {"p/q", "l", "/workspace/p/x", ""}, {"p/q", "l", "/workspace/p/qx", ""}, {"p", "l", "/workspace/p/../x", ""},
	} {
		p := &repacker{root: c.root}
		got, ok := p.target(c.name, c.target)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s: %s -> %s: %q, %v, want %q", c.root, c.name, c.target, got, ok, c.want)
		}
	}
}

// FuzzRepack repacks arbitrary tar streams: all resulting names are clean, relative and unique, in existing folders, and links stay inside.
func FuzzRepack(f *testing.F) {
	f.Add(stream(f, tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, tar.Header{Typeflag: tar.TypeReg, Name: `d/a\..\b`, Size: 3}, tar.Header{Typeflag: tar.TypeSymlink, Name: "d/l", Linkname: "../d"}))
	f.Add(stream(f, tar.Header{Typeflag: tar.TypeReg, Name: "C:x"}, tar.Header{Typeflag: tar.TypeReg, Name: "C_x"}, tar.Header{Typeflag: tar.TypeReg, Name: "C_x~2", ModTime: time.Unix(1<<40, 0)}))
	f.Add(stream(f, tar.Header{Typeflag: tar.TypeReg, Name: "../x"}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		if out, err := repacked(belljar.UploadTar, ".", in); err == nil {
			seen := map[string]bool{".": true}
			r := tar.NewReader(bytes.NewReader(out))
			for {
				h, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				checkPacked(t, seen, h.Name, h.Linkname)
				if _, err := io.Copy(io.Discard, r); err != nil {
					t.Fatal(err)
				}
			}
		}
		out, err := repacked(belljar.UploadZip, ".", in)
		if err != nil {
			return
		}
		z, err := zip.NewReader(bytes.NewReader(out), int64(len(out)))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{".": true}
		for _, file := range z.File {
			target := ""
			if file.Mode()&fs.ModeSymlink != 0 {
				r, err := file.Open()
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(r)
				if err != nil {
					t.Fatal(err)
				}
				target = string(b)
			}
			checkPacked(t, seen, file.Name, target)
			if strings.ContainsAny(file.Name, `\:`) || !utf8.ValidString(file.Name) {
				t.Errorf("%q in a zip archive", file.Name)
			}
		}
	})
}

func checkPacked(t *testing.T, seen map[string]bool, name, target string) {
	t.Helper()
	clean := strings.TrimSuffix(name, "/")
	if clean == "" || path.Clean(clean) != clean || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(clean, 0) {
		t.Errorf("name %q", name)
	}
	if _, twice := seen[clean]; twice {
		t.Errorf("%q is there twice", name)
	}
	if !seen[path.Dir(clean)] {
		t.Errorf("%q is in no folder", name)
	}
	seen[clean] = strings.HasSuffix(name, "/")
	if to := path.Join(path.Dir(clean), target); path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
		t.Errorf("%q leads to %q", name, target)
	}
}

// FuzzSearch searches for arbitrary patterns in arbitrary text. Each match exists at the reported position.
func FuzzSearch(f *testing.F) {
	f.Add("needle", false, false, []byte("hay\nneedle hay\r\n"))
	f.Add("NEEDLE", false, true, []byte("hay\xff needle"))
	f.Add(`^\s*(a|b)+?[[:alpha:]]{2,3}$`, true, true, []byte("aab\nbbb"))
	f.Add(`((a{9}){9}){9}`, true, false, []byte("a"))
	f.Fuzz(func(t *testing.T, content string, expression, anyCase bool, in []byte) {
		m, err := newMatcher(belljar.FileSearch{Content: content, Regexp: expression, IgnoreCase: anyCase})
		if err != nil || content == "" {
			return
		}
		l := newLines(64)
		l.reset(bytes.NewReader(in))
		for {
			line, cut, err := l.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if bytes.ContainsRune(line, '\n') || len(line) > 64 || cut && len(line) < 62 {
				t.Fatalf("line %q, cut %v", line, cut)
			}
			from, to, ok := m.find(line)
			if !ok {
				continue
			}
			if from < 0 || to < from || to > len(line) {
				t.Fatalf("%d to %d of %q", from, to, line)
			}
			if !expression && !anyCase && string(line[from:to]) != content {
				t.Fatalf("%q is not %q", line[from:to], content)
			}
			if text := around(line, from, to); !utf8.ValidString(text) {
				t.Fatalf("%q", text)
			}
		}
		if want := bytes.Count(bytes.TrimSuffix(in, []byte("\n")), []byte("\n")) + 1; len(in) > 0 && l.number != want {
			t.Fatalf("%d lines, want %d", l.number, want)
		}
	})
}

func TestAround(t *testing.T) {
	long := strings.Repeat("é", 1000)
	line := []byte(long + "needle" + long)
	from := len(long)
	got := around(line, from, from+6)
	if !strings.Contains(got, "needle") || len(got) > maxMatchedBytes || !utf8.ValidString(got) || strings.ContainsRune(got, utf8.RuneError) {
		t.Errorf("%q", got)
	}
	if got := around(line, len(line)-4, len(line)); len(got) < maxMatchedBytes-4 || !strings.HasSuffix(got, "éé") {
		t.Errorf("%q", got)
	}
}

// An accepted expression has a low cost per byte: at most one step for each of its instructions.
func TestHeavyExpressions(t *testing.T) {
	for pattern, light := range map[string]bool{
		"a+b*c?": true, `\w{1,100}@\w+`: true, "[a-z]{400}": true, "(a|b|c){100}": true, strings.Repeat("x", 999): true, "(a?){100}a{100}b": true,
		"(a{100}){11}": false, "a{1000}b{1000}": false, "(abc){400}": false, "(((a{10}){10}){10}){2}": false, "((a?){30}){40}": false,
	} {
		m, err := newMatcher(belljar.FileSearch{Content: pattern, Regexp: true})
		if (err == nil) != light {
			t.Errorf("%.40s: %v", pattern, err)
		}
		if err != nil {
			continue
		}
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(program.Inst); n > 2*maxWeight {
			t.Errorf("%.40s: %d instructions", pattern, n)
		}
		if _, _, ok := m.find(bytes.Repeat([]byte(" "), 1<<10)); ok {
			t.Errorf("%.40s: found", pattern)
		}
	}
}
