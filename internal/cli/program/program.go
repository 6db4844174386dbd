// Package program determines what a command line runs: a command, or a source file and its interpreter.
package program

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/transfer"
)

// Program is a command of the image, or a source file and how to run it.
type Program struct {
	Argv     []string
	Lang     string            // of the source file that Argv begins with, if compiled; else ""
	Files    []transfer.Source // the source file, if there is one
	Exec     bool              // the workspace must allow execution
	Notes    []string
	Stdin    bool // the source was standard input
	AsPython bool // the text of Code names no language, and is taken for Python
}

// Arguments holds the program arguments of the command line.
type Arguments struct {
	Args        []string  // FILE [args], - [args], or -- CMD [args]; with Code, only the arguments
	Code        *string   // the text of a program, nil for none
	Lang        string    // its file extension or language; "" if unset
	Host        bool      // uses this machine's own programs
	Exec        bool      // the workspace always allows execution
	Interactive bool      // standard input belongs to the program
	Stdin       io.Reader // possible source of the program; nil if closed
	Path        string    // the caller's own PATH
	Usage       string    // the command line up to the program: belljar run
}

// Read determines what to run.
func (a *Arguments) Read(ctx context.Context) (Program, error) {
	args := a.Args
	if l, ok := belljar.LanguageOf(a.Lang); ok {
		a.Lang = l.Extensions[0]
	}
	if a.Code != nil {
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		return a.code(ctx, *a.Code, args)
	}
	if len(args) > 0 && args[0] == "--" {
		if len(args) == 1 || args[1] == "" {
			return Program{}, mistake.New(a.usage("-- CMD [ARGS]"), "no command after --")
		}
		if a.Lang != "" {
			return Program{}, mistake.New("leave out --lang, or name a file", "--lang does not go with a command")
		}
		return Program{Argv: args[1:]}, nil
	}
	if len(args) == 0 || args[0] == "" {
		return Program{}, mistake.New(a.usage("FILE")+", or "+a.usage("-- CMD [ARGS]"), "nothing to run")
	}
	if args[0] == "-" {
		return a.standardInput(ctx, args[1:])
	}
	return a.file(ctx, args[0], args[1:])
}

// StrayFlag returns a note about a belljar flag among the arguments of a program, or "". The flag reaches the program and sets no
// limit. ours lists flags as the user types them: --timeout, -m.
func (a *Arguments) StrayFlag(ours []string) string {
	if len(a.Args) == 0 || a.Args[0] == "--" {
		return ""
	}
	args, what, before := a.Args[1:], "file", a.Args[0]
	if a.Code != nil {
		args, what, before = a.Args, "code", "-c"
	}
	for _, arg := range args {
		if arg == "--" {
			return ""
		}
		if name, _, _ := strings.Cut(arg, "="); slices.Contains(ours, name) {
			return fmt.Sprintf("%s after the %s goes to the program; put it before %s", name, what, before)
		}
	}
	return ""
}

// usage returns the correct command line.
func (a *Arguments) usage(what string) string { return a.Usage + " " + what }

// file is a program in a file.
func (a *Arguments) file(ctx context.Context, name string, args []string) (Program, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		hint := ""
		command, _, line := strings.Cut(name, " ")
		switch local := !strings.ContainsRune(name, '/') && Find(name) != ""; {
		case line && Find(command) != "":
			hint = "to run a line of a shell: " + a.usage("-- sh -c "+show.Word(name))
		case local, len(args) > 0 && !strings.ContainsAny(name, "/. "):
			hint = "to run the command " + name + ": " + a.usage("-- "+show.Word(name))
		}
		return Program{}, mistake.New(hint, "%s: %s", name, mistake.Reason(err))
	case info.IsDir():
		return Program{}, mistake.New("name a file in it, and send the rest with --dir "+show.Word(name), "%s is a directory", name)
	case !info.Mode().IsRegular():
		return Program{}, mistake.New("send it through standard input: belljar run --lang py - <"+show.Word(name), "%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return Program{}, mistake.New("", "%s: %s", name, mistake.Reason(err))
	}
	defer f.Close()
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return Program{}, mistake.New("", "%s: %s", name, mistake.Reason(err))
	}
	src := transfer.Source{Dst: filepath.Base(name), Path: name, Info: info}
	extension := filepath.Ext(src.Dst)
	if a.Lang != "" {
		extension = a.Lang
	}
	if l, ok := languageOf(extension); ok {
		return a.source(ctx, l, src, args)
	}
	if a.Lang != "" {
		return Program{}, a.unknownLang()
	}
	if line := shebang(head[:n]); line != nil {
		return a.interpreted(line, src, args)
	}
	if bytes.HasPrefix(head, []byte("\x7fELF")) {
		return Program{}, mistake.New("send it as a file of a command: belljar run --workspace-exec --file "+show.Word(name)+" -- "+show.Word("./"+src.Dst), "%s is a compiled program", name)
	}
	what := "files ending in " + extension
	if extension == "" || extension == src.Dst {
		what = src.Dst + ", which has no extension and no #! line"
	}
	return Program{}, mistake.New("name one with --lang: "+knownExtensions(), "no interpreter is known for %s", what)
}

// maxStdinProgram is the largest program, in bytes, that is read from standard input.
const maxStdinProgram = 16 << 20

