package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/belljar/belljar"
)

// schema is a JSON Schema, 2020-12.
type schema map[string]any

// Kinds of values.
func aText(about string) schema  { return schema{"type": "string", "description": about} }
func aWhole(about string) schema { return schema{"type": "integer", "description": about} }
func aFlag(about string) schema  { return schema{"type": "boolean", "description": about} }
func aList(of schema) schema     { return schema{"type": "array", "items": of} }
func aTable(about string) schema {
	return schema{"type": "object", "additionalProperties": schema{"type": "string"}, "description": about}
}
func (s schema) atLeast(n int) schema { s["minimum"] = n; return s }

// takes are the arguments of a tool: these, and no others.
func takes(fields map[string]schema, required ...string) schema {
	s := gives(fields, required...)
	s["additionalProperties"] = false
	return s
}

// gives are the fields of a result; others may come.
func gives(fields map[string]schema, required ...string) schema {
	s := schema{"type": "object", "properties": fields}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// closed is a schema of arguments with no others than those it names, in their lists neither.
func (s schema) closed() schema {
	c := schema{}
	if s["properties"] != nil {
		c["additionalProperties"] = false
	}
	for name, value := range s {
		switch value := value.(type) {
		case schema:
			c[name] = value.closed()
		case map[string]schema:
			all := map[string]schema{}
			for field, of := range value {
				all[field] = of.closed()
			}
			c[name] = all
		default:
			c[name] = value
		}
	}
	return c
}

// checker finds out whether arguments are what a schema says.
type checker struct {
	schema *jsonschema.Schema
	names  []string // of all arguments
}

func newChecker(tool string, s schema) (*checker, error) {
	raw, err := json.Marshal(s.closed())
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	url := "belljar://tools/" + tool
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, err
	}
	k := &checker{schema: compiled}
	for name := range compiled.Properties {
		k.names = append(k.names, name)
	}
	slices.Sort(k.names)
	return k, nil
}

// check returns the arguments, without those that are null, which models send for none, and with whole numbers written as
// such. The error is [belljar.CodeInvalidRequest] and names the field.
func (k *checker) check(raw json.RawMessage) (json.RawMessage, error) {
	if given := string(bytes.TrimSpace(raw)); given == "" || given == "null" {
		raw = json.RawMessage("{}")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "arguments are not JSON: " + err.Error()}
	}
	if fields, ok := doc.(map[string]any); ok {
		changed := false
		for name, value := range fields {
			switch value := value.(type) {
			case nil:
				delete(fields, name)
				changed = true
			case json.Number:
				if n, ok := integer(value); ok && n != value {
					fields[name] = n
					changed = true
				}
			}
		}
		if changed {
			if raw, err = json.Marshal(fields); err != nil {
				return nil, err
			}
		}
	}
	err = k.schema.Validate(doc)
	var wrong *jsonschema.ValidationError
	if errors.As(err, &wrong) {
		return nil, k.explain(wrong)
	}
	return raw, err
}

// faults are the single things that are wrong.
func faults(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if _, ok := e.ErrorKind.(*kind.OneOf); ok || len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		all = append(all, faults(cause)...)
	}
	return all
}

// weight says which fault to tell of: a name that is misspelt explains one that is missing.
func weight(e *jsonschema.ValidationError) int {
	switch e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		return 0
	case *kind.Required:
		return 2
	case *kind.OneOf:
		return 3
	}
	return 1
}

// explain tells of one thing that is wrong, always the same one.
func (k *checker) explain(whole *jsonschema.ValidationError) error {
	e := slices.MinFunc(faults(whole), func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), slices.Compare(a.InstanceLocation, b.InstanceLocation))
	})
	if one := alternatives(e); one != nil {
		return one
	}
	at := field(e.InstanceLocation)
	said := &belljar.Error{Code: belljar.CodeInvalidRequest, Details: map[string]any{"field": at}}
	switch w := e.ErrorKind.(type) {
	case *kind.Required:
		at = join(at, slices.Min(w.Missing))
		said.Message = at + " is required"
	case *kind.AdditionalProperties:
		name := slices.Min(w.Properties)
		at = join(at, name)
		said.Message = fmt.Sprintf("%.80s is not an argument of this tool", at)
		said.Hint = "its arguments are " + strings.Join(k.names, ", ")
		if near := belljar.Nearest(name, 3, k.names); near != "" {
			said.Hint = "did you mean " + near + "? its arguments are " + strings.Join(k.names, ", ")
		}
	case *kind.Type:
		said.Message = fmt.Sprintf("%s must be of type %s, got %s", orArguments(at), strings.Join(w.Want, " or "), w.Got)
		if at == "" {
			said.Hint = "its arguments are " + strings.Join(k.names, ", ")
		}
		if at == "cmd" || at == "command" {
			said.Hint = `give a list, as ["python3", "main.py"], or ["sh", "-c", "…"] for a line of shell`
		}
	case *kind.Enum:
		want := make([]string, len(w.Want))
		for i, v := range w.Want {
			want[i] = fmt.Sprint(v)
		}
		said.Message = fmt.Sprintf("%s must be one of %s, got %.40q", at, strings.Join(want, ", "), fmt.Sprint(w.Got))
	case *kind.Minimum:
		said.Message = fmt.Sprintf("%s must be at least %s, got %.40s", at, w.Want.RatString(), w.Got.RatString())
	case *kind.MinItems:
		said.Message = fmt.Sprintf("%s must not be empty", at)
	default:
		said.Message = fmt.Sprintf("%s does not match the tool's schema", orArguments(at))
	}
	said.Details["field"] = at
	return said
}

// alternatives explains that none, or more than one, of a tool's forms is what was given.
func alternatives(e *jsonschema.ValidationError) error {
	w, ok := e.ErrorKind.(*kind.OneOf)
	if !ok {
		return nil
	}
	message := "give command, and either session_id or base_image"
	if len(w.Subschemas) > 0 {
		message = "session_id and base_image exclude each other: a session has its image"
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: message,
		Details: map[string]any{"fields": []string{"session_id", "base_image", "command"}},
	}
}

func orArguments(at string) string {
	if at == "" {
		return "the arguments"
	}
	return at
}

// field is a place in the arguments as people write it: files[2].path.
func field(location []string) string {
	var b strings.Builder
	for _, part := range location {
		switch {
		case strings.Trim(part, "0123456789") == "":
			b.WriteString("[" + part + "]")
		case b.Len() > 0:
			b.WriteString("." + part)
		default:
			b.WriteString(part)
		}
	}
	return b.String()
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
