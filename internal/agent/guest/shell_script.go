//go:build linux

package guest

import (
	"bytes"
	"strconv"
)

// dialect is how a shell is driven. The lines are constant but for a command's id: what the caller wrote is in a file,
// as one quoted word, and cannot become part of them.
type dialect struct {
	program string
	args    []string
	setup   string // its first line
	prefix  string // calls what is built in, whatever aliases and functions there are
	control int    // descriptor on which it reports
	text    int    // and of the file
}

// dialects are the shells that we know, the better one first. A script's own descriptors are small numbers, or round ones,
// so ours are neither where the shell can have that.
func dialects() []dialect {
	return []dialect{
		{
			program: "bash", args: []string{"bash", "--noprofile", "--norc", "--noediting", "-i"},
			setup:  "set +o history +H; unset HISTFILE; PS1= PS2=\n",
			prefix: `\builtin `, control: 98, text: 99,
		},
		{
			program: "sh", args: []string{"sh", "-i"}, setup: "PS1= PS2=\n",
			prefix: `\command `, control: 8, text: 9,
		},
	}
}

// fit keeps descriptors below a limit on open files, for a shell that puts them aside and back.
func (d dialect) fit(files uint64) dialect {
	if files > 0 && uint64(d.text) >= files {
		d.text, d.control = int(files)-1, int(files)-2
	}
	return d
}

// lines has the shell read its file, and report the outcome. That is a line of its own: an interrupt, or an error that
// takes the shell back to its prompt, drops the rest of a line.
func (d dialect) lines(id string) string {
	return d.prefix + `\. /proc/self/fd/` + strconv.Itoa(d.text) + "\n" + d.ask(id)
}

// ask has the shell report the outcome of the line before. A shell that no longer can is of no use; but it has to fail
// twice: bash that was interrupted while it gave birth to a job believes that the next command, this one, is still about
// that job, waits for it and takes its status. A second answer is ignored.
func (d dialect) ask(id string) string {
	tell := d.prefix + `\printf '` + id + ` %s' "$?" >&` + strconv.Itoa(d.control)
	return tell + " || " + tell + ` || \exit` + "\n"
}

// opened is what the shell reports when it has the command's streams in hand.
const opened = "open"

// file is what the shell reads: it opens the streams, says so, and evaluates the command if that was possible: one that
// was not reported would begin once more in another shell. The command has neither of our
// descriptors. The shell has put them aside meanwhile, where programs that it executes do not get them.
func (d dialect) file(id, redirect string, cmd []byte) []byte {
	control, text := strconv.Itoa(d.control), strconv.Itoa(d.text)
	var b bytes.Buffer
	b.Grow(len(cmd) + 256)
	b.WriteString("{ " + d.prefix + `\printf '` + id + " " + opened + `' >&` + control + " && " + d.prefix + `\eval `)
	quote(&b, cmd)
	b.WriteString(" " + control + ">&- " + text + ">&-; } " + redirect + "\n")
	return b.Bytes()
}

// quote writes a command as one word. Lines that end with CR LF, as some clients send, end with LF, as from a terminal.
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

// parseTold reads a shell's report: an id, and that it has opened the streams or a status.
func parseTold(b []byte) (id string, open bool, status int, ok bool) {
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
