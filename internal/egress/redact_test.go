package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// redacted passes text through in parts of this size.
func redacted(r *Redactor, text string, size int) string {
	s := r.Stream()
	var out []byte
	for part := range slices.Chunk([]byte(text), size) {
		out = append(out, s.Redact(part)...)
	}
	return string(append(out, s.Rest()...))
}

func TestRedactor(t *testing.T) {
	const secret = `k3y/with+"odd" <bytes>&`
	r := NewRedactor(secret)
	quoted, _ := json.Marshal(secret)
	texts := map[string]string{
		"raw": secret, "twice": secret + secret, "hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "lower": strings.ToLower(url.QueryEscape(secret)), "JSON": string(quoted[1 : len(quoted)-1]),
		"nearly": secret[:5] + secret,
	}
	for name, text := range texts {
		for _, size := range []int{1, 2, 7, len(text) + 2} {
			got := redacted(r, "a"+text+"z", size)
			want := "a" + strings.Repeat("*", len(text)) + "z"
			if name == "nearly" {
				want = "a" + secret[:5] + strings.Repeat("*", len(secret)) + "z"
			}
			if got != want {
				t.Errorf("%s in parts of %d: %q", name, size, got)
			}
		}
	}
	for before := range 4 {
		for after := range 4 {
			plain := strings.Repeat("u", before) + secret + strings.Repeat("v", after)
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				text := e.EncodeToString([]byte(plain))
				got := redacted(r, text, 5)
				decoded, _ := e.DecodeString(strings.ReplaceAll(got, "*", "A"))
				if len(got) != len(text) || strings.Count(got, "*") < len(secret)*4/3-2 || bytes.Contains(decoded, []byte("with")) {
					t.Errorf("%d before, %d after: %s became %s", before, after, text, got)
				}
			}
		}
	}
	if got := redacted(r, "nothing of it, k3y/with or so", 3); got != "nothing of it, k3y/with or so" {
		t.Errorf("%q", got)
	}
}

// TestRedactorOverlaps: of secrets that overlap, no byte remains.
func TestRedactorOverlaps(t *testing.T) {
	r := NewRedactor("aaaaaaaa", "aaaabbbb", "bbbbcccc")
	for size := 1; size < 24; size++ {
		if got := redacted(r, "x"+strings.Repeat("a", 9)+"bbbbccccy", size); got != "x"+strings.Repeat("*", 17)+"y" {
			t.Errorf("in parts of %d: %q", size, got)
		}
	}
}

// TestRedactorHolds: bytes that cannot begin a secret are not held back.
func TestRedactorHolds(t *testing.T) {
	s := NewRedactor("s3cr3t-t0ken").Stream()
	if got := string(s.Redact([]byte("data: x\n\n"))); got != "data: x\n\n" {
		t.Errorf("%q", got)
	}
	if got := string(s.Redact([]byte("data: s3cr"))); got != "data: " {
		t.Errorf("%q", got)
	}
	if got := string(s.Redact([]byte("ap"))); got != "s3crap" {
		t.Errorf("%q", got)
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add("s3cr3t-t0ken", "see s3cr3t-t0ken there", 3)
	f.Add("aaaaaaaa", "aaaaaaaaaaaaaaaaa", 1)
	f.Fuzz(func(t *testing.T, secret, text string, size int) {
		if len(secret) < 8 || size < 1 {
			return
		}
		got := redacted(NewRedactor(secret), text+secret+text, size)
		if len(got) != 2*len(text)+len(secret) {
			t.Errorf("the length changed to %d", len(got))
		}
		if strings.Trim(secret, "*") != "" && strings.Contains(got, secret) {
			t.Errorf("%q has the secret", got)
		}
	})
}

func BenchmarkRedactor(b *testing.B) {
	r := NewRedactor("ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	text := []byte(strings.Repeat(fmt.Sprintf("%s line of an answer, such as hosts send\n", "a"), 800))
	b.SetBytes(int64(len(text)))
	s := r.Stream()
	for b.Loop() {
		s.Redact(text)
	}
}
