package belljar

import (
	"strings"
	"testing"
)

func TestTerminalSpec(t *testing.T) {
	for name, c := range map[string]struct {
		spec  TerminalSpec
		field string
	}{
		"nothing":             {TerminalSpec{}, ""},
		"all":                 {TerminalSpec{Cols: 1000, Rows: 1, Name: "Ann's", Command: []string{"bash", ""}, Shared: true}, ""},
		"too wide":            {TerminalSpec{Cols: 1001, Rows: 24}, "cols"},
		"too high":            {TerminalSpec{Cols: 80, Rows: 1 << 20}, "rows"},
		"negative":            {TerminalSpec{Cols: -1}, "cols"},
		"one side negative":   {TerminalSpec{Cols: 80, Rows: -1}, "rows"},
		"name with a newline": {TerminalSpec{Name: "a\nb"}, "name"},
		"name too long":       {TerminalSpec{Name: strings.Repeat("x", 257)}, "name"},
		"name not UTF-8":      {TerminalSpec{Name: "\xff"}, "name"},
		"NUL":                 {TerminalSpec{Command: []string{"a", "b\x00"}}, "command"},
		"no program":          {TerminalSpec{Command: []string{""}}, "command"},
		"many arguments":      {TerminalSpec{Command: make([]string, 257)}, "command"},
		"long":                {TerminalSpec{Command: []string{"a", strings.Repeat("x", 1<<18)}}, "command"},
	} {
		err := c.spec.Validate()
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if e, ok := err.(*Error); !ok || e.Code != CodeInvalidRequest || e.Details["field"] != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}
