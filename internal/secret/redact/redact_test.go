package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// naive computes the final output of a stream by a simple search for every pattern.
func naive(p *Patterns, in []byte) []byte {
	out := bytes.Clone(in)
	for _, list := range p.heads {
		for _, p := range list {
			text := p.text
			for i := range in {
				if bytes.HasPrefix(in[i:], text) {
					star(out[i : i+len(text)])
				}
			}
		}
	}
	for i := range in { // the longest suffix that begins a pattern
		for _, list := range p.heads {
			for _, p := range list {
				text := p.text
				if rest := in[i:]; len(rest) < len(text) && bytes.HasPrefix(text, rest) {
					if len(rest) >= hint {
						star(out[i:])
					}
					return out
				}
			}
		}
	}
	return out
}

// write sends in through a stream in pieces of the lengths that cut returns, and returns all of its output.
func write(p *Patterns, in []byte, cut func(left int) int) (out []byte) {
	s := p.Stream()
	for len(in) > 0 {
		n := min(max(cut(len(in)), 1), len(in))
		out = append(out, s.Write(bytes.Clone(in[:n]))...)
		in = in[n:]
	}
	return append(out, s.Flush()...)
}

// rewound is like write, but a few times it rewinds the stream and writes the discarded bytes again. It may end before they are complete.
func rewound(p *Patterns, in []byte, random *rand.Rand) (out []byte) {
	s := p.Stream()
	for at, times := 0, 0; at < len(in); {
		n := 1 + random.IntN(min(len(in)-at, 40))
		out = append(out, s.Write(bytes.Clone(in[at:at+n]))...)
		at += n
		switch {
		case times > 0 && random.IntN(20) == 0:
			return append(out, s.Flush()...)
		case times < 10 && random.IntN(3) == 0:
			at, times = at-s.Held(), times+1
			s.Rewind(0)
		}
	}
	return append(out, s.Flush()...)
}

func whole(left int) int { return left }
func single(int) int     { return 1 }

