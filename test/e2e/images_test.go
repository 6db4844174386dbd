//go:build linux

package e2e

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/image"
	"github.com/belljar/belljar/test/registry"
)

// A server with a registry: programs run in new images, sessions keep their images when the server is killed, and an unused image
// can be removed, even if ready sandboxes use it.
func TestImages(t *testing.T) {
	tree, err := os.ReadFile(image.Busybox(t))
	if err != nil {
		t.Fatal(err)
	}
	hub := registry.New(t)
	ref, digest := hub.Put(t, "busybox:1", registry.Image{Layer: tree, Config: map[string]any{
		"Env": []string{"GREETING=hello"}, "User": "4321:5432", "WorkingDir": "/bin",
	}})
	args := []string{"--set", "image_registries=" + hub.Host()}
	data := t.TempDir()
	s := serve(t, data, args...)

	run := func(s *server, body map[string]any) map[string]any {
		t.Helper()
		body["spec_version"] = "1.1"
		status, answer := s.ask("POST", "/api/v1/sandbox/runs?wait=2m", body)
		if status != 200 {
			t.Fatalf("%d %v", status, answer)
		}
		return answer
	}
	first := run(s, map[string]any{"base_image": ref, "command": []string{"sh", "-c", "echo $GREETING $(id -u) $(id -g); pwd; touch /bin/x 2>&1; echo ok >/workspace/f"}})
	if out, _ := first["stdout"].(string); !strings.HasPrefix(out, "hello 4321 5432\n/bin\n") || !strings.Contains(out, "ead-only") {
		t.Errorf("in an image: %v", first)
	}
	if first["image_digest"] != digest || first["base_image"] != ref {
		t.Errorf("image %v at %v, want %s", first["base_image"], first["image_digest"], digest)
	}
	lost := run(s, map[string]any{"base_image": hub.Host() + "/no-such:1", "command": []string{"true"}})
	if lost["reason_code"] != string(belljar.ReasonImagePullFailed) || !strings.Contains(fmt.Sprint(lost["message"]), "no-such") {
		t.Errorf("an image that is nowhere: %v", lost)
	}

	_, made := s.ask("POST", "/api/v1/sandbox/sessions", map[string]any{"spec_version": "1.1", "base_image": ref})
	session, _ := made["session_id"].(string)
	if made["image_digest"] != digest {
		t.Fatalf("the session is %v", made)
	}
	run(s, map[string]any{"session_id": session, "command": []string{"sh", "-c", "echo kept >/workspace/f"}})
	s.kill()
	hub.Put(t, "busybox:1", registry.Image{Files: map[string]string{"other": "content"}})
	s = serve(t, data, args...)
	if status, _ := s.ask("POST", "/api/v1/sandbox/images/pull", map[string]any{"ref": ref, "always": true}); status != 200 {
		t.Fatalf("pull answers %d", status)
	}
	again := run(s, map[string]any{"session_id": session, "command": []string{"sh", "-c", "echo $GREETING; cat /workspace/f"}})
	if again["stdout"] != "hello\nkept\n" || again["image_digest"] != digest {
		t.Errorf("after the server's death: %v", again)
	}

	at := "/api/v1/sandbox/images?ref=" + url.QueryEscape(digest)
	status, refused := s.ask("DELETE", at, nil)
	if status != 409 || !strings.Contains(fmt.Sprint(refused), session) {
		t.Errorf("an image in use is removed with %d, %v", status, refused)
	}
	if status, _ := s.ask("DELETE", "/api/v1/sandbox/sessions/"+session, nil); status >= 300 {
		t.Fatalf("the session ends with %d", status)
	}
	for range 3 { // so that the pool makes some
		run(s, map[string]any{"base_image": digest, "command": []string{"true"}})
	}
	// A sandbox that the pool is just making has the image, too.
	until(t, "an unused image can be removed", func() bool {
		status, refused = s.ask("DELETE", at, nil)
		if status != 204 && status != 409 {
			t.Fatalf("it is removed with %d, %v", status, refused)
		}
		return status == 204
	})
	if status, _ := s.ask("GET", "/api/v1/sandbox/images/inspect?ref="+url.QueryEscape(digest), nil); status != 404 {
		t.Errorf("it is described with %d", status)
	}
	if status := s.stop(); status != 0 {
		t.Errorf("the server ends with %d\n%s", status, s.output)
	}
}
