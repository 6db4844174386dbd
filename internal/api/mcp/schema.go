package mcp

import (
	"reflect"
	"strconv"
	"strings"
)

// schema is a JSON Schema, 2020-12.
type schema map[string]any

// takes is the schema of a tool's arguments: the fields of a type, and no others.
func takes[In any]() schema {
	s := schemaOf(reflect.TypeFor[In]())
	s["additionalProperties"] = false
	return s
}

// gives is the schema of a tool's result; others may come.
func gives[Out any]() schema { return schemaOf(reflect.TypeFor[Out]()) }

// schemaOf is the schema of what encoding/json makes of a type. A field's sentence is in its tag about, its values in enum,
// its least value in minimum. Those that may be left out have omitempty.
func schemaOf(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		s := schema{"type": "object", "properties": map[string]schema{}}
		s.add(t, true)
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
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return schema{"type": "integer"}
	}
	return schema{"type": "string"}
}

// add takes the fields of a struct into an object, those of structs in it too. Those of one that may be nil are not needed.
func (s schema) add(t reflect.Type, needed bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			s.add(of, needed && of == f.Type)
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
		} else if kindOf(f.Type) == reflect.Uint64 {
			field["minimum"] = 0
		}
		s.field(name, field)
		if needed && options == "" {
			required, _ := s["required"].([]string)
			s["required"] = append(required, name)
		}
	}
}

func kindOf(t reflect.Type) reflect.Kind {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind()
}

// field sets a property.
func (s schema) field(name string, of schema) {
	s["properties"].(map[string]schema)[name] = of
}
