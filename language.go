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
	// build is what a compiler is given after its name and before "$source", to leave "$program". "" for languages
	// that are interpreted.
	build string
	after string // what it is given after "$source"
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
		{Name: "Go", Aliases: []string{"go", "golang"}, Extensions: []string{"go"}, Programs: []string{"go"}, build: `build -o "$program"`},
		{Name: "C", Aliases: []string{"c"}, Extensions: []string{"c"}, Programs: []string{"cc", "gcc", "clang"},
			build: `-o "$program"`, after: "-lm"},
		{Name: "C++", Aliases: []string{"c++", "cpp"}, Extensions: []string{"cpp", "cc", "cxx"}, Programs: []string{"c++", "g++", "clang++"},
			build: `-o "$program"`},
		{Name: "Rust", Aliases: []string{"rust", "rs"}, Extensions: []string{"rs"}, Programs: []string{"rustc"},
			build: `--edition 2021 -o "$program"`},
		{Name: "Java", Aliases: []string{"java"}, Extensions: []string{"java"}, Programs: []string{"java"}},
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

// Compiled reports whether programs have to be built first, in a workspace whose programs may be executed.
func (l Language) Compiled() bool { return l.build != "" }

// File is what a program is called that has no name of its own.
func (l Language) File() string { return "main." + l.Extensions[0] }

// Command is the argv that runs file with args, program being the interpreter or compiler that was found; "" for the
// first of Programs that the sandbox turns out to have.
//
// A compiled program is built and then takes the shell's place, so that its status and signals are the run's own. File
// and arguments reach the shell as parameters and are never read as shell text.
func (l Language) Command(program, file string, args []string) []string {
	if program == "" && len(l.Programs) == 1 {
		program = l.Programs[0]
	}
	if l.Compiled() {
		script := []string{
			`source=$0`,
			`program=$(mktemp -d "${TMPDIR:-.}/build.XXXXXX")/program || exit`,
		}
		compiler := shellQuote(program)
		if program == "" {
			script, compiler = append(script, l.search()), `"$tool"`
		}
		script = append(script, strings.TrimSpace(compiler+` `+l.build+` "$source" `+l.after)+` || exit`, `exec "$program" "$@"`)
		return append([]string{"sh", "-c", strings.Join(script, "\n"), file}, args...)
	}
	argv := append([]string{program}, l.flags...)
	if program == "" {
		argv = append([]string{"sh", "-c", l.search() + "\n" + `exec "$tool" "$0" "$@"`}, l.flags...)
	}
	return append(append(argv, file), args...)
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
