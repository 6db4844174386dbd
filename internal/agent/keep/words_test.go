//go:build linux

package keep

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The error of a failed program includes the reason without a stack trace, and only the end of a long output.
func TestWords(t *testing.T) {
	stack := "\ngoroutine 7 [running]:\nmain.f(0x1)\n\tmain.go:7\n" + strings.Repeat("main.g()\n", 1000)
	for stderr, want := range map[string]string{
		"":                                 "",
		"no space left":                    "no space left",
		"no space left:" + stack:           "no space left",
		"saving: no space left:\n" + stack: "saving: no space left",
		strings.Repeat("x", 9000) + "no space left:" + stack: strings.Repeat("x", maxText-13) + "no space left",
		strings.Repeat("x", 5000) + "end":                    strings.Repeat("x", maxText-3) + "end",
	} {
		k := &keep{}
		w, end, err := k.captureStderr()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Write(end, []byte(stderr)); err != nil || n != len(stderr) {
			t.Fatal(n, err)
		}
		unix.Close(end)
		<-w.done
		if got := w.failure(); got != want {
			t.Errorf("%.60q: %.60q", stderr, got)
		}
	}
}

// Output from before the stop is read, however little time there is.
func TestWordsInAHurry(t *testing.T) {
	for range 20 {
		k := &keep{}
		w, end, err := k.captureStderr()
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("x", 60<<10) + "end" // the capacity of a pipe, and many reads
		if n, err := unix.Write(end, []byte(text)); err != nil || n != len(text) {
			t.Fatal(n, err)
		}
		_ = w.file.SetReadDeadline(time.Now().Add(-time.Second))
		<-w.done
		unix.Close(end) // other processes usually hold it open for long
		if got := w.current(); got != text[len(text)-maxText:] {
			t.Fatalf("%.20q… of %d bytes", got[max(0, len(got)-10):], len(got))
		}
	}
}
