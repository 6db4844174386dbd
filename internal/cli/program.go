package cli

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
	"github.com/belljar/belljar/internal/local"
)

// program is what the command line asks to run: a command of the image, or a source file and how to run it.
type program struct {
	argv  []string
	lang  string   // of the source file that argv begins with, which is compiled; "" for what runs as it is
	files []source // the source file, if there is one
	exec  bool     // the workspace must allow execution
	notes []string
	stdin bool // the source was standard input
}

// program reads --code and the positional arguments: FILE [args], - [args], or -- CMD [args].
func (r *runCommand) program(ctx context.Context, c *console) (program, error) {
	args := r.Args
	if r.Code != nil {
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		return r.code(ctx, c, *r.Code, args)
	}
	if len(args) > 0 && args[0] == "--" {
		if len(args) == 1 || args[1] == "" {
			return program{}, mistake(r.usage("-- CMD [ARGS]"), "no command after --")
		}
		if r.Lang != "" {
			return program{}, mistake("leave out --lang, or name a file", "--lang does not go with a command")
		}
		return program{argv: args[1:]}, nil
	}
	if len(args) == 0 || args[0] == "" {
		return program{}, mistake(r.usage("FILE")+", or "+r.usage("-- CMD [ARGS]"), "nothing to run")
	}
	if args[0] == "-" {
		return r.standardInput(ctx, c, args[1:])
	}
	return r.file(ctx, c, args[0], args[1:])
}

// strayFlag warns of a flag of ours among the arguments of a program: it reaches the program, and what it was meant to limit
// is not limited.
func (r *runCommand) strayFlag(c *console) {
	if len(r.Args) == 0 || r.Args[0] == "--" {
		return
	}
	args, what, before := r.Args[1:], "file", r.Args[0]
	if r.Code != nil {
		args, what, before = r.Args, "code", "-c"
	}
	for _, arg := range args {
		if arg == "--" {
			return
		}
		if name, _, _ := strings.Cut(arg, "="); slices.Contains(c.flags, name) {
			c.Note("%s after the %s goes to the program; put it before %s", name, what, before)
			return
		}
	}
}

// usage is how to say that to run, or to session run.
func (r *runCommand) usage(what string) string {
	if r.session != "" {
		return "belljar session run SESSION " + what
	}
	return "belljar run " + what
}

// file is a program in a file.
func (r *runCommand) file(ctx context.Context, c *console, name string, args []string) (program, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		hint := ""
		if found := newHostImage().find(name); found != "" && !strings.ContainsRune(name, '/') {
			hint = "to run the command " + name + ": " + r.usage("-- "+name)
		}
		return program{}, mistake(hint, "%s: %s", name, reason(err))
	case info.IsDir():
		return program{}, mistake("name a file in it, and send the rest with --dir "+name, "%s is a directory", name)
	case !info.Mode().IsRegular():
		return program{}, mistake("send it through standard input: belljar run --lang py - <"+name, "%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return program{}, mistake("", "%s: %s", name, reason(err))
	}
	defer f.Close()
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return program{}, mistake("", "%s: %s", name, reason(err))
	}
	src := source{dst: filepath.Base(name), path: name, info: info}
	extension := filepath.Ext(src.dst)
	if r.Lang != "" {
		extension = r.Lang
	}
	if l, ok := languageOf(extension); ok {
		return r.source(ctx, c, l, src, args)
	}
	if r.Lang != "" {
		return program{}, r.unknownLang()
	}
	if line := shebang(head[:n]); line != nil {
		return r.interpreted(c, line, src, args)
	}
	what := "files ending in " + extension
	if extension == "" || extension == src.dst {
		what = src.dst + ", which has no extension and no #! line"
	}
	return program{}, mistake("say it with --lang, one of: "+knownExtensions(), "no interpreter is known for %s", what)
}

// maxStdinProgram is the largest program that is read from standard input.
const maxStdinProgram = 16 << 20

