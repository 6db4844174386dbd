package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
)

func TestTrust(t *testing.T) {
	c := load(t, Sources{})
	want := map[belljar.TrustLevel]string{"trusted": "namespace", "standard": "namespace", "untrusted": "user_space_kernel"}
	if diff := cmp.Diff(want, c.Trust()); diff != "" || c.DefaultTrustLevel != "" || strings.Join(c.Runtimes, " ") != "native gvisor docker" {
		t.Errorf("defaults: %s, %q, %v", diff, c.DefaultTrustLevel, c.Runtimes)
	}
	c = load(t, Sources{Env: []string{"SANDBOX_TRUST_LEVELS=untrusted=microvm", "SANDBOX_DEFAULT_TRUST_LEVEL=untrusted", "SANDBOX_RUNTIMES=docker"}})
	if diff := cmp.Diff(map[belljar.TrustLevel]string{"untrusted": "microvm"}, c.Trust()); diff != "" || c.DefaultTrustLevel != "untrusted" {
		t.Errorf("%s, %q", diff, c.DefaultTrustLevel)
	}
	for key, values := range map[string][]string{
		"TRUST_LEVELS":        {"untrusted", "untrusted=", "untrusted=remote", "none=namespace", "untrusted=none"},
		"DEFAULT_TRUST_LEVEL": {"none"},
		"RUNTIMES":            {"runc", "native,fake"},
	} {
		for _, v := range values {
			got := problems(t, Sources{Env: []string{Prefix + key + "=" + v}})
			if !strings.HasPrefix(got[0], Prefix+key+" in the environment ") {
				t.Errorf("%s=%s: %q", key, v, got)
			}
		}
	}
}
