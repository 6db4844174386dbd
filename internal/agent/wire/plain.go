package wire

import (
	"encoding/base64"
	"strconv"
)

// Plain parses JSON in the simple form that encoding/json writes: no blanks, no escapes, ASCII only, no null. The caller uses
// encoding/json for anything else. Plain is faster: an agent often lives for one command, and reflection would take a good part of
// that time.
//
// Its methods parse one value each and return zero after anything that is not plain. The zero Plain is not usable; see [NewPlain].
type Plain struct {
	rest     []byte
	rejected bool // something was not plain
}

// NewPlain returns a parser of text, which it does not keep.
func NewPlain(text []byte) *Plain { return &Plain{rest: text} }

// Done reports whether the whole text was read, and all of it was plain.
func (p *Plain) Done() bool { return !p.rejected && len(p.rest) == 0 }

// Reject rejects the text: the caller has met something unknown.
func (p *Plain) Reject() { p.rejected, p.rest = true, nil }

// take consumes c, and reports whether it was next.
func (p *Plain) take(c byte) bool {
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// want consumes c, or rejects the text.
func (p *Plain) want(c byte) {
	if !p.take(c) {
		p.Reject()
	}
}

// list parses the values between two brackets by calling value for each.
func (p *Plain) list(begin, end byte, value func()) {
	p.want(begin)
	if p.take(end) {
		return
	}
	for !p.rejected {
		value()
		if p.take(end) {
			return
		}
		p.want(',')
	}
}

// Object parses an object. It calls field with each key to parse the value; for an unknown key field calls [Plain.Reject].
func (p *Plain) Object(field func(key string)) {
	p.list('{', '}', func() {
		key := p.Text()
		p.want(':')
		if !p.rejected {
			field(key)
		}
	})
}

// quoted parses a string without its quotes.
func (p *Plain) quoted() []byte {
	p.want('"')
	for i, c := range p.rest {
		switch {
		case c == '"':
			text := p.rest[:i]
			p.rest = p.rest[i+1:]
			return text
		case c < ' ' || c >= 0x7f || c == '\\':
			p.Reject()
			return nil
		}
	}
	p.Reject()
	return nil
}

// Text reads a string.
func (p *Plain) Text() string { return string(p.quoted()) }

// Texts reads an array of strings.
func (p *Plain) Texts() []string {
	list := []string{}
	p.list('[', ']', func() { list = append(list, p.Text()) })
	return list
}

// Bytes parses a base64 string and decodes it.
func (p *Plain) Bytes() []byte {
	text := p.quoted()
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(b, text)
	if err != nil {
		p.Reject()
	}
	return b[:n]
}

// digits parses a number without fraction and exponent.
func (p *Plain) digits() string {
	n := 0
	if n < len(p.rest) && p.rest[n] == '-' {
		n++
	}
	first := n
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		n++
	}
	if n == first || n > first+1 && p.rest[first] == '0' {
		p.Reject()
		return "0"
	}
	text := string(p.rest[:n])
	p.rest = p.rest[n:]
	return text
}

// Int reads a number.
func (p *Plain) Int() int64 {
	n, err := strconv.ParseInt(p.digits(), 10, 64)
	if err != nil {
		p.Reject()
	}
	return n
}

// small parses an unsigned 16-bit number.
func (p *Plain) small() uint16 {
	n := p.Int()
	if n < 0 || n > 1<<16-1 {
		p.Reject()
	}
	return uint16(n)
}

// uint parses an unsigned number.
func (p *Plain) uint() uint64 {
	n, err := strconv.ParseUint(p.digits(), 10, 64)
	if err != nil {
		p.Reject()
	}
	return n
}

// float parses a number without an exponent.
func (p *Plain) float() float64 {
	before := p.rest
	p.digits()
	if p.take('.') {
		n := 0
		for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
			n++
		}
		if n == 0 {
			p.Reject()
		}
		p.rest = p.rest[n:]
	}
	f, err := strconv.ParseFloat(string(before[:len(before)-len(p.rest)]), 64)
	if err != nil {
		p.Reject()
	}
	return f
}

// Bool reads true or false.
func (p *Plain) Bool() bool {
	const no, yes = "false", "true"
	switch {
	case len(p.rest) >= len(yes) && string(p.rest[:len(yes)]) == yes:
		p.rest = p.rest[len(yes):]
		return true
	case len(p.rest) >= len(no) && string(p.rest[:len(no)]) == no:
		p.rest = p.rest[len(no):]
	default:
		p.Reject()
	}
	return false
}
