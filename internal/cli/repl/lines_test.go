package repl

import (
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/term"
)

// Ctrl-C drops the line, and only that. Lines that were typed before and after it are read.
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
