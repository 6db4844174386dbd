package runtimetest

import (
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

func testTerminal(t *testing.T, o Options) {
	j := share(t, o)
	terminal := func(j *jar, script string) wire.Exec {
		e := j.sh(script)
		e.Stdin, e.PTY = true, &wire.Size{Cols: 91, Rows: 27}
		return e
	}
	j.sub("is one", func(j *jar) {
		got := j.run(terminal(j, "test -t 0 && test -t 1 && test -t 2 && echo all three; echo err >&2; echo controlling >/dev/tty"))
		if got.out != "all three\r\nerr\r\ncontrolling\r\n" || got.err != "" || got.exit.Code != 0 {
			j.Errorf("%+v", got)
		}
	})
	j.sub("size", func(j *jar) {
		p := j.start(terminal(j, "stty size; read x; stty size"))
		w := j.watch(p)
		w.await("27 91")
		if err := p.Resize(wire.Size{Cols: 132, Rows: 50}); err != nil {
			j.Fatal(err)
		}
		if _, err := p.Write([]byte("\n")); err != nil {
			j.Fatal(err)
		}
		w.await("50 132")
		w.end()
	})
	j.sub("resize tells the program", func(j *jar) {
		p := j.start(terminal(j, "trap 'echo resized; exit 0' WINCH; echo ready; while :; do read x; done"))
		w := j.watch(p)
		w.await("ready")
		if err := p.Resize(wire.Size{Cols: 10, Rows: 10}); err != nil {
			j.Fatal(err)
		}
		_, _ = p.Write([]byte("\n")) // a shell runs its trap when the read returns; it has ended if the trap ran earlier
		w.await("resized")
		w.end()
	})
	j.sub("interrupt key", func(j *jar) {
		p := j.start(terminal(j, "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.01; done"))
		w := j.watch(p)
		w.await("ready")
		if _, err := p.Write([]byte{3}); err != nil {
			j.Fatal(err)
		}
		w.await("interrupted")
		if exit := w.end(); exit.Code != 9 {
			j.Errorf("%+v", exit)
		}
	})
	j.sub("end of file", func(j *jar) {
		p := j.start(terminal(j, "cat; echo over"))
		w := j.watch(p)
		if _, err := p.Write([]byte("typed\n")); err != nil {
			j.Fatal(err)
		}
		w.await("typed\r\ntyped\r\n") // once as the echo
		if err := p.CloseStdin(); err != nil {
			j.Fatal(err)
		}
		w.await("over")
		w.end()
	})
	j.sub("belongs to the user", func(j *jar) {
		got := j.run(terminal(j, `test -O "$(tty)" && echo mine`))
		if !strings.Contains(got.out, "mine") {
			j.Errorf("%+v", got)
		}
	})
}
