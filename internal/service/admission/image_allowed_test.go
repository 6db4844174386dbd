package admission

import "testing"

func TestStandsFor(t *testing.T) {
	const sum = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const other = "@sha256:ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
	for _, c := range []struct {
		pattern, ref string
		want         bool
	}{
		{"python:3.11", "python:3.11", true},
		{"python:3.11", "docker.io/library/python:3.11", true},
		{"python:3.11", "index.docker.io/library/python:3.11", true},
		{"index.docker.io/python:3.11", "python:3.11", true},
		{"docker.io/python:3.11", "python:3.11", true},
		{"python:3.11", "python:3.12", false},
		{"python:3.11", "evil/python:3.11", false},
		{"python:3.11", "registry.example/library/python:3.11", false},
		{"python", "python", true},
		{"python", "python:latest", true},
		{"python", "python:3.11", false},
		{"python:*", "python", true},
		{"python:*", "python:3.11-slim", true},
		{"python:*", "pythonx:1", false},
		{"python:*", "library/python:1", true},
		{"python:3.*", "python:3.11", true},
		{"python:3.*", "python:2.7", false},
		{"py*", "python:3.11", true},
		{"py*", "team/python:3.11", false},
		{"registry.example/team/*", "registry.example/team/app:1", true},
		{"registry.example/team/*", "registry.example/team/sub/app:1", false},
		{"registry.example/team/**", "registry.example/team/sub/app:1", true},
		{"registry.example/team/*", "registry.example.evil/team/app:1", false},
		{"registry.example/team/*", "evil/registry.example/team/app", false},
		{"registry.example:5000/app", "registry.example:5000/app", true},
		{"registry.example:5000/app", "registry.example/app", false},
		{"localhost/app:*", "localhost/app:1", true},
		{"*", "python:1", true},
		{"*", "registry.example/app:1", false},
		{"**", "registry.example/team/app:1", true},
		// host is the host image, which no pattern matches.
		{"*", "host", false},
		{"**", "host", false},
		{"host", "docker.io/library/host", false},
		{"**", "", false},
		// A digest may be under any tag, whatever tag the reference has.
		{"python:3.11", "python:3.11" + sum, false},
		{"python", "python:latest" + sum, false},
		{"python:3.*", "python:3.11" + sum, false},
		{"python:*", "python:3.11" + sum, true},
		{"python:3.11", "python:3.12" + sum, false},
		{"python:3.11", "python" + sum, false},
		{"python:*", "python" + sum, true},
		{"python" + sum, "python" + sum, true},
		{"python" + sum, "python" + other, false},
		{"python" + sum, "python:latest", false},
		{"python:3.11", "sha256:0123456789ab", false},
		{"**", "sha256:0123456789ab", false},
		// Invalid names and patterns.
		{"[", "python", false},
		{"python:*", "Python:1", false},
		{"python:*", "python:1/../2", false},
	} {
		if got := standsFor(c.pattern, c.ref); got != c.want {
			t.Errorf("%s stands for %s: %v, want %v", c.pattern, c.ref, got, c.want)
		}
	}
}
