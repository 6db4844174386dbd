package nearest

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	known := []string{"command", "base_image", "env", "timeout_sec", "q"}
	for name, want := range map[string]string{
		"comand": "command", "baseimage": "base_image", "timeout": "timeout_sec", "cmd": "command", "cm": "", "timeout_secs": "timeout_sec", "environment": "env", "entirely": "", "cud": "",
		"": "", "e": "", "zzz": "", strings.Repeat("x", 100): "",
	} {
		if got := Of(name, len(name)/3+1, known); got != want {
			t.Errorf("%q is near %q, want %q", name, got, want)
		}
	}
}
