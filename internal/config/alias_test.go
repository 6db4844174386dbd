package config

import (
	"strings"
	"testing"
)

// An alias of another program sets a key in the environment, unless the key's own name is set. An error names the alias, and never
// repeats the value.
func TestAlias(t *testing.T) {
	const one, two = "0123456789abcdef0123456789abcdef-1", "0123456789abcdef0123456789abcdef-2"
	for name, c := range map[string]struct {
		env  []string
		want string
		from string
	}{
		"alias": {[]string{"SESSION_TOKEN_SECRET=" + one}, one, "SESSION_TOKEN_SECRET in the environment"},
		"own":   {[]string{"SANDBOX_SESSION_TOKEN_SECRET=" + two}, two, "SANDBOX_SESSION_TOKEN_SECRET in the environment"},
		"both":  {[]string{"SANDBOX_SESSION_TOKEN_SECRET=" + two, "SESSION_TOKEN_SECRET=" + one}, two, "SANDBOX_SESSION_TOKEN_SECRET in the environment"},
	} {
		got := load(t, Sources{Env: c.env})
		if from, _ := got.Set("SANDBOX_SESSION_TOKEN_SECRET"); got.SessionTokenSecret != c.want || from != c.from {
			t.Errorf("%s: from %q", name, from)
		}
	}
	_, err := Load(Sources{Env: []string{"SESSION_TOKEN_SECRET=short-secret"}})
	if err == nil || !strings.Contains(err.Error(), "SESSION_TOKEN_SECRET in the environment") || strings.Contains(err.Error(), "short-secret") {
		t.Error(err)
	}
}
