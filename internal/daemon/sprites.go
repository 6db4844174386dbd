package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime/sprites"
	"github.com/belljar/belljar/internal/upstream"
	"github.com/belljar/belljar/internal/workspace"
)

// openSprites opens the runtime of a sprite.
func openSprites(_ *Host, o openOptions) (unit, error) {
	api, err := upstream.New(upstream.Options{
		URL: o.cfg.SpritesBaseURL, Token: o.cfg.SpritesToken, Allow: sprites.Rules(o.cfg.SpriteName), Patience: time.Minute,
		Observe: observeRequests("sprites_api", o.observe),
	})
	if err != nil {
		return unit{}, mistake("it looks like https://api.sprites.dev", "SANDBOX_SPRITES_BASE_URL %v", err)
	}
	service, err := upstream.New(upstream.Options{
		URL: o.cfg.SpriteServiceURL(), Token: spriteServiceToken(o.cfg), Observe: observeRequests("workspace_service", o.observe),
		Allow: []upstream.Rule{{Methods: []string{http.MethodGet}, Path: "/healthz"}, {Methods: []string{http.MethodGet}, Path: "/__meta/version"}},
	})
	if err != nil {
		return unit{}, mistake("host, port and path are settings of their own", "the address of SANDBOX_SPRITES_WORKSPACE_SERVICE_HOST %v", err)
	}
	rt, err := sprites.New(sprites.Options{
		API: api, Service: upstream.CheckOptions{Guard: service, Version: workspace.APIVersion, Observe: observeReady("workspace_service", o.observe)},
		Sprite: o.cfg.SpriteName, Agent: o.cfg.SpriteService + "/belljar-agent", Workspace: o.cfg.SpriteWorkspace, Secrets: o.cfg.SpriteService + "/run/secrets",
		State: o.state, Logger: o.log,
		Observe: func(what string, why upstream.Reason) {
			name := event.UpstreamFailed
			if what == "disconnected" {
				name = event.UpstreamLost
			}
			report(o.observe, event.Event{Name: name, Component: "sprites_api", Reason: string(why)})
		},
	})
	if err != nil {
		return unit{}, err
	}
	return unit{Runtime: rt, close: rt.Close}, nil
}

// spriteServiceToken returns the token of the workspace service. Programs in the sprite may read the derived token, which is useless at the
// API.
func spriteServiceToken(cfg *config.Config) string {
	if cfg.SpriteServiceToken != "" {
		return cfg.SpriteServiceToken
	}
	sum := sha256.Sum256([]byte("belljar workspace service\n" + cfg.SpriteName + "\n" + cfg.SpritesToken + "\n"))
	return hex.EncodeToString(sum[:])
}

// observe forwards events about other servers, once there is a sink.
func (d *server) observe(e event.Event) {
	if sinks := d.elsewhere.Load(); sinks != nil {
		sinks.Record(e)
	}
}

func report(to func(event.Event), e event.Event) {
	if to != nil {
		to(e)
	}
}

func observeRequests(name string, to func(event.Event)) func(upstream.Observation) {
	return func(o upstream.Observation) {
		reason := string(o.Reason)
		if o.Status != 0 {
			reason = strconv.Itoa(o.Status)
		}
		report(to, event.Event{Name: event.UpstreamRequest, Component: name, Reason: reason, Took: o.Took})
	}
}

func observeReady(name string, to func(event.Event)) func(time.Duration, upstream.Reason) {
	return func(took time.Duration, why upstream.Reason) {
		report(to, event.Event{Name: event.UpstreamReady, Component: name, Reason: string(why), Took: took})
	}
}
