package belljar

import (
	"slices"
	"strings"
)

// Language is how programs in one language are run.
type Language struct {
	Name       string   // as people write it: Python, C++
	Aliases    []string // what requests call it, lower case; the first is its own name
	Extensions []string // without the dot; the first is the usual one
	Programs   []string // interpreters or compilers, best first: the first that the image has is used

	flags []string // between the program and the file
	// build is what a compiler is given after its name, with PROGRAM for what it makes of SOURCE. "" for languages that are
	// interpreted.
	build string
}

// Languages is every language that Belljar knows how to run, in the order of the documentation.
func Languages() []Language {
	return []Language{
		{Name: "Python", Aliases: []string{"python", "python3", "py"}, Extensions: []string{"py"}, Programs: []string{"python3"}},
		{Name: "JavaScript", Aliases: []string{"javascript", "js", "node", "nodejs"}, Extensions: []string{"js", "mjs", "cjs"},
			Programs: []string{"node"}},
		{Name: "TypeScript", Aliases: []string{"typescript", "ts"}, Extensions: []string{"ts", "mts"}, Programs: []string{"node"},
			flags: []string{"--experimental-strip-types", "--no-warnings"}},
		{Name: "shell", Aliases: []string{"shell", "bash", "sh"}, Extensions: []string{"sh", "bash"}, Programs: []string{"bash", "sh"}},
		{Name: "Ruby", Aliases: []string{"ruby", "rb"}, Extensions: []string{"rb"}, Programs: []string{"ruby"}},
		{Name: "Perl", Aliases: []string{"perl", "pl"}, Extensions: []string{"pl"}, Programs: []string{"perl"}},
		{Name: "Go", Aliases: []string{"go", "golang"}, Extensions: []string{"go"}, Programs: []string{"go"}, build: "build -o PROGRAM SOURCE"},
		{Name: "C", Aliases: []string{"c"}, Extensions: []string{"c"}, Programs: []string{"cc", "gcc", "clang"},
			build: "-o PROGRAM SOURCE -lm"},
		{Name: "C++", Aliases: []string{"c++", "cpp"}, Extensions: []string{"cpp", "cc", "cxx"}, Programs: []string{"c++", "g++", "clang++"},
			build: "-o PROGRAM SOURCE"},
		{Name: "Rust", Aliases: []string{"rust", "rs"}, Extensions: []string{"rs"}, Programs: []string{"rustc"},
			build: "--edition 2021 -o PROGRAM SOURCE"},
		{Name: "Java", Aliases: []string{"java"}, Extensions: []string{"java"}, Programs: []string{"java"}, build: "-d PROGRAM SOURCE"},
	}
}

// LanguageOf returns the language that a request calls by name, whatever its case.
func LanguageOf(name string) (Language, bool) {
	name = strings.ToLower(name)
	for _, l := range Languages() {
		if slices.Contains(l.Aliases, name) {
			return l, true
		}
	}
	return Language{}, false
}

// Compiled reports whether programs are built before they run.
func (l Language) Compiled() bool { return l.build != "" }

// Executed reports whether what is built is executed by itself, in a workspace whose programs may be executed.
func (l Language) Executed() bool { return l.Compiled() && l.Name != java }

// File is what a program is called that has no name of its own.
func (l Language) File() string { return "main." + l.Extensions[0] }

// FileOf is File for a program with that text: the compiler of Java wants a file to be called as the public class in it.
func (l Language) FileOf(source string) string {
	if l.Name == java {
		if name := scanJava(source).public; name != "" {
			return name + ".java"
		}
	}
	return l.File()
}

// Command is the argv that runs file with args in a language that is interpreted, program being the interpreter that was
// found; "" for the first of Programs that the sandbox turns out to have.
//
// File and arguments reach a shell as parameters and are never read as shell text.
func (l Language) Command(program, file string, args []string) []string {
	if program == "" && len(l.Programs) == 1 {
		program = l.Programs[0]
	}
	argv := append([]string{program}, l.flags...)
	if program == "" {
		argv = append([]string{"sh", "-c", l.search() + "\n" + `exec "$tool" "$0" "$@"`}, l.flags...)
	}
	return append(append(argv, operand(file)), args...)
}

// Build is how file becomes a program at a place, an absolute path, in a language that is compiled: the argv of each
// compiler that may be there, best first, and the argv of the program with args. Source is the text of file, or "" where
// that is not known yet, which the program of a language that goes by its text then does without.
func (l Language) Build(file, source, place string, args []string) (compilers [][]string, program []string) {
	given := strings.Fields(l.build)
	for i, word := range given {
		switch word {
		case "PROGRAM":
			given[i] = place
		case "SOURCE":
			given[i] = operand(file)
		}
	}
	program = []string{place}
	if l.Name == java {
		// A compiler of one file ends before what the machine's second compiler does to it pays.
		const quick = "-XX:TieredStopAtLevel=1"
		compilers = [][]string{
			append([]string{"javac", "-J" + quick}, given...), append([]string{"java", quick, "-m", "jdk.compiler/com.sun.tools.javac.Main"}, given...),
		}
		program = []string{"java", "-cp", place + ":.", scanJava(source).runs(file)}
	} else {
		for _, name := range l.Programs {
			compilers = append(compilers, append([]string{name}, given...))
		}
	}
	return compilers, append(program, args...)
}

// GoesByText reports whether [Language.Build] needs the source's text.
func (l Language) GoesByText() bool { return l.Name == java }

// operand is a file's name in a form that no program takes for an option.
func operand(file string) string {
	if strings.HasPrefix(file, "-") {
		return "./" + file
	}
	return file
}

// search is shell text that looks for the language's programs and leaves the first that is there in $tool.
func (l Language) search() string {
	lines := []string{"tool=" + shellQuote(l.Programs[0])} // if none is there, its absence is what fails
	for _, name := range slices.Backward(l.Programs) {
		lines = append(lines, "command -v "+shellQuote(name)+" >/dev/null && tool="+shellQuote(name))
	}
	return strings.Join(lines, "\n")
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
