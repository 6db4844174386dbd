//go:build linux

package guest

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/pty"
	"github.com/belljar/belljar/internal/agent/guest/spool"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A terminal's last output may follow the first EIO.
func TestReadOutputBehindTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		reads []error // nil is a read of one byte
		want  error
	}{
		"output":        {[]error{nil}, nil},
		"none yet":      {[]error{unix.EAGAIN}, unix.EAGAIN},
		"interrupted":   {[]error{unix.EINTR, unix.EINTR, nil}, nil},
		"last words":    {[]error{unix.EIO, nil}, nil},
		"no more words": {[]error{unix.EIO, unix.EINTR, unix.EIO}, unix.EIO},
	} {
		read := func(int, []byte) (int, error) {
			err := c.reads[0]
			if c.reads = c.reads[1:]; err != nil {
				return -1, err
			}
			return 1, nil
		}
		if n, err := readOutput(read, 0, nil); err != c.want || (n == 1) != (err == nil) || len(c.reads) > 0 {
			t.Errorf("%s: %d, %v; %v is not read", name, n, err, c.reads)
		}
	}
}

// A survivor that prints without end does not delay the end of its command, and its further output is dropped.
func TestDrainOfAnEndlessPipe(t *testing.T) {
	file, err := os.Open("/dev/random") // always readable, and the poller knows it
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{}
	a.buffers.New = func() any {
		b := make([]byte, spool.MaxChunk)
		return &b
	}
	e := newExec(a, wire.Exec{OutputLimit: 1})
	o, err := newOutlet(e, wire.Stdout, file)
	if err != nil {
		t.Fatal(err)
	}
	e.outlets = []*outlet{o}
	go o.run()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.drainOutlets()
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the command does not end")
	}
	file.Close()
	<-o.ended
}

// On this kernel, all output of a program to its terminal is read.
func TestTerminalsLastWords(t *testing.T) {
	for i := range 3000 {
		master, slave, err := pty.Open(wire.Size{Cols: 80, Rows: 25})
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(master, true); err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(slave), "slave")
		word := strconv.Itoa(i)
		gone := make(chan error, 1)
		go func() {
			_, err := file.WriteString(word)
			file.Close()
			gone <- err
		}()
		var got []byte
		for buf := make([]byte, 64); ; {
			n, err := readOutput(unix.Read, master, buf)
			if n > 0 {
				got = append(got, buf[:n]...)
			} else if err != unix.EAGAIN {
				break
			}
		}
		if err := <-gone; err != nil {
			t.Fatal(err)
		}
		unix.Close(master)
		if string(got) != word {
			t.Fatalf("%q of %q", got, word)
		}
	}
}
