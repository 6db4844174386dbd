package show

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar/internal/notice"
)

// Progress shows the progress of a copy on a terminal, in one line that it clears at the end. Without a terminal it is silent.
type Progress struct {
	to    *notice.Writer
	what  string
	total int64 // 0 if unknown
	done  atomic.Int64
	end   chan struct{}
	over  chan struct{}
}

// showEvery is the interval between updates; a shorter operation shows none.
const showEvery = 200 * time.Millisecond

// NewProgress shows the progress of a copy of total bytes, 0 if unknown. The caller stops it.
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

// Stop clears the line.
func (p *Progress) Stop() {
	close(p.end)
	<-p.over
}

// Of counts the bytes read from r.
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
