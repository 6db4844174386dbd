package trace

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func files(pairs ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return fsys
}

func TestPaths(t *testing.T) {
	root := files("main.py", "a\n", "sub/x.py", "b\n", "sub/go.mod", "// c\nmodule \"example.com/m\" // d\n", "sub/p/p.go", "e\n",
		"rust/one/src/main.rs", "j\n", "rust/two/src/main.rs", "k\n", "src/main/java/com/x/A.java", "f\n", "one/B.java", "g\n", "two/B.java", "h\n", "node_modules/d/C.java", "i\n")
	for _, c := range []struct {
		file string
		o    Options
		want string
	}{
		{"/workspace/main.py", Options{}, "main.py"},
		{"/workspace/./sub/../main.py", Options{}, "main.py"},
		{"/workspacemain.py", Options{}, ""},
		{"/workspace/../workspace/main.py", Options{}, "main.py"},
		{"/workspace/../etc/passwd", Options{}, ""},
		{"../main.py", Options{}, ""},
		{"../main.py", Options{Cwd: "sub"}, "main.py"},
		{"x.py", Options{Cwd: "sub"}, "sub/x.py"},
		{"x.py", Options{Cwd: "/workspace/sub/"}, "sub/x.py"},
		{"x.py", Options{Cwd: "/tmp"}, ""},
		{`sub\x.py`, Options{}, "sub/x.py"},
		{"/workspace/sub", Options{}, ""},
		{"/workspace", Options{}, ""},
		{"example.com/m/p/p.go", Options{Cwd: "sub"}, "sub/p/p.go"},
		{"example.com/m/p/p.go", Options{Cwd: "sub/p"}, "sub/p/p.go"},
		{"example.com/m/p/p.go", Options{Cwd: "/workspace/sub/p/q"}, "sub/p/p.go"},
		{"example.com/m/p/p.go", Options{Cwd: "/tmp"}, ""},
		{"example.com/other/p/p.go", Options{Cwd: "sub"}, ""},
		{"one/src/main.rs", Options{Cwd: "rust/one"}, "rust/one/src/main.rs"},
		{"src/main.rs", Options{Cwd: "rust/two"}, "rust/two/src/main.rs"},
		{"one/src/main.rs", Options{Cwd: "/tmp"}, ""},
		{"com/x/A.java", Options{}, "src/main/java/com/x/A.java"},
		{"B.java", Options{}, ""},
		{"C.java", Options{}, ""},
	} {
		l := NewResolver(root, c.o).First(Trace{Frames: []Frame{{File: c.file, Line: 1}}})
		if l.File != c.want || l.File == "" && l.Frame.Skipped != SkippedElsewhere {
			t.Errorf("%s %+v: %q %q", c.file, c.o, l.File, l.Frame.Skipped)
		}
	}
}

// TestManyFrames finds the program's own frame beyond the frames of a library. The limit of places counts only its own.
func TestManyFrames(t *testing.T) {
	root := files("main.py", "a\n")
	for skipped, want := range map[string]string{SkippedRuntime: "main.py", "": ""} {
		var many []Frame
		for range 990 {
			many = append(many, Frame{File: "/usr/lib/python3.11/copy.py", Line: 1, Skipped: skipped})
		}
		if l := NewResolver(root, Options{}).First(Trace{Frames: append(many, Frame{File: "main.py", Line: 1})}); l.File != want {
			t.Errorf("%q: %q", skipped, l.File)
		}
	}
}

func TestSkippedPaths(t *testing.T) {
	for file, want := range map[string]string{
		"/workspace/vendor/example.com/x/x.go": SkippedPackage, "vendor/example.com/x/x.go": SkippedPackage, "/workspace/vendor/x.py": "",
		"/usr/local/go/src/vendor/golang.org/x/x.go": SkippedRuntime, "/root/go/pkg/mod/example.com/x@v1.2.3/x.go": SkippedPackage,
		"/root/go/pkg/mod/example.com/x@v1.2.3/x.c": SkippedPackage, "/workspace/pkg/mod/x.go": "",
	} {
		if got := skipped(file); got != want {
			t.Errorf("%s: %q", file, got)
		}
	}
}

// TestLinks resolves places through links that lead out of the root, and inside it.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "secret.py"), []byte("x\n"), 0o600), os.Mkdir(filepath.Join(dir, "root"), 0o700),
		os.Symlink("../secret.py", filepath.Join(dir, "root", "out.py")), os.Symlink("in.py", filepath.Join(dir, "root", "link.py")),
		os.WriteFile(filepath.Join(dir, "root", "in.py"), []byte("x\n"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for file, want := range map[string]string{"out.py": "", "link.py": "link.py", "in.py": "in.py"} {
		if l := NewResolver(root.FS(), Options{}).First(Trace{Frames: []Frame{{File: file, Line: 1}}}); l.File != want {
			t.Errorf("%s: %q", file, l.File)
		}
	}
}

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		text string
		f    Frame
		want string
	}{
		{"  x = é + 1", Frame{Column: 5, EndColumn: 6, Source: "x = é + 1"}, "é"},
		{"  other line", Frame{Column: 5, EndColumn: 6, Source: "x = é + 1"}, ""},
		{"'😀é' + y", Frame{Column: 9, EndColumn: 10, units: utf16Units}, "y"},
		{"'é' + y", Frame{Column: 8, EndColumn: 9, units: byteUnits}, "y"},
		{"\té y", Frame{Column: 11, EndColumn: 12, units: displayUnits}, "y"},
		{"\t😀\ty", Frame{Column: 17, EndColumn: 18, units: mavenUnits}, "y"},
		{"short", Frame{Column: 3, EndColumn: 90}, "ort"},
		{"short", Frame{Column: 90, EndColumn: 91}, ""},
		{"\xff", Frame{Column: 2, EndColumn: 3, units: utf16Units}, ""},
	} {
		from, to := columns(c.f, c.text)
		got := ""
		if from > 0 && to > from {
			got = c.text[from-1 : min(to-1, len(c.text))]
		}
		if got != c.want {
			t.Errorf("%q %+v: %d-%d %q", c.text, c.f, from, to, got)
		}
	}
}