// standardInput is a program from standard input. Its language is that of --lang, else of its #! line, else a shell script as is
// usual on Unix.
func (a *Arguments) standardInput(ctx context.Context, args []string) (Program, error) {
	if a.Interactive {
		return Program{}, mistake.New("put the program in a file", "-i does not go with a program from standard input")
	}
	l, known := languageOf(a.Lang)
	if a.Lang != "" && !known {
		return Program{}, a.unknownLang()
	}
	if a.Stdin == nil {
		return Program{}, mistake.New("", "standard input is closed")
	}
	text, err := io.ReadAll(io.LimitReader(a.Stdin, maxStdinProgram+1))
	switch {
	case err != nil:
		return Program{}, mistake.New("", "standard input: %s", mistake.Reason(err))
	case len(text) > maxStdinProgram:
		return Program{}, mistake.New("put it in a file", "the program on standard input is larger than %d MiB", maxStdinProgram>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return Program{}, mistake.New("", "the program on standard input is empty")
	}
	line := shebang(text)
	src := transfer.Source{Dst: "main", Content: text}
	var p Program
	switch {
	case known:
		src.Dst = "main." + l.Extensions[0]
		p, err = a.source(ctx, l, src, args)
	case line != nil:
		p, err = a.interpreted(line, src, args)
	default:
		l, _ = languageOf("sh")
		src.Dst = "main.sh"
		p, err = a.source(ctx, l, src, args)
		p.Notes = append(p.Notes, "no --lang and no #! line: running standard input as a shell script")
	}
	p.Stdin = true
	return p, err
}

func (a *Arguments) unknownLang() error {
	return mistake.New("name a language, or its extension: "+knownExtensions(), "--lang: %q is not known", a.Lang)
}

// source is a program in a language that Belljar knows.
func (a *Arguments) source(ctx context.Context, l belljar.Language, src transfer.Source, args []string) (Program, error) {
	found, err := a.lookup(l.Name, l.Programs)
	if err != nil {
		return Program{}, err
	}
	if l.Name == "TypeScript" && a.Host {
		if err := stripsTypes(ctx, newHostImage().place(found)); err != nil {
			return Program{}, err
		}
	}
	if l.Compiled() || l.Name == "TypeScript" {
		src.Dst = withExtension(l, src.Dst)
	}
	if !l.Compiled() {
		return Program{Argv: l.Command(found, src.Dst, args), Files: []transfer.Source{src}}, nil
	}
	if l.GoesByText() {
		if src.Dst, err = a.nameByText(l, src); err != nil {
			return Program{}, err
		}
	}
	p := Program{Argv: append([]string{src.Dst}, args...), Lang: l.Aliases[0], Files: []transfer.Source{src}}
	if l.Executed() && !a.Exec {
		p.Exec = true
		p.Notes = append(p.Notes, fmt.Sprintf("%s is compiled, so programs in the workspace may be executed (workspace_exec)", l.Name))
	}
	return p, nil
}

// withExtension returns a file name with one of the language's extensions: compilers, and node, take the language from it.
func withExtension(l belljar.Language, name string) string {
	extension := filepath.Ext(name)
	if slices.Contains(l.Extensions, strings.TrimPrefix(extension, ".")) {
		return name
	}
	return strings.TrimSuffix(name, extension) + "." + l.Extensions[0]
}

// nameByText returns a file name in the workspace that the source's compiler accepts.
func (a *Arguments) nameByText(l belljar.Language, src transfer.Source) (string, error) {
	text := src.Content
	if src.Path != "" {
		f, err := os.Open(src.Path)
		if err == nil {
			defer f.Close()
			text, err = io.ReadAll(io.LimitReader(f, maxStdinProgram))
		}
		if err != nil {
			return "", mistake.New("", "%s: %s", src.Path, mistake.Reason(err))
		}
	}
	if name := l.FileOf(string(text)); name != l.File() {
		return name, nil
	}
	return src.Dst, nil
}

// interpreted is a program that names its interpreter in its first line.
func (a *Arguments) interpreted(line []string, src transfer.Source, args []string) (Program, error) {
	found, err := a.lookup("its #! line", line[:1])
	if err != nil {
		return Program{}, err
	}
	argv := append([]string{cmp.Or(found, line[0])}, line[1:]...)
	return Program{Argv: append(append(argv, operand(src.Dst)), args...), Files: []transfer.Source{src}}, nil
}

// lookup returns the name inside of the first of programs that the image has. It returns "" for an image whose programs only the
// run can find.
func (a *Arguments) lookup(what string, programs []string) (string, error) {
	if !a.Host {
		return "", nil
	}
	for _, name := range programs {
		if found := Find(name); found != "" {
			return found, nil
		}
	}
	hint := "install it under /usr, or use an --image that has it"
	for _, name := range programs {
		if place := elsewhere(name, a.Path); place != "" {
			hint = fmt.Sprintf("%s is outside /usr, where no sandbox sees it; install it under /usr", place)
			break
		}
	}
	return "", mistake.New(hint, "%s needs %s, which the image lacks", what, strings.Join(programs, " or "))
}

// stripsTypes checks that node is new enough to run TypeScript directly.
func stripsTypes(ctx context.Context, node string) error {
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return mistake.New("", "asking node for its version: %s", mistake.Reason(err))
	}
	version := strings.TrimSpace(string(out))
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return mistake.New("", "node reports version %q", version)
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return mistake.New("", "node reports version %q", version)
	}
	if major < 22 || major == 22 && minor < 6 {
		return mistake.New("install node 22.6 or later under /usr, or compile to JavaScript first", "node %s cannot run TypeScript", version)
	}
	return nil
}
