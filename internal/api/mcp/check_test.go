package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// TestCheckerAgrees: what a library that knows all of JSON Schema takes as a tool's arguments, the checker takes.
func TestCheckerAgrees(t *testing.T) {
	kit, err := New(Options{Runtimes: []string{"native"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range kit.tools {
		t.Run(tool.name, func(t *testing.T) {
			library := compiled(t, tool.checker.schema)
			fields := slices.Sorted(maps.Keys(tool.checker.schema.fields()))
			value := anyValue(append(fields, "path", "content_b64", "strange"), []string{"python", "docker", "native", "create"})
			accepted := 0
			rapid.Check(t, func(t *rapid.T) {
				given := map[string]any{}
				for _, name := range fields {
					if rapid.Bool().Draw(t, "has "+name) {
						given[name] = likely(tool.checker.schema.fields()[name], value).Draw(t, name)
					}
				}
				if rapid.IntRange(0, 9).Draw(t, "strange") == 0 {
					given["strange"] = value.Draw(t, "value")
				}
				raw, err := json.Marshal(given)
				if err != nil {
					t.Fatal(err)
				}
				doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
				if err != nil {
					t.Fatal(err)
				}
				want := library.Validate(doc)
				got := tool.checker.faults(tool.checker.schema, doc, nil)
				if (want == nil) != (len(got) == 0) {
					t.Fatalf("%s: %v, the library says %v", raw, got, want)
				}
				if want == nil {
					accepted++
				}
			})
			if accepted == 0 {
				t.Error("it has accepted nothing")
			}
		})
	}
}

func compiled(t *testing.T, s schema) *jsonschema.Schema {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("test://tool", doc); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("test://tool")
}

// anyValue is any JSON, with names and words among it that mean something to a tool.
func anyValue(names, words []string) *rapid.Generator[any] {
	plain := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(rapid.IntRange(-2, 3), func(n int) any { return n }),
		rapid.Just[any](1.5), rapid.Just[any](json.Number("1e2000000")), rapid.Just[any](json.Number("2.0")), rapid.Map(rapid.SampledFrom(words), func(s string) any { return s }))
	list := func(of *rapid.Generator[any]) *rapid.Generator[any] {
		return rapid.Map(rapid.SliceOfN(of, 0, 2), func(l []any) any { return l })
	}
	table := func(of *rapid.Generator[any]) *rapid.Generator[any] {
		return rapid.Map(rapid.MapOfN(rapid.SampledFrom(names), of, 0, 2), func(m map[string]any) any { return m })
	}
	return rapid.OneOf(plain, list(plain), table(plain), list(table(plain)))
}

// likely is a value that a schema takes, most of the time.
func likely(s schema, value *rapid.Generator[any]) *rapid.Generator[any] {
	good := value
	switch s["type"] {
	case "string":
		good = rapid.Just[any]("text")
	case "integer":
		good = rapid.Just[any](1)
	case "boolean":
		good = rapid.Just[any](true)
	case "array":
		good = rapid.Just[any]([]any{})
		if s["items"].(schema)["type"] == "string" {
			good = rapid.Just[any]([]any{"text"})
		}
	case "object":
		good = rapid.Just[any](map[string]any{})
	}
	if words, ok := s["enum"].([]string); ok {
		good = rapid.Map(rapid.SampledFrom(words), func(s string) any { return s })
	}
	return rapid.OneOf(good, good, good, good, good, good, value)
}

// TestCheckerRefusesSchemas: a keyword that is not looked at would be one that is not enforced.
func TestCheckerRefusesSchemas(t *testing.T) {
	for _, s := range []schema{
		{"pattern": "^a"}, {"minimum": 1.5}, {"type": []string{"string", "null"}}, {"additionalProperties": true}, {"items": true},
		{"properties": map[string]schema{"a": {"maxItems": 1}}}, {"oneOf": []schema{{"format": "date"}}},
	} {
		if _, err := newChecker("x", s); err == nil {
			t.Errorf("%v is taken", s)
		}
	}
}
