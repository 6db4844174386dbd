// Package repl is an interactive interpreter in a context: it reads code, executes it, and prints the results.
package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"
	"mvdan.cc/sh/v3/syntax"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/notice"
)

// REPL is an interactive interpreter.
type REPL struct {
	Service        belljar.Service
	Session        string
	Context        belljar.Context
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Notice         *notice.Writer

	lines lines // nil if the input is not a terminal
}

// lines reads lines from a terminal.
type lines interface {
	// read returns a line of code. io.EOF ends the input, errInterrupt discards the line, and errPasted comes with a line that is
	// part of a paste.
	read(prompt string) (string, error)
	// answer reads a line that running code requests.
	answer() (string, error)
	password() (string, error)
	close() error
}

var (
	errInterrupt = errors.New("interrupted")
	errPasted    = errors.New("the line is a part of what was pasted")
)

// Run reads and executes code until the input ends. It executes input from a file or pipe as a whole; status is its exit status.
func (r *REPL) Run(ctx context.Context) (status int, err error) {
	if !r.open(ctx) {
		code, err := unlessSignalled(func() (string, error) {
			all, err := io.ReadAll(io.LimitReader(r.Stdin, 2<<20)) // longer code is refused
			return string(all), err
		})
		if err == nil && strings.TrimSpace(code) != "" {
			status, err = r.execute(ctx, code)
		}
		return status, err
	}
	defer r.lines.close()
	for {
		code, err := r.code()
		switch {
		case slices.Contains(leaving[r.grammar()], strings.TrimSpace(code)), errors.Is(err, io.EOF):
			return 0, nil
		case errors.Is(err, errInterrupt):
			continue
		case err != nil:
			return 0, err
		case strings.TrimSpace(code) == "":
			continue
		}
		if _, err := r.execute(ctx, code); err != nil {
			var refused *belljar.Error
			if !errors.As(err, &refused) || ctx.Err() != nil {
				return 0, err
			}
			if code := refused.Code; code == belljar.CodeNotFound || code == belljar.CodeConflict {
				return 0, err // its session has ended
			}
			r.Notice.Print("%s", refused.Message)
		}
	}
}

// leaving lists the words with which users leave an interpreter, by language.
var leaving = map[string][]string{"python": {"exit", "exit()", "quit", "quit()"}, "javascript": {".exit"}, "bash": {"exit"}}

// code reads lines until the code is complete. Pasted text may have blank lines, and ends with Enter.
func (r *REPL) code() (string, error) {
	prompt, more := map[string][2]string{"python": {">>> ", "... "}, "javascript": {"> ", "... "}, "bash": {"$ ", "> "}}[r.grammar()], ""
	code := ""
	for {
		at := prompt[0]
		if code != "" {
			at = prompt[1]
		}
		line, err := r.lines.read(at)
		pasted := errors.Is(err, errPasted)
		if err != nil && !pasted {
			if errors.Is(err, io.EOF) && code != "" {
				return code, nil
			}
			return "", err
		}
		code += more + line
		more = "\n"
		if !pasted && Complete(r.grammar(), code) {
			return code, nil
		}
	}
}

// grammar returns the language whose syntax the code has.
func (r *REPL) grammar() string {
	if r.Context.Language == "ipython" {
		return "python"
	}
	return r.Context.Language
}

// Complete reports whether code looks complete: its brackets and quotes are closed, and a block of Python ends with an empty line.
func Complete(language, code string) bool {
	if language == "bash" {
		_, err := syntax.NewParser().Parse(strings.NewReader(code+"\n"), "")
		var wrong syntax.ParseError
		unclosed := errors.As(err, &wrong) && strings.HasPrefix(wrong.Text, "unclosed here-document") // not incomplete for the parser
		return !unclosed && !syntax.IsIncomplete(err) && !strings.HasSuffix(code, "\\")
	}
	lines := strings.Split(code, "\n")
	last := strings.TrimRight(lines[len(lines)-1], " \t")
	switch {
	case strings.HasSuffix(last, "\\"), open(language, code):
		return false
	case language == "python" && len(lines) == 1:
		return !opensBlock(last) && !strings.HasPrefix(last, "@")
	case language == "python":
		return !slices.ContainsFunc(lines, opensBlock) || last == ""
	}
	return true
}

