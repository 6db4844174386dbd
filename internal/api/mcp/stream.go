package mcp

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// printed is what a result holds of one stream of a run.
type printed struct {
	Text      string // as models read it: what is no UTF-8 is written \xNN
	Data      string // as programs read it, in Encoding
	Encoding  string // utf8 | base64
	Truncated bool
	Bytes     int64 // of the whole stream, as far as its log has it
	Left      int64 // of them that were left out here
	Binary    bool
}

// excerpt cuts an output that [belljar.Printed] has collected down to room bytes: half from the beginning, half from the end.
// text is it in encoding; omitted bytes of it were left out already, at the offset at.
func excerpt(text, encoding string, at, omitted int64, capped bool, room int) printed {
	raw := []byte(text)
	if encoding == "base64" {
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err == nil { // it is ours
			raw = decoded
		}
	}
	p := printed{Encoding: encoding, Bytes: int64(len(raw)) + omitted, Truncated: capped || omitted > 0}
	head, tail := raw, []byte(nil)
	if len(raw) > room || omitted > 0 {
		half := room / 2
		first := len(raw)
		if omitted > 0 {
			first = int(at) // what follows it is not what was printed next
		}
		head = api.WholeEnd(raw[:min(half, first)])
		tail = api.WholeStart(raw[max(first, len(raw)-half):])
		if omitted == 0 {
			tail = api.WholeStart(raw[len(raw)-half:])
		}
		p.Left = p.Bytes - int64(len(head)+len(tail))
		p.Truncated = true
	}
	p.Binary = encoding == "base64"
	gap := ""
	if p.Left > 0 {
		gap = fmt.Sprintf("\n[… %d bytes left out here …]\n", p.Left)
	}
	p.Text = readable(head) + gap + readable(tail)
	kept := append(head[:len(head):len(head)], tail...)
	if p.Binary {
		p.Data = base64.StdEncoding.EncodeToString(kept)
	} else {
		p.Data = string(head) + gap + string(tail)
	}
	return p
}

// readable is what was printed, with what is no UTF-8, and NULs, written as \xNN.
func readable(raw []byte) string {
	if utf8.Valid(raw) && !strings.ContainsRune(string(raw), 0) {
		return string(raw)
	}
	var b strings.Builder
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		if r == utf8.RuneError && n == 1 || r == 0 {
			fmt.Fprintf(&b, `\x%02x`, raw[0])
			n = 1
		} else {
			b.Write(raw[:n])
		}
		raw = raw[n:]
	}
	return b.String()
}

// streams are both streams of a run, for a result.
func streams(out *belljar.Output, room int) (stdout, stderr printed) {
	if out == nil {
		return printed{Encoding: "utf8"}, printed{Encoding: "utf8"}
	}
	stdout = excerpt(out.Stdout, out.StdoutEncoding, out.StdoutOmittedAt, out.StdoutOmittedBytes, out.StdoutTruncated, room)
	stderr = excerpt(out.Stderr, out.StderrEncoding, out.StderrOmittedAt, out.StderrOmittedBytes, out.StderrTruncated, room)
	return stdout, stderr
}

// section is a stream as a part of a text; "" if nothing was printed on it.
func (p printed) section(name string) string {
	if p.Bytes == 0 {
		return ""
	}
	about := ""
	if p.Binary {
		about = ` (binary: bytes that are not text are written \xNN)`
	}
	text := p.Text
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return "\n" + name + about + ":\n" + text
}

// report is how a run ended and what it printed. more says how to get what is left out of it.
func report(run belljar.Run, stdout, stderr printed, more string) string {
	return headline(run) + "\n" + stdout.section("stdout") + stderr.section("stderr") + lost(stdout, stderr, more)
}

// lost says what is missing, and how to get it; "" if nothing is.
func lost(stdout, stderr printed, more string) string {
	var parts []string
	for _, s := range []struct {
		name string
		p    printed
	}{{"stdout", stdout}, {"stderr", stderr}} {
		if s.p.Truncated {
			parts = append(parts, fmt.Sprintf("%s is truncated (%d bytes were printed, %d of them are not shown)", s.name, s.p.Bytes, s.p.Left))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "\nnote: " + strings.Join(parts, "; ") + ". " + more + "\n"
}
