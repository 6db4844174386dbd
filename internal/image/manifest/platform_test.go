package manifest

import (
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	list := func(platforms ...string) *Manifest {
		m := &Manifest{List: true}
		for _, s := range platforms {
			d := Descriptor{Digest: s}
			if s != "" {
				p, err := ParsePlatform(s)
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
		list *Manifest
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
		{"linux/amd64", list("", "linux/amd64"), "linux/amd64"},
	}
	for _, tt := range tests {
		want, err := ParsePlatform(tt.want)
		if err != nil {
			t.Fatal(err)
		}
		found, _ := tt.list.candidates(want)
		var got []string
		for _, d := range found {
			got = append(got, d.Digest)
		}
		if s := strings.Join(got, " "); s != tt.got {
			t.Errorf("for %s: %q, want %q", tt.want, s, tt.got)
		}
	}
	if found, _ := list("", "linux/arm64", "").candidates(Platform{OS: "linux", Arch: "amd64"}); len(found) != 2 {
		t.Errorf("two that say nothing: %v", found)
	}
	for _, bad := range []string{"", "linux", "linux/", "/amd64", "a/b/c/d"} {
		if _, err := ParsePlatform(bad); err == nil {
			t.Errorf("%q is a platform", bad)
		}
	}
}
