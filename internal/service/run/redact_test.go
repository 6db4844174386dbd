package run

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/secret/redact"
)

// However the output of two streams is split, and wherever its stream to the agent breaks, its length and order stay, safe output
// is in the log, and secrets are redacted. A process that dies in between leaves a log that the next one continues.
func TestTranscriptHides(t *testing.T) {
	both := []string{"Zürich-Zürich", "rich-ZürichWien"} // the end of the first equals its beginning, and overlaps the second
	rapid.Check(t, func(t *rapid.T) {
		secrets := both[:rapid.IntRange(1, 2).Draw(t, "secrets")]
		hide := redact.New(secrets...)
		text := rapid.SliceOfN(rapid.SampledFrom([]string{both[0], both[1], "Zür", "ich-", "Wien", "Z", "\xc3", "ü€", "\n", "plain "}), 0, 12)
		streams := map[wire.Stream][]byte{
			wire.Stdout: []byte(strings.Join(text.Draw(t, "stdout"), "")), wire.Stderr: []byte(strings.Join(text.Draw(t, "stderr"), "")),
		}
		one := rapid.Bool().Draw(t, "one stream")
		if one {
			streams[wire.Stderr] = nil
		}
		chunks := cutUp(t, streams)
		var in []byte
		var of []wire.Stream
		for _, c := range chunks {
			in = append(in, c.bytes...)
			for range c.bytes {
				of = append(of, c.stream)
			}
		}
		log := &memory.Log{}
		out := &transcript{log: log, room: 1 << 20, hide: hide}
		at, safe := int64(0), int64(0)
		ends := -1 // the chunk after which a broken command ends
		for i := 0; i < len(chunks) && i != ends; {
			c, begin := chunks[i], int64(0)
			for _, before := range chunks[:i] {
				begin += int64(len(before.bytes))
			}
			from := max(at, begin)
			var err error
			if safe, err = out.write(from, c.stream, bytes.Clone(c.bytes[from-begin:])); err != nil {
				t.Fatal(err)
			}
			if at = begin + int64(len(c.bytes)); safe != out.kept || at-safe != out.held() {
				t.Fatalf("%d of %d bytes are safe, %d in the log, %d held", safe, at, out.kept, out.held())
			}
			if i++; rapid.IntRange(0, 5).Draw(t, "break") == 0 {
				out.rewind()
				at = safe
				for i, begin = 0, 0; i < len(chunks) && begin+int64(len(chunks[i].bytes)) <= at; i++ {
					begin += int64(len(chunks[i].bytes))
				}
				if rapid.IntRange(0, 3).Draw(t, "end") == 0 {
					ends = i + 1
				}
			}
		}
		whole := ends < 0 || at == int64(len(in))
		in = in[:at]
		out.end()
		frames := framesOf(t, log)
		var got []byte
		for _, f := range frames {
			for range f.Output {
				if n := len(got); n < len(of) && of[n] != streamOf(f) {
					t.Fatalf("byte %d is of stream %d", n, streamOf(f))
				}
				got = append(got, 0)
			}
			copy(got[len(got)-len(f.Output):], f.Output)
		}
		if len(got) != len(in) {
			t.Fatalf("%d bytes became %d", len(in), len(got))
		}
		for i := range got {
			if got[i] != in[i] && got[i] != '*' {
				t.Fatalf("%q became %q", in, got)
			}
		}
		each := map[wire.Stream][]byte{} // alternating output of two streams may spell a secret that neither contains
		for i, b := range got {
			each[of[i]] = append(each[of[i]], b)
		}
		if containsAny(each[wire.Stdout], secrets) || containsAny(each[wire.Stderr], secrets) ||
			one && whole && len(in) > 0 && !bytes.Equal(got, expected(hide, in)) {
			t.Fatalf("%q became %q", in, got)
		}
	})
}

// expected returns the redacted form of one stream in one piece.
func expected(hide *redact.Patterns, in []byte) []byte {
	s := hide.Stream()
	return append(append([]byte(nil), s.Write(bytes.Clone(in))...), s.Flush()...)
}

func containsAny(b []byte, list []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return bytes.Contains(b, []byte(s)) })
}
