//go:build linux

package service_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// bash returns code for a context, which is created if it does not exist.
func bash(session, name, code string) belljar.RunRequest {
	req := inContext(session, name, code)
	req.Language, req.Replay = "bash", true
	return req
}

// The contexts of a resumed session continue in the next process, whether or not they were used since: each knows its earlier code, and the
// first run reports the loss of the variables. Deleted contexts stay deleted.
func TestContextsOfASessionThatWoke(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	x := p.open()
	for _, name := range []string{"unused", "used", "deleted", "anew", "gone", "busy"} {
		p.run(bash(x.ID, name, "one=1")).want(t, belljar.PhaseCompleted, 0, "")
	}
	all := func(p *process) belljar.Contexts { return p.service.As(service.Local()).Contexts() }
	remove := func(name string) {
		t.Helper()
		if err := all(p).Delete(p.context(), x.ID, name); err != nil {
			t.Fatal(err)
		}
	}
	remove("gone")
	if _, err := p.hibernate(x.ID, true); err != nil {
		t.Fatal(err)
	}
	p.kill()
	p = w.boot()
	if r := p.run(bash(x.ID, "used", "two=2")); r.Context.State != belljar.ContextNew || r.Context.Replayed != 1 {
		t.Errorf("%+v", r.Context)
	}
	if r := p.run(bash(x.ID, "gone", "echo [$one]")); r.stdout != "[]\n" {
		t.Errorf("code of a context that was deleted is executed again: %q, %+v", r.stdout, r.Context)
	}
	remove("deleted")
	if _, err := all(p).Restart(p.context(), x.ID, "anew"); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	busy := p.start(inContext(x.ID, "busy", "echo up; while [ ! -e "+gate+" ]; do sleep 0.01; done"))
	p.waitFor(busy.ID, "up\n")
	p.kill()

	p = w.boot()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := p.follow(busy.ID); r.Context.State != belljar.ContextNew {
		t.Errorf("the first run, over the restart: %+v", r.Context)
	}
	list, err := all(p).List(p.context(), x.ID)
	if err != nil || len(list) != 5 || list[0].Name != "anew" || list[2].Name != "gone" || list[3].Name != "unused" || list[4].Name != "used" {
		t.Fatalf("%+v, %v", list, err)
	}
	if made, err := all(p).Create(p.context(), x.ID, belljar.ContextSpec{Language: "bash", Name: "unused"}); err != nil || made.State != belljar.ContextStopped {
		t.Errorf("one that is there is made: %+v, %v", made, err)
	}
	unused := inContext(x.ID, "unused", "echo $one")
	unused.Replay = true
	if r := p.run(unused); r.stdout != "1\n" || r.Context.State != belljar.ContextNew || r.Context.Replayed != 1 {
		t.Errorf("unused: %q, %+v, %s", r.stdout, r.Context, r.Message)
	}
	if r := p.run(bash(x.ID, "used", "echo $one $two; exit")); r.stdout != "1 2\n" || r.Context.Replayed != 0 {
		t.Errorf("used: %q, %+v", r.stdout, r.Context)
	}
	if r := p.run(bash(x.ID, "used", "echo $one $two")); r.stdout != "1 2\n" || r.Context.Replayed != 2 {
		t.Errorf("used, without an interpreter: %q, %+v", r.stdout, r.Context)
	}
	if r := p.run(bash(x.ID, "anew", "true")); r.Context.State != belljar.ShellKept {
		t.Errorf("one that was restarted: %+v", r.Context)
	}
	p.run(bash(x.ID, "anew", "exit"))
	for name, replayed := range map[string]int{"anew": 1, "deleted": 0} {
		if r := p.run(bash(x.ID, name, "echo [$one]")); r.stdout != "[]\n" || r.Context.Replayed != replayed {
			t.Errorf("%s: %q, %+v", name, r.stdout, r.Context)
		}
	}
	p.end(x)
}
