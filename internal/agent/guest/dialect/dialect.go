//go:build linux

// Package dialect drives shells: it makes the lines that an agent sends to them, and parses their reports.
package dialect

import (
	"bytes"
	"strconv"
)

// Dialect describes how to drive a shell. The lines are constant except for a command's id and the names of its streams. The caller's
// text is in a file, as one quoted word, and cannot become part of them.
type Dialect struct {
	Program string
	Args    []string
	Setup   string // its first line
	prefix  string // calls builtins, despite aliases and functions
	bash    bool
	Control int // descriptor for its reports
	Text    int // descriptor of the file
}

// All returns the supported shells, the better one first. Scripts usually use small or round numbers as descriptors, so ours are
// neither if the shell supports that.
func All() []Dialect {
	return []Dialect{
		{
			Program: "bash", Args: []string{"bash", "--noprofile", "--norc", "--noediting", "-i"},
			Setup:  "set +o history +H; unset HISTFILE; PS1= PS2=\n",
			prefix: `\builtin `, bash: true, Control: 98, Text: 99,
		},
		{Program: "sh", Args: []string{"sh", "-i"}, Setup: "PS1= PS2=\n", prefix: `\command `, Control: 8, Text: 9},
	}
}

// Fit keeps descriptors below the limit on open files, for a shell that saves and restores them.
func (d Dialect) Fit(files uint64) Dialect {
	if files > 0 && uint64(d.Text) >= files {
		d.Text, d.Control = int(files)-1, int(files)-2
	}
	return d
}

// Lines makes the shell read its file, and report the outcome. The report is a separate line, because an interrupt, or an error
// that returns to the prompt, drops the rest of a line. Bash opens the streams first: then they are still open in a trap of its end.
func (d Dialect) Lines(id, redirect string) string {
	quiet := ""
	if d.bash {
		quiet = quietly
	} else {
		redirect = ""
	}
	return quiet + d.prefix + `\. /proc/self/fd/` + strconv.Itoa(d.Text) + " " + redirect + "\n" + d.Ask(id)
}

// quietly turns set -v off while bash reads our file, which it would print to the command's stderr. In the file, $? is 0 if it was on.
const quietly = `\builtin \test "${-/v/}" != "$-" && \builtin \set +v; `

// Ask makes the shell report the outcome of the previous line. A shell that cannot is broken, but must fail twice: a bash that is
// interrupted while it forks a job takes the next command, this one, for part of that job, waits for it and takes its status. A
// second reply is ignored.
func (d Dialect) Ask(id string) string {
	tell := d.prefix + `\printf '` + id + ` %s' "$?" >&` + strconv.Itoa(d.Control)
	return tell + " || " + tell + ` || \exit` + "\n"
}

// opened is the shell's report that it has opened the command's streams.
const opened = "open"

// File returns the text that the shell reads. It opens the streams, reports that, and runs the command only if both succeed: an
// unreported command would start again in another shell. The command has none of our descriptors: meanwhile the shell keeps them where
// executed programs do not inherit them. In bash, set -v, set -x and traps show nothing of ours, and $? is the last command's status.
func (d Dialect) File(id, redirect string, status int, cmd []byte) []byte {
	control, text := strconv.Itoa(d.Control), strconv.Itoa(d.Text)
	verbose, restore, streams := "", "", ""
	if d.bash {
		verbose = d.prefix + `\test $? != 0 || ` + d.prefix + `\set -v; `
		out, errs := strconv.Itoa(d.Control-1), strconv.Itoa(d.Control-2)
		streams, redirect = " >&"+out+"- 2>&"+errs+"-", out+">&1 "+errs+">&2 >/dev/null 2>&1"
		if status != 0 {
			restore = d.prefix + `\. /proc/self/fd/0 <<<'` + d.prefix + `\return ` + strconv.Itoa(status) + "' || "
		}
	}
	var b bytes.Buffer
	b.Grow(len(cmd) + 256)
	b.WriteString("{ " + verbose)
	b.WriteString(d.prefix + `\printf '` + id + " " + opened + `' >&` + control + " || " + d.prefix + `\return; ` + restore + d.prefix + `\eval `)
	quote(&b, cmd)
	b.WriteString(streams + " " + control + ">&- " + text + ">&-; } " + redirect + "\n")
	return b.Bytes()
}

// quote writes a command as one word. CR LF, which some clients send, becomes LF, as on a terminal.
func quote(b *bytes.Buffer, cmd []byte) {
	cmd = bytes.ReplaceAll(cmd, []byte("\r\n"), []byte("\n"))
	b.WriteByte('\'')
	for {
		at := bytes.IndexByte(cmd, '\'')
		if at < 0 {
			break
		}
		b.Write(cmd[:at])
		b.WriteString(`'\''`)
		cmd = cmd[at+1:]
	}
	b.Write(cmd)
	b.WriteByte('\'')
}

// ParseReport parses a shell's report: an id, and either that it has opened the streams or a status.
func ParseReport(b []byte) (id string, open bool, status int, ok bool) {
	name, word, found := bytes.Cut(b, []byte(" "))
	if !found {
		return "", false, 0, false
	}
	if string(word) == opened {
		return string(name), true, 0, true
	}
	status, err := strconv.Atoi(string(word))
	return string(name), false, status, err == nil && status >= 0 && status <= 255
}
