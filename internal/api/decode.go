package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/belljar/belljar"
)

// maxDepth is how deep a body's arrays and objects may be nested. The deepest request has four levels.
const maxDepth = 64

// maxValues is how many values a body may have, those in its arrays and objects counted too. Bytes are cheap to read,
// values are not.
const maxValues = 1 << 16

// Decode reads one JSON value into the variable that to points at. It is
// stricter than encoding/json where that would guess: names are exact and known, each is given once, and text is valid
// Unicode. The error is [belljar.CodeInvalidRequest]; its details name the field, or the offset where the JSON breaks.
func Decode(data []byte, to any) error { return decode(data, shapeOf(reflect.TypeOf(to).Elem()), to) }

// DecoderOf returns [Decode] for variables of type T. It looks at the type once.
func DecoderOf[T any]() func(data []byte, to *T) error {
	s := shapeOf(reflect.TypeFor[T]())
	return func(data []byte, to *T) error { return decode(data, s, to) }
}

// decode is [Decode] of a value whose type has the shape s.
func decode(data []byte, s *shape, to any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return Refuse("", "the body is empty, it must be a JSON %s", s.kind)
	}
	if err := scan(data); err != nil {
		return err
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return malformed(err)
	}
	w := walker{tokens: json.NewDecoder(bytes.NewReader(data)), left: maxValues}
	w.tokens.UseNumber()
	if err := w.value(s, ""); err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return malformed(err)
	}
	return nil
}

// scan checks what encoding/json lets pass: nesting that is too deep, and text that is not Unicode, which it would
// replace in silence.
func scan(data []byte) error {
	if at := invalidUTF8(data); at >= 0 {
		return broken(at, "the body is not valid UTF-8 at byte %d", at)
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			if surrogate(data[i:]) == half {
				return broken(i, "the body has half a surrogate pair at byte %d", i)
			}
			if surrogate(data[i:]) == pair {
				i += 2*escapeLen - 1
				continue
			}
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return broken(i, "the body is nested deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// malformed tells where a body stops being JSON.
func malformed(err error) *belljar.Error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at := int(syntax.Offset) - 1 // it counts the byte that is wrong
		if syntax.Error() == "unexpected end of JSON input" {
			at++
		}
		return broken(at, "the body is not valid JSON at byte %d: %v", at, syntax)
	}
	return Refuse("", "the body cannot be read: %v", err)
}

func broken(offset int, format string, args ...any) *belljar.Error {
	e := Refuse("", format, args...)
	e.Details = map[string]any{"offset": offset}
	return e
}

// Refuse is an invalid request, with the field that is to blame if there is one.
func Refuse(field, format string, args ...any) *belljar.Error {
	e := &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Details: map[string]any{}}
	if field != "" {
		e.Details["field"] = field
	}
	return e
}
