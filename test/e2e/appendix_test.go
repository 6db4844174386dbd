//go:build linux

package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/image"
	"github.com/belljar/belljar/test/peer"
	"github.com/belljar/belljar/test/tier"
)

// The example runs of the sandbox API, unchanged.
const (
	pythonExample = `{
  "runtime": "docker",
  "base_image": "python:3.11-slim",
  "spec_version": "1.0",
  "command": ["python", "-c", "print('HI!')"],
  "timeout_sec": 15,
  "resources": {"cpu": 1, "memory_mb": 512},
  "network_policy": "deny_all"
}`
	nodeExample = `{
  "runtime": "docker",
  "base_image": "node:20-alpine",
  "spec_version": "1.0",
  "command": ["node", "-e", "console.log('HI!')"],
  "timeout_sec": 10,
  "network_policy": "deny_all"
}`
)

// TestExampleRuns sends the sandbox API's examples to a server whose operator maps their images to images of Debian packages. It
// sends them unchanged, and with each of the other runtimes.
func TestExampleRuns(t *testing.T) {
	t.Parallel()
	var args []string
	var runtimes []string
	for _, l := range lanes() {
		t.Run("lane "+l.runtime, func(t *testing.T) {
			more := l.open(t)
			args, runtimes = append(args, more[:len(more)-2]...), append(runtimes, l.runtime)
		})
	}
	p := peer.Start(t, "api.test", "other.test")
	s := reachable(t, t.TempDir(), p, append(args, "--set", "image_aliases=python:3.11-slim=belljar/python,node:20-alpine=belljar/node")...)
	for name, example := range map[string]string{"python": pythonExample, "node": nodeExample} {
		t.Run(name, func(t *testing.T) {
			tar := tier.Pick(image.Python, func(t testing.TB) string { return image.Debian(t, "python") })
			if name == "node" { // building an image takes time
				tier.Soak(t)
				tar = func(t testing.TB) string { return image.Debian(t, name) }
			}
			s.imports("belljar/"+name, tar(t))
			for _, runtime := range runtimes {
				var request map[string]any
				if err := json.Unmarshal([]byte(example), &request); err != nil {
					t.Fatal(err)
				}
				request["runtime"], request["timeout_sec"] = runtime, longTime
				status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", request)
				if status != http.StatusOK || run["phase"] != "completed" || run["stdout"] != "HI!\n" || run["runtime"] != runtime {
					t.Errorf("%s: %d %v", runtime, status, run)
				}
				if digest, _ := run["image_digest"].(string); !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest) {
					t.Errorf("%s: image_digest %v", runtime, run["image_digest"])
				}
				if run["base_image"] != request["base_image"] {
					t.Errorf("%s: base_image %v", runtime, run["base_image"])
				}
			}
			if name == "python" && slices.Contains(runtimes, "docker") {
				networkInContainer(s, p)
			}
		})
	}
	ends(s)
}

// networkInContainer reaches the peer from a container whose image has its own programs.
func networkInContainer(s *server, p *peer.Peer) {
	s.t.Helper()
	request := fetching(p, "belljar/python")
	request["runtime"] = "docker"
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", request)
	if status != http.StatusOK || run["stdout"] != fetched || run["runtime"] != "docker" {
		s.t.Errorf("%d %v\n%s", status, run, s.output)
	}
	if p.Hosts()["other.test"] > 0 {
		s.t.Error("the other host was reached")
	}
}

// ends stops a server, which removes the sandboxes that it keeps ready on every runtime.
func ends(s *server) {
	s.t.Helper()
	if code := s.stop(); code != 0 {
		s.t.Errorf("the server ended with %d\n%s", code, s.output)
	}
}

// TestChoiceOfRuntime requests isolation instead of runtimes.
func TestChoiceOfRuntime(t *testing.T) {
	l := lanes()[1]
	args := l.open(t)
	s := serve(t, t.TempDir(), args[:len(args)-2]...)
	for _, c := range []struct {
		ask          string
		status       int
		runtime, why string
	}{
		{`"trust_level": "trusted"`, 200, "native", "fastest"},
		{`"trust_level": "untrusted"`, 200, "gvisor", "trust_level"},
		{`"isolation": "user_space_kernel"`, 200, "gvisor", "isolation"},
		{`"runtime": "native"`, 200, "native", "the request names it"},
		{`"spec_version": "1.0"`, 200, "native", "default"},
		{`"isolation": "microvm"`, 503, "", "no runtime here isolates by microvm"},
		{`"isolation": "user_space_kernel", "runtime": "native"`, 400, "", "isolates by namespace"},
		{`"trust_level": "untrusted", "runtime": "native"`, 403, "", "isolates by namespace"},
		{`"trust_level": "very"`, 400, "", "does not exist"},
	} {
		request := oneShot("uname -r")
		if err := json.Unmarshal([]byte("{"+c.ask+"}"), &request); err != nil {
			t.Fatal(err)
		}
		status, answer := s.ask(http.MethodPost, api+"/runs?wait=600s", request)
		if status != c.status {
			t.Errorf("%s: %d %v", c.ask, status, answer)
			continue
		}
		why, _ := answer["runtime_reason"].(string)
		if status != 200 {
			e, _ := answer["error"].(map[string]any)
			why, _ = e["message"].(string)
		} else if kernel, _ := answer["stdout"].(string); strings.Contains(kernel, "gvisor") != (c.runtime == "gvisor") || answer["runtime"] != c.runtime {
			t.Errorf("%s: %v on kernel %q", c.ask, answer["runtime"], kernel)
		}
		if !strings.Contains(why, c.why) {
			t.Errorf("%s: because %q", c.ask, why)
		}
	}
	ends(s)
}
