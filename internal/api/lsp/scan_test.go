//go:build linux

package lsp

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       []string // line:name:test
	}{
		{"main.py", "import x\n\"\"\"\nif __name__ == '__main__':\n\"\"\"\n# if __name__ == \"__main__\":\nif __name__  ==  \"__main__\":\n    main()\n", []string{`5:if __name__  ==  "__main__"`}},
		{"main.py", "def test_a(): pass\n", nil},
		{"test_x.py", "def test_a():\n  pass\n\nclass TestB(T):\n    '''x\n    def test_no(self): '''\n    async def test_c(self): pass\n    def other(self): pass\ndef helper(): pass\nclass Case(unittest.TestCase):\n\tdef testD(self): pass\n",
			[]string{"0:test_a:test_a", "3:TestB:TestB", "6:test_c:TestB::test_c", "9:Case:Case", "10:testD:Case::testD"}},
		{"test_x.py", "class TestA:\n    # def test_no\n    class Inner:\n        def test_no(self): pass\n\n    def test_a(self):\n        def test_no(): pass\n    if x:\n        pass\n    def test_b(self): pass\n",
			[]string{"0:TestA:TestA", "5:test_a:TestA::test_a", "9:test_b:TestA::test_b"}},
		{"test_x.py", "class TestA(B,\n            C):\n    def test_a(self): pass\nclass TestB(\n    B,\n):\n    x = 1\n    def test_b(self): pass\nclass TestC(\nx = 1\n  def test_no(): pass\n",
			[]string{"0:TestA:TestA", "2:test_a:TestA::test_a", "3:TestB:TestB", "7:test_b:TestB::test_b", "8:TestC:TestC"}},
		{"test_x.py", "class TestA:\n    class TestB:\n        x = 1\n    class TestC(\n            B):\n        def test_c(self): pass\n        class TestD:\n            def test_d(self): pass\n            def help(self):\n                def test_no(): pass\n        class Case(TestCase):\n            class TestNo: pass\n            def testE(self): pass\n    def test_a(self): pass\n\nclass Other:\n    class TestNo:\n        def test_no(self): pass\n",
			[]string{"0:TestA:TestA", "1:TestB:TestA::TestB", "3:TestC:TestA::TestC", "5:test_c:TestA::TestC::test_c", "6:TestD:TestA::TestC::TestD", "7:test_d:TestA::TestC::TestD::test_d",
				"10:Case:TestA::TestC::Case", "12:testE:TestA::TestC::Case::testE", "13:test_a:TestA::test_a"}},
		{"a.js", "#!/usr/bin/env node\nconsole.log(1)", []string{"0:#!/usr/bin/env node"}},
		{"a.js", "it('is no test', f)", nil},
		{"a.js", "// function main() {}\nasync function main() {}\nif (require.main === module) main();", []string{"1:async function main"}},
		{"a.mjs", "if (import.meta.main) run();\nfunction mainly() {}", []string{"0:if (import.meta.main"}},
		{"a.js", "#!/usr/bin/env node\nfunction main() {}", []string{"0:#!/usr/bin/env node"}},
		{"a.mjs", "import test from 'node:test';\n// test('no')\nconst s = `\ntest('no')\n`; const r = /test('no/;\ntest('adds', () => {\n  it.only(\"inner thing\", f);\n});\ndescribe(name, f)\ntest(`a ${x}`)\ntestify('no')",
			[]string{"5:test:adds", "6:it:inner thing"}},
		{"a.test.ts", "describe( `group` , () => {})", []string{"0:describe:group"}},
		{"main.go", "package main\n\n/*\nfunc main() {}\n*/\nvar s = `\nfunc main() {}\n`\n\nfunc main() {\n}\n", []string{"9:main"}},
		{"x.go", "package x\nfunc main() {}\nfunc TestX(t *testing.T) {}\n", nil},
		{"x_test.go", "package x\nfunc TestX(t *testing.T) {}\nfunc Testify(t *testing.T) {}\nfunc BenchmarkY(b *testing.B) {}\nfunc (s) TestZ(t *testing.T) {}\nfunc Test_(t *testing.T) {}\r\nfunc TestMain(m *testing.M) {}",
			[]string{"1:TestX:TestX", "3:BenchmarkY:BenchmarkY", "5:Test_:Test_"}},
		{"A.java", "class A {\n  // public static void main(String[] a)\n  public static void main(String[] a) {}\n  @Test\n  public void adds() {}\n}", []string{"2:main"}},
		{"B.java", "void main() {}", []string{"0:main"}},
		{"a.sh", "echo hi\n", []string{"0:echo hi"}},
		{"a.rb", "if __FILE__ == $0\nend", []string{"0:if __FILE__ == $0"}},
		{"a.c", "int main(void);\nchar *s = \"int main(\";\nint main(int c, char **v)\n{}\nint mainly(void) {}", []string{"2:main"}},
		{"a.c", "int main(void) { return 0; }", []string{"0:main"}},
		{"a.cpp", "int main(); struct s {\n};\nint main() { f(); }", []string{"2:main"}},
		{"a.rs", "fn a<'x>(y: &'x str) {}\npub fn main() {}\n/* /* */ fn main() {} */", []string{"1:main"}},
		{"a.txt", "int main() {}", nil},
		{"bad.py", "def (\n\"\"\"", nil},
		{"bad.go", "package main\nfunc main() { \"", []string{"1:main"}},
	} {
		var got []string
		for _, f := range targets(c.file, c.text, false) {
			from, to, ok := lineAt(c.text, f.line)
			if !ok || f.to > to-from {
				t.Fatalf("%s: %+v is not in the text", c.file, f)
			}
			name := fmt.Sprintf("%d:%s", f.line, c.text[from:to][f.from:f.to])
			if f.test != "" {
				name += ":" + f.test
			}
			got = append(got, name)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s\n%s\n%s", c.file, c.text, d)
		}
	}
	if got := targets("A.java", "class A {\n  @Test\n  void adds() {}\n}", true); len(got) != 1 || got[0].test != "A#adds" {
		t.Errorf("%+v", got)
	}
	if got := targets("a.sh", strings.Repeat("x", mostScan+1), false); got != nil {
		t.Error("a text of more than a mebibyte has lenses")
	}
}

