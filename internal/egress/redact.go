package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Redactor hides secrets in streams: it replaces each byte of them by an asterisk. It finds them as they are, and as base64, hex, a
// part of a URL or a string of JSON.
type Redactor struct{ forms []form }

// form is a secret in one form, with the table of Knuth, Morris and Pratt: for each length of a prefix, that of the longest shorter
// prefix that it ends with.
type form struct {
	text []byte
	back []int
}

// leastForm is the length of a form at least: a shorter one stands in ordinary text.
const leastForm = 6

// NewRedactor returns a redactor of these secrets.
func NewRedactor(secrets ...string) *Redactor {
	var texts []string
	for _, s := range secrets {
		texts = append(texts, s, hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))))
		query, path := url.QueryEscape(s), url.PathEscape(s)
		texts = append(texts, query, path, lowerEscapes(query), lowerEscapes(path))
		if quoted, err := json.Marshal(s); err == nil {
			texts = append(texts, string(quoted[1:len(quoted)-1]))
		}
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for before := range 3 {
				texts = append(texts, base64Within(e, s, before))
			}
		}
	}
	slices.Sort(texts)
	r := &Redactor{}
	for _, text := range slices.Compact(texts) {
		if len(text) >= leastForm {
			r.forms = append(r.forms, newForm(text))
		}
	}
	return r
}

// lowerEscapes returns an escaped text with the digits of its escapes in lower case.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// base64Within returns the characters that stand for s alone in the base64 of a text with s after so many bytes, modulo 3.
func base64Within(e *base64.Encoding, s string, before int) string {
	all := e.EncodeToString(append(make([]byte, before), s...))
	return all[(before*8+5)/6 : (before+len(s))*8/6]
}

func newForm(text string) form {
	f := form{text: []byte(text), back: make([]int, len(text)+1)}
	for i, n := 1, 0; i < len(text); i++ {
		n = f.step(n, text[i])
		f.back[i+1] = n
	}
	return f
}

// step returns how long a prefix has been read after another byte, if it was n before.
func (f *form) step(n int, b byte) int {
	for n > 0 && (n == len(f.text) || f.text[n] != b) {
		n = f.back[n]
	}
	if f.text[n] == b {
		n++
	}
	return n
}

// begun returns how much of the end of p may be the beginning of the form.
func (f *form) begun(p []byte) int {
	n := 0
	for _, b := range p[max(0, len(p)-len(f.text)+1):] {
		n = f.step(n, b)
	}
	return n
}

// Stream returns the redaction of one stream.
func (r *Redactor) Stream() *Redaction { return &Redaction{by: r} }

// Redaction hides secrets in one stream. What it holds back is kept as it came, to be compared, and as it leaves.
type Redaction struct {
	by        *Redactor
	raw, safe []byte
}

// Redact takes the next bytes, and returns those that are ready: it holds back what may be the beginning of a secret. The result is
// valid until the next call.
func (r *Redaction) Redact(p []byte) []byte {
	held := len(r.raw)
	r.raw, r.safe = append(r.raw, p...), append(r.safe, p...)
	keep := 0
	for i := range r.by.forms {
		f := &r.by.forms[i]
		for at := max(0, held-len(f.text)+1); ; at++ { // occurrences that end in p
			n := bytes.Index(r.raw[at:], f.text)
			if n < 0 {
				break
			}
			at += n
			for j := range f.text {
				r.safe[at+j] = '*'
			}
		}
		keep = max(keep, f.begun(r.raw))
	}
	ready := r.safe[:len(r.safe)-keep]
	r.raw, r.safe = slices.Clone(r.raw[len(r.raw)-keep:]), slices.Clone(r.safe[len(r.safe)-keep:])
	return ready
}

// Rest returns what is held back when the stream has ended.
func (r *Redaction) Rest() []byte { return r.safe }
