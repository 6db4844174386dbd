//go:build linux

package cgroup

import (
	"bufio"
	"context"
	"errors"
	"testing"
	"time"
)

// The kernel announces that an installation's memory is running short before it kills.
func TestRealWatch(t *testing.T) {
	h := realHost(t)
	h.Bind(Bound{Memory: 128 * mega})
	g := create(t, h, Spec{Limits: Limits{Memory: 512 * mega}})
	whole, ok := h.Installation(installation(t))
	if !ok || whole.Bound() != 128*mega {
		t.Fatalf("a bound of %d", whole.Bound())
	}
	watch, err := whole.Watch(90, 95)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	hog := command(t, g, "hold", 122)
	in, err := hog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := hog.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	const patience = 10 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch.Wait(ctx, 2*patience)
	if ctx.Err() != nil {
		t.Error("nothing was announced")
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("it printed %q, %v", line, err)
	}
	if used, err := whole.Used(); err != nil || used < 122*mega || used > 128*mega {
		t.Errorf("%d MiB in use, %v", used/mega, err)
	}
	if u := g.Usage(); value(u.OOMKills) != 0 {
		t.Errorf("%d were killed", value(u.OOMKills))
	}
	if err := errors.Join(in.Close(), hog.Wait()); err != nil {
		t.Error(err)
	}
}
