package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// flow is a workflow from its file.
type flow struct {
	ID          string `yaml:"id"`
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Steps       []step `yaml:"steps"`
	MaxSteps    int    `yaml:"max_steps"` // steps in total, including loops; 0 is 50
}

// step is one step. The next one in the file follows it, unless it is a switch.
type step struct {
	ID          string       `yaml:"id"`
	Type        string       `yaml:"type"` // agent | switch | end
	Agent       string       `yaml:"agent"`
	Expression  string       `yaml:"expression"` // steps.STEP.output.FIELD
	Transitions []transition `yaml:"transitions"`
}

// transition is the target of a switch if its expression equals Condition.
type transition struct {
	Condition string `yaml:"condition"`
	Next      string `yaml:"next"`
}

var (
	plainName  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	expression = regexp.MustCompile(`^steps\.([a-z0-9_-]+)\.output\.([A-Za-z0-9_]+)$`)
)

// read reads and validates a workflow.
func read(name string) (flow, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return flow{}, err
	}
	f := flow{MaxSteps: 50}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return flow{}, fmt.Errorf("%s: %w", name, err)
	}
	at := map[string]int{}
	for i, s := range f.Steps {
		if _, twice := at[s.ID]; twice || !plainName.MatchString(s.ID) {
			return flow{}, fmt.Errorf("%s: step %d has no name of its own: %q", name, i+1, s.ID)
		}
		at[s.ID] = i
	}
	for i, s := range f.Steps {
		switch {
		case s.Type == "agent" && plainName.MatchString(s.Agent) && i+1 < len(f.Steps):
		case s.Type == "end":
		case s.Type == "switch" && expression.MatchString(s.Expression) && len(s.Transitions) > 0:
			for _, t := range s.Transitions {
				if _, known := at[t.Next]; !known {
					return flow{}, fmt.Errorf("%s: step %s continues with %q, which is not a step", name, s.ID, t.Next)
				}
			}
		default:
			return flow{}, fmt.Errorf("%s: step %s cannot be run", name, s.ID)
		}
	}
	return f, nil
}

// after returns the index of the step after the one at i, and for a switch the deciding value.
func (f flow) after(i int, outputs map[string]map[string]any) (next int, value string, err error) {
	s := f.Steps[i]
	if s.Type != "switch" {
		return i + 1, "", nil
	}
	parts := expression.FindStringSubmatch(s.Expression)
	found, ok := outputs[parts[1]][parts[2]]
	if !ok {
		return 0, "", fmt.Errorf("step %s has reported no %s", parts[1], parts[2])
	}
	value = strings.TrimSpace(fmt.Sprint(found))
	for _, t := range s.Transitions {
		if t.Condition != value {
			continue
		}
		for j := range f.Steps {
			if f.Steps[j].ID == t.Next {
				return j, value, nil
			}
		}
	}
	return 0, "", fmt.Errorf("step %s does not say what follows %s", s.ID, value)
}
