package thread

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/belljar/belljar/internal/char"
)

// Limits of a command, in bytes and levels. The parser is recursive, so deep nesting would cost too much. maxInside limits the
// programs that a simple command makes other programs run: each is checked with all the words after it.
const (
	maxCommand = 64 << 10
	maxNesting = 200
	maxInside  = 50
)

// Guard refuses commands that are not on a list (docs/compatibility.md#thread-api). It keeps an agent to the intended
// programs and is not a protection: an allowed interpreter can run anything. The sandbox is the protection.
//
// It parses a command as bash does and checks each word that names a program: in pipes, lists, substitutions, subshells,
// functions, after redirections, and as an argument of programs that run others (find -exec, env, xargs, bash -c …). It
// refuses a name that is known only when the command runs. It allows keywords (if, for, [[ …), assignments, and functions
// after their definition, if the definition is certain to have run: a statement of its own, not in a condition, a list, a
// pipe or a subshell.
type Guard struct {
	allowed []string
	denied  []*regexp.Regexp
}

// AllowedCommands are the default programs of the thread API.
func AllowedCommands() []string {
	return []string{
		"jq", "awk", "grep", "sed", "sort", "uniq", "head", "tail", "wc", "cut", "tr", "cat", "echo", "date", "find", "ls",
		"python3", "python",
	}
}

// DeniedPatterns are the default patterns of the thread API: regular expressions that ignore case.
func DeniedPatterns() []string {
	return []string{`\brm\b`, `\bmv\b`, `\bdd\b`, `\bcurl\b`, `\bwget\b`, `\bssh\b`, `\bsudo\b`}
}

// NewGuard returns a guard. A nil list means the default. An empty list of allowed commands allows all programs, so that
// only the patterns apply. Patterns are RE2.
func NewGuard(allowed, denied []string) (*Guard, error) {
	if allowed == nil {
		allowed = AllowedCommands()
	}
	if denied == nil {
		denied = DeniedPatterns()
	}
	g := &Guard{allowed: slices.Sorted(slices.Values(allowed))}
	for _, pattern := range denied {
		re, err := regexp.Compile("(?i)" + pattern)
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", pattern, err)
		}
		g.denied = append(g.denied, re)
	}
	return g, nil
}

// refusal is the reason why a command is refused, in the API's text.
type refusal struct {
	message string
	pattern string // the denied pattern that matched; "" for another reason
}

func (r *refusal) Error() string { return r.message }

// Check returns nil for a command that may run. Patterns come first. They apply to the whole text without its quoted parts, so
// that grep "rm" is allowed, and to each simple command as the shell reads it: 'rm' is rm.
func (g *Guard) Check(command string) error {
	if strings.TrimSpace(command) == "" {
		return &refusal{message: "Empty command"}
	}
	if len(command) > maxCommand {
		return &refusal{message: fmt.Sprintf("Command is longer than %d bytes", maxCommand)}
	}
	if deep(command) {
		return &refusal{message: "Invalid command syntax: nested too deeply"}
	}
	w := &walk{guard: g, functions: map[string]uint{}}
	if err := w.script(command); err != nil {
		return err
	}
	return nil
}

