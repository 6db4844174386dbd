package stdin

import (
	"sync"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Pipe is the standard input of a command over successive streams to its agent. Data lost with a broken stream is sent
// again over the next.
type Pipe struct {
	writing  sync.Mutex // orders writes, and guards the fields up to finished
	sent     int64      // position after the written bytes
	unsure   []byte     // the last written bytes: as many as can be in flight
	fed      *agent.Process
	ended    bool           // there are no more writes
	finished *agent.Process // process that was sent the end of input

	mu      sync.Mutex // guards the rest
	proc    *agent.Process
	over    bool          // no further stream follows
	changed chan struct{} // closed when one of these fields changes
}

var _ Sink = (*Pipe)(nil)

// NewPipe returns the standard input of a process.
func NewPipe(proc *agent.Process) *Pipe {
	return &Pipe{proc: proc, fed: proc, sent: proc.Started().Stdin, changed: make(chan struct{})}
}

// Write sends b to the command, over another stream if one breaks. After the last stream it fails.
func (p *Pipe) Write(b []byte) (int, error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := p.put(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// put is Write with the lock held.
func (p *Pipe) put(b []byte) error {
	for {
		proc, changed, over := p.stream()
		_, err := proc.Write(p.missing(proc, b))
		if err == nil {
			p.fed = proc
			p.sent += int64(len(b))
			p.unsure = append(p.unsure, b...)
			p.unsure = append([]byte(nil), p.unsure[max(0, len(p.unsure)-wire.StdinWindow):]...)
			return nil
		}
		if over {
			return err
		}
		p.fed = nil // it is unknown how much of b it received
		<-changed
	}
}

// missing returns the bytes to send over a stream so that the command has everything up to the end of b.
func (p *Pipe) missing(proc *agent.Process, b []byte) []byte {
	if p.fed == proc {
		return b
	}
	lacks := p.sent - proc.Started().Stdin
	if lacks <= 0 {
		return b[min(-lacks, int64(len(b))):]
	}
	// An agent holds at most one window of unread input, so no more than that can be lost.
	return append(append([]byte(nil), p.unsure[max(0, int64(len(p.unsure))-lacks):]...), b...)
}

// CloseStdin ends the command's input after the written bytes. It is repeated if the stream breaks.
func (p *Pipe) CloseStdin() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.ended = true
	return p.closeStream()
}

// closeStream ends the input on the current stream, once. The caller holds the lock.
func (p *Pipe) closeStream() error {
	proc, _, _ := p.stream()
	if p.finished == proc || proc.Started().StdinClosed {
		return nil
	}
	p.finished = proc
	return proc.CloseStdin()
}

// Reattach continues over another stream, with the missing bytes.
func (p *Pipe) Reattach(proc *agent.Process) {
	p.change(func() { p.proc = proc })
	go func() { // blocks while the program does not read
		p.writing.Lock()
		defer p.writing.Unlock()
		if p.put(nil) == nil && p.ended {
			_ = p.closeStream() // another stream follows a broken one, or the end
		}
	}()
}

// End makes writes fail from now on: the command has ended, or is unreachable.
func (p *Pipe) End() { p.change(func() { p.over = true }) }

func (p *Pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Pipe) stream() (proc *agent.Process, changed chan struct{}, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc, p.changed, p.over
}
