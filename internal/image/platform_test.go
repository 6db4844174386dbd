package image

import (
	"testing"

	"github.com/belljar/belljar"
)

func TestChoose(t *testing.T) {
	list := func(platforms ...string) *manifest {
		m := &manifest{list: true}
		for _, s := range platforms {
			d := descriptor{Digest: s}
			if s != "" {
				p, err := parsePlatform(s)
				if err != nil {
					t.Fatal(err)
				}
				d.Platform = &wirePlatform{p.OS, p.Arch, p.Variant}
			}
			m.Manifests = append(m.Manifests, d)
		}
		return m
	}
	tests := []struct {
		want string
		list *manifest
		got  string // "" is none
	}{
		{"linux/amd64", list("linux/arm64", "linux/amd64", "unknown/unknown"), "linux/amd64"},
		{"linux/amd64", list("windows/amd64", "linux/amd64/v3", "linux/amd64/v1"), "linux/amd64/v1"},
		{"linux/amd64", list("linux/amd64/v3"), ""},
		{"linux/amd64/v3", list("linux/amd64", "linux/amd64/v3"), "linux/amd64/v3"},
		{"linux/arm64", list("linux/arm64/v8", "linux/arm/v7"), "linux/arm64/v8"},
		{"linux/arm", list("linux/arm/v5", "linux/arm/v7", "linux/arm/v6"), "linux/arm/v7"},
		{"linux/amd64", list("unknown/unknown"), ""},
		{"linux/amd64", list("linux/arm64", "linux/s390x"), ""},
		{"linux/amd64", list("linux/amd64", "linux/amd64"), "linux/amd64"},
		{"linux/amd64", list(), ""},
		{"linux/amd64", list("", ""), ""},
	}
	for _, tt := range tests {
		want, err := parsePlatform(tt.want)
		if err != nil {
			t.Fatal(err)
		}
		d, err := tt.list.choose(want, "x")
		if d.Digest != tt.got || (tt.got == "") != (err != nil) || err != nil && belljar.CodeOf(err) != belljar.CodeImageUnavailable {
			t.Errorf("for %s: %q, %v; want %q", tt.want, d.Digest, err, tt.got)
		}
	}
	if _, err := list("").choose(localPlatform(), "x"); err != nil {
		t.Errorf("one that says nothing: %v", err)
	}
	for _, bad := range []string{"", "linux", "linux/", "/amd64", "a/b/c/d"} {
		if _, err := parsePlatform(bad); err == nil {
			t.Errorf("%q is a platform", bad)
		}
	}
}