// standardInput is a program that comes through standard input: in the language of --lang, else of its #! line, else
// a shell script, as everywhere on Unix.
func (r *runCommand) standardInput(ctx context.Context, c *console, args []string) (program, error) {
	if r.Interactive {
		return program{}, mistake("put the program in a file", "-i does not go with a program from standard input")
	}
	l, known := languageOf(r.Lang)
	if r.Lang != "" && !known {
		return program{}, r.unknownLang()
	}
	if c.stdin == nil {
		return program{}, mistake("", "standard input is closed")
	}
	text, err := io.ReadAll(io.LimitReader(c.stdin, maxStdinProgram+1))
	switch {
	case err != nil:
		return program{}, mistake("", "standard input: %s", reason(err))
	case len(text) > maxStdinProgram:
		return program{}, mistake("put it in a file", "the program on standard input is larger than %d MiB", maxStdinProgram>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return program{}, mistake("", "the program on standard input is empty")
	}
	line := shebang(text)
	src := source{dst: "main", content: text}
	var p program
	switch {
	case known:
		src.dst = "main." + l.Extensions[0]
		p, err = r.source(ctx, c, l, src, args)
	case line != nil:
		p, err = r.interpreted(c, line, src, args)
	default:
		l, _ = languageOf("sh")
		src.dst = "main.sh"
		p, err = r.source(ctx, c, l, src, args)
		p.notes = append(p.notes, "no --lang and no #! line: running standard input as a shell script")
	}
	p.stdin = true
	return p, err
}

func (r *runCommand) unknownLang() error {
	return mistake("one of: "+knownExtensions(), "--lang: %q is not known", r.Lang)
}

// source is a program in a language that Belljar knows.
func (r *runCommand) source(ctx context.Context, c *console, l belljar.Language, src source, args []string) (program, error) {
	found, err := r.lookup(c, l.Name, l.Programs)
	if err != nil {
		return program{}, err
	}
	if l.Name == "TypeScript" && r.hostImage() {
		if err := stripsTypes(ctx, found); err != nil {
			return program{}, err
		}
	}
	if !l.Compiled() {
		return program{argv: l.Command(found, src.dst, args), files: []source{src}}, nil
	}
	if l.GoesByText() {
		if src.dst, err = r.nameByText(l, src); err != nil {
			return program{}, err
		}
	}
	p := program{argv: append([]string{src.dst}, args...), lang: l.Aliases[0], files: []source{src}}
	if l.Executed() && !r.WorkspaceExec {
		p.exec = true
		p.notes = append(p.notes, fmt.Sprintf("%s is compiled, so programs in the workspace may be executed (workspace_exec)", l.Name))
	}
	return p, nil
}

// nameByText is what a source is called in the workspace so that its compiler takes it.
func (r *runCommand) nameByText(l belljar.Language, src source) (string, error) {
	text := src.content
	if src.path != "" {
		f, err := os.Open(src.path)
		if err == nil {
			defer f.Close()
			text, err = io.ReadAll(io.LimitReader(f, maxStdinProgram))
		}
		if err != nil {
			return "", mistake("", "%s: %s", src.path, reason(err))
		}
	}
	if name := l.FileOf(string(text)); name != l.File() {
		return name, nil
	}
	return src.dst, nil
}

// interpreted is a program that names its interpreter in its first line.
func (r *runCommand) interpreted(c *console, line []string, src source, args []string) (program, error) {
	found, err := r.lookup(c, "its #! line", line[:1])
	if err != nil {
		return program{}, err
	}
	argv := append([]string{cmp.Or(found, line[0])}, line[1:]...)
	return program{argv: append(append(argv, operand(src.dst)), args...), files: []source{src}}, nil
}

// hostImage reports whether the run sees this machine's own programs.
func (r *runCommand) hostImage() bool {
	return !r.remote && (r.Image == "" || r.Image == local.HostImage)
}

// lookup returns what the first of programs that the image has is called inside; "" where only the run finds out what
// its image holds.
func (r *runCommand) lookup(c *console, what string, programs []string) (string, error) {
	if !r.hostImage() {
		return "", nil
	}
	for _, name := range programs {
		if found := newHostImage().find(name); found != "" {
			return found, nil
		}
	}
	hint := "install it under /usr, or use an --image that has it"
	path, _ := c.getenv("PATH")
	for _, name := range programs {
		if place := elsewhere(name, path); place != "" {
			hint = fmt.Sprintf("%s is outside /usr, where no sandbox sees it; install it under /usr", place)
			break
		}
	}
	return "", mistake(hint, "%s needs %s, which the image lacks", what, strings.Join(programs, " or "))
}

// stripsTypes checks that node is new enough to run TypeScript as it is.
func stripsTypes(ctx context.Context, node string) error {
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return mistake("", "asking node for its version: %s", reason(err))
	}
	version := strings.TrimSpace(string(out))
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return mistake("", "node reports version %q", version)
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return mistake("", "node reports version %q", version)
	}
	if major < 22 || major == 22 && minor < 6 {
		return mistake("install node 22.6 or later under /usr, or compile to JavaScript first", "node %s cannot run TypeScript", version)
	}
	return nil
}

// reason is the short form of an error that has the file's name in front already.
func reason(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			return err.Error()
		}
		err = inner.Unwrap()
	}
}