// deep reports whether brackets or keywords might be nested too deeply. It counts without parsing: it may count text as
// nesting, but no command written by hand has so much of it.
func deep(command string) bool {
	depth, deepest, words := 0, 0, 0
	for _, c := range []byte(command) {
		switch c {
		case '(', '{', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
	}
	for word := range strings.FieldsSeq(command) {
		switch word {
		case "if", "while", "until", "for", "case", "select", "!", "time", "coproc", "then", "do", "else", "elif":
			words++
		}
	}
	ticks := strings.Count(command, "`")
	return deepest > maxNesting || words > 10*maxNesting || ticks > 10*maxNesting || strings.Count(command, "(") > 20*maxNesting
}

// walk checks one command, and the scripts inside it.
type walk struct {
	guard     *Guard
	functions map[string]uint // offset after which each is defined
	at        uint            // offset of the current command
	depth     int             // of scripts in scripts
	inside    int             // programs that the current command makes others run, also in scripts
	fault     error
}

// script checks a shell script.
func (w *walk) script(text string) error {
	if w.depth++; w.depth > 8 {
		return &refusal{message: "Invalid command syntax: nested too deeply"}
	}
	defer func() { w.depth-- }()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	if err == nil {
		text = unquoted(text, file)
	}
	if denied := w.guard.match(text); denied != nil {
		return denied
	}
	if err != nil {
		return &refusal{message: fmt.Sprintf("Invalid command syntax: %v", err)}
	}
	outer, at := w.functions, w.at
	defer func() { w.functions, w.at = outer, at }()
	w.functions = map[string]uint{} // a nested script has a shell of its own, or may never run
	for _, stmt := range file.Stmts {
		if name, ok := defines(stmt); ok {
			if _, again := w.functions[name]; !again {
				w.functions[name] = stmt.End().Offset()
			}
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if w.fault == nil && n != nil {
			w.at = n.Pos().Offset()
			w.fault = w.node(n)
		}
		return w.fault == nil
	})
	return w.fault
}

// defines returns the function that a statement defines for later statements. In a pipe the parser takes the rest for the
// function's body. Another process defines that function, so it does not count.
func defines(stmt *syntax.Stmt) (name string, ok bool) {
	f, ok := stmt.Cmd.(*syntax.FuncDecl)
	if !ok || f.Name == nil || f.Body == nil {
		return "", false
	}
	for _, s := range []*syntax.Stmt{stmt, f.Body} {
		if s.Background || s.Coprocess {
			return "", false
		}
	}
	switch f.Body.Cmd.(type) {
	case *syntax.Block, *syntax.Subshell:
		return f.Name.Value, true
	default:
		return "", false
	}
}

// node checks a node that may name a program.
func (w *walk) node(n syntax.Node) error {
	switch n := n.(type) {
	case *syntax.CallExpr:
		if w.depth == 1 {
			w.inside = 0
		}
		if len(n.Args) > 0 {
			return w.call(n.Args)
		}
	case *syntax.DeclClause:
		return w.name(n.Variant.Value)
	case *syntax.LetClause:
		return w.name("let")
	case *syntax.FuncDecl:
		if n.Name != nil { // a function must not have a denied name
			return w.guard.match(n.Name.Value)
		}
	}
	return nil
}

// call checks a simple command.
func (w *walk) call(words []*syntax.Word) error {
	name, literal := literalOf(words[0])
	if !literal {
		return unknowable(words[0])
	}
	if err := w.guard.match(plain(name, words[1:])); err != nil {
		return err
	}
	if err := w.name(name); err != nil {
		return err
	}
	return w.inner(name, words[1:])
}

// name checks the name of a program.
func (w *walk) name(name string) error {
	g := w.guard
	if len(g.allowed) == 0 || slices.Contains(g.allowed, name) {
		return nil
	}
	if from, defined := w.functions[name]; defined && w.at >= from {
		return nil
	}
	return &refusal{message: fmt.Sprintf("Command '%s' not in whitelist. Allowed: %s", char.Short(name, 100), strings.Join(g.allowed, ", "))}
}

// match looks for denied patterns.
func (g *Guard) match(text string) error {
	for _, re := range g.denied {
		if re.MatchString(text) {
			pattern := strings.TrimPrefix(re.String(), "(?i)")
			return &refusal{message: "Command contains forbidden pattern: " + pattern, pattern: pattern}
		}
	}
	return nil
}

func unknowable(word *syntax.Word) error {
	var text strings.Builder
	_ = syntax.NewPrinter().Print(&text, word) // only for the message
	shown := strings.ToValidUTF8(text.String()[:min(100, text.Len())], "")
	return &refusal{message: fmt.Sprintf("Command '%s' is known only when it runs: name a program", shown)}
}
