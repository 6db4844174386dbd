package registry

import (
	"context"
	"errors"
	"io"
	"time"
)

// errStalled means that a registry has stopped in the middle of an answer.
var errStalled = errors.New("the registry sends nothing, or next to nothing")

// stallBytes is the least that must come in each stretch of a stallReader's time.
const stallBytes = 1024

// stallReader ends an answer that keeps its reader waiting for too long. Only waiting counts: a reader that is slow itself is
// given all the time it takes.
type stallReader struct {
	io.ReadCloser
	most   time.Duration
	cancel context.CancelCauseFunc // of the request

	waited time.Duration // since there were stallBytes last
	came   int
}

func (d *stallReader) Read(p []byte) (int, error) {
	begin := time.Now()
	t := time.AfterFunc(d.most-d.waited, func() { d.cancel(errStalled) })
	n, err := d.ReadCloser.Read(p)
	fired := !t.Stop()
	if d.came += n; d.came >= stallBytes {
		d.came, d.waited = 0, 0
	} else {
		d.waited += time.Since(begin)
	}
	if err != nil && !errors.Is(err, io.EOF) && fired {
		err = errStalled
	}
	return n, err
}

func (d *stallReader) Close() error {
	err := d.ReadCloser.Close()
	d.cancel(nil)
	return err
}
