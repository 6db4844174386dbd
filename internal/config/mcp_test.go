package config

import (
	"slices"
	"strings"
	"testing"
)

// All tools of models can be listed by name.
func TestTools(t *testing.T) {
	c := load(t, Sources{Env: []string{"SANDBOX_MCP_TOOLS=sandbox_run,sandbox.run"}})
	if !slices.Equal(c.MCPTools, []string{"sandbox_run", "sandbox.run"}) {
		t.Errorf("%q", c.MCPTools)
	}
	for _, tool := range []string{"a b", "\x01", "ü", strings.Repeat("x", 65)} {
		if got := problems(t, Sources{Set: map[string]string{"mcp_tools": tool}}); len(got) != 1 || !strings.Contains(got[0], "is not the name of a tool") {
			t.Errorf("%q: %q", tool, got)
		}
	}
}
