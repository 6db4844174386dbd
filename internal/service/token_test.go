//go:build linux

package service_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

func TestTokens(t *testing.T) {
	clock := newHourglass()
	var events diary
	b := newBench(t, func(o *service.Options) { o.Clock, o.Events = clock, &events })
	tokens := b.service.As(service.Local()).Admin()
	made, err := tokens.CreateToken(t.Context(), belljar.TokenSpec{UserID: "ann", Name: "laptop", TTLSec: 3600})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^blj_[0-9A-Za-z]{43}$`).MatchString(made.Secret) || made.Prefix != made.Secret[:10] || made.Role != belljar.RoleUser ||
		!made.ExpiresAt.Equal(clock.Now().Add(time.Hour)) {
		t.Errorf("made %+v", made)
	}
	who := func(key string) (belljar.Caller, belljar.Code) {
		c, err := b.service.Authenticate(t.Context(), key)
		return c, belljar.CodeOf(err)
	}
	clock.pass(90 * time.Second)
	if c, code := who(made.Secret); code != "" || c.ID != "ann" || c.Admin() {
		t.Errorf("%+v, %s", c, code)
	}
	list, err := tokens.Tokens(t.Context())
	if err != nil || len(list) != 1 || list[0].Secret != "" || !list[0].LastUsedAt.Equal(clock.Now().Truncate(time.Minute)) {
		t.Errorf("%+v, %v", list, err)
	}
	for _, key := range []string{"", "blj_", made.Secret[:46], made.Secret + "x", "blj_" + made.ID, "xxx_" + made.Secret[4:], made.Prefix} {
		if c, code := who(key); code != belljar.CodeUnauthorized || c != (belljar.Caller{}) {
			t.Errorf("%q: %+v, %s", key, c, code)
		}
	}
	operator, err := tokens.CreateToken(t.Context(), belljar.TokenSpec{UserID: "root", Role: belljar.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	if c, code := who(operator.Secret); code != "" || !c.Admin() || operator.ExpiresAt != nil {
		t.Errorf("%+v, %s", c, code)
	}
	for range 2 {
		if err := tokens.RevokeToken(t.Context(), operator.ID); err != nil {
			t.Error(err)
		}
	}
	if _, code := who(operator.Secret); code != belljar.CodeUnauthorized {
		t.Errorf("revoked: %s", code)
	}
	if err := tokens.RevokeToken(t.Context(), "nobody"); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("%v", err)
	}
	clock.pass(time.Hour)
	if _, code := who(made.Secret); code != belljar.CodeUnauthorized {
		t.Errorf("expired: %s", code)
	}
	if len(events.named(event.TokenCreated)) != 2 || len(events.named(event.TokenRevoked)) != 2 {
		t.Errorf("events: %+v", events.events)
	}
	for _, e := range events.events {
		for _, value := range e.Detail {
			if value == made.Secret || value == operator.Secret {
				t.Error("a key is in the audit trail")
			}
		}
	}
}

// The timer of a token ends with it, before the token's expiry.
func TestEndedTokensHaveNoTimer(t *testing.T) {
	clock, st := newHourglass(), &watchedTokens{Store: memory.New()}
	b := newBench(t, func(o *service.Options) { o.Clock, o.Store = clock, st })
	ctx, tokens, signIns := t.Context(), b.service.As(service.Local()).Admin(), b.service.SignIns()
	timers := func() int {
		clock.mu.Lock()
		defer clock.mu.Unlock()
		return len(clock.turns)
	}
	operator, err := tokens.CreateToken(ctx, belljar.TokenSpec{UserID: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	parent, ann := signIns.KeyParent(operator.Secret), belljar.Caller{ID: "ann", Role: belljar.RoleUser}
	before := timers()
	for name, end := range map[string]func() error{
		"signed out": func() error {
			if _, err := signIns.Add(ctx, ann, "u1.token", parent, time.Time{}); err != nil {
				return err
			}
			_, _, used := signIns.Find(ctx, "u1.token")
			return errors.Join(used, signIns.End(ctx, ann, "u1.token"))
		},
		"spent": func() error {
			_, err := signIns.AddCode(ctx, ann, "code", parent)
			_, _, spent := signIns.Spend(ctx, "code")
			return errors.Join(err, spent)
		},
		"revoked": func() error {
			made, err := tokens.CreateToken(ctx, belljar.TokenSpec{UserID: "ann", TTLSec: 3600})
			_, used := b.service.Authenticate(ctx, made.Secret)
			if timers() != before+1 {
				t.Error("a key in use has no timer")
			}
			return errors.Join(err, used, tokens.RevokeToken(ctx, made.ID))
		},
		"revoked during its first use": func() error {
			made, err := tokens.CreateToken(ctx, belljar.TokenSpec{UserID: "ann", TTLSec: 3600})
			st.used = func(id string) { err = errors.Join(err, tokens.RevokeToken(ctx, id)) }
			defer func() { st.used = nil }()
			if _, used := b.service.Authenticate(ctx, made.Secret); belljar.CodeOf(used) != belljar.CodeUnauthorized {
				t.Errorf("a key that was revoked: %v", used)
			}
			return err
		},
	} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if n := timers(); n != before {
			t.Errorf("%s: %d timers, before %d", name, n, before)
		}
	}
}

// watchedTokens calls used before the use of a token is on record.
type watchedTokens struct {
	store.Store
	used func(id string)
}

type watchedUses struct {
	store.Tokens
	used func(id string)
}

func (w *watchedTokens) Tokens() store.Tokens { return watchedUses{w.Store.Tokens(), w.used} }

func (w watchedUses) Used(ctx context.Context, id string, at time.Time) error {
	if w.used != nil {
		w.used(id)
	}
	return w.Tokens.Used(ctx, id, at)
}

func TestTokenRefusals(t *testing.T) {
	b := newBench(t)
	tokens := b.service.As(service.Local()).Admin()
	for name, spec := range map[string]belljar.TokenSpec{
		"nobody": {}, "role": {UserID: "a", Role: "king"}, "time": {UserID: "a", TTLSec: -1}, "control": {UserID: "a\n"},
		"name": {UserID: "a", Name: "\x00"}, "reserved": {UserID: "server"},
	} {
		provided := map[string]any{"nobody": "", "role": "king", "time": "-1", "control": "a\n", "name": "\x00", "reserved": "server"}[name]
		_, err := tokens.CreateToken(t.Context(), spec)
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["provided"] != provided {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

// Operators' operations are refused to others.
func TestOperatorsOnly(t *testing.T) {
	b := newBench(t)
	v := b.service.As(belljar.Caller{ID: "a"})
	ctx := context.Background()
	_, runs := v.Admin().Runs(ctx, belljar.RunQuery{})
	_, keys := v.Admin().Idempotency(ctx, belljar.KeyQuery{})
	_, usage := v.Admin().Usage(ctx, 0)
	_, quota := v.Admin().Quota(ctx, "a")
	_, create := v.Admin().CreateToken(ctx, belljar.TokenSpec{UserID: "a", Role: belljar.RoleAdmin})
	_, list := v.Admin().Tokens(ctx)
	_, others := v.Runs().List(ctx, belljar.RunQuery{UserID: "b"})
	for name, err := range map[string]error{
		"runs": runs, "keys": keys, "usage": usage, "quota": quota, "set": v.Admin().SetQuota(ctx, "a", &belljar.Quota{}),
		"create": create, "list": list, "revoke": v.Admin().RevokeToken(ctx, "x"), "runs of others": others,
	} {
		if belljar.CodeOf(err) != belljar.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAdmin(t *testing.T) {
	b := newBench(t)
	admin := b.service.As(service.Local()).Admin()
	req := keyed("k", "echo x > f")
	req.CapturePatterns = []string{"f"}
	run, err := b.as("ann").Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID)
	page, err := admin.Runs(t.Context(), belljar.RunQuery{UserID: "ann"})
	if err != nil || page.Total != 1 || page.Items[0].ID != run.ID || page.Limit != 50 || page.HasMore {
		t.Errorf("%+v, %v", page, err)
	}
	keys, err := admin.Idempotency(t.Context(), belljar.KeyQuery{Endpoint: "runs"})
	if err != nil || len(keys) != 1 || keys[0].UserKey != "ann" || keys[0].ObjectID != run.ID {
		t.Errorf("%+v, %v", keys, err)
	}
	usage, err := admin.Usage(t.Context(), 0)
	if err != nil || len(usage) != 1 || usage[0].UserID != "ann" || usage[0].ArtifactBytes != 2 {
		t.Errorf("%+v, %v", usage, err)
	}
	if _, err := admin.Idempotency(t.Context(), belljar.KeyQuery{Endpoint: "files"}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
}

func TestList(t *testing.T) {
	b := newBench(t)
	mine := b.as("ann")
	var ids []string
	for range 3 {
		run, err := mine.Start(t.Context(), shell("true"))
		if err != nil {
			t.Fatal(err)
		}
		b.follow(run.ID)
		ids = append(ids, run.ID)
	}
	b.run(shell("true")) // of another user
	page, err := mine.List(t.Context(), belljar.RunQuery{Limit: 2, Offset: 1, Sort: "created_at:asc"})
	if err != nil || page.Total != 3 || page.HasMore || page.Offset != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	var got []string
	for _, run := range page.Items {
		got = append(got, run.ID)
	}
	if diff := cmp.Diff(ids[1:], got); diff != "" {
		t.Error(diff)
	}
	if page, err := mine.List(t.Context(), belljar.RunQuery{Limit: 2}); err != nil || !page.HasMore {
		t.Errorf("%+v, %v", page, err)
	}
	for field, q := range map[string]belljar.RunQuery{
		"limit": {Limit: 201}, "offset": {Offset: -1}, "sort": {Sort: "id"}, "phase": {Phase: "done"},
	} {
		if _, err := mine.List(t.Context(), q); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%s: %v", field, err)
		}
	}
	under, end := b.busy()
	page, err = b.List(t.Context(), belljar.RunQuery{Limit: 1, Phase: belljar.PhaseRunning})
	if err != nil || page.Total != 1 || page.Items[0].ID != under.ID || page.Items[0].Phase != belljar.PhaseRunning {
		t.Errorf("one under way is listed as %+v, %v", page.Items, err)
	}
	end()
}

func TestNode(t *testing.T) {
	b := newBench(t, one, func(o *service.Options) { o.Runtimes = append(o.Runtimes, away{o.Runtimes[0]}) })
	v := b.service.As(service.Local()).Node()
	d, err := v.Runtimes(t.Context())
	if err != nil || d.StoreMode != "memory" || len(d.Runtimes) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	here, absent := d.Runtimes[0], d.Runtimes[1]
	if !here.Available || !here.Default || here.QueueMaxLength != 100 || here.QueueTTLSec != 120 || here.MaxCPU != 4 || here.MaxMemMB != 8192 ||
		here.MaxLogBytes != 10<<20 || here.WorkspaceCapMB != 256 || here.ArtifactTTLHours != 24 || here.MaxUploadMB != 64 || here.MaxUploadFiles != 1000 || here.MaxUploadDepth != 10 ||
		!here.InteractiveSupported || here.EgressAllowlistSupported || here.Notes != nil || len(here.DefaultImages) == 0 {
		t.Errorf("%+v", here)
	}
	if absent.Available || absent.InteractiveSupported || absent.Notes == nil || *absent.Notes != "no KVM" || absent.Reasons[0].Hint == "" {
		t.Errorf("%+v", absent)
	}
	_, end := b.busy()
	b.start(shell("true"))
	me, err := v.Me(t.Context())
	if err != nil || me.UserID != "local" || me.Role != belljar.RoleAdmin || len(me.PolicyHash) != 64 || me.Used.ConcurrentRuns != 1 ||
		me.Used.QueuedRuns != 1 || me.Policy["SANDBOX_MAX_CPU"] != 4.0 || me.Limits.CPU != 1 {
		t.Errorf("%+v, %v", me, err)
	}
	end()
}
