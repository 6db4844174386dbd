//go:build linux

package rest_test

import (
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// TestClient checks that the client and the door agree. The contract checks every response.
func TestClient(t *testing.T) {
	b := newEngine(t)
	as := func(key string) *client.Client {
		c, err := client.New(client.Options{URL: b.url, APIKey: key, HTTP: b.http, Patience: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	alice, root, ctx := as("alice"), as("root"), b.context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}

	session, err := alice.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host"}, IdempotencyKey: "s"})
	must("create a session", err)
	parts := []belljar.UploadPart{
		{Name: "a/b.txt", Format: belljar.UploadFile, Body: strings.NewReader("one")},
		{Name: "not an archive.zip", Format: belljar.UploadFile, Body: strings.NewReader("two")},
	}
	brought, err := alice.Sessions().Upload(ctx, session.ID, belljar.Upload{Dir: "in", Parts: all(parts)})
	must("upload", err)
	if brought.FileCount != 2 || brought.BytesReceived != 6 {
		t.Errorf("brought %+v", brought)
	}
	run, err := alice.Runs().Start(ctx, belljar.RunRequest{IdempotencyKey: "r", RunSpec: belljar.RunSpec{
		SpecVersion: "1.0", SessionID: session.ID, Command: []string{"/bin/sh", "-c", `cat in/a/b.txt "in/not an archive.zip"; echo 12345 > "odd name%2F.txt"`},
		CapturePatterns: []string{"*.txt"},
	}})
	must("start", err)
	run, output, err := belljar.Collect(ctx, alice.Runs(), run.ID)
	must("collect", err)
	if output.Stdout != "onetwo" || run.Phase != belljar.PhaseCompleted {
		t.Errorf("%+v printed %+v", run, output)
	}
	found, err := alice.Artifacts().List(ctx, run.ID)
	must("list artifacts", err)
	if len(found) != 1 || found[0].Size != 6 {
		t.Fatalf("%+v", found)
	}
	_, content, err := alice.Artifacts().Open(ctx, run.ID, found[0].Path, 3)
	must("open an artifact", err)
	got, err := io.ReadAll(content)
	must("read an artifact", err)
	if string(got) != "45\n" {
		t.Errorf("artifact %q", got)
	}
	must("close", content.Close())

	runs, err := alice.Runs().List(ctx, belljar.RunQuery{SessionID: session.ID, Phase: belljar.PhaseCompleted, Sort: "finished_at:asc", StartedFrom: run.CreatedAt.Add(-1e9)})
	must("list runs", err)
	everybodys, err := root.Admin().Runs(ctx, belljar.RunQuery{UserID: "alice", Limit: 1})
	must("list everybody's runs", err)
	if runs.Total != 1 || runs.Items[0].ID != run.ID || everybodys.Total != 1 {
		t.Errorf("%+v, %+v", runs, everybodys)
	}
	must("cancel what has ended", alice.Runs().Cancel(ctx, run.ID))
	if _, err := alice.Admin().Usage(ctx, 5); belljar.CodeOf(err) != belljar.CodeForbidden {
		t.Errorf("usage for alice: %v", err)
	}
	must("set a quota", root.Admin().SetQuota(ctx, "alice", &belljar.Quota{ConcurrentRuns: 3}))
	quota, err := root.Admin().Quota(ctx, "alice")
	must("get a quota", err)
	if quota.ConcurrentRuns != 3 || quota.CPUSecondsPerDay != 0 || !quota.Own {
		t.Errorf("%+v", quota)
	}
	keys, err := root.Admin().Idempotency(ctx, belljar.KeyQuery{UserID: "alice"})
	must("list keys", err)
	if len(keys) != 2 {
		t.Errorf("%+v", keys)
	}
	token, err := root.Admin().CreateToken(ctx, belljar.TokenSpec{UserID: "carol", TTLSec: 3600})
	must("make a token", err)
	me, err := as(token.Secret).Node().Me(ctx)
	must("me", err)
	if me.UserID != "carol" {
		t.Errorf("%+v", me)
	}
	must("revoke", root.Admin().RevokeToken(ctx, token.ID))
	if _, err := as(token.Secret).Node().Runtimes(ctx); belljar.CodeOf(err) != belljar.CodeUnauthorized {
		t.Errorf("after revocation: %v", err)
	}
	sessions, err := alice.Sessions().List(ctx, belljar.SessionQuery{})
	must("list sessions", err)
	if sessions.Total != 1 {
		t.Errorf("%+v", sessions)
	}
	must("delete", alice.Sessions().Delete(ctx, session.ID))
	must("delete again", alice.Sessions().Delete(ctx, session.ID))
}

func all(parts []belljar.UploadPart) iter.Seq2[belljar.UploadPart, error] {
	return func(yield func(belljar.UploadPart, error) bool) {
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
	}
}
