package docker

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/belljar/belljar/internal/linux/seccomp"
)

var update = flag.Bool("update", false, "write the files that are made from internal/linux/seccomp")

// The files for engines match internal/linux/seccomp, and deploy has the same profile for people.
func TestSeccompFiles(t *testing.T) {
	// A kernel that has every call that the profile allows only from some version on.
	o := seccomp.Options{Kernel: seccomp.Kernel{Major: 6}, SharedUID: true}
	profile, err := seccomp.Profile(o)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"profile/seccomp.json": profile, "../../../deploy/docker/seccomp.json": profile}
	for _, arch := range []string{"amd64", "arm64"} {
		o.Arch = arch
		filter, err := seccomp.Combined(o)
		if err != nil {
			t.Fatal(err)
		}
		files["profile/exec-"+arch+".bpf"] = filter.Bytes()
	}
	for name, want := range files {
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the rules say (%v): go test ./internal/runtime/docker -run TestSeccompFiles -update", name, err)
		}
	}
}
