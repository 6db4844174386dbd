//go:build linux

package service_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	vault "github.com/belljar/belljar/internal/secret"
	"github.com/belljar/belljar/internal/service"
)

// password is a secret; secretly is a request with it. On the fake runtime, the folder of secrets is a sibling of the workspace.
const password = `correct horse/battery+"staple"`

func secretly(script string) belljar.RunRequest {
	req := shell(script)
	req.SpecVersion = "1.1"
	req.Secrets = map[string]belljar.Secret{"PASSWORD": {Value: password}}
	return req
}

// shows reports an error if v contains the password in any form.
func shows(t *testing.T, what string, v any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(password)
	encoded := base64.StdEncoding.EncodeToString([]byte(password))
	for _, form := range []string{password, string(quoted[1 : len(quoted)-1]), encoded[:16], hex.EncodeToString([]byte(password))} {
		if strings.Contains(string(raw), form) {
			t.Errorf("%s shows the secret: %.300s", what, raw)
		}
	}
}

// A run finds its secret in a file of its own, and no stored data of the run contains it.
func TestSecretOfARun(t *testing.T) {
	var o service.Options
	var events diary
	b := newBench(t, func(o *service.Options) { o.Events = &events }, parts(&o))
	req := secretly(`cd ../secrets; stat -c '%a %a' . PASSWORD | tr '\n' ' '; cat PASSWORD; echo; base64 PASSWORD; cat PASSWORD >&2; ln -s ../secrets/PASSWORD ../workspace/link; exit 3`)
	req.CapturePatterns, req.IdempotencyKey = []string{"**"}, "once"
	r := b.run(req)
	r.want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit)
	stars := strings.Repeat("*", len(password))
	if !strings.HasPrefix(r.stdout, "700 700 400 400 "+stars+"\n***") || r.stderr != stars {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
	if n := len("700 700 400 400 ") + len(password) + 1 + base64.StdEncoding.EncodedLen(len(password)) + 1; len(r.stdout) != n {
		t.Errorf("%d bytes of output became %d", n, len(r.stdout))
	}
	row, err := o.Store.Runs().Get(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	key, err := o.Store.Keys().Get(t.Context(), "runs", "local", "once")
	if err != nil {
		t.Fatal(err)
	}
	shows(t, "the record", row)
	shows(t, "the idempotency key", key)
	shows(t, "the log", r.frames)
	events.mu.Lock()
	shows(t, "an event", events.events)
	events.mu.Unlock()
	artifacts, err := b.Artifacts.List(t.Context(), r.ID)
	if err != nil || len(artifacts) != 1 || artifacts[0].Size != 0 || artifacts[0].LinkTarget == "" {
		t.Errorf("%+v, %v", artifacts, err)
	}
	shows(t, "an artifact", artifacts)
	other := b.run(shell("ls ../secrets 2>&1 || echo none"))
	if !strings.HasSuffix(other.stdout, "none\n") {
		t.Errorf("another run has %q", other.stdout)
	}
}

// The output of a failed start command is in the error of a session, and in the message of a run, without their secrets.
func TestSecretInAStart(t *testing.T) {
	b := newBench(t)
	b.template(belljar.TemplateSpec{Name: "starts", BaseImage: "host", Start: []string{"cat ../secrets/PASSWORD; exit 4"}})
	req, stars := secretly("true"), strings.Repeat("*", len(password))
	req.BaseImage, req.Template = "", "starts"
	if r := b.run(req); !strings.HasSuffix(r.Message, "exit code 4: "+stars) {
		t.Errorf("a run: %q", r.Message)
	}
	_, err := b.mine().Create(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", Template: "starts", Secrets: req.Secrets}})
	if e := wantCode(t, "a session", err, belljar.CodeConflict, "exit code 4: "+stars); e.Details["output"] != stars {
		t.Errorf("%v", e.Details)
	}
}

// A build does not get the secrets of its run. Its program does.
func TestSecretAfterTheBuild(t *testing.T) {
	b := newBench(t)
	req := secretly("")
	req.Command, req.Language, req.WorkspaceExec = []string{"main.c"}, "c", true
	req.Files = []belljar.InlineFile{{Path: "main.c", Content: []byte(`
#include <stdio.h>
#if __has_include("../secrets/PASSWORD")
#error the build has it
#endif
int main(void) { char b[99] = {0}; FILE *f = fopen("../secrets/PASSWORD", "r"); return f && fread(b, 1, 98, f) > 8 && puts(b) > 0 ? 0 : 9; }
`)}}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != strings.Repeat("*", len(password))+"\n" {
		t.Errorf("%q", r.stdout)
	}
}

// All runs of a session have its secrets, which stay redacted after a restart, and are encrypted on record.
func TestSecretOfASession(t *testing.T) {
	ways(t, func(t *testing.T, stop func(*process)) {
		key := vault.NewKey()
		w := newWorld(t, func(o *service.Options) {
			var err error
			if o.Vault, err = vault.New(key); err != nil {
				t.Fatal(err)
			}
		})
		p := w.boot()
		s := p.open(func(r *belljar.SessionRequest) {
			r.Secrets = map[string]belljar.Secret{"PASSWORD": {Value: password}}
		})
		stars := strings.Repeat("*", len(password))
		if r := p.run(in(s, "cat ../secrets/PASSWORD")); r.stdout != stars {
			t.Errorf("%q", r.stdout)
		}
		given := in(s, "true")
		given.Secrets = map[string]belljar.Secret{"OTHER": {Value: password}}
		var e *belljar.Error
		if _, err := p.Start(p.context(), given); !errors.As(err, &e) || e.Details["field"] != "secrets" || e.Hint == "" {
			t.Errorf("%v", err)
		}
		long := p.start(in(s, "echo began; while [ ! -e gate ]; do sleep 0.01; done; cat ../secrets/PASSWORD"))
		p.waitFor(long.ID, "began\n")
		row, err := w.store.Sessions().Get(t.Context(), s.ID)
		if err != nil || len(row.Secrets) == 0 {
			t.Fatalf("%d sealed bytes, %v", len(row.Secrets), err)
		}
		shows(t, "the record", row)
		stop(p)

		next := w.boot()
		if r := next.run(in(s, "cat ../secrets/PASSWORD; touch gate")); r.stdout != stars {
			t.Errorf("%q", r.stdout)
		}
		if r := next.follow(long.ID); r.stdout != "began\n"+stars {
			t.Errorf("%q", r.stdout)
		}
		next.end(s)
		if row, err = w.store.Sessions().Get(t.Context(), s.ID); err != nil || row.Secrets != nil {
			t.Errorf("%d sealed bytes are left, %v", len(row.Secrets), err)
		}
	})
}

// A session whose secrets cannot be decrypted after a restart ends, because its output would show them. A stored secret is refused.
func TestSecretOfASessionWithoutItsKey(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open(func(r *belljar.SessionRequest) {
		r.Secrets = map[string]belljar.Secret{"PASSWORD": {Value: password}}
	})
	if _, err := p.service.As(service.Local()).Secrets().Set(t.Context(), "TOKEN", belljar.SecretSpec{Value: password}); err != nil {
		t.Fatal(err)
	}
	p.kill()
	next := w.boot()
	next.state(s.ID, belljar.SessionLost)
	req := shell("true")
	req.Secrets = map[string]belljar.Secret{"T": {From: "TOKEN"}}
	if _, err := next.as("local").Start(t.Context(), req); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
}

// A queued run still has its secrets in the next process.
func TestSecretInTheQueue(t *testing.T) {
	key := vault.NewKey()
	w := newWorld(t, func(o *service.Options) {
		var err error
		o.Concurrency = 1
		if o.Vault, err = vault.New(key); err != nil {
			t.Fatal(err)
		}
	})
	p := w.boot()
	first := p.start(shell("echo began; exec sleep 1000"))
	p.waitFor(first.ID, "began\n")
	waits := p.start(secretly("cat ../secrets/PASSWORD"))
	row, err := w.store.Runs().Get(t.Context(), waits.ID)
	if err != nil || len(row.Secrets) == 0 || row.Phase != belljar.PhaseQueued {
		t.Fatalf("%s, %d sealed bytes, %v", row.Phase, len(row.Secrets), err)
	}
	shows(t, "the record", row)
	if err := p.service.Close(); err != nil {
		t.Fatal(err)
	}
	r := w.boot().follow(waits.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != strings.Repeat("*", len(password)) {
		t.Errorf("%q", r.stdout)
	}
	if row, err = w.store.Runs().Get(t.Context(), waits.ID); err != nil || row.Secrets != nil {
		t.Errorf("%d sealed bytes are left, %v", len(row.Secrets), err)
	}
}

// Stored secrets belong to their owner, unless an operator shares them.
func TestStoredSecrets(t *testing.T) {
	var o service.Options
	var events diary
	b := newBench(t, func(o *service.Options) { o.Events = &events }, parts(&o))
	ann := b.service.As(belljar.Caller{ID: "ann", Role: belljar.RoleUser})
	bob := b.service.As(belljar.Caller{ID: "bob", Role: belljar.RoleUser})
	root := b.service.As(belljar.Caller{ID: "root", Role: belljar.RoleAdmin})
	ctx := b.context()
	set := func(who belljar.Service, name, value string, shared bool) error {
		_, err := who.Secrets().Set(ctx, name, belljar.SecretSpec{Value: value, Shared: shared})
		return err
	}
	for _, err := range []error{set(ann, "TOKEN", "ann's first token", false), set(ann, "TOKEN", "ann's own token", false), set(root, "TOKEN", "everybody's token", true)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range map[string]error{
		"name": set(ann, "a-b", password, false), "value": set(ann, "SHORT", "1234567", false), "shared": set(bob, "ALL", password, true),
	} {
		var e *belljar.Error
		if !errors.As(err, &e) || e.Details["field"] != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	uses := func(who belljar.Service, from string) (belljar.Run, error) {
		req := shell("cat ../secrets/T | tr a-z b-za | cut -c1-3")
		req.Secrets = map[string]belljar.Secret{"T": {From: from}}
		return who.Runs().Start(ctx, req)
	}
	for _, c := range []struct {
		who  belljar.Service
		want string
	}{{ann, "boo"}, {bob, "fwf"}, {root, "fwf"}} {
		run, err := uses(c.who, "TOKEN")
		if err != nil {
			t.Fatal(err)
		}
		if r := b.follow(run.ID); r.stdout != c.want+"\n" {
			t.Errorf("%q, want %q", r.stdout, c.want)
		}
	}
	var e *belljar.Error
	if _, err := uses(ann, "NONE"); !errors.As(err, &e) || e.Details["field"] != "secrets.T.from" {
		t.Errorf("%v", err)
	}
	if list, err := ann.Secrets().List(ctx); err != nil || len(list) != 2 || list[0].Shared == list[1].Shared {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := bob.Secrets().List(ctx); err != nil || len(list) != 1 || !list[0].Shared {
		t.Errorf("%+v, %v", list, err)
	}
	rows, err := o.Store.Secrets().All(ctx)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		if strings.Contains(string(row.Sealed), "token") {
			t.Errorf("%s is stored as it is", row.Name)
		}
	}
	if err := bob.Secrets().Remove(ctx, "TOKEN", false); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("%v", err)
	}
	if err := bob.Secrets().Remove(ctx, "TOKEN", true); belljar.CodeOf(err) != belljar.CodeForbidden {
		t.Errorf("%v", err)
	}
	if err := errors.Join(ann.Secrets().Remove(ctx, "TOKEN", false), root.Secrets().Remove(ctx, "TOKEN", true)); err != nil {
		t.Error(err)
	}
	for name, n := range map[string]int{event.SecretSet: 3, event.SecretUsed: 3, event.SecretRemoved: 2} {
		got := events.named(name)
		if len(got) != n || got[0].Detail["secret"] != "TOKEN" {
			t.Errorf("%d events %s: %+v", len(got), name, got)
		}
	}
	for i, kind := range []string{"", "shared", "shared"} {
		if got := events.named(event.SecretUsed)[i]; got.Kind != kind {
			t.Errorf("%s used a secret of kind %q, not %q", got.Caller.ID, got.Kind, kind)
		}
	}
	stranger := b.service.As(belljar.Caller{})
	if err := set(stranger, "TOKEN", password, false); belljar.CodeOf(err) != belljar.CodeForbidden {
		t.Errorf("%v", err)
	}
}

// After a rotation the new key decrypts all secrets, and the old one none.
func TestReseal(t *testing.T) {
	old, fresh := vault.NewKey(), vault.NewKey()
	must := func(keys ...[]byte) *vault.Vault {
		v, err := vault.New(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	w := newWorld(t)
	p := w.boot(func(o *service.Options) { o.Vault = must(old) })
	s := p.open(func(r *belljar.SessionRequest) {
		r.Secrets = map[string]belljar.Secret{"PASSWORD": {Value: password}}
	})
	if _, err := p.service.As(service.Local()).Secrets().Set(p.context(), "KEPT", belljar.SecretSpec{Value: password}); err != nil {
		t.Fatal(err)
	}
	if err := p.service.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again, as after an interruption
		if err := service.Reseal(t.Context(), w.store, must(fresh, old)); err != nil {
			t.Fatal(err)
		}
	}
	next := w.boot(func(o *service.Options) { o.Vault = must(fresh) })
	if r := next.run(in(s, "cat ../secrets/PASSWORD")); r.stdout != strings.Repeat("*", len(password)) {
		t.Errorf("%q", r.stdout)
	}
	uses := shell("cmp ../secrets/A ../secrets/B && echo same")
	uses.Secrets = map[string]belljar.Secret{"A": {From: "KEPT"}, "B": {Value: password}}
	if r := next.run(uses); r.stdout != "same\n" {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
	next.end(s)
}

// An archive of a workspace with links to a secret contains only the links.
func TestSecretIsInNoArchive(t *testing.T) {
	b := newBench(t)
	s := b.open(func(r *belljar.SessionRequest) {
		r.Secrets = map[string]belljar.Secret{"PASSWORD": {Value: password}}
	})
	b.run(in(s, "ln -s ../secrets/PASSWORD link; ln -s ../secrets folder; ln -s $(pwd)/../secrets/PASSWORD absolute; echo honest >plain")).want(t, belljar.PhaseCompleted, 0, "")
	files := b.service.As(service.Local()).Files()
	for _, format := range []belljar.UploadFormat{belljar.UploadTar, belljar.UploadZip} {
		var archive bytes.Buffer
		if err := files.Archive(b.context(), s.ID, ".", format, &archive); err != nil || !strings.Contains(archive.String(), "plain") || strings.Contains(archive.String(), "correct") {
			t.Errorf("%s: %d bytes, %v", format, archive.Len(), err)
		}
	}
	for _, path := range []string{"link", "folder/PASSWORD", "absolute", "../secrets/PASSWORD"} {
		if _, r, err := files.Read(b.context(), s.ID, path, 0, 0); err == nil {
			r.Close()
			t.Errorf("%s can be read", path)
		}
	}
	if err := b.mine().Delete(b.context(), s.ID); err != nil {
		t.Error(err)
	}
}

// A terminal redacts secrets, too, although its output is not delayed.
func TestSecretInATerminal(t *testing.T) {
	b := newBench(t)
	s := b.open(func(r *belljar.SessionRequest) {
		r.Secrets = map[string]belljar.Secret{"PASSWORD": {Value: password}}
	})
	terminals := b.service.As(service.Local()).Terminals()
	made, err := terminals.Open(b.context(), s.ID, belljar.TerminalSpec{Command: []string{"/bin/sh", "-c", "cat ../secrets/PASSWORD; echo; base64 ../secrets/PASSWORD; echo over; read line"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := terminals.Attach(b.context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var out strings.Builder
	for !strings.Contains(out.String(), "over") {
		e, err := a.Next(b.context())
		if err != nil {
			t.Fatal(err)
		}
		out.Write(e.Data)
	}
	if !strings.HasPrefix(out.String(), strings.Repeat("*", len(password))+"\r\n") {
		t.Errorf("%q", out.String())
	}
	shows(t, "a terminal", out.String())
	if err := b.mine().Delete(b.context(), s.ID); err != nil {
		t.Error(err)
	}
}
