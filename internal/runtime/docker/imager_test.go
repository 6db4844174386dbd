package docker_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
)

// Rules about images know names and digests, but not the other names by which an engine finds an image.
func TestOtherNamesOfImages(t *testing.T) {
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	e := newEngine()
	r := talk(t, e, docker.Options{})
	type image struct {
		tags   []string
		config string
	}
	const label = `{"Labels": {"belljar.image": "` + digest + `"}}`
	python := image{[]string{"team/app:1", "python:3.12", "registry.example/x:latest"}, "{}"}
	copied := image{[]string{"belljar/012345678901:latest", "renamed:1"}, label}
	built := image{[]string{"built:latest"}, label} // of a copy
	for _, c := range []struct {
		ref   string
		image image
		found bool
	}{
		{"python:3.12", python, true},
		{"docker.io/library/python:3.12", python, true},
		{"index.docker.io/library/python:3.12", python, true},
		{"registry.example/x", python, true},
		{digest, python, true},
		{digest[:19], python, true},
		{"python@" + digest, python, true},
		{"012345678901", python, false},
		{digest[len("sha256:"):], python, false},
		{"sha256:0123", python, false},
		{"python", python, false},
		{"localhost/python:3.12", python, false},
		{"belljar/012345678901", copied, false},
		{"renamed:1", copied, false},
		{digest, copied, false},
		{"belljar/012345678901@" + digest, copied, false},
		{"built", built, true},
	} {
		e.image.RepoTags, e.image.Config = c.image.tags, nil
		if err := json.Unmarshal([]byte(`{"Config": `+c.image.config+`}`), &e.image); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Image(t.Context(), c.ref); (err == nil) != c.found || err != nil && !errors.Is(err, runtime.ErrNoImage) {
			t.Errorf("%s of %q: %v", c.ref, c.image.tags, err)
		}
	}
}
