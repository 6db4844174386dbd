package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/belljar/belljar/internal/api"
)

// accepts reports whether the decoder accepts arguments of a type.
func accepts[In any](raw []byte) bool {
	var in In
	raw, err := normalized(raw)
	return err == nil && api.Decode(raw, &in) == nil
}

// TestArgumentsAgree: a tool accepts exactly the arguments that a complete JSON Schema library accepts. sandbox.run is stricter
// than its schema, which is fixed.
func TestArgumentsAgree(t *testing.T) {
	kit := New(Options{Runtimes: []string{"native"}})
	takes := map[string]func([]byte) bool{
		"sandbox_run": accepts[runInput], "sandbox_open": accepts[openInput], "sandbox_exec": accepts[execInput], "sandbox_exec_read": accepts[readInput],
		"sandbox_exec_wait": accepts[waitInput], "sandbox_close": accepts[closeInput], "sandbox_code": accepts[codeInput], "sandbox_fork": accepts[forkInput], "sandbox_fs_write": accepts[writeInput],
		"sandbox_fs_read": accepts[fileInput], "sandbox_fs_list": accepts[listInput], "sandbox_fs_delete": accepts[deleteInput],
	}
	for _, tool := range kit.tools {
		if tool.Name == runTool {
			continue
		}
		t.Run(tool.Name, func(t *testing.T) {
			properties := tool.input["properties"].(map[string]schema)
			delete(properties["runtime"], "enum") // checked when the tool is called
			library := compiled(t, tool.input)
			fields := slices.Sorted(maps.Keys(properties))
			value := anyValue(append(fields, "path", "content_b64", "strange"), []string{"python", "docker", "native", "create"})
			accepted := 0
			rapid.Check(t, func(t *rapid.T) {
				given := map[string]any{}
				for _, name := range fields {
					if rapid.Bool().Draw(t, "has "+name) {
						if given[name] = likely(properties[name], value).Draw(t, name); given[name] == nil {
							delete(given, name) // null counts as absent
						}
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
				if got := takes[tool.Name](raw); got != (want == nil) {
					t.Fatalf("%s is taken: %v, the library says %v", raw, got, want)
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

// anyValue generates any JSON, including names and words with a meaning for tools.
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

// likely generates values that a schema accepts, most of the time.
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
