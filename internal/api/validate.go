package api

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/nearest"
)

// validator checks JSON against a shape. Its syntax is already valid.
type validator struct {
	tokens *json.Decoder
	left   int // how many more values are allowed
}

// value checks the next value. path is its place in the body, "" for the whole body.
func (w *validator) value(s *shape, path string) error {
	token, err := w.tokens.Token()
	if err != nil {
		return malformed(err)
	}
	return w.check(token, s, path)
}

// optional checks a value that may be null, which means the same as leaving it out. It reports whether it is set.
func (w *validator) optional(s *shape, path string) (bool, error) {
	token, err := w.tokens.Token()
	if err != nil {
		return false, malformed(err)
	}
	if token == nil {
		return false, nil
	}
	return true, w.check(token, s, path)
}

func (w *validator) check(token json.Token, s *shape, path string) error {
	if w.left--; w.left < 0 {
		e := Refuse("", "the body has more than %d values", maxValues)
		e.Details = map[string]any{"maximum": maxValues}
		return e
	}
	switch token {
	case json.Delim('{'):
		if s.kind != object && s.kind != anything {
			return wrong(path, s, object)
		}
		return w.object(s, path)
	case json.Delim('['):
		if s.kind != array && s.kind != anything {
			return wrong(path, s, array)
		}
		return w.array(s, path)
	}
	switch v := token.(type) {
	case string:
		return checkText(v, s, path)
	case json.Number:
		return checkNumber(v, s, path)
	case bool:
		if s.kind != boolean && s.kind != anything {
			return wrong(path, s, boolean)
		}
	case nil:
		if s.kind != anything {
			return wrong(path, s, "null")
		}
	}
	return nil
}

func (w *validator) object(s *shape, path string) error {
	seen := map[string]bool{} // false for null
	for w.tokens.More() {
		token, err := w.tokens.Token()
		if err != nil {
			return malformed(err)
		}
		name, _ := token.(string)
		at := join(path, name)
		if _, twice := seen[name]; twice {
			return Refuse(at, "%s is given twice", at)
		}
		seen[name] = true
		switch {
		case s.fields == nil && s.elem == nil:
			err = w.value(&shape{kind: anything}, at)
		case s.fields == nil:
			err = w.value(s.elem, at)
		case s.fields[name] == nil:
			return Unknown("field", at, name, s.names())
		default:
			seen[name], err = w.optional(s.fields[name], at)
		}
		if err != nil {
			return err
		}
	}
	if _, err := w.tokens.Token(); err != nil { // }
		return malformed(err)
	}
	for _, name := range s.needed {
		if !seen[name] {
			return Refuse(join(path, name), "%s is missing", join(path, name))
		}
	}
	return nil
}

// join returns the path of a field of the object at path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (w *validator) array(s *shape, path string) error {
	elem := cmp.Or(s.elem, &shape{kind: anything})
	for i := 0; w.tokens.More(); i++ {
		if err := w.value(elem, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	if _, err := w.tokens.Token(); err != nil { // ]
		return malformed(err)
	}
	return nil
}

func checkText(v string, s *shape, path string) error {
	switch s.kind {
	case text, anything:
		return nil
	case base64ed:
		if _, err := base64.StdEncoding.DecodeString(v); err != nil {
			return Refuse(path, "%s is not valid base64: %v", path, err)
		}
		return nil
	}
	return wrong(path, s, text)
}

func checkNumber(v json.Number, s *shape, path string) error {
	var err error
	switch s.kind {
	case anything:
		return nil
	case number:
		var f float64
		if f, err = v.Float64(); err == nil && math.IsInf(f, 0) {
			err = strconv.ErrRange
		}
	case whole:
		if s.signed {
			_, err = strconv.ParseInt(v.String(), 10, s.bits)
		} else {
			_, err = strconv.ParseUint(v.String(), 10, s.bits)
		}
	default:
		return wrong(path, s, number)
	}
	if f, bad := v.Float64(); err == nil && bad == nil && s.least != "" && f < s.minimum() {
		e := Refuse(path, "%s must be at least %s, got %.40s", path, s.least, v)
		e.Details["provided"], e.Details["minimum"] = v.String(), json.Number(s.least)
		if s.unset {
			e.Hint = "leave it out for the default"
		}
		return e
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		err = Refuse(path, "%s is out of range: %.40s", path, v)
	case !s.signed && v[0] == '-':
		err = Refuse(path, "%s must not be negative, got %.40s", path, v)
	default:
		err = Refuse(path, "%s must be a whole number, got %.40s", path, v)
	}
	return err
}

// wrong returns the error for a value of the wrong kind.
func wrong(path string, s *shape, got kind) *belljar.Error {
	name := cmp.Or(path, "the body")
	given := got.article()
	if got == "null" {
		given = "null"
	}
	e := Refuse(path, "%s must be %s, got %s", name, s.kind.article(), given)
	e.Details["expected"], e.Details["got"] = string(s.kind), string(got)
	if (path == "cmd" || path == "command") && s.kind == array {
		e.Hint = `give a list, as ["python3", "main.py"], or ["sh", "-c", "…"] for a line of shell`
	}
	return e
}

// Unknown returns the error for an unknown field or query parameter (what). It suggests the most similar known name.
func Unknown(what, path, name string, known []string) *belljar.Error {
	e := Refuse(path, "unknown %s %q", what, path)
	if near := nearest.Of(name, len(name)/3+1, known); near != "" {
		e.Details["did_you_mean"] = near
		e.Hint = "did you mean " + near
	}
	return e
}
