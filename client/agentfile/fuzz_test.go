package agentfile

import (
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// FuzzParse checks that any file is parsed within the limits, and either refused with a Belljar code or gives a valid
// toolset.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "no frontmatter", "---\n---\n", "---\nsandbox: python\n---\nbody", "\uFEFF---\r\nsandbox: {mode: code}\r\n---\r\n",
		"---\nsandbox:\n  limits: {memory_mb: 10}\n  network: {enabled: true}\n---\n", "---\na: &a [*a]\n---\n",
		"---\na: &a {b: c}\n<<: *a\nsandbox: *a\n---\n", "---\n? [a]\n: b\n---\n", "---\nsandbox: !!binary aGk=\n---\n", "---\n%YAML 1.1\n---\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse(strings.NewReader(text))
		if err != nil {
			if belljar.CodeOf(err) == belljar.CodeInternal {
				t.Fatalf("%v", err)
			}
			return
		}
		if !strings.HasSuffix(text, file.Body) {
			t.Errorf("body %q is not the end of %q", file.Body, text)
		}
		if file.Meta != nil {
			var all any
			_ = file.Meta.Decode(&all) // may fail, but must end
		}
		if file.Sandbox == nil {
			return
		}
		tools, err := file.Sandbox.Toolset(ExecutionContext{WorkflowRunID: "w"})
		if err != nil {
			if belljar.CodeOf(err) != belljar.CodePolicyDenied {
				t.Errorf("a file that was read: %v", err)
			}
			return
		}
		if err := tools.Scope().Validate(); err != nil {
			t.Error(err)
		}
		if len(tools.InMode().Tools()) == 0 {
			t.Errorf("%+v", tools)
		}
	})
}
