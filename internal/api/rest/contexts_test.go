//go:build linux

package rest_test

import (
	"testing"

	"github.com/belljar/belljar"
)

// A context is found by its name, and only by its session's owner.
func TestGetContext(t *testing.T) {
	b := newEngine(t)
	var s belljar.Session
	b.ask(200, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host"}`, &s)
	of := "/sessions/" + s.ID + "/contexts"
	b.ask(200, "POST", of, "alice", `{"language": "bash", "name": "data"}`, nil)
	var c belljar.Context
	if b.ask(200, "GET", of+"/data", "alice", "", &c); c.Name != "data" || c.State != belljar.ContextIdle {
		t.Errorf("%+v", c)
	}
	var refused refusal
	if b.ask(404, "GET", of+"/other", "alice", "", &refused); refused.Error.Message != `context "other" does not exist` {
		t.Errorf("%+v", refused)
	}
	if b.ask(404, "GET", of+"/data", "bob", "", &refused); refused.Error.Message == `context "data" does not exist` {
		t.Errorf("%+v", refused)
	}
}