func TestForms(t *testing.T) {
	secret := `p@ss "word"/é+<1>`
	p := New(secret)
	for name, form := range map[string]string{
		"raw": secret, "hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "percent": percent(secret, ""), "lower percent": strings.ToLower(percent(secret, "")),
		"json": `p@ss \"word\"/é+\u003c1\u003e`, "json without html": `p@ss \"word\"/é+<1>`,
	} {
		in := "before " + form + " after"
		want := "before " + strings.Repeat("*", len(form)) + " after"
		if name == "percent" || name == "lower percent" { // an escaped character may be the end of another form
			if got := string(write(p, []byte(in), whole)); strings.Contains(got, "ss") || len(got) != len(in) {
				t.Errorf("%s: %q", name, got)
			}
			continue
		}
		for _, cut := range []func(int) int{whole, single} {
			if got := string(write(p, []byte(in), cut)); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	for secret, forms := range map[string][]string{ // in Python, PHP and JavaScript
		"wJalrXU/K7MDENG+CY": {"wJalrXU/K7MDENG%2BCY", "wJalrXU/K7MDENG%2bCY", `wJalrXU\/K7MDENG+CY`},
		"a<b>c&d/e\\u00e9f":  {`a\u003Cb\u003Ec\u0026d/e\\u00e9f`, `a\u003Cb\u003Ec\u0026d\/e\\u00e9f`, `a\u003cb\u003ec\u0026d\/e\\u00e9f`},
		"it's (a) *secret*!": {"it's%20(a)%20*secret*!"},
	} {
		for _, form := range forms {
			if got := string(write(New(secret), []byte(form), whole)); strings.Trim(got, "*") != "" {
				t.Errorf("%s is shown as %s", form, got)
			}
		}
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for _, before := range []string{"", "a", "ab", "abc", "user:"} {
			in := enc.EncodeToString([]byte(before + secret + "tail"))
			got := string(write(p, []byte(in), single))
			if len(got) != len(in) || strings.Count(got, "*") < (len(secret)*8-10)/6 {
				t.Errorf("base64 after %q: %q", before, got)
			}
		}
	}
	if New() != nil || New("short", " a \n") != nil {
		t.Error("patterns of nothing")
	}
	var none *Patterns
	if got := none.Stream().Write([]byte("x")); string(got) != "x" {
		t.Errorf("%q", got)
	}
}

// A key with several lines is found line by line, as a terminal prints it, and in base64 with the line breaks of tools.
func TestLines(t *testing.T) {
	var key strings.Builder
	key.WriteString("-----BEGIN KEY-----\n")
	for i := range 30 {
		key.WriteString(strings.Repeat(string(rune('a'+i%26)), 60) + "1234\n")
	}
	key.WriteString("-----END KEY-----\n")
	p := New(key.String())
	for name, in := range map[string]string{
		"as it is": key.String(), "in a terminal": strings.ReplaceAll(key.String(), "\n", "\r\n"), "indented": strings.ReplaceAll(key.String(), "\n", "\n    "),
		"one line": "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc1234",
		"in JSON":  strings.ReplaceAll(key.String(), "\n", `\n`),
	} {
		got := string(write(p, []byte(in), whole))
		if strings.ContainsAny(got, "abc1234") || len(got) != len(in) {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, width := range []int{64, 76} {
		in := strings.Join(lines(base64.StdEncoding.EncodeToString([]byte(key.String())), width), "\n")
		got := string(write(p, []byte(in), whole))
		if left := strings.Trim(strings.ReplaceAll(got, "\n", ""), "*"); len(left) > 4 || len(got) != len(in) {
			t.Errorf("in lines of %d: %q", width, left)
		}
	}
	if p.longest > cutAt {
		t.Errorf("a pattern of %d bytes", p.longest)
	}
}

// A flush in the middle of a secret shows at most a few bytes of it, and the rest is still redacted.
func TestFlush(t *testing.T) {
	const secret = "correct horse battery"
	for at := range len(secret) + 1 {
		s := New(secret).Stream()
		out := append([]byte(nil), s.Write([]byte("- "+secret[:at]))...)
		out = append(out, s.Flush()...)
		if len(out) != 2+at || s.Held() != 0 {
			t.Fatalf("%q after a flush at %d", out, at)
		}
		out = append(out, s.Write([]byte(secret[at:]+" -"))...)
		out = append(out, s.Flush()...)
		want := "- " + strings.Repeat("*", len(secret)) + " -"
		if at < hint {
			want = "- " + secret[:at] + strings.Repeat("*", len(secret)-at) + " -"
		}
		if string(out) != want {
			t.Errorf("flushed at %d: %q", at, out)
		}
	}
}

// Bytes that are written again after a rewind are redacted, too.
func TestRewind(t *testing.T) {
	const secret = "abcabcabcabc" // its end equals its beginning
	s := New(secret).Stream()
	out := append([]byte(nil), s.Write([]byte(secret))...)
	if string(out) != strings.Repeat("*", len(out)) || s.Held() == 0 {
		t.Fatalf("%q", out)
	}
	again := secret[len(out):]
	s.Rewind(0)
	out = append(out, s.Write([]byte(again+" x"))...)
	out = append(out, s.Flush()...)
	if string(out) != "************ x" {
		t.Errorf("%q", out)
	}
}

// The stream may end in the middle of what a rewind announced.
func TestFlushAfterRewind(t *testing.T) {
	s := New("xxxxxxxxYYYYYYYYYY", "YYYYYYYYYYzzzzzzzz").Stream()
	if out := s.Write([]byte("xxxxxxxxYYYYYYYYYY")); string(out) != "********" {
		t.Fatalf("%q", out)
	}
	s.Rewind(0)
	if out := string(s.Write([]byte("Y"))) + string(s.Flush()); out != "*" {
		t.Errorf("%q", out)
	}
}

// A large piece is searched in parts, without missing patterns across them.
func TestParts(t *testing.T) {
	p := New("correct horse", "horse correct horse")
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"correct horse", "correct ", "horse ", "c", " ", strings.Repeat("x", 40), "Y29ycmVjdCBob3JzZQ"}
	for range 50 {
		var b strings.Builder
		for b.Len() < 4*apart+5000+random.IntN(3000) {
			b.WriteString(words[random.IntN(len(words))])
		}
		in := []byte(b.String())
		for _, at := range []int{1, 2, 3} { // across the boundaries
			copy(in[at*(len(in)-p.window+1)/4-random.IntN(2*p.window):], "correct horse")
		}
		want := write(p, in, func(int) int { return apart })
		if got := write(p, in, whole); !bytes.Equal(got, want) {
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("byte %d of %d: %q, want %q", i, len(in), got[max(0, i-20):i+20], want[max(0, i-20):i+20])
				}
			}
			t.Fatalf("%d bytes, want %d", len(got), len(want))
		}
	}
}

// Many patterns with a common beginning, in output that almost matches them at every position, take a fraction of a second. Comparing with each pattern would
// take minutes.
func TestAlike(t *testing.T) {
	var lines strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&lines, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%04d\n", i)
	}
	p := New(lines.String(), strings.Repeat("a", 60<<10))
	in := bytes.Repeat([]byte("a"), 1<<18)
	s := p.Stream()
	out := append(append([]byte(nil), s.Write(in)...), s.Flush()...)
	if len(out) != 1<<18 || bytes.Trim(out, "*") != nil {
		t.Errorf("%d bytes, %.40q", len(out), bytes.Trim(out, "*"))
	}
}

