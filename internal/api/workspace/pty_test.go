//go:build linux

package workspace_test

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"

	"github.com/belljar/belljar"
	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/internal/workspace"
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

// failing is a source in whose workspaces terminals fail to open.
type failing struct {
	workspace.Source
	opens chan error // errors of the next ones
}

func (f failing) Open(ctx context.Context, caller belljar.Caller, session string) (workspace.Workspace, error) {
	at, err := f.Source.Open(ctx, caller, session)
	at.Engine = failingEngine{at.Engine, f.opens}
	return at, err
}

type failingEngine struct {
	workspace.Engine
	opens chan error
}

func (e failingEngine) Terminals() belljar.Terminals {
	return failingTerminals{e.Engine.Terminals(), e.opens}
}

type failingTerminals struct {
	belljar.Terminals
	opens chan error
}

func (f failingTerminals) Open(ctx context.Context, session string, spec belljar.TerminalSpec) (belljar.Terminal, error) {
	select {
	case err := <-f.opens:
		return belljar.Terminal{}, err
	default:
		return f.Terminals.Open(ctx, session, spec)
	}
}

// A terminal ends for another one only if that opens, or needs its place.
func TestTerminalStaysWithoutAnother(t *testing.T) {
	s, opens := sources()[0], make(chan error, 1)
	open := s.open
	s.open = func(t *testing.T) workspace.Source { return failing{open(t), opens} }
	w := newWorld(t, s)
	token := url.QueryEscape(w.await(w.socket("/ws/pty"), "session", "")["session_id"].(string))
	opens <- &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "busy"}
	if m := w.await(w.socket("/ws/pty?force_new=1&session_id="+token), "error", ""); m["code"] != string(belljar.CodeRuntimeUnavailable) {
		t.Error(m)
	}
	if m := w.await(w.socket("/ws/pty?session_id="+token), "session", ""); m["resumed"] != true {
		t.Error(m)
	}
	opens <- &belljar.Error{Code: belljar.CodeQuotaExceeded, Message: "full"}
	if m := w.await(w.socket("/ws/pty?force_new=1&session_id="+token), "session", ""); m["resumed"] != false {
		t.Error(m)
	}
	w.refuses("closed", "/ws/pty?session_id="+token)
}
