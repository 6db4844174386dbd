package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
)

// forms returns the texts by which a secret is found. It leaves out texts that are too short.
func forms(value string) (list []string) {
	text := strings.TrimSpace(value)
	if len(text) < shortest {
		return nil
	}
	list = append(list, text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))))
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for phase := range 3 {
			list = append(list, encoded(enc, text, phase))
		}
		for _, width := range []int{64, 76} { // line widths of tools that print a whole file
			list = append(list, lines(enc.EncodeToString([]byte(value)), width)...)
		}
	}
	for _, escaped := range []string{url.QueryEscape(text), url.PathEscape(text), percent(text, ""), percent(text, "/"), percent(text, "!'()*")} {
		list = append(list, escaped, lowerHex(escaped))
	}
	for _, html := range []bool{true, false} {
		for _, json := range []string{quoted(text, html), strings.ReplaceAll(quoted(text, html), "/", `\/`)} {
			list = append(list, json, upperHex(json))
		}
	}
	for line := range strings.Lines(text) {
		list = append(list, strings.TrimSpace(line))
	}
	whole := list[:0]
	for _, form := range list {
		if len(form) >= shortest {
			whole = append(whole, form)
		}
	}
	return whole
}

// encoded returns a text in base64 after phase other bytes, without the characters that depend on the surrounding text.
func encoded(enc *base64.Encoding, text string, phase int) string {
	all := enc.EncodeToString(append(make([]byte, phase), text...))
	return all[(phase*8+5)/6 : (phase+len(text))*8/6]
}

// lines splits a text into lines of a width; none if it fits into one line.
func lines(text string, width int) (list []string) {
	if len(text) <= width {
		return nil
	}
	for len(text) > 0 {
		n := min(width, len(text))
		list = append(list, text[:n])
		text = text[n:]
	}
	return list
}

// percent percent-encodes every character of a text that any encoder encodes, except those in safe: a slash in Python, other characters in
// JavaScript.
func percent(text, safe string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~"+safe, c) >= 0:
			b.WriteByte(c)
		default:
			const digits = "0123456789ABCDEF"
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// lowerHex converts the digits of a percent-encoded text to lower case.
func lowerHex(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// upperHex converts the digits of JSON's escapes in a text to upper case.
func upperHex(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if i++; b[i] == 'u' {
			copy(b[i+1:], bytes.ToUpper(b[i+1:i+5]))
		}
	}
	return string(b)
}

// quoted returns a text as the content of a JSON string. html also escapes angle brackets and ampersands.
func quoted(text string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(text); err != nil {
		return ""
	}
	all := strings.TrimSuffix(b.String(), "\n")
	return all[1 : len(all)-1]
}

// pieces splits a long form.
func pieces(form string) (list []string) {
	for len(form) > cutAt {
		n := min(cutAt, len(form)-cutAt/2)
		list = append(list, form[:n])
		form = form[n:]
	}
	return append(list, form)
}
