package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Bounds of the saved state of a shell.
const (
	maxShellState = 512 << 10         // bytes of the shell's output
	maxCommand    = 5 * maxShellState // of the commands for a copy: a quote becomes four characters
	shellTimeMS   = 10_000
	endTime       = 5 * time.Second
	resumeTime    = time.Minute // bounds the end of all commands of a live snapshot
)

// describeShell makes a bash print its variables and functions: for each its kind, its name, its definition, and for a variable its
// values, each terminated by a NUL. It runs in a subshell, which changes nothing. It starts no program for each of them, as a shell may
// have many. Names of its own begin with _belljar.
const describeShell = `[ -n "$BASH_VERSION" ] && ( \builtin set +euvxn -f; \builtin trap - DEBUG ERR RETURN EXIT; \builtin exec 2>/dev/null
\builtin printf 'v\0IFS\0'; \builtin declare -p IFS; \builtin printf '\0\0'
IFS=$' \t\n'
for _belljar_n in $(\builtin compgen -v); do
\builtin printf 'v\0%s\0' "$_belljar_n"; \builtin declare -p "$_belljar_n"; \builtin printf '\0'
if [[ $_belljar_n != _ && $_belljar_n != _belljar* && $_belljar_n != IFS ]]; then
\builtin declare -n _belljar_r="$_belljar_n"; \builtin printf '%s\1' "${_belljar_r[@]}" "${!_belljar_r[@]}"; \builtin unset -n _belljar_r; fi
\builtin printf '\0'
done
for _belljar_n in $(\builtin compgen -A function); do
\builtin printf 'f\0%s\0' "$_belljar_n"; \builtin declare -pf "$_belljar_n"; \builtin printf '\0\0'
done
\builtin printf 'end\0'
)`

// shellState is the initial state of the shell in a copy of a session.
type shellState struct {
	script  []byte
	cwd     string
	omitted []string // variables and functions that contain the value of a secret
}

// captureShell describes a session's shell; nil if it has none, or on failure.
func captureShell(ctx context.Context, w Workspace) *shellState {
	cwd := w.Session().Cwd
	if cwd == "" {
		return nil
	}
	e := w.Execution()
	e.Shell, e.TimeoutMS, e.OutputLimit = &wire.ShellRun{Cmd: []byte(describeShell), Separate: true}, shellTimeMS, maxShellState+1
	out, now, ok := inShell(ctx, w, e)
	if !ok || len(out) > maxShellState {
		return nil
	}
	s := &shellState{cwd: now}
	if !s.read(out, w) {
		return nil
	}
	return s
}

// inShell runs a command in the shell of a session, and returns its output and the shell's resulting directory.
func inShell(ctx context.Context, w Workspace, e wire.Exec) (out []byte, cwd string, ok bool) {
	b := w.Box()
	e.ID, e.UID, e.GID = belljar.NewID(), b.UID, b.GID
	proc, err := b.Exec(ctx, e, "")
	if err != nil {
		if _, refused := errors.AsType[*wire.Error](err); !refused { // it may have started
			_ = b.End(e.ID, 0, endTime)
		}
		return nil, "", false
	}
	defer proc.Close()
	exit, err := proc.Output(ctx, func(_ int64, s wire.Stream, p []byte) error {
		if s == wire.Stdout {
			out = append(out, p...)
		}
		if int64(len(out)) > e.OutputLimit { // a program that took over the agent may exceed the limit
			return errEnough
		}
		return nil
	})
	if err != nil {
		_ = b.End(e.ID, 0, endTime)
		return nil, "", false
	}
	_ = proc.Forget()
	return out, exit.Cwd, exit.Code == 0 && exit.Cause == wire.CauseExited
}

// errEnough ends the output of an agent that exceeds the limit.
var errEnough = errors.New("the agent sends more than it was asked for")

// shellNames are the variables that bash sets itself, or that belong to one shell. All others are the user's.
var shellNames = strings.Fields(`
_ BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_COMPAT BASH_EXECUTION_STRING BASH_LINENO
BASH_LOADABLES_PATH BASH_MONOSECONDS BASH_REMATCH BASH_SOURCE BASH_SUBSHELL BASH_TRAPSIG BASH_VERSINFO BASH_VERSION BASH_XTRACEFD COLUMNS
COMP_CWORD COMP_KEY COMP_LINE COMP_POINT COMP_TYPE COMP_WORDBREAKS COMP_WORDS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS
HISTCMD HOSTNAME HOSTTYPE LINENO LINES MACHTYPE MAILCHECK OLDPWD OPTERR OPTIND OSTYPE PIPESTATUS PPID PS1 PS2 PWD RANDOM SECONDS SHELLOPTS
SHLVL SRANDOM UID`)

// own reports whether a variable is set by the shell itself, or must not be copied to another shell.
func own(name string) bool {
	return slices.Contains(shellNames, name) || name == "BELLJAR_PROXY" || strings.HasPrefix(name, "_belljar")
}

