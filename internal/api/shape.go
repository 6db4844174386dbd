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

// kind is what a JSON value has to be, in the words of its error.
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

// versionField is looked at by the service alone: it has an error code of its own.
const versionField = "spec_version"

// shape is what a Go type looks like as JSON.
type shape struct {
	kind   kind
	fields map[string]*shape // of an object with a fixed set of names
	needed []string          // those of them that must be given, as in the document: without omitempty
	elem   *shape            // of an array, or of an object with any names
	bits   int               // of a whole number
	least  string            // of a number, from the tag minimum
	signed bool
}

// shapeOf returns the shape of a type as encoding/json reads it. Types may not contain themselves.
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

// add takes the fields of a struct type, embedded ones too, into an object.
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
			continue // a field of what embeds this hides it
		}
		s.fields[name] = shapeOf(f.Type)
		s.fields[name].least = f.Tag.Get("minimum")
		if !strings.Contains(options, "omit") && name != versionField {
			s.needed = append(s.needed, name)
		}
	}
}

// floor is the least value of a number.
func (s *shape) floor() float64 {
	n, _ := strconv.ParseFloat(s.least, 64) // it is ours
	return n
}

// names are those of an object's fields, sorted.
func (s *shape) names() []string { return slices.Sorted(maps.Keys(s.fields)) }
