package thread

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what the guard reads. A parser descends once for each level of a command, and a command of nothing but
// brackets must not cost more than it is worth.
const (
	maxCommand = 64 << 10
	maxNesting = 200
)

// Guard refuses commands that are not on a list (docs/compatibility.md#thread-api). It keeps an agent on its path and is no wall: who
// may call an interpreter may do what that can. The sandbox is the wall.
//
// It parses a command as bash does and looks at each word that names a program, wherever it stands: in pipes, lists,
// substitutions, subshells, functions, behind redirections, and as an argument of those that run other programs
// (find -exec, env, xargs, bash -c …). A name that is known only when the command runs is refused. Words of the language
// itself (if, for, [[ …) are free, as are assignments, and functions behind their definition, if that is certain to have
// been carried out: where it stands by itself, and not in a condition, a list, a pipe or a subshell.
type Guard struct {
	allowed []string
	denied  []*regexp.Regexp
}

// AllowedCommands are those of the thread API.
func AllowedCommands() []string {
	return []string{
		"jq", "awk", "grep", "sed", "sort", "uniq", "head", "tail", "wc", "cut", "tr", "cat", "echo", "date", "find", "ls",
		"python3", "python",
	}
}

// DeniedPatterns are those of the thread API: regular expressions, matched without regard to case.
func DeniedPatterns() []string {
	return []string{`\brm\b`, `\bmv\b`, `\bdd\b`, `\bcurl\b`, `\bwget\b`, `\bssh\b`, `\bsudo\b`}
}

// NewGuard returns a guard. A nil list is the API's; an empty list of allowed commands allows all, so that only patterns
// count. A pattern is one of RE2.
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

// refusal is why a command is not run, in the API's words.
type refusal struct {
	message string
	pattern string // that it matched; "" if it was something else
}

func (r *refusal) Error() string { return r.message }

// Check returns nil for a command that may run. Patterns are matched against each simple command without what is quoted in
// its arguments, so that grep "rm" may be asked.
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

// deep reports whether brackets, or words that open a level, might nest beyond the bound. It counts and does not parse:
// what it takes for nesting may be text, but so much of it is not written by hand.
func deep(command string) bool {
	depth, most, words := 0, 0, 0
	for _, c := range []byte(command) {
		switch c {
		case '(', '{', '[':
			depth++
			most = max(most, depth)
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
	return most > maxNesting || words > 10*maxNesting || ticks > 10*maxNesting || strings.Count(command, "(") > 20*maxNesting
}

// walk looks through one command, and the scripts inside it.
type walk struct {
	guard     *Guard
	functions map[string]uint // where in the script each is defined from
	at        uint            // where in the script a command is that is looked at
	depth     int             // of scripts in scripts
	fault     error
}

// script checks a text that a shell would run.
func (w *walk) script(text string) error {
	if w.depth++; w.depth > 8 {
		return &refusal{message: "Invalid command syntax: nested too deeply"}
	}
	defer func() { w.depth-- }()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return &refusal{message: fmt.Sprintf("Invalid command syntax: %v", err)}
	}
	outer, at := w.functions, w.at
	defer func() { w.functions, w.at = outer, at }()
	w.functions = map[string]uint{} // a script in a script is a shell's of its own, or may never be run
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

// defines returns the function that a statement defines for those behind it. The parser takes what follows a definition in
// a pipe for its body, which makes it another process's.
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

// node checks what may name a program.
func (w *walk) node(n syntax.Node) error {
	switch n := n.(type) {
	case *syntax.CallExpr:
		if len(n.Args) > 0 {
			return w.call(n.Args)
		}
	case *syntax.DeclClause:
		return w.name(n.Variant.Value)
	case *syntax.LetClause:
		return w.name("let")
	case *syntax.FuncDecl:
		if n.Name != nil { // nobody may call cat and mean a function
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
	shown := name
	if len(shown) > 100 {
		shown = strings.ToValidUTF8(shown[:100], "") + "…"
	}
	return &refusal{message: fmt.Sprintf("Command '%s' not in whitelist. Allowed: %s", shown, strings.Join(g.allowed, ", "))}
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
	_ = syntax.NewPrinter().Print(&text, word) // what cannot be printed is not shown
	shown := strings.ToValidUTF8(text.String()[:min(100, text.Len())], "")
	return &refusal{message: fmt.Sprintf("Command '%s' is known only when it runs: name a program", shown)}
}
