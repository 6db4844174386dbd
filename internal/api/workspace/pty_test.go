//go:build linux

package workspace_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/belljar/belljar"
	door "github.com/belljar/belljar/internal/api/workspace"
)

// A client returns to its terminal without provider, or with a wrong one, and learns the template of the terminal.
func TestProviders(t *testing.T) {
	list, err := door.ParseTemplates(`{"plain": {"kind": "pty", "command": ["/bin/sh"]}, "prompting": {"kind": "pty", "command": ["/bin/sh", "-i"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, sources()[0], func(o *door.Options) { o.Templates = list })
	greets := func(query, provider string, resumed bool) (token string) {
		t.Helper()
		m := w.await(w.socket("/ws/pty?"+query), "session", "")
		if m["provider"] != provider || m["resumed"] != resumed {
			t.Errorf("%s: %v", query, m)
		}
		return m["session_id"].(string)
	}
	token := url.QueryEscape(greets("provider=prompting", "prompting", false))
	greets("session_id="+token, "prompting", true)
	greets("provider=plain&session_id="+token, "prompting", true)
	w.refuses("no template is named", "/ws/pty?session_id=nonsense")

	var listed struct {
		Sessions []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(w.ask(w.key, "GET", "/api/sessions", "").body), &listed); err != nil || len(listed.Sessions) != 1 {
		t.Fatal(err, listed)
	}
	greets("session_id="+url.QueryEscape(listed.Sessions[0].ID), "prompting", true)

	var pending struct {
		ID string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(w.ask(w.key, "POST", "/api/sessions", "").body), &pending); err != nil {
		t.Fatal(err)
	}
	greets("provider=plain&session_id="+url.QueryEscape(pending.ID), "plain", false)
	greets("session_id="+url.QueryEscape(pending.ID), "plain", true)

	at := w.open()
	if _, err := at.Engine.Terminals().Open(w.context(), at.Session, belljar.TerminalSpec{Command: []string{"/bin/cat"}, Name: "workspace:older", Shared: true}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(w.ask(w.key, "GET", "/api/sessions", "").body), &listed); err != nil || len(listed.Sessions) != 3 {
		t.Fatal(err, listed)
	}
	providers := map[string]int{}
	for _, s := range listed.Sessions {
		providers[w.await(w.socket("/ws/pty?session_id="+url.QueryEscape(s.ID)), "session", "")["provider"].(string)]++
	}
	if providers["plain"] != 1 || providers["prompting"] != 1 || providers["shell"] != 1 {
		t.Errorf("%v", providers)
	}
}
