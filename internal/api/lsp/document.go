package lsp

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"
)

// document is an open text of the editor. It is immutable: a change replaces it.
type document struct {
	uri      string
	path     string // "" for one without a file
	language string
	version  int
	text     string
	edited   bool // it differs from its file
}

// unsaved reports whether a text that the editor opens differs from its file: editors restore unsaved text after a restart. Line
// ends do not count, because editors change them. A file in another encoding cannot be compared, and counts as equal.
func unsaved(file, text string) bool {
	raw, err := onDisk(file, mostBody)
	if err != nil {
		return file != "" && errors.Is(err, fs.ErrNotExist)
	}
	return utf8.Valid(raw) && plain(string(raw)) != plain(text)
}

// plain returns a text without a byte order mark, the CRs of line ends, and the last line end.
func plain(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n"), "\n")
}

// onDisk reads a file of at most that many bytes.
func onDisk(file string, most int64) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, errors.New("it is no file, or too long")
	}
	return os.ReadFile(file)
}

// encoding counts the characters of a line as the client does.
type encoding bool

const (
	utf16Units encoding = false
	utf8Units  encoding = true
)

func (e encoding) String() string {
	if e == utf8Units {
		return "utf-8"
	}
	return "utf-16"
}

// lineAt returns where a line begins and ends, without its end; false if there is none. LF, CRLF and CR end lines.
func lineAt(text string, line int) (from, to int, ok bool) {
	for ; ; line-- {
		end, next := lineEnd(text, from)
		if line <= 0 {
			return from, end, line == 0
		}
		if next < 0 {
			return len(text), len(text), false
		}
		from = next
	}
}

// lineEnd returns where the line that begins at from ends, and where the next one begins; -1 for none.
func lineEnd(text string, from int) (end, next int) {
	i := strings.IndexAny(text[from:], "\r\n")
	if i < 0 {
		return len(text), -1
	}
	i += from
	if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
		return i, i + 2
	}
	return i, i + 1
}

// offset returns the byte offset of a position in a text, at most the end of its line.
func (e encoding) offset(text string, p position) int {
	from, to, ok := lineAt(text, max(p.Line, 0))
	if !ok {
		return len(text)
	}
	return from + e.bytes(text[from:to], p.Character)
}

// bytes returns the length of the first n units of a line. It never splits a character.
func (e encoding) bytes(line string, n int) int {
	at := 0
	for at < len(line) && n > 0 {
		r, size := utf8.DecodeRuneInString(line[at:])
		if n -= e.width(r, size); n < 0 {
			break
		}
		at += size
	}
	return at
}

// units returns the length of a piece of a line in units.
func (e encoding) units(piece string) (n int) {
	for i := 0; i < len(piece); {
		r, size := utf8.DecodeRuneInString(piece[i:])
		n += e.width(r, size)
		i += size
	}
	return n
}

func (e encoding) width(r rune, size int) int {
	switch {
	case e == utf8Units:
		return size
	case r > 0xffff:
		return 2
	}
	return 1
}

// apply applies one change.
func (e encoding) apply(text string, c contentChange) string {
	if c.Range == nil {
		return c.Text
	}
	from, to := e.offset(text, c.Range.Start), e.offset(text, c.Range.End)
	if to < from {
		from, to = to, from
	}
	return text[:from] + c.Text + text[to:]
}

// lineCount returns the number of line ends in a text.
func lineCount(text string) (n int) {
	for at := 0; ; n++ {
		_, next := lineEnd(text, at)
		if next < 0 {
			return n
		}
		at = next
	}
}

// trimmed returns the range of a line without its leading and trailing blanks.
func (e encoding) trimmed(text string, line int) span {
	from, to, ok := lineAt(text, line)
	if !ok {
		return span{position{line, 0}, position{line, 0}}
	}
	content := text[from:to]
	start := len(content) - len(strings.TrimLeft(content, " \t"))
	end := max(len(strings.TrimRight(content, " \t")), start)
	return span{position{line, e.units(content[:start])}, position{line, e.units(content[:end])}}
}
