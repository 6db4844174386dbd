//go:build linux

package service_test

import (
	"os"
	"slices"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// The usage that operators see includes volumes, as the quota does, and orders users by it.
func TestUsageIncludesVolumes(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *service.Options) {
		o.Volumes = service.VolumeOptions{Dir: t.TempDir(), MB: 50, Make: func(path string, _, _ int64) error { return os.WriteFile(path, nil, 0o600) }}
	})
	for user, mb := range map[string]int{"ann": 10, "ben": 20, "cem": 30} {
		caller := belljar.Caller{ID: user, Role: belljar.RoleUser}
		if _, err := b.service.As(caller).Volumes().Create(b.context(), belljar.VolumeSpec{Name: "v", MB: mb}); err != nil {
			t.Fatal(err)
		}
		if user != "cem" { // who has no record of usage
			b.seen(caller).run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
		}
	}
	for limit, want := range map[int][]string{0: {"cem", "ben", "ann"}, 2: {"cem", "ben"}} {
		list, err := b.service.As(opa).Admin().Usage(b.context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range list {
			me, err := b.service.As(belljar.Caller{ID: u.UserID, Role: belljar.RoleUser}).Node().Me(b.context())
			if got = append(got, u.UserID); err != nil || me.Used.ArtifactBytes == 0 || u.ArtifactBytes != me.Used.ArtifactBytes {
				t.Errorf("%s: %d bytes, and %d for themselves, %v", u.UserID, u.ArtifactBytes, me.Used.ArtifactBytes, err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
	}
}
