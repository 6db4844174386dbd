//go:build linux

package service_test

import (
	"context"
	"slices"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// relaying is a runtime whose agents should have a relay, and have none.
type relaying struct{ runtime.Runtime }

func (r relaying) Probe(ctx context.Context) (runtime.Capabilities, error) {
	caps, err := r.Runtime.Probe(ctx)
	caps.Relay = true
	return caps, err
}

// A change of a session's network that is on record is in the audit trail, with the caller who made it, also if the call fails after that.
func TestNetworkChangeIsRecorded(t *testing.T) {
	var told diary
	b := newBench(t, func(o *service.Options) {
		o.Runtimes[0], o.Events, o.Policy = relaying{o.Runtimes[0]}, &told, service.DefaultPolicy()
		o.Policy.EgressAllow = []string{"*"}
	})
	sessions := b.service.As(service.Local()).Sessions()
	x, err := b.service.As(ann).Sessions().Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	asked := belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Hosts: []string{"example.com"}}}
	_, err = sessions.SetNetwork(b.context(), x.ID, asked)
	refusedAs(t, "an agent without a relay", err, belljar.CodeRuntimeUnavailable)
	if got, err := sessions.Network(b.context(), x.ID); err != nil || !slices.Equal(got.Egress.Hosts, asked.Egress.Hosts) {
		t.Errorf("in force is %+v, %v", got, err)
	}
	if got := told.named(event.SessionNetwork); len(got) != 1 || got[0].Kind != belljar.NetworkAllowlist || got[0].Caller.ID != service.Local().ID {
		t.Errorf("the audit trail has %+v", got)
	}
}
