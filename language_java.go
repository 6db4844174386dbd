package belljar

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const java = "Java"

// javaSource describes the classes in the text of a Java program.
type javaSource struct {
	pack   string   // its package, "" for none
	types  []string // top-level types, in order
	public string   // the public one of types
	main   string   // the first type with a method main; "." for methods outside a class
}

// runs is the name to run the program by: the first class with a main, else the first class.
func (s javaSource) runs(file string) string {
	name := s.main
	switch {
	case name == "" && len(s.types) > 0:
		name = s.types[0]
	case name == "" || name == ".": // the file is the class
		name = strings.TrimSuffix(path.Base(file), ".java")
	}
	if s.pack != "" {
		name = s.pack + "." + name
	}
	return name
}

// scanJava parses the text of a Java program only as far as its classes. It accepts invalid text: the compiler reports the
// error.
func scanJava(text string) (s javaSource) {
	words := javaWords{rest: text}
	depth, before, last := 0, "", "" // last is the last word, before the one before it
	open := ""                       // the top-level class whose body this is
	pending, public := "", false     // a class whose body has not begun
	for word := words.next(); word != ""; word = words.next() {
		switch {
		case word == "{":
			if depth == 0 {
				open, pending = pending, ""
			}
			depth++
		case word == "}":
			if depth > 0 {
				depth--
			}
			if depth == 0 {
				open, public = "", false
			}
		case word == "(" && last == "main" && before == "void" && s.main == "" && depth == 0 && pending == "":
			s.main = "."
		case word == "(" && last == "main" && before == "void" && s.main == "" && depth == 1 && open != "":
			s.main = open
		case depth == 0 && word == "package" && s.pack == "" && len(s.types) == 0:
			for word = words.next(); word != "" && word != ";"; word = words.next() {
				s.pack += word
			}
		case depth == 0 && word == ";":
			public = false
		case depth == 0 && word == "public":
			public = true
		case depth == 0 && pending == "" && isJavaType(last) && javaName(word):
			pending = word
			s.types = append(s.types, word)
			if public && s.public == "" {
				s.public = word
			}
		}
		before, last = last, word
	}
	return s
}

// isJavaType reports whether the name of a type follows a word.
func isJavaType(word string) bool {
	switch word {
	case "class", "interface", "enum", "record":
		return true
	}
	return false
}

func javaName(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return r == '_' || r == '$' || unicode.IsLetter(r)
}

// javaWords iterates over the words and symbols of Java text, without comments and the contents of literals.
type javaWords struct{ rest string }

// next returns the next word, "" at the end.
func (w *javaWords) next() string {
	for w.rest != "" {
		switch {
		case strings.HasPrefix(w.rest, "//"):
			w.skip("\n", false)
		case strings.HasPrefix(w.rest, "/*"):
			w.rest = w.rest[2:]
			w.skip("*/", false)
		case strings.HasPrefix(w.rest, `"""`):
			w.rest = w.rest[3:]
			w.skip(`"""`, true)
			return `"`
		case w.rest[0] == '"', w.rest[0] == '\'':
			sign := w.rest[:1]
			w.rest = w.rest[1:]
			w.skip(sign, true)
			return sign
		default:
			n := 0
			for n < len(w.rest) {
				r, size := utf8.DecodeRuneInString(w.rest[n:])
				if r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
					break
				}
				n += size
			}
			if n > 0 {
				word := w.rest[:n]
				w.rest = w.rest[n:]
				return word
			}
			_, size := utf8.DecodeRuneInString(w.rest)
			sign := w.rest[:size]
			w.rest = w.rest[size:]
			if strings.TrimSpace(sign) != "" {
				return sign
			}
		}
	}
	return ""
}

// skip continues after end. If escapes is true, a backslash escapes the byte after it.
func (w *javaWords) skip(end string, escapes bool) {
	for w.rest != "" && !strings.HasPrefix(w.rest, end) {
		n := 1
		if escapes && w.rest[0] == '\\' {
			n = min(2, len(w.rest))
		}
		w.rest = w.rest[n:]
	}
	w.rest = strings.TrimPrefix(w.rest, end)
}
