package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/char"
)

// matcher searches a line.
type matcher interface {
	// find returns the start and end of the first match.
	find(line []byte) (from, to int, ok bool)
	// reach is how many bytes of a line are searched.
	reach() int
}

// How many bytes of a line are searched. An expression costs more per byte.
const (
	textReach       = 256 << 10
	expressionReach = 64 << 10
)

// maxWeight bounds the cost of an expression per byte of text: its size after expanding repetitions.
const maxWeight = 1000

// newMatcher returns the matcher of a search.
func newMatcher(q belljar.FileSearch) (matcher, error) {
	switch {
	case len(q.Content) > maxSearchBytes:
		return nil, fmt.Errorf("longer than %d bytes", maxSearchBytes)
	case !utf8.ValidString(q.Content):
		return nil, errors.New("not valid UTF-8")
	case strings.ContainsRune(q.Content, 0):
		return nil, errors.New("contains a NUL byte")
	case strings.ContainsRune(q.Content, '\n') && !q.Regexp:
		return nil, errors.New("a line has no line break in it")
	case !q.Regexp && !q.IgnoreCase:
		return text(q.Content), nil
	}
	pattern, flags := q.Content, syntax.Perl
	if !q.Regexp {
		pattern = regexp.QuoteMeta(pattern)
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		return nil, fmt.Errorf("not a regular expression of RE2: %w", err)
	}
	if weigh(tree) > maxWeight && q.Regexp {
		return nil, fmt.Errorf("the regular expression is too large with its repetitions written out")
	}
	if q.IgnoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("not a regular expression of RE2: %w", err)
	}
	return expression{compiled}, nil
}

// weigh estimates how many instructions an expression compiles to.
func weigh(tree *syntax.Regexp) int {
	const enough = 1 << 20
	sum := 1 + len(tree.Rune)
	if tree.Op == syntax.OpCharClass {
		sum = 1
	}
	for _, sub := range tree.Sub {
		sum = min(sum+weigh(sub), enough)
	}
	if tree.Op == syntax.OpRepeat {
		sum *= max(tree.Min+1, tree.Max)
	}
	return min(sum, enough)
}

// text matches plain text.
type text string

func (t text) find(line []byte) (from, to int, ok bool) {
	from = bytes.Index(line, []byte(t))
	return from, from + len(t), from >= 0
}

func (text) reach() int { return textReach }

// expression is a regular expression.
type expression struct{ *regexp.Regexp }

func (e expression) find(line []byte) (from, to int, ok bool) {
	at := e.FindIndex(line)
	if at == nil {
		return 0, 0, false
	}
	return at[0], at[1], true
}

func (expression) reach() int { return expressionReach }

// lines reads lines with bounded memory.
type lines struct {
	r      *bufio.Reader
	number int // of the last line read, from 1
}

func newLines(reach int) *lines { return &lines{r: bufio.NewReaderSize(nil, reach)} }

func (l *lines) reset(r io.Reader) {
	l.r.Reset(r)
	l.number = 0
}

// next returns a line without its line break, valid until the next call. For a line that is too long it returns the beginning,
// and cut is true.
func (l *lines) next() (line []byte, cut bool, err error) {
	line, err = l.r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		line, cut = bytes.Clone(line), true
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.r.ReadSlice('\n')
		}
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, false, io.EOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	l.number++
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), cut, nil
}

// around returns the part of a line that a result shows: the match and the text near it.
func around(line []byte, from, to int) string {
	const before = 100
	if len(line) > maxMatchedBytes {
		from = max(0, min(from-before, len(line)-maxMatchedBytes))
		line = line[from:]
		if from > 0 {
			line = char.WholeStart(line)
		}
		line = char.WholeEnd(line[:min(len(line), maxMatchedBytes)])
	}
	return strings.ToValidUTF8(string(line), "�")
}
