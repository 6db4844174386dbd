package runtimetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

// count returns the size and hash of the output of seq 1 n, in which every lost or doubled byte shows.
func count(n int) (size int64, sum [sha256.Size]byte) {
	h := sha256.New()
	var line []byte
	for i := 1; i <= n; i++ {
		line = fmt.Appendf(line[:0], "%d\n", i)
		h.Write(line)
		size += int64(len(line))
	}
	h.Sum(sum[:0])
	return size, sum
}

func total(h hash.Hash) (sum [sha256.Size]byte) {
	h.Sum(sum[:0])
	return sum
}

func testOutput(t *testing.T, o Options) {
	j := share(t, o)
	j.sub("two streams", func(j *jar) {
		got := j.run(j.sh("echo out; echo err >&2; printf end"))
		if got.out != "out\nend" || got.err != "err\n" || got.exit.Position != 11 {
			j.Errorf("%+v", got)
		}
	})
	j.sub("none", func(j *jar) {
		if got := j.run(j.command("true")); got.out != "" || got.err != "" || got.exit.Position != 0 {
			j.Errorf("%+v", got)
		}
	})
	j.sub("binary", func(j *jar) {
		got := j.run(j.sh("head -c 300000 /dev/urandom | tee random; printf '\\000\\377\\r\\n\\033[0m'"))
		if want := j.read("random") + "\x00\xff\r\n\x1b[0m"; got.out != want {
			j.Errorf("%d bytes are not the %d that were written", len(got.out), len(want))
		}
	})
	j.sub("slow reader", func(j *jar) {
		// 12.5 MB exceeds the spool by far: the program has to wait for the reader, and still nothing may be lost.
		size, sum := count(1_700_000)
		p := j.start(j.sh("seq 1 1700000; echo through >finished"))
		var position int64
		still := 0
		j.until("the program waits", func() bool {
			was := position
			position = j.position(p.Started().ID)
			if position > wire.SpoolSize {
				j.Fatalf("the agent holds %d bytes, more than its spool", position)
			}
			if still++; position != was {
				still = 0
			}
			return position > wire.SpoolSize/2 && still > 10
		})
		if j.exists("finished") {
			j.Error("the program did not wait")
		}
		h := sha256.New()
		exit, err := p.Output(j.ctx, func(_ int64, _ wire.Stream, b []byte) error {
			h.Write(b)
			return nil
		})
		if err != nil || exit.Position != size || exit.Code != 0 || total(h) != sum {
			j.Errorf("%+v, %v; want %d bytes", exit, err, size)
		}
	})
	j.sub("limit", func(j *jar) {
		size, _ := count(100_000)
		e := j.sh("seq 1 100000")
		e.OutputLimit = 1000
		got := j.run(e)
		if len(got.out) != 1000 || got.exit.Position != 1000 || got.exit.Dropped != size-1000 || got.exit.Code != 0 {
			j.Errorf("%d bytes, %+v", len(got.out), got.exit)
		}
		if !strings.HasPrefix(got.out, "1\n2\n3\n") {
			j.Errorf("%.20q", got.out)
		}
	})
	j.sub("as it comes", func(j *jar) {
		e := j.sh("echo question; read answer; echo got $answer")
		e.Stdin = true
		p := j.start(e)
		w := j.watch(p)
		w.await("question\n")
		if _, err := p.Write([]byte("42\n")); err != nil {
			j.Fatal(err)
		}
		w.await("got 42\n")
		if exit := w.end(); exit.Code != 0 {
			j.Errorf("%+v", exit)
		}
	})
}

// position returns how much output of a command the agent has read.
func (j *jar) position(id string) int64 {
	j.Helper()
	infos, err := j.agent.List(j.ctx)
	if err != nil {
		j.Fatal(err)
	}
	for _, i := range infos {
		if i.ID == id {
			return i.Position
		}
	}
	j.Fatalf("%s is not listed", id)
	return 0
}

func testStdin(t *testing.T, o Options) {
	j := share(t, o)
	j.sub("none", func(j *jar) {
		if got := j.run(j.command("cat")); got.out != "" || got.exit.Code != 0 {
			j.Errorf("%+v", got)
		}
	})
	j.sub("end of file", func(j *jar) {
		e := j.sh("cat; echo end")
		e.Stdin = true
		p := j.start(e)
		if _, err := p.Write([]byte("one ")); err != nil {
			j.Fatal(err)
		}
		if _, err := p.Write([]byte("two ")); err != nil {
			j.Fatal(err)
		}
		if err := p.CloseStdin(); err != nil {
			j.Fatal(err)
		}
		if got := j.follow(p); got.out != "one two end\n" {
			j.Errorf("%+v", got)
		}
	})
	j.sub("large, both ways", func(j *jar) {
		// More bytes than all buffers hold, with the output coming back while the input is still being written.
		var want bytes.Buffer
		for i := 0; want.Len() < 10<<20; i++ {
			fmt.Fprintf(&want, "line %d of what goes in\n", i)
		}
		e := j.command("cat")
		e.Stdin = true
		p := j.start(e)
		wrote := make(chan error, 1)
		go func() {
			_, err := p.Write(want.Bytes())
			if err == nil {
				err = p.CloseStdin()
			}
			wrote <- err
		}()
		h := sha256.New()
		exit, err := p.Output(j.ctx, func(_ int64, _ wire.Stream, b []byte) error {
			h.Write(b)
			return nil
		})
		if werr := <-wrote; werr != nil || err != nil {
			j.Fatalf("write %v, output %v", werr, err)
		}
		if exit.Position != int64(want.Len()) || total(h) != sha256.Sum256(want.Bytes()) {
			j.Errorf("%d bytes came back of %d", exit.Position, want.Len())
		}
	})
	j.sub("a program that does not read", func(j *jar) {
		e := j.sh("sleep 1000")
		e.Stdin = true
		p := j.start(e)
		w := j.watch(p)
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			p.Write(make([]byte, 4<<20))
		}()
		// The pending input must not prevent the kill, nor wait for ever.
		if err := p.End(0); err != nil {
			j.Fatal(err)
		}
		if exit := w.end(); exit.Cause != wire.CauseEnded {
			j.Errorf("%+v", exit)
		}
		<-wrote
	})
	j.sub("a program that closes it", func(j *jar) {
		e := j.sh("exec <&-; echo closed; sleep 1000")
		e.Stdin = true
		p := j.start(e)
		w := j.watch(p)
		w.await("closed")
		if _, err := p.Write(make([]byte, 1<<20)); err != nil {
			j.Errorf("output without a reader is not taken: %v", err)
		}
		if err := p.End(0); err != nil {
			j.Fatal(err)
		}
		w.end()
	})
}
