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

// maxDepth limits the nesting of arrays and objects in a body. The deepest valid request has four levels.
const maxDepth = 64

// maxValues limits the number of JSON values in a body, nested ones included: decoding costs time per value, not per
// byte.
const maxValues = 1 << 16

// MostValues is how many JSON values a message of a client may have, by [char.Values]: decoded, each takes far more memory than it has bytes.
const MostValues = 100_000

// Decode decodes one JSON value into the variable that to points at. It is stricter than encoding/json: field names
// must be known, in the exact case and unique, and text must be valid Unicode. The error is
// [belljar.CodeInvalidRequest]; its details name the field, or the offset of a syntax error.
func Decode(data []byte, to any) error { return decode(data, shapeOf(reflect.TypeOf(to).Elem()), to) }

// DecoderOf returns [Decode] for variables of type T. It reflects on the type once.
func DecoderOf[T any]() func(data []byte, to *T) error {
	s := shapeOf(reflect.TypeFor[T]())
	return func(data []byte, to *T) error { return decode(data, s, to) }
}

// decode is [Decode] for a type of shape s.
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
	w := validator{tokens: json.NewDecoder(bytes.NewReader(data)), left: maxValues}
	w.tokens.UseNumber()
	if err := w.value(s, ""); err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return malformed(err)
	}
	return nil
}

// scan rejects what encoding/json accepts: nesting that is too deep, and invalid Unicode, which it would silently
// replace.
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

// malformed returns the error for invalid JSON, with its offset.
func malformed(err error) *belljar.Error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at := int(syntax.Offset) - 1 // Offset includes the wrong byte
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

// Refuse returns a [belljar.CodeInvalidRequest] error. field names the invalid field in its details, unless it is "".
func Refuse(field, format string, args ...any) *belljar.Error {
	e := &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Details: map[string]any{}}
	if field != "" {
		e.Details["field"] = field
	}
	return e
}
