//go:build linux

package dialect

import (
	"bytes"
	program "os/exec"
	"strings"
	"testing"
)

// The driver's lines contain nothing of a command except one quoted word.
func TestShellLines(t *testing.T) {
	d := All()[0]
	tell := "\\builtin \\printf 'id %s' \"$?\" >&98 || "
	want := quietly + "\\builtin \\. /proc/self/fd/99 </dev/null\n" + tell + tell + "\\exit\n"
	if got := d.Lines("id", "</dev/null"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for status, restore := range map[int]string{0: "", 5: "\\builtin \\. /proc/self/fd/0 <<<'\\builtin \\return 5' || "} {
		want = "{ \\builtin \\test $? != 0 || \\builtin \\set -v; \\builtin \\printf 'id open' >&98 || \\builtin \\return; " + restore +
			"\\builtin \\eval 'it'\\''s' >&97- 2>&96- 98>&- 99>&-; } 97>&1 96>&2 >/dev/null 2>&1\n"
		if got := string(d.File("id", "</dev/null", status, []byte("it's"))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for files, text := range map[uint64]int{0: 99, 100: 99, 99: 98, 64: 63, 32: 31} {
		if got := d.Fit(files); got.Text != text || got.Control != text-1 {
			t.Errorf("with %d files: %d and %d", files, got.Control, got.Text)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add([]byte("0123456789abcdef 0"))
	f.Add([]byte("0123456789abcdef open"))
	f.Add([]byte(" 255"))
	f.Add([]byte("a -1"))
	f.Add([]byte("a 256 b"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		id, open, status, ok := ParseReport(b)
		switch {
		case !ok:
		case status < 0 || status > 255 || open && status != 0:
			t.Errorf("%q: %q %v %d", b, id, open, status)
		case !bytes.HasPrefix(b, []byte(id+" ")):
			t.Errorf("%q: id %q", b, id)
		}
	})
}

// FuzzQuote: a shell reads the quoted text back, except for line ends.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "'", "''", "a'b'c", "\n", "\r\n", "\\'", "$(x) `y` \"z\"", "€", "\xff\xfe", strings.Repeat("'x", 50)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, cmd []byte) {
		if bytes.IndexByte(cmd, 0) >= 0 {
			t.Skip("refused before")
		}
		var b bytes.Buffer
		quote(&b, cmd)
		got, err := program.Command("/bin/sh", "-c", "printf %s "+b.String()+"x").Output()
		want := append(bytes.ReplaceAll(cmd, []byte("\r\n"), []byte("\n")), 'x')
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q is read as %q, %v", cmd, got, err)
		}
	})
}
