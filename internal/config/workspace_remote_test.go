package config

import (
	"strings"
	"testing"
)

func TestElsewhere(t *testing.T) {
	full := []string{
		"SPRITES_BASE_URL=https://api.sprites.dev", "SPRITES_SPRITE_NAME=box", "SPRITES_TOKEN=t", "SPRITES_WORKSPACE_SERVICE_HOST=box.sprites.app",
	}
	c, err := Load(Sources{Env: append([]string{"SPRITES_WORKSPACE_SERVICE_PATH=/internal/v1/", "SPRITES_WORKSPACE_SERVICE_PORT=8443"}, full...)})
	if err != nil || c.SpritesToken != "t" || c.SpriteServiceURL() != "https://box.sprites.app:8443/internal/v1" {
		t.Errorf("%v, %s", err, c.SpriteServiceURL())
	}
	if c, err = Load(Sources{Env: append([]string{"SPRITES_WORKSPACE_SERVICE_PORT=8080", "SPRITES_WORKSPACE_SERVICE_HOST=::1"}, full[:3]...)}); err != nil || c.SpriteServiceURL() != "http://[::1]:8080" {
		t.Errorf("%v, %s", err, c.SpriteServiceURL())
	}
	for problem, env := range map[string][]string{
		"SANDBOX_SPRITES_TOKEN":                    {full[0], full[1], full[3]},
		"SANDBOX_SPRITES_SPRITE_NAME":              {full[0]},
		"SANDBOX_SPRITES_BASE_URL":                 full[1:],
		"must be http":                             append([]string{"SANDBOX_SPRITES_BASE_URL=https://user:pass@api"}, full[1:]...),
		"is not the name of a sprite":              append([]string{"SANDBOX_SPRITES_SPRITE_NAME=../x"}, full...),
		"without a scheme":                         append([]string{"SANDBOX_SPRITES_WORKSPACE_SERVICE_HOST=a@b"}, full...),
		"begins with a slash":                      append([]string{"SPRITES_WORKSPACE_SERVICE_PATH=/a/../b"}, full...),
		"SPRITES_WORKSPACE_SERVICE_PORT":           append([]string{"SPRITES_WORKSPACE_SERVICE_PORT=0"}, full...),
		"must not be in each other":                append([]string{"SANDBOX_SPRITES_WORKSPACE_ROOT=/srv/workspace-api/files"}, full...),
		"WORKSPACE_ROOT and /home/sprite/.auth":    append([]string{"SANDBOX_SPRITES_WORKSPACE_ROOT=/home/sprite"}, full...),
		"_WORKSPACE_ROOT and /home/sprite/.auth":   append([]string{"SANDBOX_SPRITES_WORKSPACE_ROOT=/home/sprite/.auth/files"}, full...),
		"_SERVICE_ROOT and /home/sprite/.auth":     append([]string{"SANDBOX_SPRITES_SERVICE_ROOT=/home/sprite/.auth"}, full...),
		"SANDBOX_HIBERNATE_SEC":                    append([]string{"SANDBOX_HIBERNATE_SEC=60"}, full...),
		"at least 32 bytes":                        append([]string{"SPRITES_WORKSPACE_SERVICE_TOKEN=short"}, full...),
		"SANDBOX_WORKSPACE_KEY go together":        {"SANDBOX_WORKSPACE_URL=https://other"},
		"needs SANDBOX_WORKSPACE_URL":              {"WORKSPACE_MODE=remote"},
		"has no meaning without":                   {"SANDBOX_WORKSPACE_URL=https://other", "SANDBOX_WORKSPACE_KEY=k"},
		"must be printable ASCII without spaces":   {"SANDBOX_WORKSPACE_URL=https://other", "SANDBOX_WORKSPACE_KEY=a b"},
		"SANDBOX_SPRITES_WORKSPACE_SERVICE_HOST, ": full[:3],
	} {
		_, err := Load(Sources{Env: env})
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", problem, err)
		}
	}
}
