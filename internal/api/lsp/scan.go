package lsp

import (
	"path"
	"regexp"
	"slices"
	"strings"
	gosync "sync"

	"github.com/belljar/belljar"
)

// target is a place with a lens: a program's main, or a test.
type target struct {
	line     int
	at       int    // where the line begins, in bytes of the text
	from, to int    // the range of the name, in bytes of the line
	test     string // the test's name; "" for a program
}

// mostScan is the longest text that is searched for lenses, in bytes.
const mostScan = 1 << 20

// kind returns the language of a file by its name; "" if Belljar cannot run it.
func kind(file string) string {
	ext := strings.ToLower(strings.TrimPrefix(path.Ext(file), "."))
	for _, l := range belljar.Languages() {
		if slices.Contains(l.Extensions, ext) {
			return l.Aliases[0]
		}
	}
	return ""
}

// languageOf returns the language of an open text that has no file, by the editor's name for it.
func languageOf(id string) string {
	if id == "shellscript" {
		return "shell"
	}
	if l, known := belljar.LanguageOf(id); known {
		return l.Aliases[0]
	}
	return id
}

// looks returns the functions that scan a line, by language.
func looks() map[string]func(*scanner, string) {
	return map[string]func(*scanner, string){
		"python": (*scanner).python, "javascript": (*scanner).javascript, "typescript": (*scanner).javascript, "go": (*scanner).golang, "java": (*scanner).java,
		"shell": (*scanner).shell, "ruby": (*scanner).ruby, "c": cMain.mark, "c++": cMain.mark, "rust": rustMain.mark,
	}
}

// extensions returns the extensions of files that may have lenses.
func extensions() (list []string) {
	for _, l := range belljar.Languages() {
		if looks()[l.Aliases[0]] != nil {
			list = append(list, l.Extensions...)
		}
	}
	return list
}

// targets finds the programs and tests of a text. It returns those that it recognizes even if the text
// does not parse.
func targets(file, text string, built bool) []target {
	language := kind(file)
	look := looks()[language]
	if look == nil || len(text) > mostScan {
		return nil
	}
	s := &scanner{file: path.Base(file), text: text, built: built}
	masked := mask(text, syntaxOf(language))
	for next := 0; next >= 0; s.line++ {
		s.at = next
		var end int
		end, next = lineEnd(masked, s.at)
		s.original = text[s.at:end]
		look(s, masked[s.at:end])
	}
	return s.found
}

// scanner scans a text line by line, without its strings and comments.
type scanner struct {
	file, text string
	built      bool // a build tool runs the folder's tests
	found      []target

	line, at int    // of the current line
	original string // the line with its strings and comments

	main    bool    // in Go: the package is main; in JavaScript: the file's main is marked
	class   string  // of tests in Java
	classes []suite // of tests in Python, around the line, the outermost first
	header  bool    // in Python: the class statement continues on the next line
	tested  bool    // in Java: @Test precedes
	testing bool    // in JavaScript: the file has tests
}

// suite is a class of tests in Python.
type suite struct {
	name    string // as pytest knows it, below the file
	at      int    // the width of its indentation
	members string // the indentation of its members; "" before the first
	closed  bool   // it is a TestCase, whose inner classes no runner collects
}

// add marks a part of the line.
func (s *scanner) add(from, to int, test string) {
	s.found = append(s.found, target{s.line, s.at, from, to, test})
}

// script marks the first line if it is a #! line.
func (s *scanner) script() {
	if s.line == 0 && strings.HasPrefix(s.original, "#!") {
		s.add(0, len(s.original), "")
	}
}

func (s *scanner) shell(string) {
	if s.line == 0 && s.text != "" {
		s.add(0, len(s.original), "")
	}
}

const identifier = `([\pL_][\pL\pN_]*)`

// The lines that matter, without strings and comments.
var (
	pythonMain = pattern(`^if[ \t]*\(?[ \t]*__name__[ \t]*==`)
	pythonTest = pattern(`^([ \t]*)(?:async[ \t]+)?(class|def)[ \t]+` + identifier + `(.*)`)
	nodeMain   = pattern(`^(?:if[ \t]*\([ \t]*(?:require\.main[ \t]*===?[ \t]*module|import\.meta\.main)\b|(?:export[ \t]+)?(?:async[ \t]+)?function[ \t]+main[ \t]*\()`)
	nodeTest   = pattern(`^[ \t]*(test|it|describe|suite)(?:\.only|\.skip|\.todo)?[ \t]*\(`)
	nodeName   = pattern("^(?:'([^'\\\\]+)'|\"([^\"\\\\]+)\"|`([^`\\\\]+)`)")
	goFunction = pattern(`^func[ \t]+` + identifier + `[ \t]*\((.*)`)
	javaClass  = pattern(`\bclass[ \t]+` + identifier)
	javaMethod = pattern(`\bvoid[ \t]+` + identifier + `[ \t]*\(`)
	javaTest   = pattern(`@(?:Parameterized)?Test\b`)
	rubyMain   = pattern(`^if[ \t]+(?:__FILE__[ \t]*==[ \t]*\$(?:0|PROGRAM_NAME)|\$(?:0|PROGRAM_NAME)[ \t]*==[ \t]*__FILE__)\b`)
	cMain      = pattern(`^[ \t]*(?:int|auto|void)[ \t]+(main)[ \t]*\([^;{]*(?:\{|$)`)
	rustMain   = pattern(`^[ \t]*(?:pub[ \t]+)?(?:async[ \t]+)?fn[ \t]+(main)[ \t]*\(`)
)

