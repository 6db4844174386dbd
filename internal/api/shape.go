package api

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// kind is the required type of a JSON value, as error messages name it.
type kind string

const (
	anything kind = "value"
	object   kind = "object"
	array    kind = "array"
	text     kind = "string"
	base64ed kind = "base64 string"
	number   kind = "number"
	whole    kind = "whole number"
	boolean  kind = "boolean"
)

// article returns the kind with its article.
func (k kind) article() string {
	switch k {
	case object, array, anything:
		return map[kind]string{object: "an object", array: "an array", anything: "any value"}[k]
	}
	return "a " + string(k)
}

// versionField is not required here: the service checks it, with an error code of its own.
const versionField = "spec_version"

// shape describes the JSON of a Go type.
type shape struct {
	kind   kind
	fields map[string]*shape // of an object with a fixed set of names
	needed []string          // required fields, as in the document: those without omitempty
	elem   *shape            // of an array, or of an object with any names
	bits   int               // of a whole number
	least  string            // minimum of a number, from the tag of that name
	unset  bool              // it may be left out
	signed bool
}

// shapeOf returns the shape of a type as encoding/json decodes it. Recursive types are not supported.
func shapeOf(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return &shape{kind: text}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return &shape{kind: anything}
	}
	switch t.Kind() {
	case reflect.Struct:
		s := &shape{kind: object, fields: map[string]*shape{}}
		s.add(t)
		return s
	case reflect.Map:
		return &shape{kind: object, elem: shapeOf(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &shape{kind: base64ed}
		}
		return &shape{kind: array, elem: shapeOf(t.Elem())}
	case reflect.String:
		return &shape{kind: text}
	case reflect.Bool:
		return &shape{kind: boolean}
	case reflect.Float32, reflect.Float64:
		return &shape{kind: number}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &shape{kind: whole, bits: t.Bits(), signed: true}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &shape{kind: whole, bits: t.Bits()}
	}
	return &shape{kind: anything}
}

// add adds the fields of a struct type, embedded ones included.
func (s *shape) add(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			s.add(f.Type)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if s.fields[name] != nil {
			continue // hidden by a field of the outer struct
		}
		s.fields[name] = shapeOf(f.Type)
		s.fields[name].least = f.Tag.Get("minimum")
		if s.fields[name].unset = strings.Contains(options, "omit"); !s.fields[name].unset && name != versionField {
			s.needed = append(s.needed, name)
		}
	}
}

// minimum is the minimum of a number.
func (s *shape) minimum() float64 {
	n, _ := strconv.ParseFloat(s.least, 64) // a constant tag
	return n
}

// names are the sorted names of an object's fields.
func (s *shape) names() []string { return slices.Sorted(maps.Keys(s.fields)) }
