package wire

import (
	"encoding/base64"
	"strconv"
)

// Plain reads JSON as encoding/json writes it when nothing is special about it: no blanks, no escapes, ASCII only, no
// null. What is not plain is left to encoding/json, so Plain is never wrong about it, only sooner done: an agent lives for
// one command, and finding out about types by reflection would be a good part of its life.
//
// Its methods read one value each and return zero once something was not plain. The zero Plain is not usable; see
// [NewPlain].
type Plain struct {
	rest []byte
	odd  bool // something was not plain
}

// NewPlain returns a reader of text, which it does not keep.
func NewPlain(text []byte) *Plain { return &Plain{rest: text} }

// Done reports whether the whole text was read, and all of it was plain.
func (p *Plain) Done() bool { return !p.odd && len(p.rest) == 0 }

// Odd gives up: the caller has met what it does not know.
func (p *Plain) Odd() { p.odd, p.rest = true, nil }

// take reads c, and reports whether it was there.
func (p *Plain) take(c byte) bool {
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// want reads c, or gives up.
func (p *Plain) want(c byte) {
	if !p.take(c) {
		p.Odd()
	}
}

// list reads the values between two brackets, each by a call of value.
func (p *Plain) list(begin, end byte, value func()) {
	p.want(begin)
	if p.take(end) {
		return
	}
	for !p.odd {
		value()
		if p.take(end) {
			return
		}
		p.want(',')
	}
}

// Object reads an object. It calls field with each key, to read the value; a key that field does not know is [Plain.Odd].
func (p *Plain) Object(field func(key string)) {
	p.list('{', '}', func() {
		key := p.Text()
		p.want(':')
		if !p.odd {
			field(key)
		}
	})
}

// quoted reads what is between quotes.
func (p *Plain) quoted() []byte {
	p.want('"')
	for i, c := range p.rest {
		switch {
		case c == '"':
			text := p.rest[:i]
			p.rest = p.rest[i+1:]
			return text
		case c < ' ' || c >= 0x7f || c == '\\':
			p.Odd()
			return nil
		}
	}
	p.Odd()
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

// Bytes reads a string of base64, which stands for bytes.
func (p *Plain) Bytes() []byte {
	text := p.quoted()
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(b, text)
	if err != nil {
		p.Odd()
	}
	return b[:n]
}

// digits reads a number without fraction and exponent.
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
		p.Odd()
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
		p.Odd()
	}
	return n
}

// small reads a number of few bits.
func (p *Plain) small() uint16 {
	n := p.Int()
	if n < 0 || n > 1<<16-1 {
		p.Odd()
	}
	return uint16(n)
}

// uint reads a number that is not negative.
func (p *Plain) uint() uint64 {
	n, err := strconv.ParseUint(p.digits(), 10, 64)
	if err != nil {
		p.Odd()
	}
	return n
}

// float reads a number without an exponent.
func (p *Plain) float() float64 {
	before := p.rest
	p.digits()
	if p.take('.') {
		n := 0
		for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
			n++
		}
		if n == 0 {
			p.Odd()
		}
		p.rest = p.rest[n:]
	}
	f, err := strconv.ParseFloat(string(before[:len(before)-len(p.rest)]), 64)
	if err != nil {
		p.Odd()
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
		p.Odd()
	}
	return false
}