// 5,000 lines are scanned quickly: the promise is 20 ms of processor time, and the test's limit allows for the
// race detector.
func TestScanTime(t *testing.T) {
	text := "import test from 'node:test';\n" + strings.Repeat("test('a name', () => { const x = /a\"b/; return \"y\" + `z`; }); // text\n", 5000)
	begin := processor(t)
	if got := targets("x.mjs", text, false); len(got) != 5000 {
		t.Errorf("%d targets", len(got))
	}
	if took := processor(t) - begin; took > time.Second {
		t.Errorf("it took %s", took)
	}
}

// A line may begin many regular expressions: the search for the end of each is short.
func TestLongRegexp(t *testing.T) {
	x := syntaxOf("javascript")
	if short := "(/" + strings.Repeat("a", 100) + "/)"; mask(short, x) != "("+strings.Repeat(" ", 102)+")" {
		t.Errorf("a short one: %q", mask(short, x))
	}
	if long := "(/" + strings.Repeat("a", mostRegexp) + "/)"; mask(long, x) != long {
		t.Errorf("a long one: %q", mask(long, x))
	}
}

// processor returns the processor time that this process has used.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func FuzzTargets(f *testing.F) {
	f.Add("a.py", "if __name__ == '__main__':\n")
	f.Add("a.test.js", "it('x', () => /a[/]/)\r\n")
	f.Add("a_test.go", "package main\rfunc main() {}\nfunc TestX(t *testing.T)")
	f.Add("A.java", "@Test void x(")
	f.Add("a.rs", "fn main()'")
	f.Fuzz(func(t *testing.T, file, text string) {
		for _, found := range targets(file, text, true) {
			from, to, ok := lineAt(text, found.line)
			if !ok || found.from < 0 || found.from > found.to || found.to > to-from {
				t.Fatalf("%+v is outside of its line", found)
			}
		}
	})
}

func TestURI(t *testing.T) {
	for _, c := range []struct{ system, uri, path string }{
		{"linux", "file:///home/a%20b/x.py", "/home/a b/x.py"},
		{"linux", "file://localhost/x", "/x"},
		{"linux", "file:///a/../../b", "/b"},
		{"linux", "file://other/x", ""},
		{"linux", "untitled:Untitled-1", ""},
		{"linux", "file:///a%00b", ""},
		{"linux", "file:relative", ""},
		{"linux", "file:///x?y", ""},
		{"windows", "file:///c%3A/Users/a%20b/x.py", `C:\Users\a b\x.py`},
		{"windows", "file:///C:/x", `C:\x`},
		{"windows", "file://server/share/x", `\\server\share\x`},
		{"windows", "file:///c:/x:stream", ""},
		{"windows", "file:///home/x", ""},
	} {
		got, ok := fileOn(c.system, c.uri)
		if got != c.path || ok != (c.path != "") {
			t.Errorf("%s: %s is %q, %t", c.system, c.uri, got, ok)
		}
	}
	for _, c := range []struct{ system, path, uri string }{
		{"linux", "/a b/é.py", "file:///a%20b/%C3%A9.py"}, {"windows", `C:\a b\x`, "file:///C:/a%20b/x"}, {"windows", `\\server\share\x`, "file://server/share/x"},
	} {
		if got := uriOn(c.system, c.path); got != c.uri {
			t.Errorf("%s", got)
		}
		if got, ok := fileOn(c.system, c.uri); !ok || got != c.path {
			t.Errorf("%s is %s", c.uri, got)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "a/../../x", "/x", `a\..\x`, "a\x00"} {
		if _, err := cleanName("files[0]", name); err == nil {
			t.Errorf("%q passes", name)
		}
	}
}

// Columns count as in the client: an emoji is two UTF-16 units and four bytes.
func TestText(t *testing.T) {
	text := "a😀b\r\né\rlast"
	for _, c := range []struct {
		units encoding
		at    position
		want  string // the text after the position
	}{
		{utf16Units, position{0, 0}, text}, {utf16Units, position{0, 1}, text[1:]}, {utf16Units, position{0, 3}, text[5:]}, {utf16Units, position{0, 2}, text[1:]},
		{utf8Units, position{0, 5}, text[5:]}, {utf16Units, position{0, 99}, text[6:]}, {utf16Units, position{1, 1}, text[10:]}, {utf16Units, position{2, 2}, "st"},
		{utf16Units, position{9, 0}, ""}, {utf16Units, position{-1, -1}, text},
	} {
		if got := text[c.units.offset(text, c.at):]; got != c.want {
			t.Errorf("%v %v: %q, want %q", c.units, c.at, got, c.want)
		}
	}
	got := utf16Units.apply(text, contentChange{Range: &span{position{0, 1}, position{1, 0}}, Text: "X\n"})
	if got != "aX\né\rlast" {
		t.Errorf("%q", got)
	}
	if n := lineCount(text); n != 2 {
		t.Errorf("%d line ends", n)
	}
	if got := utf16Units.trimmed("x\n \t😀y  \r\n", 1); got != (span{position{1, 2}, position{1, 5}}) {
		t.Errorf("%+v", got)
	}
}
