package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
)

// checker finds out whether arguments are what a schema says. It knows the keywords that our tools use, and no others: a library
// that knows all of them compiles its own schemas whenever a program starts that it is linked into, for 3 ms.
type checker struct {
	schema schema
	names  []string // of all arguments
}

func newChecker(tool string, s schema) (*checker, error) {
	k := &checker{schema: s.closed()}
	for name := range k.schema.fields() {
		k.names = append(k.names, name)
	}
	slices.Sort(k.names)
	if err := k.schema.known(); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", tool, err)
	}
	return k, nil
}

// known refuses what a checker does not look at.
func (s schema) known() error {
	for keyword, value := range s {
		ok := false
		switch keyword {
		case "type", "description":
			_, ok = value.(string)
		case "required", "enum":
			_, ok = value.([]string)
		case "minimum", "minItems":
			_, ok = value.(int)
		case "properties", "items", "oneOf", "additionalProperties":
			ok = value == false
			for _, part := range s.parts(keyword) {
				ok = true
				if err := part.known(); err != nil {
					return err
				}
			}
		}
		if !ok {
			return fmt.Errorf("%s: %T cannot be checked", keyword, value)
		}
	}
	return nil
}

// parts are the schemas in a keyword.
func (s schema) parts(keyword string) []schema {
	switch value := s[keyword].(type) {
	case schema:
		return []schema{value}
	case []schema:
		return value
	case map[string]schema:
		return slices.Collect(maps.Values(value))
	}
	return nil
}

func (s schema) fields() map[string]schema {
	fields, _ := s["properties"].(map[string]schema)
	return fields
}

// check returns the arguments, without those that are null, which models send for none, and with whole numbers written as
// such. The error is [belljar.CodeInvalidRequest] and names the field.
func (k *checker) check(raw json.RawMessage) (json.RawMessage, error) {
	if given := string(bytes.TrimSpace(raw)); given == "" || given == "null" {
		raw = json.RawMessage("{}")
	}
	var doc any
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	err := in.Decode(&doc)
	if err == nil && in.More() {
		err = errors.New("there is more than one value")
	}
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
	if wrong := k.faults(k.schema, doc, nil); len(wrong) > 0 {
		return nil, slices.MinFunc(wrong, fault.compare).error
	}
	return raw, nil
}

// fault is one thing that is wrong.
type fault struct {
	weight int // which fault to report: a name that is misspelt explains one that is missing
	at     []string
	error
}

const (
	unknownName = iota
	wrongValue
	missing
	noForm
)

// compare puts the fault first that is reported, always the same one.
func (f fault) compare(g fault) int {
	return cmp.Or(cmp.Compare(f.weight, g.weight), slices.Compare(f.at, g.at))
}

// faults are all things that are wrong with a value.
func (k *checker) faults(s schema, value any, at []string) (all []fault) {
	add := func(weight int, name, hint, format string, args ...any) {
		err := &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Hint: hint, Details: map[string]any{"field": name}}
		all = append(all, fault{weight, at, err})
	}
	place := field(at)
	if want, ok := s["type"].(string); ok && !isType(value, want) {
		hint := ""
		switch place {
		case "":
			hint = "its arguments are " + strings.Join(k.names, ", ")
		case "cmd", "command":
			hint = `give a list, as ["python3", "main.py"], or ["sh", "-c", "…"] for a line of shell`
		}
		add(wrongValue, place, hint, "%s must be of type %s, got %s", orArguments(place), want, typeOf(value))
		return all
	}
	if want, ok := s["enum"].([]string); ok {
		if text, ok := value.(string); !ok || !slices.Contains(want, text) {
			add(wrongValue, place, "", "%s must be one of %s, got %.40q", place, strings.Join(want, ", "), fmt.Sprint(value))
			return all
		}
	}
	switch value := value.(type) {
	case map[string]any:
		required, _ := s["required"].([]string)
		if absent := slices.DeleteFunc(slices.Clone(required), func(name string) bool { _, ok := value[name]; return ok }); len(absent) > 0 {
			name := join(place, slices.Min(absent))
			add(missing, name, "", "%s is required", name)
		}
		var strange []string
		for name, v := range value {
			of, ok := s.fields()[name]
			if !ok {
				of, ok = s["additionalProperties"].(schema)
			}
			if ok {
				all = append(all, k.faults(of, v, append(slices.Clip(at), name))...)
			} else if s["additionalProperties"] == false {
				strange = append(strange, name)
			}
		}
		if len(strange) > 0 {
			name := slices.Min(strange)
			hint := "its arguments are " + strings.Join(k.names, ", ")
			if near := belljar.Nearest(name, 3, k.names); near != "" {
				hint = "did you mean " + near + "? " + hint
			}
			add(unknownName, join(place, name), hint, "%.80s is not an argument of this tool", join(place, name))
		}
		if forms, ok := s["oneOf"].([]schema); ok {
			all = append(all, k.forms(forms, value, at)...)
		}
	case []any:
		if least, _ := s["minItems"].(int); len(value) < least {
			add(wrongValue, place, "", "%s must not be empty", place)
		}
		if of, ok := s["items"].(schema); ok {
			for i, v := range value {
				all = append(all, k.faults(of, v, append(slices.Clip(at), strconv.Itoa(i)))...)
			}
		}
	case json.Number:
		if least, ok := s["minimum"].(int); ok && size(value) < float64(least) {
			add(wrongValue, place, "", "%s must be at least %d, got %.40s", place, least, value)
		}
	}
	return all
}

// forms is what is wrong if not exactly one of a tool's forms is what was given.
func (k *checker) forms(forms []schema, value any, at []string) []fault {
	matching := 0
	for _, form := range forms {
		if len(k.faults(form, value, at)) == 0 {
			matching++
		}
	}
	message := "give command, and either session_id or base_image"
	switch {
	case matching == 1:
		return nil
	case matching > 1:
		message = "session_id and base_image exclude each other: a session has its image"
	}
	return []fault{{noForm, at, &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: message,
		Details: map[string]any{"fields": []string{"session_id", "base_image", "command"}},
	}}}
}

// typeOf is the JSON type of a decoded value.
func typeOf(value any) string {
	switch value.(type) {
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

func isType(value any, want string) bool {
	n, ok := value.(json.Number)
	return typeOf(value) == want || ok && want == "integer" && size(n) == math.Trunc(size(n)) && !math.IsInf(size(n), 0)
}

// size is a number, infinite if it is out of range.
func size(n json.Number) float64 {
	f, _ := n.Float64()
	return f
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
