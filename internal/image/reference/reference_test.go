package reference

import (
	"errors"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/debian"
	"github.com/belljar/belljar/internal/image/fault"
)

func TestParse(t *testing.T) {
	d := "sha256:" + strings.Repeat("ab", 32)
	for ref, want := range map[string]Reference{
		"":                               {Name: "host"},
		"host":                           {Name: "host"},
		"docker.io/library/host":         {Name: "docker.io/library/host:latest", Repository: "docker.io/library/host", Tag: "latest"},
		"python":                         {Name: "docker.io/library/python:latest", Repository: "docker.io/library/python", Tag: "latest"},
		"python:3.11-slim":               {Name: "docker.io/library/python:3.11-slim", Repository: "docker.io/library/python", Tag: "3.11-slim"},
		"docker.io/python":               {Name: "docker.io/library/python:latest", Repository: "docker.io/library/python", Tag: "latest"},
		"index.docker.io/library/x:1":    {Name: "docker.io/library/x:1", Repository: "docker.io/library/x", Tag: "1"},
		"belljar/python":                 {Name: "docker.io/belljar/python:latest", Repository: "docker.io/belljar/python", Tag: "latest"},
		"r.example/a/b/c:v1":             {Name: "r.example/a/b/c:v1", Repository: "r.example/a/b/c", Tag: "v1"},
		"r.example:5000/a":               {Name: "r.example:5000/a:latest", Repository: "r.example:5000/a", Tag: "latest"},
		"localhost:5000/a":               {Name: "localhost:5000/a:latest", Repository: "localhost:5000/a", Tag: "latest"},
		"python@" + d:                    {Name: "docker.io/library/python@" + d, Repository: "docker.io/library/python", Digest: d},
		"python:3.11@" + d:               {Name: "docker.io/library/python@" + d, Repository: "docker.io/library/python", Digest: d, Tag: "3.11"},
		"r.example:5000/a:1@" + d:        {Name: "r.example:5000/a@" + d, Repository: "r.example:5000/a", Digest: d, Tag: "1"},
		d:                                {Name: d, Digest: d},
		d[:19]:                           {Name: d[:19], Digest: d[:19]},
		"gcr.io/distroless/static-deb12": {Name: "gcr.io/distroless/static-deb12:latest", Repository: "gcr.io/distroless/static-deb12", Tag: "latest"},
	} {
		got, err := Parse(ref)
		if err != nil {
			t.Errorf("Parse(%q): %v", ref, err)
			continue
		}
		got.remote = nil
		if got != want {
			t.Errorf("Parse(%q) is\n%+v, want\n%+v", ref, got, want)
		}
		if again, err := Parse(want.Name); err != nil || again.Name != want.Name {
			t.Errorf("Parse(%q) is %q (%v), not itself", want.Name, again.Name, err)
		}
	}
	for _, ref := range []string{
		"/", "../x", " host", "Host", "a b", "a:", ":a", "a:b:c", "a@", "a@sha256:12", "a@sha512:" + strings.Repeat("ab", 64), "sha256:", "sha256:12345678901",
		"sha256:" + strings.Repeat("AB", 32), d + "0", "https://r.example/a", "a\x00", "a\n", strings.Repeat("a", 600), "r.example/a:" + strings.Repeat("t", 200),
		"r.example/../x", "r.example/a//b", "r.example/a/./b", "r.example/a..b", "r.example/-a", ".example/a", "a:-t", "r..example/a/../../b",
	} {
		_, err := Parse(ref)
		if belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("Parse(%q): %v", ref, err)
		}
	}
}

// Nothing fetches images that Belljar makes, whatever form their name has: Docker Hub could have others. The hint has the command that
// makes one.
func TestNowhere(t *testing.T) {
	d := "sha256:" + strings.Repeat("ab", 32)
	cases := map[string]string{
		"belljar/template:shell-1": "template build FILE", "docker.io/belljar/template": "template build FILE", "index.docker.io/belljar/template@" + d: "template build FILE",
		"docker.io/belljar/python@" + d: "build python makes", "belljar/go:1.24": "build go --name belljar/go:1.24 makes",
		"belljar/science": "build RECIPE --name belljar/science makes", "belljar/template/x": "build RECIPE --name belljar/template/x makes",
		d: "", "host": "", "r.example/belljar/template": "a registry", "belljars/python": "a registry", "python": "a registry",
	}
	for _, recipe := range debian.Names() {
		cases["belljar/"+recipe] = "belljar image build " + recipe + " makes it"
	}
	for ref, want := range cases {
		r, err := Parse(ref)
		if err != nil {
			t.Fatal(err)
		}
		err = r.Nowhere(ref)
		if fetched := err == nil; fetched != (want == "a registry") || fetched != (r.Remote() != nil) {
			t.Errorf("%s: %v", ref, err)
		} else if !fetched && (belljar.CodeOf(err) != belljar.CodeImageUnavailable || !strings.Contains(belljar.HintOf(err), want)) {
			t.Errorf("%s: %v, hint %q", ref, err, belljar.HintOf(err))
		}
	}
}

// TestReasons tests that the error for a mistyped name states what is wrong with it.
func TestReasons(t *testing.T) {
	for ref, want := range map[string]string{
		"Python": "small letters", "r.example/Team/app:V1": "small letters", "https://r.example/a": "address of a web page", "a b": "space", "a\n": "space",
		"a:": "ends too early", "a@": "ends too early", "a@sha256:" + strings.Repeat("AB", 32): "digests are", "r.example/a:T%": "not made of", "a:b:c": "not made of",
	} {
		_, err := Parse(ref)
		var e *belljar.Error
		if !errors.As(err, &e) || !strings.Contains(e.Details["reason"].(string), want) {
			t.Errorf("%q: %+v, want %q", ref, e, want)
		}
	}
}

// FuzzParse tests that a valid reference stays the same when it is parsed again, and contains only printable
// characters.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "host", "python:3.11-slim", "r.example:5000/a@sha256:" + strings.Repeat("0", 64), "sha256:0123456789ab", "a:b@c", "[::1]:5000/x", "A/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			if belljar.CodeOf(err) != belljar.CodeInvalidRequest {
				t.Fatal(err)
			}
			return
		}
		again, err := Parse(r.Name)
		if err != nil || again.Name != r.Name || again.Repository != r.Repository || again.Digest != r.Digest {
			t.Fatalf("%q is %+v, and that is %+v (%v)", s, r, again, err)
		}
		if fault.Printable(r.Name) != r.Name {
			t.Fatalf("%q", r.Name)
		}
	})
}
