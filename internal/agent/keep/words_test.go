//go:build linux

package keep

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Of what a program said before it failed, the reason is told: not where it was in itself, and the end if there was much.
func TestWords(t *testing.T) {
	stack := "\ngoroutine 7 [running]:\nmain.f(0x1)\n\tmain.go:7\n" + strings.Repeat("main.g()\n", 1000)
	for said, want := range map[string]string{
		"":                                 "",
		"no space left":                    "no space left",
		"no space left:" + stack:           "no space left",
		"saving: no space left:\n" + stack: "saving: no space left",
		strings.Repeat("x", 5000) + "end":  strings.Repeat("x", maxWords-3) + "end",
	} {
		k := &keep{}
		w, end, err := k.listen()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Write(end, []byte(said)); err != nil || n != len(said) {
			t.Fatal(n, err)
		}
		unix.Close(end)
		<-w.done
		if got := w.why(); got != want {
			t.Errorf("%.60q: %.60q", said, got)
		}
	}
}

// What was said before somebody stopped listening is heard, however little time there was to do so.
func TestWordsInAHurry(t *testing.T) {
	for range 20 {
		k := &keep{}
		w, end, err := k.listen()
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Repeat("x", 60<<10) + "end" // what a pipe holds, and many reads
		if n, err := unix.Write(end, []byte(said)); err != nil || n != len(said) {
			t.Fatal(n, err)
		}
		_ = w.file.SetReadDeadline(time.Now().Add(-time.Second))
		<-w.done
		unix.Close(end) // which somebody else has open for long, as a rule
		if got := w.current(); got != said[len(said)-maxWords:] {
			t.Fatalf("%.20q… of %d bytes", got[max(0, len(got)-10):], len(got))
		}
	}
}
