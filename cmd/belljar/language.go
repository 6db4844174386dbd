package main

import (
	"path"
	"slices"
	"strings"
)

// language is how the programs of one language are run.
type language struct {
	name       string
	extensions []string // without the dot; the first is the usual one
	programs   []string // interpreters or compilers, best first: the first that the image has is used
	flags      []string // between the program and the file
	// build is what a compiler is given after its name and before "$source", to leave "$program". "" for languages
	// that are interpreted.
	build string
	after string // what it is given after "$source"
}

// languages is every language that belljar run knows, in the order of the documentation.
func languages() []language {
	return []language{
		{name: "Python", extensions: []string{"py"}, programs: []string{"python3"}},
		{name: "JavaScript", extensions: []string{"js", "mjs", "cjs"}, programs: []string{"node"}},
		{name: "TypeScript", extensions: []string{"ts", "mts"}, programs: []string{"node"}, flags: []string{"--experimental-strip-types", "--no-warnings"}},
		{name: "shell", extensions: []string{"sh", "bash"}, programs: []string{"bash", "sh"}},
		{name: "Ruby", extensions: []string{"rb"}, programs: []string{"ruby"}},
		{name: "Perl", extensions: []string{"pl"}, programs: []string{"perl"}},
		{name: "Go", extensions: []string{"go"}, programs: []string{"go"}, build: `build -o "$program"`},
		{name: "C", extensions: []string{"c"}, programs: []string{"cc", "gcc", "clang"}, build: `-o "$program"`, after: "-lm"},
		{name: "C++", extensions: []string{"cpp", "cc", "cxx"}, programs: []string{"c++", "g++", "clang++"}, build: `-o "$program"`},
		{name: "Rust", extensions: []string{"rs"}, programs: []string{"rustc"}, build: `--edition 2021 -o "$program"`},
		{name: "Java", extensions: []string{"java"}, programs: []string{"java"}},
	}
}

// languageOf returns the language with an extension, given with or without its dot.
func languageOf(extension string) (language, bool) {
	extension = strings.ToLower(strings.TrimPrefix(extension, "."))
	for _, l := range languages() {
		if slices.Contains(l.extensions, extension) {
			return l, true
		}
	}
	return language{}, false
}

// knownExtensions lists every extension, for messages.
func knownExtensions() string {
	var all []string
	for _, l := range languages() {
		all = append(all, l.extensions...)
	}
	return strings.Join(all, " ")
}

func (l language) compiled() bool { return l.build != "" }

// command is the argv that runs file with args, program being the interpreter or compiler that was found.
//
// A compiled program is built and then takes the shell's place, so that its status and signals are the run's own. File
// and arguments reach the shell as parameters and are never read as shell text.
func (l language) command(program, file string, args []string) []string {
	if !l.compiled() {
		argv := append([]string{program}, l.flags...)
		return append(append(argv, file), args...)
	}
	script := strings.Join([]string{
		`source=$0`,
		`program=$(mktemp -d "${TMPDIR:-.}/build.XXXXXX")/program || exit`,
		strings.TrimSpace(shellQuote(program)+` `+l.build+` "$source" `+l.after) + ` || exit`,
		`exec "$program" "$@"`,
	}, "\n")
	return append([]string{"sh", "-c", script, file}, args...)
}

// operand is name in a form that no interpreter takes for an option.
func operand(name string) string {
	if strings.HasPrefix(name, "-") {
		return "./" + name
	}
	return name
}

// shebang returns the interpreter that a program's first line names, and its argument if it has one: "python3" for
// "#!/usr/bin/env python3". The interpreter is a bare name, to be looked up in the image.
func shebang(source []byte) []string {
	line, _, _ := strings.Cut(string(source[:min(len(source), 256)]), "\n")
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil
	}
	fields := strings.Fields(rest)
	if len(fields) > 0 && path.Base(fields[0]) == "env" {
		fields = fields[1:]
		if len(fields) > 0 && fields[0] == "-S" {
			fields = fields[1:]
		}
	}
	if len(fields) == 0 {
		return nil
	}
	fields[0] = path.Base(fields[0])
	return fields
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
