package config

import (
	"errors"
	"net"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// spriteSecrets is the folder of the secrets in a sprite.
const spriteSecrets = "/home/sprite/.auth"

// elsewhere returns the keys of workspaces on another machine.
func elsewhere(c *Config) []row {
	const alias = " The name without SANDBOX_ works, too."
	return []row{
		{name: "WORKSPACE_URL", value: text(&c.WorkspaceURL, checkURL),
			doc: "Address of another belljar, whose sessions the workspaces of SANDBOX_WORKSPACE_MODE=remote are. On a public network it must begin with https://."},
		{name: "WORKSPACE_KEY", value: text(&c.WorkspaceKey, checkSecret), secret: true, doc: "API key for SANDBOX_WORKSPACE_URL."},
		{name: "SPRITES_BASE_URL", value: text(&c.SpritesBaseURL, checkURL), alias: "SPRITES_BASE_URL",
			doc: "Address of the API of Sprites, such as https://api.sprites.dev. With it the workspaces of SANDBOX_WORKSPACE_MODE=sandbox are in the sprite SANDBOX_SPRITES_SPRITE_NAME, and the runtime sprites exists; the server does not start if the sprite or its workspace service cannot be used." + alias},
		{name: "SPRITES_SPRITE_NAME", value: text(&c.SpriteName, checkSprite), alias: "SPRITES_SPRITE_NAME", doc: "Name of the sprite." + alias},
		{name: "SPRITES_TOKEN", value: text(&c.SpritesToken, checkSecret), secret: true, alias: "SPRITES_TOKEN", doc: "Token for the API of Sprites. It is sent to SANDBOX_SPRITES_BASE_URL only." + alias},
		{name: "SPRITES_WORKSPACE_SERVICE_HOST", value: text(&c.SpriteHost, checkServiceHost), alias: "SPRITES_WORKSPACE_SERVICE_HOST", doc: "Host of the workspace service in the sprite." + alias},
		{name: "SPRITES_WORKSPACE_SERVICE_PORT", value: integer(&c.SpritePort, 1, 65535), def: "443", alias: "SPRITES_WORKSPACE_SERVICE_PORT",
			doc: "Port of the workspace service. The server uses HTTPS for 443 and 8443, and HTTP for others, which is accepted on loopback and private networks only." + alias},
		{name: "SPRITES_WORKSPACE_SERVICE_PATH", value: text(&c.SpritePath, checkServicePath), def: "/", alias: "SPRITES_WORKSPACE_SERVICE_PATH", doc: "Path of the workspace service." + alias},
		{name: "SPRITES_WORKSPACE_SERVICE_TOKEN", value: text(&c.SpriteServiceToken, checkLongSecret, checkSecret), secret: true, alias: "SPRITES_WORKSPACE_SERVICE_TOKEN",
			doc: "Token of the workspace service, at least 32 bytes. If unset, it is derived from the token of the API, as the scripts in deploy/sandbox do." + alias},
		{name: "SPRITES_WORKSPACE_ROOT", value: text(&c.SpriteWorkspace, checkAbsolutePath), def: "/home/sprite/workspace", doc: "Folder of the workspace's files in the sprite."},
		{name: "SPRITES_SERVICE_ROOT", value: text(&c.SpriteService, checkAbsolutePath), def: "/srv/workspace-api", doc: "Folder of Belljar's own files in the sprite. It is not in the workspace, nor the workspace in it."},
	}
}

func checkSprite(s string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`).MatchString(s) {
		return errors.New("is not the name of a sprite")
	}
	return nil
}

func checkServiceHost(s string) error {
	if strings.ContainsAny(s, "/@?#%\\ ") || s == "" {
		return errors.New("must be a host name or an address, without a scheme, a port or a path")
	}
	return nil
}

func checkServicePath(s string) error {
	if !strings.HasPrefix(s, "/") || path.Clean(s) != strings.TrimSuffix(s, "/") && s != "/" || strings.ContainsAny(s, "?#%\\;") {
		return errors.New("must be a path that begins with a slash, such as /internal/v1")
	}
	return nil
}

func checkAbsolutePath(s string) error {
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" {
		return errors.New("must be an absolute path, and not the root")
	}
	return nil
}

// SpriteServiceURL is the address of the workspace service in the sprite.
func (c *Config) SpriteServiceURL() string {
	scheme := "http"
	if c.SpritePort == 443 || c.SpritePort == 8443 {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(strings.Trim(c.SpriteHost, "[]"), strconv.Itoa(c.SpritePort)) + strings.TrimSuffix(c.SpritePath, "/")
}

// checkElsewhere validates the keys of workspaces on another machine against each other.
func (c *Config) checkElsewhere(bad func(string, ...any)) {
	if (c.WorkspaceURL == "") != (c.WorkspaceKey == "") {
		bad("SANDBOX_WORKSPACE_URL and SANDBOX_WORKSPACE_KEY go together, and one is missing")
	}
	switch remote := c.WorkspaceMode == "remote"; {
	case remote && c.WorkspaceURL == "":
		bad("SANDBOX_WORKSPACE_MODE=remote needs SANDBOX_WORKSPACE_URL and SANDBOX_WORKSPACE_KEY")
	case !remote && c.WorkspaceURL != "":
		bad("SANDBOX_WORKSPACE_URL has no meaning without SANDBOX_WORKSPACE_MODE=remote")
	}
	needed := []struct{ name, value string }{
		{"SPRITES_BASE_URL", c.SpritesBaseURL}, {"SPRITES_SPRITE_NAME", c.SpriteName}, {"SPRITES_TOKEN", c.SpritesToken}, {"SPRITES_WORKSPACE_SERVICE_HOST", c.SpriteHost},
	}
	var missing, set []string
	for _, n := range needed {
		if n.value == "" {
			missing = append(missing, "SANDBOX_"+n.name)
		} else {
			set = append(set, "SANDBOX_"+n.name)
		}
	}
	if len(set) == 0 {
		return
	}
	for _, name := range missing {
		bad("%s is set, and %s, which it needs, is missing", set[0], name)
	}
	within := func(a, b string) bool { return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/") }
	if within(c.SpriteWorkspace, c.SpriteService) {
		bad("SANDBOX_SPRITES_WORKSPACE_ROOT and SANDBOX_SPRITES_SERVICE_ROOT must not be in each other: programs could change Belljar's own files")
	}
	for _, root := range []struct{ name, path string }{{"WORKSPACE", c.SpriteWorkspace}, {"SERVICE", c.SpriteService}} {
		if within(root.path, spriteSecrets) {
			bad("SANDBOX_SPRITES_%s_ROOT and %s, the secrets, must not be in each other", root.name, spriteSecrets)
		}
	}
	if c.Hibernate > 0 {
		bad("SANDBOX_HIBERNATE_SEC has no meaning with SANDBOX_SPRITES_BASE_URL: a sprite suspends on its own, and its files stay there")
	}
}
