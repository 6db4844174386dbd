//go:build linux

package terminal

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
)

// A terminal of a dead process is recovered: its program, name, size and history. Output that was printed meanwhile is included, once.
func TestTerminalRecovered(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	x, ann := w.session, w.As(w.session.Owner())
	open := func(name, script string) belljar.Terminal {
		t.Helper()
		got, err := ann.Open(ctx, x.state.ID, belljar.TerminalSpec{Name: name, Shared: true, Command: []string{"sh", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	alive := open("alive", "stty -echo; seq 1 100000; echo begun; while read x; do echo got $x; done")
	ended := open("ended", "echo last words; read x; echo gone on; exit 4")
	damaged := open("damaged", "cat")
	seen := func(id, text string) []byte {
		t.Helper()
		var all []byte
		a, err := ann.Attach(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		for !bytes.Contains(all, []byte(text)) {
			e, err := a.Next(ctx)
			if err != nil || e.Data == nil {
				t.Fatalf("%+v, %v instead of %q, behind %q", e, err, text, all[max(0, len(all)-500):])
			}
			all = append(all, e.Data...)
		}
		return all
	}
	typed := func(id, text string) {
		t.Helper()
		a, err := ann.Attach(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if err := a.Write(ctx, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	seen(alive.ID, "begun")
	seen(ended.ID, "last words")
	a, err := ann.Attach(ctx, alive.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Resize(99, 33); err != nil {
		t.Fatal(err)
	}

	for { // until the size arrives
		list, err := x.box.Agent.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if i := index(list, execPrefix+alive.ID); list[i].PTY != nil && list[i].PTY.Cols == 99 {
			break
		}
	}
	for _, id := range []string{alive.ID, ended.ID, damaged.ID} { // as a process dies
		gone := w.table.get(id)
		if id == ended.ID {
			typed(id, "\n") // it ends without a client, or nearly so
		}
		gone.stop()
		<-gone.over
	}
	var list []wire.ExecInfo
	for { // until the program has ended
		if list, err = x.box.Agent.List(ctx); err != nil {
			t.Fatal(err)
		}
		if i := index(list, execPrefix+ended.ID); i < 0 || !list[i].Running {
			break
		}
	}
	list[index(list, execPrefix+damaged.ID)].Note = "{"
	list = append(list, wire.ExecInfo{ID: "some run"}, wire.ExecInfo{ID: execPrefix + "../x", Note: "{}"})
	for range 2 { // the second time has no effect
		w.Recover(ctx, x, list)
	}

	got, err := ann.List(ctx, x.state.ID)
	if err != nil || len(got) == 0 || got[0].ID != alive.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	if g := got[0]; g.Name != "alive" || !g.Shared || g.Cols != 99 || g.Rows != 33 || !g.CreatedAt.Equal(alive.CreatedAt) ||
		strings.Join(g.Command, " ") != strings.Join(alive.Command, " ") || g.UserID != "ann" || g.DetachedAt.IsZero() {
		t.Errorf("%+v", g)
	}
	typed(alive.ID, "it\n")
	history := string(seen(alive.ID, "got it"))
	lines := strings.Split(history[:strings.Index(history, "\r\nbegun")], "\r\n")
	for i, line := range lines {
		if want := fmt.Sprint(100000 - len(lines) + 1 + i); line != want {
			t.Fatalf("line %d of %d is %q, want %q; the history of %d bytes begins with %q", i, len(lines), line, want, len(history), history[:min(40, len(history))])
		}
	}
	if len(history) < 200<<10 || strings.Count(history, "begun") != 1 {
		t.Errorf("history of %d bytes", len(history))
	}
	if last := got[len(got)-1]; last.ID == ended.ID {
		if text := string(seen(ended.ID, "gone on")); strings.Count(text, "last words") != 1 {
			t.Errorf("%q", text)
		}
	}
	for { // a terminal that cannot be recovered is ended
		list, err := x.box.Agent.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if i := index(list, execPrefix+damaged.ID); i < 0 || !list[i].Running {
			break
		}
	}
}

func index(list []wire.ExecInfo, id string) int {
	for i, info := range list {
		if info.ID == id {
			return i
		}
	}
	return -1
}

// A program that has taken over its session's agent lists any number of terminals for the next process, with notes of any length.
func TestTerminalsThatNeverWere(t *testing.T) {
	w := newWorld(t)
	x := &session{ctx: w.session.ctx, state: w.session.state, box: &box.Box{Agent: agent.New(func(context.Context) (net.Conn, error) {
		host, inside := net.Pipe()
		w.work.Go(func() {
			defer inside.Close()
			r, out := wire.NewReader(inside), wire.NewWriter(inside)
			for n := 0; ; n++ {
				if _, err := r.Read(); err != nil {
					return
				}
				if n == 1 { // the hello and the request
					_ = out.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version})
					_ = out.JSON(wire.KindReply, wire.Reply{Started: &wire.Started{}})
				}
			}
		})
		return host, nil
	})}}
	list := []wire.ExecInfo{{ID: execPrefix + belljar.NewID(), Note: `{"name": "` + strings.Repeat("x", wire.MaxNote) + `"}`}}
	for range 100 {
		list = append(list, wire.ExecInfo{ID: execPrefix + belljar.NewID(), Note: "{}"})
	}
	w.Recover(t.Context(), x, list)
	if got := len(w.table.in(x.state.ID)); got >= w.opts.Limits.PerSession+keptEnded || w.table.get(strings.TrimPrefix(list[0].ID, execPrefix)) != nil {
		t.Errorf("%d terminals", got)
	}
}