// opensBlock reports whether a line of Python ends with a colon, apart from a comment.
func opensBlock(line string) bool {
	before, comment, _ := strings.Cut(line, "#")
	return strings.HasSuffix(strings.TrimRight(before, " \t"), ":") || strings.HasSuffix(strings.TrimRight(comment, " \t"), ":")
}

// open reports whether a bracket or a quote is open.
func open(language, code string) bool {
	var within []string // the closing brackets and quotes that are missing
	for i := 0; i < len(code); i++ {
		rest, quote := code[i:], ""
		if n := len(within); n > 0 && within[n-1] != ")" {
			quote = within[n-1]
		}
		begins := func(closing string) {
			within = append(within, closing)
			i += len(closing) - 1
		}
		ends := func() { within = within[:len(within)-1] }
		switch {
		case quote != "" && quote != "*/" && code[i] == '\\':
			i++
		case quote != "" && strings.HasPrefix(rest, quote):
			i += len(quote) - 1
			ends()
		case quote == "`" && strings.HasPrefix(rest, "${"):
			within = append(within, ")")
			i++
		case quote != "" && code[i] == '\n' && len(quote) == 1 && quote != "`":
			ends() // a mistake, which the interpreter reports
		case quote != "":
		case language == "python" && (strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, `'''`)):
			begins(rest[:3])
		case code[i] == '"' || code[i] == '\'' || code[i] == '`' && language == "javascript":
			begins(rest[:1])
		case strings.HasPrefix(rest, "/*") && language == "javascript":
			begins("*/")
		case code[i] == '#' && language != "javascript", strings.HasPrefix(rest, "//") && language == "javascript":
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				return len(within) > 0
			}
			i += end
		case code[i] == '/' && language == "javascript": // of a regular expression, unless it divides
			before := strings.TrimRight(code[:i], " \t")
			if before == "" || strings.IndexByte("(,=:[!&|?{};\n", before[len(before)-1]) >= 0 {
				begins("/")
			}
		case strings.IndexByte("([{", code[i]) >= 0:
			within = append(within, ")")
		case strings.IndexByte(")]}", code[i]) >= 0 && len(within) == 0:
			return false // an error, too
		case strings.IndexByte(")]}", code[i]) >= 0:
			ends()
		}
	}
	return slices.ContainsFunc(within, func(closing string) bool { return !slices.Contains([]string{`"`, "'", "/"}, closing) })
}

// execute executes code, prints what it shows, and returns its exit status. An interrupt cancels it.
func (r *REPL) execute(ctx context.Context, code string) (status int, err error) {
	// Bash sends no request when code reads input: the read would wait for a line that is never sent.
	asks := r.lines != nil && r.grammar() != "bash"
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	starting, abandon := context.WithCancel(ctx)
	started, done, ended := make(chan string), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		id, early := "", false
		cancel := func() { _ = r.Service.Runs().Cancel(ctx, id) } // a run that has ended is no error
		for {
			select {
			case id = <-started:
				if early {
					cancel()
				}
			case <-interrupts:
				switch {
				case id != "":
					cancel()
				case early:
					abandon() // a second interrupt does not wait for the server
				}
				early = true
			case <-done:
				return
			}
		}
	}()
	defer func() {
		signal.Stop(interrupts)
		close(done)
		<-ended
		abandon()
	}()
	run, err := r.Service.Runs().Start(starting, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: r.Session, Context: r.Context.Name, Code: code, Interactive: asks,
	}})
	switch {
	case err != nil && starting.Err() != nil && ctx.Err() == nil:
		return 0, interrupt.Status(128 + int(syscall.SIGINT))
	case err != nil:
		return 0, err
	}
	started <- run.ID
	var results belljar.ResultReader
	for f, err := range r.Service.Runs().Frames(ctx, run.ID, 1) {
		if err != nil {
			return 0, err
		}
		switch f.Type {
		case belljar.FrameStdout:
			_, err = r.Stdout.Write(f.Output)
		case belljar.FrameStderr:
			_, err = r.Stderr.Write(f.Output)
		case belljar.FrameTruncated:
			r.Notice.Print("the output was cut here: %s", f.Reason)
		case belljar.FrameResult:
			for _, result := range results.Add(f) {
				if result.Type == belljar.ResultInput {
					err = errors.Join(err, r.answer(ctx, run.ID, result))
				} else if text := Text(result); text != "" {
					_, err = fmt.Fprintln(r.Stdout, text)
				}
			}
		}
		if err != nil {
			return 0, err
		}
	}
	if run, err = r.Service.Runs().Get(ctx, run.ID); err != nil {
		return 0, err
	}
	if run.Phase != belljar.PhaseCompleted {
		status = run.ExitStatus()
	}
	if run.Context.Lost() {
		r.Notice.Print("the interpreter was replaced: its variables are gone")
	}
	if run.ReasonCode != "" && run.ReasonCode != belljar.ReasonNonZeroExit && run.ReasonCode != belljar.ReasonCanceledByUser && run.Message != "" {
		r.Notice.Print("%s", run.Message)
	}
	return status, nil
}

