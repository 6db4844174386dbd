package belljar_test

import (
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestNearest(t *testing.T) {
	known := []string{"command", "base_image", "env", "timeout_sec"}
	for name, want := range map[string]string{
		"comand": "command", "baseimage": "base_image", "timeout": "", "timeout_secs": "timeout_sec", "environment": "",
		"": "", "zzz": "", strings.Repeat("x", 100): "",
	} {
		if got := belljar.Nearest(name, len(name)/3+1, known); got != want {
			t.Errorf("%q is near %q, want %q", name, got, want)
		}
	}
}
