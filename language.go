package belljar

import (
	"slices"
	"strings"
)

// Language is how programs in one language are run.
type Language struct {
	Name       string   // display name: Python, C++
	Aliases    []string // names in requests, lower case; the first is the canonical one
	Extensions []string // without the dot; the first is the default
	Programs   []string // interpreters or compilers, best first: the first one in the image is used

	flags []string // arguments between the program and the file
	// build is the compiler's arguments, with the placeholders PROGRAM for the output and SOURCE for the input. It is "" for interpreted languages.
	build string
}

// Languages returns every supported language, in the order of the documentation.
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

// LanguageOf returns the language with a name or alias, in any case.
func LanguageOf(name string) (Language, bool) {
	name = strings.ToLower(name)
	for _, l := range Languages() {
		if slices.Contains(l.Aliases, name) {
			return l, true
		}
	}
	return Language{}, false
}

// Compiled reports whether programs are compiled before they run.
func (l Language) Compiled() bool { return l.build != "" }

// Executed reports whether the compiled program is executed directly, so that the workspace must permit execution.
func (l Language) Executed() bool { return l.Compiled() && l.Name != java }

// File is the default file name of a program.
func (l Language) File() string { return "main." + l.Extensions[0] }

// FileOf is File for a program with that text: Java's compiler requires the file to have the name of its public class.
func (l Language) FileOf(source string) string {
	if l.Name == java {
		if name := scanJava(source).public; name != "" {
			return name + ".java"
		}
	}
	return l.File()
}

// Command is the argv that runs file with args in an interpreted language. program is the interpreter that was found; ""
// looks for the first of Programs inside the sandbox.
//
// File and arguments reach a shell as parameters and are never parsed as shell text.
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

// Build returns how file is compiled to a program at place, an absolute path: the argv of each possible compiler, best
// first, and the argv of the program with args. source is the text of file, or "" if it is not known yet. Only a language
// for which [Language.GoesByText] is true depends on it.
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
		// quick disables the JVM's second compiler: a compiler run of one file ends before that pays off.
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

// operand is a file name in a form that no program parses as an option.
func operand(file string) string {
	if strings.HasPrefix(file, "-") {
		return "./" + file
	}
	return file
}

// search is shell text that sets $tool to the first of the language's programs that exists.
func (l Language) search() string {
	lines := []string{"tool=" + shellQuote(l.Programs[0])} // if none exists, running it fails with its name
	for _, name := range slices.Backward(l.Programs) {
		lines = append(lines, "command -v "+shellQuote(name)+" >/dev/null && tool="+shellQuote(name))
	}
	return strings.Join(lines, "\n")
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