// TestMaven resolves a column of Maven, in which a tab is as wide as on a terminal.
func TestMaven(t *testing.T) {
	root := files("E.java", "class E {\n\tString s = \"😀é\"; int n = missing;\n}\n")
	l := NewResolver(root, Options{}).First(Parse("[ERROR] /workspace/E.java:[2,35] cannot find symbol\n")[0])
	if l.Column == 0 || l.Text[l.Column-1:] != "missing;" {
		t.Errorf("%+v", l)
	}
}

func TestSourceMaps(t *testing.T) {
	// The compiled line has two statements, from lines 1 and 3 of the source.
	const mappings = `"mappings":"AAAA,IAEE"`
	withMap := func(rest string) string { return `{"version":3,` + rest + `,` + mappings + `}` }
	inlined := "x();y()\n//# sourceMappingURL=data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(withMap(`"sources":["../src/a.ts"]`)))
	const ts = "one\ntwo\n  three\n"
	for name, c := range map[string]struct {
		root, artifacts fstest.MapFS
		want            string
	}{
		"inside":          {files("dist/a.js", inlined, "src/a.ts", ts), nil, "src/a.ts:3:3"},
		"next to it":      {files("dist/a.js", "x();y()", "dist/a.js.map", withMap(`"sources":["../src/a.ts"]`), "src/a.ts", ts), nil, "src/a.ts:3:3"},
		"named":           {files("dist/a.js", "x();y()\n//# sourceMappingURL=maps/a%20b.map\n", "dist/maps/a b.map", withMap(`"sources":["../../src/a.ts"]`), "src/a.ts", ts), nil, "src/a.ts:3:3"},
		"root of sources": {files("dist/a.js.map", withMap(`"sourceRoot":"/workspace/src/","sources":["a.ts"]`), "src/a.ts", ts), nil, "src/a.ts:3:3"},
		"file URL":        {files("dist/a.js.map", withMap(`"sources":["file:///workspace/src/a.ts"]`), "src/a.ts", ts), nil, "src/a.ts:3:3"},
		"webpack":         {files("dist/a.js.map", withMap(`"sources":["webpack://app/./src/a.ts?3f"]`), "src/a.ts", ts), nil, "src/a.ts:3:3"},
		"captured":        {files("src/a.ts", ts), files("dist/a.js", "x();y()", "dist/a.js.map", withMap(`"sources":["../src/a.ts"]`)), "src/a.ts:3:3"},
		"in sections":     {files("dist/a.js", "x();y()", "dist/a.js.map", `{"version":3,"sections":[{"offset":{"line":0,"column":0},"map":`+withMap(`"sources":["no.ts"]`)+`},{"offset":{"line":0,"column":2},"map":{"version":3,"sources":["../src/a.ts"],"mappings":"AAEE"}},{"offset":{"line":0,"column":5}}]}`, "src/a.ts", ts), nil, "src/a.ts:3:3"},
		"out of the root": {files("dist/a.js", "x();y()", "dist/a.js.map", withMap(`"sources":["../../src/a.ts"]`)), nil, "dist/a.js:1:5"},
		"no source":       {files("dist/a.js", "x();y()", "dist/a.js.map", withMap(`"sources":["../src/a.ts"]`)), nil, "dist/a.js:1:5"},
		"no JSON":         {files("dist/a.js", "x();y()", "dist/a.js.map", "{", "src/a.ts", ts), nil, "dist/a.js:1:5"},
		"no base 64":      {files("dist/a.js", "x();y()", "dist/a.js.map", `{"version":3,"sources":["../src/a.ts"],"mappings":"A!"}`, "src/a.ts", ts), nil, "dist/a.js:1:5"},
		"too short":       {files("dist/a.js", "x();y()", "dist/a.js.map", `{"version":3,"sources":["../src/a.ts"],"mappings":""}`, "src/a.ts", ts), nil, "dist/a.js:1:5"},
		"below nothing":   {files("dist/a.js", "x();y()", "dist/a.js.map", `{"version":3,"sources":["../src/a.ts"],"mappings":"ADDD"}`, "src/a.ts", ts), nil, "dist/a.js:1:5"},
		"of the network":  {files("dist/a.js", "x();y()\n//# sourceMappingURL=http://127.0.0.1/a.js.map", "src/a.ts", ts), nil, "dist/a.js:1:5"},
	} {
		o := Options{}
		if c.artifacts != nil {
			o.Artifacts = c.artifacts
		}
		traces := Parse("TypeError: no\n    at f (/workspace/dist/a.js:1:5)\n")
		l := NewResolver(c.root, o).First(traces[0])
		if got := fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
