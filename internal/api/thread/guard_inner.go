package thread

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// runner is a program that runs another, which its arguments name.
type runner struct {
	takes string // one-letter options whose value is the next word
	skip  int    // operands before the program's name
}

// runners are the programs whose last arguments are a command.
func runners() map[string]runner {
	return map[string]runner{
		"env": {takes: "uCS"}, "xargs": {takes: "IEdLnPsa"}, "nohup": {}, "nice": {takes: "n"}, "ionice": {takes: "cnp"},
		"timeout": {takes: "ks", skip: 1}, "setsid": {}, "stdbuf": {takes: "ioe"}, "command": {}, "builtin": {}, "exec": {takes: "a"},
		"time": {takes: "fo"}, "chroot": {skip: 1}, "busybox": {}, "sudo": {takes: "ugCphrtT"}, "watch": {takes: "nd"}, "parallel": {takes: "jNS"},
	}
}

// shells are the programs that take a script after -c.
func shells() []string { return []string{"bash", "sh", "dash", "zsh", "ksh", "ash"} }

func assignment() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`) }

// inner checks the programs that a program runs by its arguments.
func (w *walk) inner(name string, args []*syntax.Word) error {
	switch {
	case name == "find":
		return w.find(args)
	case name == "eval":
		return w.eval(args)
	case slices.Contains(shells(), name):
		return w.shell(args)
	}
	if r, ok := runners()[name]; ok {
		return w.run(name, r, args)
	}
	return nil
}

// runs checks a command that consists of another's arguments.
func (w *walk) runs(words []*syntax.Word) error {
	if w.inside++; w.inside > maxInside {
		return &refusal{message: "Invalid command syntax: nested too deeply"}
	}
	return w.call(words)
}

// find checks the programs of -exec and similar options.
func (w *walk) find(args []*syntax.Word) error {
	for i, arg := range args {
		text, _ := literalOf(arg) // other arguments may be expansions
		switch text {
		case "-exec", "-execdir", "-ok", "-okdir":
			if i+1 < len(args) {
				if err := w.runs(args[i+1:]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// eval checks the script that eval joins from its arguments.
func (w *walk) eval(args []*syntax.Word) error {
	var parts []string
	for _, arg := range args {
		text, known := literalOf(arg)
		if !known {
			return unknowable(arg)
		}
		parts = append(parts, text)
	}
	return w.script(strings.Join(parts, " "))
}

// shell checks the script after -c. A shell that reads its script from a file or from its input is refused.
func (w *walk) shell(args []*syntax.Word) error {
	for i, arg := range args {
		text, known := literalOf(arg)
		if !known {
			return unknowable(arg)
		}
		if !strings.HasPrefix(text, "-") || text == "-" || text == "--" {
			return &refusal{message: "The script is known only when the shell runs: give it with -c"}
		}
		if strings.HasPrefix(text, "--") || !strings.Contains(text, "c") {
			continue
		}
		if i+1 == len(args) {
			break
		}
		script, known := literalOf(args[i+1])
		if !known {
			return unknowable(args[i+1])
		}
		return w.script(script)
	}
	return &refusal{message: "The script is known only when the shell runs: give it with -c"}
}

// run checks the program after a runner's options.
func (w *walk) run(name string, r runner, args []*syntax.Word) error {
	skip := r.skip
	for i := 0; i < len(args); i++ {
		text, known := literalOf(args[i])
		switch {
		case !known:
			return unknowable(args[i])
		case text == "--":
		case name == "env" && assignment().MatchString(text):
		case name == "env" && strings.HasPrefix(text, "--s"): // --split-string, which may be shortened
			return unknowable(args[i])
		case strings.HasPrefix(text, "--"):
			// An option without = has no value here.
		case strings.HasPrefix(text, "-") && len(text) > 1:
			switch at := 1 + strings.IndexAny(text[1:], r.takes); { // the first option with a value takes the rest of the word
			case name == "env" && text[at] == 'S':
				return unknowable(args[i])
			case at == len(text)-1:
				i++
			}
		case skip > 0:
			skip--
		default:
			return w.runs(args[i:])
		}
	}
	return nil
}
