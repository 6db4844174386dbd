package mcp

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// schema is a JSON Schema, 2020-12.
type schema map[string]any

// schemaOf returns the schema of a type as encoding/json writes it. A field's tag about is its description, enum its values
// and minimum its least value. A field without omitempty is required.
func schemaOf(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		s := schema{"type": "object", "properties": map[string]schema{}}
		s.addFields(t, true)
		return s
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return schema{"type": "string"}
		}
		return schema{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Uint64:
		return schema{"type": "integer", "minimum": 0}
	}
	return schema{"type": "string"}
}

// addFields adds the fields of a struct, and of the structs embedded in it. Fields of an embedded pointer are optional.
func (s schema) addFields(t reflect.Type, required bool) {
	for f := range t.Fields() {
		if f.Anonymous {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			s.addFields(embedded, required && embedded == f.Type)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		field := schemaOf(f.Type)
		if about := f.Tag.Get("about"); about != "" {
			field["description"] = about
		}
		if values := f.Tag.Get("enum"); values != "" {
			field["enum"] = strings.Split(values, ",")
		}
		if least, err := strconv.Atoi(f.Tag.Get("minimum")); err == nil {
			field["minimum"] = least
		}
		s.set(name, field)
		if required && options == "" {
			names, _ := s["required"].([]string)
			s["required"] = append(names, name)
		}
	}
}

// set sets a property.
func (s schema) set(name string, property schema) {
	s["properties"].(map[string]schema)[name] = property
}

// decoding returns do for arguments that are JSON. It refuses a sandbox that the client may not use.
func decoding[In any](do func(c *call, in In) (*reply, error)) func(*call, []byte) (*reply, error) {
	decode := api.DecoderOf[In]()
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	known := "its arguments are " + strings.Join(names, ", ")
	return func(c *call, raw []byte) (*reply, error) {
		var in In
		raw, err := normalized(raw)
		if err == nil {
			err = decode(raw, &in)
		}
		if err != nil {
			return nil, argumentError(err, known)
		}
		if place, ok := any(in).(interface{ sandbox() string }); ok {
			if err := c.authorize(place.sandbox(), false); err != nil {
				return nil, err
			}
		}
		return do(c, in)
	}
}

// normalized returns arguments with whole numbers written as integers. No arguments become an empty object.
func normalized(raw []byte) ([]byte, error) {
	if given := string(bytes.TrimSpace(raw)); given == "" || given == "null" {
		return []byte("{}"), nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return raw, nil // the decoder's error names its type
	}
	changed := false
	for name, value := range fields {
		if n, ok := integer(json.Number(value)); ok && string(n) != string(value) {
			fields[name], changed = json.RawMessage(n), true
		}
	}
	if !changed {
		return raw, nil
	}
	return json.Marshal(fields)
}

// argumentError rewrites a decoder's error in the terms of tools. known lists the arguments.
func argumentError(err error, known string) error {
	return rewritten(err, func(e *belljar.Error) bool {
		e.Message = strings.Replace(e.Message, "the body", "the arguments", 1)
		e.Message = strings.Replace(e.Message, "unknown field", "unknown argument", 1)
		field, _ := e.Details["field"].(string)
		switch {
		case strings.HasPrefix(e.Message, "unknown argument") && e.Hint != "":
			e.Hint += "? " + known
		case strings.HasPrefix(e.Message, "unknown argument"), field == "":
			e.Hint = known
		}
		return true
	})
}