// answer sends a line that the code requests.
func (r *REPL) answer(ctx context.Context, run string, asked belljar.Result) error {
	read := r.lines.answer // the prompt has been printed
	if asked.Password {
		read = r.lines.password
	}
	line, err := read()
	stdin, failed := r.Service.Runs().Stdin(ctx, run)
	if failed != nil {
		return nil // the run has ended
	}
	defer stdin.Close()
	var status interrupt.Status
	switch {
	case errors.As(err, &status):
		return errors.Join(err, r.Service.Runs().Cancel(ctx, run))
	case errors.Is(err, errInterrupt):
		return r.Service.Runs().Cancel(ctx, run)
	case err != nil && !errors.Is(err, errPasted):
		_ = stdin.End()
		return nil
	}
	_, _ = stdin.Write([]byte(line + "\n"))
	return nil
}

// Text returns a result as a terminal shows it; "" for stderr and requests for input, which are shown already.
func Text(r belljar.Result) string {
	switch r.Type {
	case belljar.ResultCut:
		return "[" + r.Text + "]"
	case belljar.ResultValue, belljar.ResultDisplay:
	default:
		return ""
	}
	text, _ := r.Data["text/plain"].(string)
	for _, mime := range []string{"text/markdown", "text/latex"} {
		if other, ok := r.Data[mime].(string); ok && text == "" {
			text = other
		}
	}
	var parts []string
	if text != "" {
		parts = append(parts, safe(text))
	}
	for mime := range r.Data {
		if strings.HasPrefix(mime, "image/") {
			parts = append(parts, "["+mime+"]")
		}
	}
	return strings.Join(parts, "\n")
}

// safe removes the characters that control a terminal.
func safe(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return -1
		}
		return c
	}, text)
}

// open prepares the terminal, and reports whether the input is one.
func (r *REPL) open(ctx context.Context) bool {
	f, ok := r.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	t := &typed{fd: int(f.Fd()), keys: &keys{r: f}, shown: r.Stdout}
	t.restart()
	if dir, err := os.UserCacheDir(); err == nil {
		t.history = openHistory(filepath.Join(dir, "belljar", "history-"+r.Context.Language))
	} else {
		t.history = openHistory("")
	}
	t.terminal.History = t.history
	t.terminal.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return r.complete(ctx, t, line, pos)
	}
	r.lines = t
	return true
}

// complete completes a line at a position.
func (r *REPL) complete(ctx context.Context, t *typed, line string, pos int) (string, int, bool) {
	before := line[:pos]
	if strings.TrimSpace(before) == "" {
		return line[:pos] + "    " + line[pos:], pos + 4, true
	}
	c, err := r.Service.Contexts().Complete(ctx, r.Session, r.Context.Name, before)
	if err != nil || len(c.Matches) == 0 || !strings.HasSuffix(before, c.Word) {
		return line, pos, true
	}
	common := c.Matches[0]
	for _, m := range c.Matches {
		for !strings.HasPrefix(m, common) {
			_, n := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-n]
		}
	}
	if len(common) <= len(c.Word) {
		if len(c.Matches) > 1 {
			fmt.Fprintf(t.terminal, "%s\n", safe(strings.Join(c.Matches[:min(len(c.Matches), 60)], "  ")))
		}
		return line, pos, true
	}
	head := strings.TrimSuffix(before, c.Word) + safe(common)
	return head + line[pos:], len(head), true
}
