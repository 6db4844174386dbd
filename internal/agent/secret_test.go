package agent_test

import (
	"errors"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

// An agent without support for secrets is distinguished from one that refuses a secret: no secret is dropped silently.
func TestSecretOfAnOlderAgent(t *testing.T) {
	for name, c := range map[string]struct {
		features []string
		reply    wire.Reply
		older    bool
	}{
		"older":   {nil, wire.Reply{Error: &wire.Error{Code: wire.CodeProtocol, Message: "unknown operation"}}, true},
		"refused": {[]string{string(wire.OpSecret)}, wire.Reply{Error: &wire.Error{Code: wire.CodeExists, Message: "it exists"}}, false},
	} {
		client := scripted(t, func(_ *testing.T, _ wire.Request, r *wire.Reader, w *wire.Writer) {
			w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version, Features: c.features})
			w.JSON(wire.KindReply, c.reply)
			for { // until the client has read the reply
				if _, err := r.Read(); err != nil {
					return
				}
			}
		})
		err := client.WriteSecret(t.Context(), wire.FileRequest{Path: "TOKEN"}, "correct horse")
		if err == nil || errors.Is(err, errors.ErrUnsupported) != c.older {
			t.Errorf("%s: %v", name, err)
		}
	}
	client := scripted(t, func(t *testing.T, req wire.Request, r *wire.Reader, w *wire.Writer) {
		if req.Op != wire.OpSecret || req.File == nil || req.File.Path != "TOKEN" {
			t.Errorf("%+v", req)
		}
		if f, err := r.Read(); err != nil || string(f.Payload) != "correct horse" {
			t.Errorf("%q, %v", f.Payload, err)
		}
		greet(w)
		w.JSON(wire.KindReply, wire.Reply{Done: true})
	})
	if err := client.WriteSecret(t.Context(), wire.FileRequest{Path: "TOKEN"}, "correct horse"); err != nil {
		t.Error(err)
	}
}
