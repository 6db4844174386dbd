package lsp

import (
	"path"
	"strings"
)

// target is a place where a lens stands: a program's main, or a test.
type target struct {
	line     int
	from, to int    // the name, in bytes of the line
	test     string // the test's name; "" for a program
}

// mostScan is the longest text that is searched for lenses, in bytes.
const mostScan = 1 << 20

// kind is the language of a file by its name; "" for one that has no lenses.
func kind(file string) string {
	switch strings.ToLower(path.Ext(file)) {
	case ".py":
		return "python"
	case ".js", ".mjs", ".cjs", ".jsx":
		return "javascript"
	case ".ts", ".mts", ".cts", ".tsx":
		return "typescript"
	case ".go":
		return "go"
	case ".java":
		return "java"
	case ".sh", ".bash":
		return "shell"
	case ".rb":
		return "ruby"
	case ".c":
		return "c"
	case ".cc", ".cpp", ".cxx":
		return "c++"
	case ".rs":
		return "rust"
	}
	return ""
}

// languageOf is the language of an open text that has no file, by what the editor calls it.
func languageOf(id string) string {
	switch id {
	case "javascriptreact":
		return "javascript"
	case "typescriptreact":
		return "typescript"
	case "shellscript":
		return "shell"
	case "cpp":
		return "c++"
	}
	return id
}

// targets finds the programs and tests of a text. A text that does not parse has those that can be seen.
func targets(file, text string, built bool) []target {
	if len(text) > mostScan {
		return nil
	}
	language := kind(file)
	s := scanner{file: path.Base(file), text: text, built: built}
	switch language {
	case "python":
		s.each(syntax{line: "#", triple: true, single: true}, s.python)
	case "javascript", "typescript":
		s.each(syntax{line: "//", block: true, single: true, backtick: true, regexps: true}, s.javascript)
	case "go":
		s.each(syntax{line: "//", block: true, backtick: true, raw: true}, s.golang)
	case "java":
		s.each(syntax{line: "//", block: true, text: true}, s.java)
	case "shell":
		s.first()
	case "ruby":
		s.each(syntax{line: "#", single: true}, s.ruby)
	case "c", "c++":
		s.each(syntax{line: "//", block: true}, s.c)
	case "rust":
		s.each(syntax{line: "//", block: true, nested: true}, s.rust)
	}
	return s.found
}

// scanner looks at a text line by line, without its strings and comments.
type scanner struct {
	file, text string
	built      bool // a build tool runs the folder's tests
	found      []target

	line     int    // of what is looked at
	original string // the line as it is

	main    bool   // of Go: it is package main
	class   string // of Python's and Java's tests
	indent  int    // of class
	tested  bool   // of Java: @Test stands in front
	testing bool   // of JavaScript: the file has tests
}

func (s *scanner) each(x syntax, look func(line string)) {
	masked := mask(s.text, x)
	for at := 0; ; s.line++ {
		end, next := lineEnd(masked, at)
		s.original = s.text[at:end]
		look(masked[at:end])
		if next < 0 {
			return
		}
		at = next
	}
}

// add marks a name on the line.
func (s *scanner) add(from int, name, test string) {
	s.found = append(s.found, target{line: s.line, from: from, to: from + len(name), test: test})
}

// first marks the first line of a script.
func (s *scanner) first() {
	if s.text == "" {
		return
	}
	end, _ := lineEnd(s.text, 0)
	s.found = append(s.found, target{to: end})
}

// word is the name that a text begins with.
func word(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9' || c >= 0x80) {
			return s[:i]
		}
	}
	return s
}

// after returns what follows a word and blanks, and where it begins in the line.
func after(line, prefix string) (rest string, at int, ok bool) {
	trimmed := strings.TrimLeft(line, " \t")
	rest, ok = strings.CutPrefix(trimmed, prefix)
	if !ok || rest != "" && word("_"+rest[:1]) != "_" && word(prefix[len(prefix)-1:]) != "" {
		return "", 0, false
	}
	rest = strings.TrimLeft(rest, " \t")
	return rest, len(line) - len(rest), true
}

func (s *scanner) python(line string) {
	trimmed := strings.TrimLeft(line, " \t")
	depth := len(line) - len(trimmed)
	if trimmed == "" {
		return
	}
	if depth <= s.indent {
		s.class = ""
	}
	if _, _, ok := after(line, "if"); ok && depth == 0 && strings.HasPrefix(strings.Join(strings.Fields(s.original), ""), "if__name__==") && strings.Contains(s.original, "__main__") {
		name := strings.TrimRight(strings.TrimRight(s.original, " \t"), ":")
		s.add(0, name, "")
		return
	}
	if !pythonTest(s.file) {
		return
	}
	if rest, at, ok := after(line, "class"); ok && depth == 0 {
		name := word(rest)
		if strings.HasPrefix(name, "Test") || strings.Contains(rest, "TestCase") {
			s.class, s.indent = name, depth
			s.add(at, name, name)
		}
		return
	}
	rest, at, ok := after(line, "def")
	if !ok {
		inner, start, async := after(line, "async")
		if !async {
			return
		}
		if rest, at, ok = after(inner, "def"); !ok {
			return
		}
		at += start
	}
	name := word(rest)
	switch {
	case !strings.HasPrefix(name, "test"):
	case depth == 0 && strings.HasPrefix(name, "test_"):
		s.add(at, name, name)
	case s.class != "" && depth > 0:
		s.add(at, name, s.class+"::"+name)
	}
}

