package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRead reads the workflow of this folder, and refuses invalid ones.
func TestRead(t *testing.T) {
	f, err := read("workflow.yaml")
	if err != nil || f.ID != "code-review-and-fix" || len(f.Steps) != 5 || f.MaxSteps != 20 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, c := range []struct{ text, says string }{
		{"steps: [{id: a, type: agent, agent: x, retry: 3}, {id: b, type: end}]", "field retry not found"},
		{"steps: [{id: a, type: agent, agent: x}, {id: a, type: end}]", "step 2 has no name of its own"},
		{"steps: [{id: a, type: agent, agent: ../x}, {id: b, type: end}]", "step a cannot be run"},
		{"steps: [{id: a, type: end}, {id: b, type: agent, agent: x}]", "step b cannot be run"},
		{"steps: [{id: c, type: switch, expression: 1 + 1, transitions: [{condition: a, next: c}]}]", "step c cannot be run"},
		{"steps: [{id: a, type: switch, expression: steps.a.output.b, transitions: [{condition: a, next: x}]}]", "which is not a step"},
	} {
		file := filepath.Join(t.TempDir(), "workflow.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := read(file); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, not %s", c.text, err, c.says)
		}
	}
}

// TestAfter selects the next step.
func TestAfter(t *testing.T) {
	f, err := read("workflow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for text, next := range map[string]string{
		`{"all_passed": true}`: "done", `{"all_passed": false}`: "fix", `{"all_passed": "true"}`: "done",
		`{"all_passed": 7}`: "", `all passed`: "", `null`: "", `[]`: "", `{}`: "",
	} {
		at, _, err := f.after(3, map[string]map[string]any{"test": output(text)})
		if (err == nil) != (next != "") || err == nil && f.Steps[at].ID != next {
			t.Errorf("after %s: step %d, %v", text, at, err)
		}
	}
	if at, _, err := f.after(0, nil); err != nil || at != 1 {
		t.Errorf("after the first: %d, %v", at, err)
	}
	if _, _, err := f.after(3, nil); err == nil {
		t.Error("a step that was not run decides")
	}
}
