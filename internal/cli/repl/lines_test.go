package repl

import (
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/term"
)

// Ctrl-C drops only its line. Lines typed before and after it are read.
func TestInterruptKey(t *testing.T) {
	k := &keys{r: strings.NewReader("one\rtw\x1b[Do\x03three\r\x03\x03four\r")}
	terminal := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, io.Discard}, "")
	var got []string
	for {
		line, err := terminal.ReadLine()
		if k.interrupted {
			k.interrupted, line = false, "^C"
		}
		if err != nil {
			break
		}
		got = append(got, line)
	}
	if want := []string{"one", "^C", "three", "^C", "^C", "four"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// pastedLines are lines of which all but the last were pasted.
type pastedLines []string

func (p *pastedLines) read(string) (string, error) {
	line := (*p)[0]
	if *p = (*p)[1:]; len(*p) > 0 {
		return line, errPasted
	}
	return line, nil
}
func (p *pastedLines) answer() (string, error)   { return "", io.EOF }
func (p *pastedLines) password() (string, error) { return "", io.EOF }
func (p *pastedLines) close() error              { return nil }

// A blank line in a pasted function does not end it.
func TestPaste(t *testing.T) {
	lines := pastedLines{"def f():", "    a = 1", "", "    return a", "f()", ""}
	want := strings.Join(lines, "\n")
	r := &REPL{lines: &lines}
	r.Context.Language = "python"
	if got, err := r.code(); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
}