// pythonTest reports whether a file has tests by its name.
func pythonTest(file string) bool {
	file = path.Base(file)
	return strings.HasPrefix(file, "test_") && strings.HasSuffix(file, ".py") || strings.HasSuffix(file, "_test.py")
}

func (s *scanner) javascript(line string) {
	if s.line == 0 && strings.HasPrefix(s.original, "#!") {
		s.add(0, s.original, "")
		return
	}
	if strings.Contains(s.original, "node:test") {
		s.testing = true
	}
	if !s.testing && !javascriptTest(s.file) {
		return
	}
	for _, call := range []string{"test", "it", "describe", "suite"} {
		rest, _, ok := after(line, call)
		if !ok {
			continue
		}
		for _, more := range []string{".only", ".skip", ".todo"} {
			rest = strings.TrimPrefix(rest, more)
		}
		at := len(line) - len(rest)
		if !strings.HasPrefix(rest, "(") {
			return
		}
		argument := strings.TrimLeft(s.original[at+1:], " \t")
		if argument == "" || strings.IndexByte("'\"`", argument[0]) < 0 {
			return
		}
		end := strings.IndexByte(argument[1:], argument[0])
		if end < 0 {
			return
		}
		name := argument[1 : end+1]
		if name == "" || strings.ContainsAny(name, "\\") || strings.Contains(name, "${") {
			return
		}
		s.add(len(line)-len(strings.TrimLeft(line, " \t")), call, name)
		return
	}
}

// javascriptTest reports whether a file has tests by its name.
func javascriptTest(file string) bool {
	parts := strings.Split(path.Base(file), ".")
	return len(parts) > 2 && (parts[len(parts)-2] == "test" || parts[len(parts)-2] == "spec")
}

func (s *scanner) golang(line string) {
	if rest, _, ok := after(line, "package"); ok && !s.main {
		s.main = word(rest) == "main"
	}
	rest, at, ok := after(line, "func")
	if !ok || strings.TrimLeft(line, " \t") != line {
		return
	}
	name := word(rest)
	arguments := strings.TrimLeft(rest[len(name):], " \t")
	switch {
	case name == "main" && s.main && strings.HasPrefix(arguments, "()"):
		s.add(at, name, "")
	case !strings.HasSuffix(s.file, "_test.go"):
	case goTest(name, "Test") && strings.Contains(arguments, "*testing.T)"), goTest(name, "Benchmark") && strings.Contains(arguments, "*testing.B)"),
		goTest(name, "Fuzz") && strings.Contains(arguments, "*testing.F)"), goTest(name, "Example") && strings.HasPrefix(arguments, "()"):
		s.add(at, name, name)
	}
}

// goTest reports whether go test takes a name for one with the prefix.
func goTest(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && (rest == "" || !('a' <= rest[0] && rest[0] <= 'z'))
}

func (s *scanner) java(line string) {
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '(' })
	for i, field := range fields {
		switch {
		case field == "@Test" || field == "@ParameterizedTest":
			s.tested = true
		case field == "class" && i+1 < len(fields) && s.class == "":
			s.class = word(fields[i+1])
		case field == "void" && i+1 < len(fields):
			name := word(fields[i+1])
			at := strings.Index(line, "void")
			at += 4 + strings.Index(line[at+4:], name)
			switch {
			case name == "main" && strings.Contains(line[at:], "("):
				s.add(at, name, "")
			case s.tested && s.built && s.class != "" && name != "":
				s.add(at, name, s.class+"#"+name)
			}
			s.tested = false
			return
		}
	}
}

func (s *scanner) ruby(line string) {
	if _, _, ok := after(line, "if"); ok && strings.Contains(line, "__FILE__") && (strings.Contains(line, "$0") || strings.Contains(line, "$PROGRAM_NAME")) {
		s.add(0, strings.TrimRight(s.original, " \t"), "")
	} else if s.line == 0 && strings.HasPrefix(s.original, "#!") {
		s.add(0, s.original, "")
	}
}

func (s *scanner) c(line string) {
	for _, result := range []string{"int", "auto", "void"} {
		if rest, at, ok := after(line, result); ok && word(rest) == "main" && strings.HasPrefix(strings.TrimLeft(rest[4:], " \t"), "(") && !strings.HasSuffix(strings.TrimSpace(line), ";") {
			s.add(at, "main", "")
		}
	}
}

func (s *scanner) rust(line string) {
	for _, prefix := range []string{"pub", "async"} {
		if rest, at, ok := after(line, prefix); ok {
			line = strings.Repeat(" ", at) + rest
		}
	}
	if rest, at, ok := after(line, "fn"); ok && word(rest) == "main" && strings.HasPrefix(strings.TrimLeft(rest[4:], " \t"), "(") {
		s.add(at, "main", "")
	}
}
