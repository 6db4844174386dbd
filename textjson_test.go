package belljar_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// envelope returns encoding/json's encoding of a frame of output.
func envelope(t *testing.T, f belljar.Frame) string {
	t.Helper()
	if utf8.Valid(f.Output) {
		text, err := json.Marshal(string(f.Output))
		if err != nil {
			t.Fatal(err)
		}
		if len(text) <= belljar.MaxFrameBytes/3*4+2 {
			return fmt.Sprintf(`{"type":%q,"encoding":"utf8","data":%s,"seq":%d}`, f.Type, text, f.Seq)
		}
	}
	return fmt.Sprintf(`{"type":%q,"encoding":"base64","data":%q,"seq":%d}`, f.Type, base64.StdEncoding.EncodeToString(f.Output), f.Seq)
}

// TestTextJSON compares the hand-written envelope with that of encoding/json, for every character at every position of a word.
func TestTextJSON(t *testing.T) {
	check := func(output string) {
		t.Helper()
		f := belljar.Frame{Seq: 7, Type: belljar.FrameStderr, Output: []byte(output)}
		got, err := f.AppendJSON([]byte("before"))
		if want := "before" + envelope(t, f); err != nil || string(got) != want {
			t.Errorf("%q: %v\n%s\nwant\n%s", output, err, got, want)
		}
	}
	for r := rune(0); r < 0x3000; r++ {
		for before := range 9 {
			check(strings.Repeat("x", before) + string(r) + strings.Repeat("y", 9-before))
		}
	}
	for b := range 256 {
		check("xxx" + string([]byte{byte(b)}) + "yyyyyyyy")
	}
	for _, unit := range []string{"x", "\x00", "é", "\u2028", "😀", "<", "\xff"} {
		for _, n := range []int{belljar.MaxFrameBytes / len(unit), belljar.MaxFrameBytes / 6, 10240, 10241, 61438/6 + 1} {
			check(strings.Repeat(unit, n))
		}
	}
}

// FuzzTextJSON does the same for any output.
func FuzzTextJSON(f *testing.F) {
	for _, seed := range []string{"", "hello\n", "\xff", "é\u2028\u2029\u202a", "\xe2", "</script>&", "\x7f\x1f \"\\"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := belljar.Frame{Seq: 1, Type: belljar.FrameStdout, Output: b}
		got, err := in.AppendJSON(nil)
		if want := envelope(t, in); err != nil || string(got) != want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	})
}

func BenchmarkFrameAppendJSON(b *testing.B) {
	line := "2025-10-28T12:00:00Z INFO the quick brown fox jumps over the lazy dog 0123456789\n"
	for _, bench := range []struct{ name, unit string }{
		{"text", line}, {"accents", "déjà vu, ça va très bien là-bas\n"}, {"html", "<a href=\"x\">&amp;</a>\n"}, {"binary", "\xff\x00"},
	} {
		f := belljar.Frame{Seq: 1, Type: belljar.FrameStdout, Output: bytes.Repeat([]byte(bench.unit), belljar.MaxFrameBytes/len(bench.unit))}
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(f.Output)))
			var buf []byte
			for b.Loop() {
				var err error
				if buf, err = f.AppendJSON(buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bench.name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(f.Output)))
			for b.Loop() {
				if _, err := json.Marshal(string(f.Output)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
