package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// corpus returns the outputs of real programs.
func corpus(t testing.TB) (texts []string) {
	names, err := filepath.Glob("testdata/output/*/*.txt")
	if err != nil || len(names) < 60 {
		t.Fatal(err, len(names))
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func FuzzParse(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text)
	}
	root := files("main.py", "x\n", "a.js", "y\n//# sourceMappingURL=a.js.map", "a.js.map", `{"version":3,"sources":["b.ts"],"mappings":"AAAA"}`, "b.ts", "z")
	f.Fuzz(func(t *testing.T, text string) {
		traces := parse(text)
		if len(traces) > mostTraces {
			t.Fatalf("%d traces", len(traces))
		}
		for _, one := range traces {
			if len(one.Related) > mostRelated {
				t.Fatalf("%d related", len(one.Related))
			}
			for _, part := range one.All() {
				check(t, part)
				NewResolver(root, Options{}).Places(part)
			}
			NewResolver(root, Options{Cwd: "sub"}).First(one)
		}
	})
}

// check checks the invariants of one trace.
func check(t *testing.T, part Trace) {
	t.Helper()
	for _, s := range []string{part.Language, part.Kind} {
		if s == "" {
			t.Fatalf("%+v", part)
		}
	}
	if !utf8.ValidString(part.Type) || !utf8.ValidString(part.Message) || len(part.Message) > mostMessage || strings.Contains(part.Message, "\x1b[") {
		t.Fatalf("%q %q", part.Type, part.Message)
	}
	for _, f := range part.Frames {
		if !utf8.ValidString(f.File) || !utf8.ValidString(f.Function) || !utf8.ValidString(f.Source) || f.Line < 0 || f.Column < 0 ||
			f.EndColumn < 0 || f.EndColumn > 0 && f.EndColumn <= f.Column {
			t.Fatalf("%+v", f)
		}
	}
}

func FuzzSourceMap(f *testing.F) {
	f.Add(`{"version":3,"sources":["b.ts"],"mappings":";;AAAA,IAEE"}`, 3, 5)
	f.Add(`{"version":3,"sourceRoot":"webpack://x/","sources":["../b.ts"],"mappings":"A"}`, 1, 1)
	f.Add(`{"version":3,"sections":[{"offset":{"line":2,"column":-1},"map":{"sources":["b.ts"],"mappings":"AAAA"}},{"offset":{"line":2}}]}`, 2, 0)
	f.Fuzz(func(t *testing.T, text string, line, column int) {
		m := newSourceMap(text, "dist")
		if m == nil {
			return
		}
		m, line, column = m.part(line, column)
		if source, sl, sc, ok := m.find(line, column); ok && (sl < 0 || sc < 0) {
			t.Fatal(source, sl, sc)
		}
		for i := range m.Sources {
			if name, ok := m.source(i); ok && (strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..")) {
				t.Fatalf("%q", name)
			}
		}
	})
}

// TestHostile parses texts that a naive parser would read repeatedly. Quadratic time would be minutes.
func TestHostile(t *testing.T) {
	for name, unit := range map[string]string{
		"panics":     "panic: x\ny\n",
		"headers":    "Traceback (most recent call last):\n",
		"groups":     "  + Exception Group Traceback (most recent call last):\n",
		"members":    "  +-+---------------- 1 ----------------\n",
		"frames":     "  File \"x\", line 1, in f\n",
		"syntax":     "  File \"x\", line 1\n",
		"places":     "x:1\ny\n ^\n",
		"at":         "    at f (x:1:1)\nError: x\n",
		"open":       "    at f (x:1:1) {\n  a\n",
		"causes":     "Caused by: x\n\tat a.b(C.java:1)\n",
		"suppressed": "\tat a.b(C.java:1)\n\tSuppressed: x\n",
		"tap":        "not ok 1 - x\n  ---\n",
		"tests":      "--- FAIL: X (0s)\n    x_test.go:1: y\n",
		"pytest":     "x.py:1: in f\nE  y\n",
		"goroutines": "panic: x\n\ngoroutine 1 [running]:\nf()\n\tx.go:1 +0x1\n",
		"colons":     strings.Repeat("a: ", 4000) + "\n",
		"escapes":    strings.Repeat("\x1b[", 4000) + "\n",
		"titles":     strings.Repeat("\x1b]", 4000) + "\n",
		"evals":      "    at f (" + strings.Repeat("eval at f (", 700) + "x:1:1), y:1:1)\n",
		"ruby":       "a.rb:1:in `f': x (E)\n\tfrom a.rb:1:in `g'\n",
		"rust":       "thread 'main' panicked at x.rs:1:1:\ny\nstack backtrace:\n  0: f\n",
		"no value":   "a:1\nx\n^\n(Use `node y\n",
		"no message": "thread 'main' panicked at ', x:1:1\n",
		"one line":   "x",
		"empty":      "\n",
	} {
		text := strings.Repeat(unit, (headBytes+tailBytes)/len(unit))
		began := time.Now()
		traces := parse(text)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: %v", name, took)
		}
		frames := 0
		for _, one := range traces {
			for _, part := range one.All() {
				check(t, part)
				frames += len(part.Frames)
			}
		}
		if frames > mostFrames {
			t.Errorf("%s: %d frames", name, frames)
		}
	}
}

func TestPanic(t *testing.T) {
	if found := guarded(func() []Trace { panic("a defect") }); found != nil {
		t.Fatal(found)
	}
}

func BenchmarkParse(b *testing.B) {
	all := strings.Join(corpus(b), "\n")
	text := strings.Repeat(all, tailBytes/len(all)+1)[:tailBytes]
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if len(Parse(text)) < 500 {
			b.Fatal("too few")
		}
	}
}
