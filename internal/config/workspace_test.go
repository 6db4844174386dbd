package config

import (
	"strings"
	"testing"
)

// TestWorkspace checks the settings of the workspace API against each other.
func TestWorkspace(t *testing.T) {
	local := []string{"WORKSPACE_MODE=local", "SANDBOX_WORKSPACE_DIR=/srv/work", "SANDBOX_ALLOW_WEAK=workspace_local"}
	for name, c := range map[string]struct {
		env  []string
		want string // in the error; "" for none
	}{
		"default":       {nil, ""},
		"local":         {local, ""},
		"mode":          {[]string{"WORKSPACE_MODE=cloud"}, "must be sandbox or local"},
		"no folder":     {[]string{"WORKSPACE_MODE=local", "SANDBOX_ALLOW_WEAK=workspace_local"}, "SANDBOX_WORKSPACE_DIR"},
		"no word":       {local[:2], "workspace_local in SANDBOX_ALLOW_WEAK"},
		"open":          {append([]string{"SANDBOX_LISTEN=0.0.0.0:80"}, local...), "loopback address"},
		"folder alone":  {[]string{"SANDBOX_WORKSPACE_DIR=/srv/work"}, "has no meaning"},
		"root":          {[]string{"SANDBOX_WORKSPACE_DIR=/", "WORKSPACE_MODE=local"}, "absolute path"},
		"templates":     {[]string{"SANDBOX_WORKSPACE_TEMPLATES=[]"}, "JSON object"},
		"user":          {[]string{"SANDBOX_WORKSPACE_USER=me"}, ""},
		"user, server":  {[]string{"SANDBOX_WORKSPACE_USER=server"}, "a name of the server's"},
		"user, open":    {[]string{"SANDBOX_WORKSPACE_USER=me", "SANDBOX_LISTEN=0.0.0.0:80"}, "loopback address"},
		"user and JWTs": {[]string{"SANDBOX_WORKSPACE_USER=me", "SANDBOX_JWT_SECRET=" + strings.Repeat("j", 32)}, "excludes SANDBOX_JWT_SECRET"},
		"user, local":   {append([]string{"SANDBOX_WORKSPACE_USER=me"}, local...), "for operators only"},
	} {
		_, err := Load(Sources{Env: c.env})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