func FuzzStream(f *testing.F) {
	f.Add("correct horse", "another secret", []byte("a correct horse, a correct ho"), uint64(1))
	f.Add("aaaaaaaa", "aaaaaaaaaaab", []byte("aaaaaaaaaaaaaaaaaab"), uint64(2))
	f.Add("abababababab", "babababa", []byte("xabababababababababababy"), uint64(3))
	f.Add("xxxxxxxxYYYYYYYYYY", "YYYYYYYYYYzzzzzzzz", []byte("xxxxxxxxYYYYYYYYYYzzzzzz"), uint64(125))
	f.Add("p@ss/word+1", strings.Repeat("long secret ", 200), []byte(strings.Repeat("long secret ", 201)), uint64(4))
	f.Fuzz(func(t *testing.T, a, b string, in []byte, seed uint64) {
		if len(a)+len(b) > 3<<10 || len(in) > 2<<10 {
			return
		}
		p := New(a, b)
		if p == nil {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		// Texts from the bytes of the secrets match more often.
		if seed%2 == 0 {
			mixed := []byte(a + b)
			for i := range in {
				in[i] = mixed[int(in[i])%len(mixed)]
			}
		}
		in = append(in, a[:len(a)*int(seed%5)/4]...)
		want := naive(p, in)
		for name, cut := range map[string]func(int) int{
			"whole": whole, "single": single, "random": func(left int) int { return random.IntN(min(left, 40) + 1) },
		} {
			if got := write(p, in, cut); !bytes.Equal(got, want) {
				t.Errorf("%s: %q became %q, want %q", name, in, got, want)
			}
		}
		got := rewound(p, in, random)
		if len(got) == len(in) && !bytes.Equal(got, want) {
			t.Errorf("rewound: %q became %q, want %q", in, got, want)
		}
		for i := range got {
			if got[i] != in[i] && got[i] != '*' {
				t.Fatalf("rewound: %q became %q", in, got)
			}
		}
	})
}

// BenchmarkWrite redacts a log of ordinary lines, with one secret and with many, and a log with secrets nearly everywhere.
func BenchmarkWrite(b *testing.B) {
	line := []byte("2026-03-01T12:00:00Z INFO  request id=7f3a method=GET path=/api/v1/items status=200 took=13ms\n")
	log := bytes.Repeat(line, 64<<10/len(line)+1)[:64<<10]
	var many []string
	for i := range 32 {
		many = append(many, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(i), 77, 200}, 10)))
	}
	near := strings.Repeat("a", 64<<10)
	for name, values := range map[string][]string{"one": many[:1], "many": many, "hostile": {near + "b"}} {
		b.Run(name, func(b *testing.B) {
			log := log
			if name == "hostile" {
				log = []byte(near)
			}
			s, buf := New(values...).Stream(), make([]byte, len(log))
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				copy(buf, log)
				s.Write(buf)
			}
		})
	}
}

// Exact texts are found as they are, not encoded.
func TestExact(t *testing.T) {
	p := Exact("secret-name", "short", strings.Repeat("long", 200))
	for text, want := range map[string]bool{
		"x-secret-name-y": true, "short": false, "secret-nam": false, base64.StdEncoding.EncodeToString([]byte("secret-name")): false,
		strings.Repeat("long", 200): true, "": false,
	} {
		if got := p.In([]byte(text)); got != want {
			t.Errorf("%.20q: %v", text, got)
		}
	}
	if Exact("short") != nil {
		t.Error("patterns without a text")
	}
}
