//go:build linux

package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
)

// threads is the thread door of a server.
type threads struct {
	*server
	cfg *config.Config
	dir string
}

func (d threads) Register(mux *http.ServeMux) {
	if err := d.openThreads(d.cfg, &dataDir{path: d.dir}, apitest.Callers(), api.JSONShares(), event.Sinks(nil), mux); err != nil {
		panic(err)
	}
}

// Clients of the thread API name no image and no limits: its sessions have the server's image and limits.
func TestThreadsSuitTheServer(t *testing.T) {
	cfg, err := config.Load(config.Sources{Env: []string{"SANDBOX_WORKSPACE_CAP_MB=64", "SANDBOX_MAX_SESSION_TTL_SEC=600", "SANDBOX_MAX_EXEC_TIMEOUT_SEC=29"}})
	if err != nil {
		t.Fatal(err)
	}
	ref, image := apitest.WithImage(t, map[string]any{"WorkingDir": "/usr"})
	w := apitest.NewWorld(t, nil, image, func(o *service.Options) {
		o.DefaultImage, o.MaxLimits, o.SessionTTL, o.MaxSessionTTL = ref, cfg.MaxLimits(), cfg.SessionTTL, cfg.MaxSessionTTL
	})
	url := apitest.Serve(t, api.EdgeOptions{}, threads{&server{service: w.Service}, &cfg, w.Dir}).URL

	post := func(name, body string) (answer map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/thread/"+name, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer alice")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v, %v", name, resp.StatusCode, answer, err)
		}
		return answer
	}
	made := post("create_session", `{"user_id": "u", "thread_id": "t"}`)
	session, err := w.Service.As(belljar.Caller{ID: "alice", Role: belljar.RoleUser}).Sessions().Get(t.Context(), made["session_id"].(string))
	if err != nil || session.BaseImage != ref || session.Limits.WorkspaceMB != 64 {
		t.Errorf("%v: image %s, limits %+v", err, session.BaseImage, session.Limits)
	}
	ran := post("execute", `{"session_id": "`+session.ID+`", "command": "echo here > note; ls"}`)
	if ran["stdout"] != "note\n" {
		t.Errorf("a command ran elsewhere than in the workspace: %v", ran)
	}
}