// read converts a shell's output to a script. It returns false if the output is incomplete.
func (s *shellState) read(out []byte, w Workspace) bool {
	private, secret, _ := w.Private()
	fields := bytes.Split(out, []byte{0})
	last, flags := map[string]string{}, map[string]string{}
	for ; len(fields) >= 4; fields = fields[4:] {
		kind, name, text, values := string(fields[0]), string(fields[1]), fields[2], fields[3]
		if words := strings.Fields(string(text)); kind == "v" && len(words) > 1 {
			flags[name] = words[1] // declare -x NAME="value"
			text = literal(text, name, words[1])
		}
		switch {
		case kind != "v" && kind != "f":
			return false
		case len(text) == 0, kind == "v" && (own(name) || private[name]):
			continue
		case slices.ContainsFunc(append(bytes.Split(values, []byte{1}), text), secret):
			s.omitted = append(s.omitted, name)
			continue
		case kind == "v" && (name == "IFS" || name == "POSIXLY_CORRECT"): // last, since it affects how the others are read
			last[name] = cmp.Or(last[name], string(text)) // the first IFS is the shell's own
			continue
		case kind == "f": // separately: a function that cannot be read again must not prevent the others
			text = []byte(`\builtin eval ` + quoted(string(text)))
		}
		s.add(string(text))
	}
	for _, name := range []string{"IFS", "POSIXLY_CORRECT"} {
		if text := last[name]; text != "" { // by then, a function may have the name of the builtin
			s.add(`\builtin eval ` + quoted(`\builtin `+text))
		}
	}
	s.script = append(undo(w.Execution().Env, flags, private), s.script...)
	return len(fields) > 0 && string(fields[0]) == "end"
}

// literal returns the declaration of a variable without the attributes by which bash evaluates or converts a value that it assigns, and
// then those: the value may be older than they are.
func literal(text []byte, name, flags string) []byte {
	const late = "iluc"
	if !strings.ContainsAny(flags, late) || strings.Contains(flags, "n") { // an attribute of a reference would become that of its target
		return text
	}
	first, then := "-", "-"
	for _, c := range flags[1:] {
		if strings.ContainsRune(late+"r", c) {
			then += string(c)
		} else {
			first += string(c)
		}
	}
	if first == "-" {
		first = "--"
	}
	text = bytes.Replace(bytes.TrimRight(text, "\n"), []byte(flags), []byte(first), 1)
	return append(text, "\n\\builtin declare "+then+" "+name...)
}

// undo returns the commands that remove variables of a new shell's environment, or their export, as the user did. flags has the variables
// that the shell still has.
func undo(env []string, flags map[string]string, private map[string]bool) (script []byte) {
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		has, ok := flags[name]
		switch {
		case own(name), private[name], !identifier(name), strings.Contains(has, "x"):
		case ok:
			script = append(script, `\builtin declare +x `+name+"\n"...)
		default:
			script = append(script, `\builtin unset -v `+name+"\n"...)
		}
	}
	return script
}

// identifier reports whether a variable can have a name; bash ignores others in its environment.
func identifier(name string) bool {
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == "" && (name < "0" || name > ":")
}

func (s *shellState) add(text string) {
	s.script = append(append(s.script, strings.TrimRight(text, "\n")...), '\n')
}

// quoted quotes a text as one word of a bash. It has no CR LF, which the agent would convert.
func quoted(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "\r\n", `'$'\r''`+"\n").Replace(text) + "'"
}

// beginShell and endShell enclose the commands for a new shell: its functions may need other options than it has.
const (
	beginShell = `{
\builtin set +o posix
\builtin shopt -q extglob || _belljar_x=1
\builtin shopt -s extglob
`
	endShell = `[[ $_belljar_x ]] && \builtin shopt -u extglob
\builtin unset -v _belljar_x
} 2>/dev/null
`
)

// command returns the commands that copy the state into a new shell.
func (s *shellState) command() []byte {
	cmd := append([]byte(beginShell), s.script...)
	cmd = append(cmd, endShell...)
	if path.IsAbs(s.cwd) {
		cmd = append(cmd, `\builtin cd -- `+quoted(s.cwd)+" 2>/dev/null\n"...)
	}
	return append(cmd, `\builtin true`...)
}

// setShell copies a state into a session's shell, and returns its directory.
func setShell(ctx context.Context, w Workspace, cmd []byte) (string, error) {
	e := w.Execution()
	e.Shell, e.TimeoutMS, e.OutputLimit = &wire.ShellRun{Cmd: cmd, Separate: true}, shellTimeMS, 1<<10
	_, cwd, ok := inShell(ctx, w, e)
	if !ok {
		return "", errShell
	}
	return cwd, nil
}

// errShell means that the shell of a copy could not restore the state of the original.
var errShell = &belljar.Error{
	Code: belljar.CodeConflict, Message: "the shell of a copy could not be set up like that of the session", Hint: "make a snapshot, and sessions of that, which begin with a new shell",
}