// expression is a regular expression that is compiled on first use.
type expression func() *regexp.Regexp

func pattern(text string) expression {
	return gosync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

func (s *scanner) python(line string) {
	if pythonMain().MatchString(line) && strings.Contains(s.original, "__main__") {
		s.add(0, len(strings.TrimRight(s.original, " \t:")), "")
		return
	}
	body := strings.TrimLeft(line, " \t")
	switch margin := line[:len(line)-len(body)]; {
	case body == "":
	case s.header && (margin != "" || body[0] == ')'):
		s.header = !strings.HasSuffix(strings.TrimRight(body, " \t"), ":")
	default:
		s.header = false
		for len(s.classes) > 0 && len(margin) <= s.classes[len(s.classes)-1].at {
			s.classes = s.classes[:len(s.classes)-1]
		}
		if n := len(s.classes); n > 0 && s.classes[n-1].members == "" {
			s.classes[n-1].members = margin
		}
	}
	if !pythonTests(s.file) || !strings.Contains(line, "def") && !strings.Contains(line, "class") {
		return
	}
	m := pythonTest().FindStringSubmatchIndex(line)
	if m == nil {
		return
	}
	name, rest, prefix, closed := line[m[6]:m[7]], line[m[8]:], "test_", false
	test := name
	if n := len(s.classes); n > 0 {
		in := s.classes[n-1]
		if line[m[2]:m[3]] != in.members {
			return
		}
		test, prefix, closed = in.name+"::"+name, "test", in.closed
	} else if m[2] != m[3] {
		return
	}
	isCase := strings.Contains(rest, "TestCase")
	switch is := line[m[4]:m[5]]; {
	case is == "class" && !closed && (strings.HasPrefix(name, "Test") || isCase):
		s.classes, s.header = append(s.classes, suite{name: test, at: m[3] - m[2], closed: isCase}), !strings.Contains(rest, ":")
		s.add(m[6], m[7], test)
	case is == "def" && strings.HasPrefix(name, prefix):
		s.add(m[6], m[7], test)
	}
}

// pythonTests reports whether the file name is that of a test file.
func pythonTests(file string) bool {
	file = path.Base(file)
	return strings.HasPrefix(file, "test_") && strings.HasSuffix(file, ".py") || strings.HasSuffix(file, "_test.py")
}

func (s *scanner) javascript(line string) {
	s.script()
	if strings.HasPrefix(s.text, "#!") {
		s.main = true
	} else if m := nodeMain().FindStringIndex(line); m != nil && !s.main {
		s.main = true
		s.add(0, len(strings.TrimRight(line[:m[1]], "( \t")), "")
	}
	s.testing = s.testing || javascriptTest(s.file) || strings.Contains(s.original, "node:test")
	if !s.testing || !strings.Contains(line, "(") {
		return
	}
	if m := nodeTest().FindStringSubmatchIndex(line); m != nil {
		if n := nodeName().FindStringSubmatch(strings.TrimLeft(s.original[m[1]:], " \t")); n != nil && !strings.Contains(n[0], "${") {
			s.add(m[2], m[3], n[1]+n[2]+n[3])
		}
	}
}

// javascriptTest reports whether the file name is that of a test file.
func javascriptTest(file string) bool {
	parts := strings.Split(path.Base(file), ".")
	return len(parts) > 2 && (parts[len(parts)-2] == "test" || parts[len(parts)-2] == "spec")
}

func (s *scanner) golang(line string) {
	s.main = s.main || strings.HasPrefix(line, "package main") && strings.TrimSpace(line) == "package main"
	m := goFunction().FindStringSubmatchIndex(line)
	if m == nil {
		return
	}
	name, arguments := line[m[2]:m[3]], line[m[4]:]
	switch {
	case name == "main" && s.main && strings.HasPrefix(arguments, ")"):
		s.add(m[2], m[3], "")
	case !strings.HasSuffix(s.file, "_test.go"):
	case goTest(name, "Test") && strings.Contains(arguments, "*testing.T)"), goTest(name, "Benchmark") && strings.Contains(arguments, "*testing.B)"),
		goTest(name, "Fuzz") && strings.Contains(arguments, "*testing.F)"), goTest(name, "Example") && strings.HasPrefix(arguments, ")"):
		s.add(m[2], m[3], name)
	}
}

// goTest reports whether go test treats a name as a test with the prefix.
func goTest(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && (rest == "" || !('a' <= rest[0] && rest[0] <= 'z'))
}

func (s *scanner) java(line string) {
	if s.class == "" {
		if m := javaClass().FindStringSubmatch(line); m != nil {
			s.class = m[1]
		}
	}
	s.tested = s.tested || strings.Contains(line, "Test") && javaTest().MatchString(line)
	if !strings.Contains(line, "void") {
		return
	}
	m := javaMethod().FindStringSubmatchIndex(line)
	if m == nil {
		return
	}
	switch name := line[m[2]:m[3]]; {
	case name == "main":
		s.add(m[2], m[3], "")
	case s.tested && s.built && s.class != "":
		s.add(m[2], m[3], s.class+"#"+name)
	}
	s.tested = false
}

func (s *scanner) ruby(line string) {
	s.script()
	if rubyMain().MatchString(line) {
		s.add(0, len(strings.TrimRight(line, " \t")), "")
	}
}

// mark marks the name in a line that matches.
func (is expression) mark(s *scanner, line string) {
	if m := is().FindStringSubmatchIndex(line); m != nil {
		s.add(m[2], m[3], "")
	}
}
