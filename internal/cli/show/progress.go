package show

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar/internal/notice"
)

// Progress shows on a terminal how far a copy has come, in one line that is gone when it ends. Elsewhere it is silent.
type Progress struct {
	to    *notice.Writer
	what  string
	total int64 // 0 if it is not known
	done  atomic.Int64
	end   chan struct{}
	over  chan struct{}
}

// showEvery is how often the line changes; what is over sooner shows none.
const showEvery = 200 * time.Millisecond

// NewProgress begins to show a copy of so many bytes, 0 if that is not known. The caller stops it.
func NewProgress(to *notice.Writer, what string, total int64) *Progress {
	p := &Progress{to: to, what: what, total: total, end: make(chan struct{}), over: make(chan struct{})}
	if to.Quiet || !IsTerminal(to.Stderr) {
		close(p.over)
		return p
	}
	go p.show()
	return p
}

func (p *Progress) show() {
	defer close(p.over)
	begin := time.Now()
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for shown := false; ; shown = true {
		select {
		case <-p.end:
			if shown {
				fmt.Fprint(p.to.Stderr, "\r\x1b[K")
			}
			return
		case <-tick.C:
		}
		n := p.done.Load()
		line := Bytes(n)
		if p.total > 0 {
			line = fmt.Sprintf("%3d%%  %s of %s", min(100, n*100/p.total), line, Bytes(p.total))
		}
		rate := float64(n) / time.Since(begin).Seconds()
		fmt.Fprintf(p.to.Stderr, "\r\x1b[Kbelljar: %s  %s  %s/s", notice.OneLine(p.what), line, Bytes(int64(rate)))
	}
}

// Stop ends the line.
func (p *Progress) Stop() {
	close(p.end)
	<-p.over
}

// Of counts what is read from r.
func (p *Progress) Of(r io.Reader) io.Reader { return &counted{r, &p.done} }

type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}
