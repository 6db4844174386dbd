//go:build linux

package client_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

func TestOpenToolset(t *testing.T) {
	c := newWorld(t, nil).client()
	tools := belljar.Toolset{
		Mode: belljar.ToolsCode, Workflow: "w", Session: "build", IdleTimeoutSec: 7200, TimeoutSec: 5,
		Resources: belljar.Resources{MemoryMB: 64, WorkspaceMB: 8},
	}
	s, created, err := client.OpenToolset(within(t), c, tools)
	if err != nil || !created || s.ScopeKey != "workflow:w:build" || s.Limits.MemoryMB != 64 || s.Limits.WorkspaceMB != 8 || s.Limits.TimeoutSec != 5 {
		t.Fatalf("%+v %v %v", s, created, err)
	}
	if got := s.ExpiresAt.Sub(s.CreatedAt).Seconds(); got < tools.IdleTimeoutSec {
		t.Errorf("it ends after %v seconds without use", got)
	}
	again, created, err := client.OpenToolset(within(t), c, tools)
	if err != nil || created || again.ID != s.ID {
		t.Errorf("%+v %v %v", again, created, err)
	}
	tools.Session = belljar.IsolatedKey
	own, created, err := client.OpenToolset(within(t), c, tools)
	if err != nil || !created || own.ID == s.ID {
		t.Errorf("%+v %v %v", own, created, err)
	}
	for name, test := range map[string]struct {
		tools belljar.Toolset
		code  belljar.Code
	}{
		"mode compute": {belljar.Toolset{}, belljar.CodeInvalidRequest},
		"the network":  {belljar.Toolset{Mode: belljar.ToolsCode, Network: true}, belljar.CodePolicyDenied},
		"packages":     {belljar.Toolset{Mode: belljar.ToolsCode, Packages: belljar.Packages{Pip: []string{"a;b"}}}, belljar.CodeInvalidRequest},
		"git":          {belljar.Toolset{Mode: belljar.ToolsCode, Git: &belljar.GitSpec{URL: "ssh://git.example/a"}}, belljar.CodeInvalidRequest},
		"a name":       {belljar.Toolset{Mode: belljar.ToolsCode, Workflow: "w\n"}, belljar.CodeInvalidRequest},
	} {
		if _, _, err := client.OpenToolset(within(t), c, test.tools); belljar.CodeOf(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	closed, err := c.Sessions().CloseAll(within(t), belljar.CloseRequest{KeyPrefix: belljar.Toolset{Workflow: "w"}.Scope().Prefix()})
	if err != nil || len(closed) != 1 || closed[0] != s.ID {
		t.Errorf("%v %v", closed, err)
	}
}
