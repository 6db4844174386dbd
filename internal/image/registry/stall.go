package registry

import (
	"context"
	"errors"
	"io"
	"time"
)

// errStalled means that a registry has stopped sending in the middle of a response.
var errStalled = errors.New("the registry sends nothing, or next to nothing")

// stallBytes is the least number of bytes that must arrive within a stallReader's time.
const stallBytes = 1024

// stallReader cancels a response that keeps its reader waiting for too long. Only waiting counts: a slow reader may take any
// time.
type stallReader struct {
	io.ReadCloser
	most   time.Duration
	cancel context.CancelCauseFunc // cancels the request

	waited time.Duration // since the last stallBytes arrived
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
