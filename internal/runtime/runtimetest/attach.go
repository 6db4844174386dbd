package runtimetest

import (
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// errCut stands for a host that dies in the middle of output.
var errCut = errors.New("cut")

func testAttach(t *testing.T, o Options) {
	cut := func(j *jar, lose func(*agent.Process)) {
		const lines = 1_500_000
		size, sum := count(lines)
		p := j.start(j.sh("seq 1 1500000; exit 7"))
		id, h := p.Started().ID, sha256.New()
		for cuts := 0; ; cuts++ {
			from := p.Position()
			left := rand.Int64N(size / 6)
			if cuts > 12 {
				left = size + 1 // the last host reads to the end
			}
			exit, err := p.Output(j.ctx, func(_ int64, _ wire.Stream, b []byte) error {
				// The agent must not send again what a host had before it died, and must send the rest.
				if left -= int64(len(b)); left < 0 {
					return errCut
				}
				h.Write(b)
				return nil
			})
			if err == nil {
				if exit.Position != size || exit.Code != 7 || total(h) != sum {
					j.Errorf("%+v after %d cuts; want %d bytes", exit, cuts, size)
				}
				return
			}
			if !errors.Is(err, errCut) {
				j.Fatalf("from %d: %v", from, err)
			}
			lose(p)
			next, err := j.agent.Attach(j.ctx, id, p.Position())
			if err != nil {
				j.Fatal(err)
			}
			if next.Started().From != p.Position() || !next.Started().Attached {
				j.Fatalf("%+v, wanted from %d", next.Started(), p.Position())
			}
			p = next
			j.Cleanup(func() { next.Close() })
		}
	}
	j := share(t, o)
	j.sub("after a lost connection", func(j *jar) { cut(j, func(p *agent.Process) { p.Close() }) })
	t.Run("after a restart", func(t *testing.T) {
		if o.Restart == nil {
			t.Skip("this runtime's test cannot restart it")
		}
		j := open(t, o, func(s *runtime.Spec) { s.Lifetime = runtime.LifetimeDetached })
		cut(j, func(*agent.Process) { j.restart() })
	})
	j.sub("after the end", func(j *jar) {
		p := j.start(j.sh("seq 1 1000; exit 3"))
		id := p.Started().ID
		p.Close()
		size, sum := count(1000)
		again, err := j.agent.Attach(j.ctx, id, 0)
		if err != nil {
			j.Fatal(err)
		}
		h := sha256.New()
		exit, err := again.Output(j.ctx, func(_ int64, _ wire.Stream, b []byte) error {
			h.Write(b)
			return nil
		})
		again.Close()
		if err != nil || exit.Position != size || exit.Code != 3 || total(h) != sum {
			j.Fatalf("%+v, %v", exit, err)
		}
		// All output is acknowledged now: only the exit is left.
		again, err = j.agent.Attach(j.ctx, id, size)
		if err != nil {
			j.Fatal(err)
		}
		defer again.Close()
		if got := j.follow(again); got.out != "" || got.exit.Code != 3 || got.exit.Position != size {
			j.Errorf("%+v", got)
		}
	})
	j.sub("newer host replaces the older", func(j *jar) {
		e := j.sh("echo one; read x; echo two")
		e.Stdin = true
		p := j.start(e)
		old := j.watch(p)
		old.await("one")
		newer, err := j.agent.Attach(j.ctx, p.Started().ID, p.Position())
		if err != nil {
			j.Fatal(err)
		}
		if <-old.done; !errors.Is(old.err, agent.ErrDisconnected) {
			j.Errorf("the older: %v", old.err)
		}
		w := j.watch(newer)
		if _, err := newer.Write([]byte("\n")); err != nil {
			j.Fatal(err)
		}
		w.await("two")
		w.end()
	})
	j.sub("stdin goes on", func(j *jar) {
		e := j.sh("read a; echo first $a; read b; echo second $b")
		e.Stdin = true
		p := j.start(e)
		w := j.watch(p)
		if _, err := p.Write([]byte("x\n")); err != nil {
			j.Fatal(err)
		}
		w.await("first x")
		p.Close()
		<-w.done
		again, err := j.agent.Attach(j.ctx, p.Started().ID, p.Position())
		if err != nil {
			j.Fatal(err)
		}
		if again.Started().Stdin != 2 {
			j.Errorf("the agent has %d bytes of stdin", again.Started().Stdin)
		}
		w = j.watch(again)
		if _, err := again.Write([]byte("y\n")); err != nil {
			j.Fatal(err)
		}
		w.await("second y")
		w.end()
	})
	j.sub("beyond the end", func(j *jar) {
		p := j.start(j.command("true"))
		j.follow(p)
		_, err := j.agent.Attach(j.ctx, p.Started().ID, 1000)
		j.refused("a position that is not there yet", err, wire.CodeInvalid)
		_, err = j.agent.Attach(j.ctx, p.Started().ID, -1)
		j.refused("a negative position", err, wire.CodeInvalid)
		_, err = j.agent.Attach(j.ctx, "never-was", 0)
		j.refused("an unknown command", err, wire.CodeNotFound)
	})
}
