package config

import (
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/user"
)

// WeakWorkspace is the value of SANDBOX_ALLOW_WEAK that allows a workspace without a sandbox.
const WeakWorkspace = "workspace_local"

func workspaces(c *Config) []row {
	return []row{
		{name: "WORKSPACE_MODE", value: oneOf(&c.WorkspaceMode, "sandbox", "local", "remote"), def: "sandbox", alias: "WORKSPACE_MODE",
			doc: "What the workspaces of the workspace API are: sandbox, a session of this server; or local, the folder SANDBOX_WORKSPACE_DIR of this machine, without a sandbox, for operators only; or remote, a session of the belljar SANDBOX_WORKSPACE_URL. With SANDBOX_SPRITES_BASE_URL, sandbox is a sprite. WORKSPACE_MODE without a prefix works, too."},
		{name: "WORKSPACE_DIR", value: text(&c.WorkspaceDir, checkAbsolute), doc: "Folder of the mode local. Programs run as the user of the server and can do what that user can: the mode needs " + WeakWorkspace + " in SANDBOX_ALLOW_WEAK and a loopback address in SANDBOX_LISTEN."},
		{name: "WORKSPACE_IMAGE", value: text(&c.WorkspaceImage, checkImage), doc: "Image of the workspaces that the workspace API makes. If unset, SANDBOX_DEFAULT_IMAGE."},
		{name: "WORKSPACE_TEMPLATES", value: text(&c.WorkspaceTemplates, checkObject), doc: "Programs that clients of the workspace API may start, as a JSON object; see docs/workspace.md. If unset, the session's shell."},
		{name: "WORKSPACE_USER", value: text(&c.WorkspaceUser, checkUser), doc: "User of requests to the workspace API that have no credentials and come from this machine. It needs a loopback address in SANDBOX_LISTEN and excludes JWTs, OpenID and the mode local."},
		{name: "WORKSPACE_API_ROOT", value: boolean(&c.WorkspaceRoot), def: "false", doc: "Serve the workspace API at the root, too, not only under /workspace."},
		{name: "WORKSPACE_TREE_PER_MIN", value: integer(&c.WorkspaceTrees, 0, 1000000), unit: "requests a minute", def: "1200", doc: "Requests of one user for GET /api/tree of the workspace API; 0 is no limit. Does not apply to operators."},
		{name: "WORKSPACE_SEARCH_PER_MIN", value: integer(&c.WorkspaceSearches, 0, 1000000), unit: "requests a minute", def: "120", doc: "Requests of one user for GET /api/search of the workspace API; 0 is no limit. Does not apply to operators."},
	}
}

func checkAbsolute(s string) error {
	if !filepath.IsAbs(s) || filepath.Clean(s) == "/" {
		return errors.New("must be an absolute path, and not the root")
	}
	return nil
}

func checkObject(s string) error {
	var object map[string]any
	if json.Unmarshal([]byte(s), &object) != nil || object == nil {
		return errors.New("must be a JSON object")
	}
	return nil
}

func checkUser(s string) error {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("must be 1 to 64 printable characters without spaces")
	}
	if user.Reserved(belljar.Caller{ID: s, Role: belljar.RoleUser}) {
		return errors.New("is a name of the server's")
	}
	return nil
}

// checkWorkspace validates the keys of the workspace API against others.
func (c *Config) checkWorkspace(bad func(string, ...any)) {
	host, _, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	near := strings.HasPrefix(c.Listen, "unix:") || err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
	if c.WorkspaceMode == "local" {
		if c.WorkspaceDir == "" {
			bad("SANDBOX_WORKSPACE_MODE=local needs SANDBOX_WORKSPACE_DIR, the folder to work in")
		}
		if !slices.Contains(c.AllowWeak, WeakWorkspace) {
			bad("SANDBOX_WORKSPACE_MODE=local runs programs without a sandbox; allow that with %s in SANDBOX_ALLOW_WEAK", WeakWorkspace)
		}
		if !near {
			bad("SANDBOX_WORKSPACE_MODE=local needs a loopback address in SANDBOX_LISTEN")
		}
	} else if c.WorkspaceDir != "" {
		bad("SANDBOX_WORKSPACE_DIR has no meaning without SANDBOX_WORKSPACE_MODE=local")
	}
	if c.WorkspaceUser == "" {
		return
	}
	if !near || strings.HasPrefix(c.Listen, "unix:") {
		bad("SANDBOX_WORKSPACE_USER needs a loopback address in SANDBOX_LISTEN")
	}
	if c.JWTSecret != "" || c.OIDCIssuer != "" {
		bad("SANDBOX_WORKSPACE_USER is for a server of one user, and excludes SANDBOX_JWT_SECRET and SANDBOX_OIDC_ISSUER")
	}
	if c.WorkspaceMode == "local" {
		bad("SANDBOX_WORKSPACE_USER excludes SANDBOX_WORKSPACE_MODE=local, which is for operators only")
	}
}
