package service

import (
	"sync"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// intake is a command's standard input over however many streams to its agent. What was sent over one that broke and has
// not arrived is sent again over the next.
type intake struct {
	writing sync.Mutex // orders writes, and guards what follows
	sent    int64      // position behind what was written
	unsure  []byte     // the end of that: as much as can be on its way
	fed     *agent.Process
	ended   bool           // nothing more will be written
	told    *agent.Process // that

	mu      sync.Mutex // guards what follows
	proc    *agent.Process
	over    bool          // there will be no other stream
	changed chan struct{} // closed when one of them changes
}

var _ sink = (*intake)(nil)

func newIntake(p *agent.Process) *intake {
	return &intake{proc: p, fed: p, sent: p.Started().Stdin, changed: make(chan struct{})}
}

// Write sends b to the command, over another stream if one breaks. It fails when there is none any more.
func (in *intake) Write(b []byte) (int, error) {
	in.writing.Lock()
	defer in.writing.Unlock()
	if err := in.put(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// put is Write for who holds the lock.
func (in *intake) put(b []byte) error {
	for {
		proc, changed, over := in.stream()
		_, err := proc.Write(in.missing(proc, b))
		if err == nil {
			in.fed = proc
			in.sent += int64(len(b))
			in.unsure = append(in.unsure, b...)
			in.unsure = append([]byte(nil), in.unsure[max(0, len(in.unsure)-wire.StdinWindow):]...)
			return nil
		}
		if over {
			return err
		}
		in.fed = nil // how much of b it was given is not known
		<-changed
	}
}

// missing is what a stream has to be sent so that the command has everything to the end of b.
func (in *intake) missing(proc *agent.Process, b []byte) []byte {
	if in.fed == proc {
		return b
	}
	lacks := in.sent - proc.Started().Stdin
	if lacks <= 0 {
		return b[min(-lacks, int64(len(b))):]
	}
	// An agent holds no more than a window that the program has not taken, so no more can have been lost.
	return append(append([]byte(nil), in.unsure[max(0, int64(len(in.unsure))-lacks):]...), b...)
}

// CloseStdin ends the command's input behind what was written. Over a stream that breaks it is told again.
func (in *intake) CloseStdin() error {
	in.writing.Lock()
	defer in.writing.Unlock()
	in.ended = true
	return in.tell()
}

// tell says on the stream that nothing more comes, once. The caller holds the lock.
func (in *intake) tell() error {
	proc, _, _ := in.stream()
	if in.told == proc || proc.Started().StdinClosed {
		return nil
	}
	in.told = proc
	return proc.CloseStdin()
}

// move goes on over another stream, with what the command lacks.
func (in *intake) move(p *agent.Process) {
	in.change(func() { in.proc = p })
	go func() { // it blocks while the program does not read
		in.writing.Lock()
		defer in.writing.Unlock()
		if in.put(nil) == nil && in.ended {
			_ = in.tell() // a stream that is broken is followed by another, or by nothing
		}
	}()
}

// end lets writes fail from now on: the command has ended, or nobody can reach it.
func (in *intake) end() { in.change(func() { in.over = true }) }

func (in *intake) change(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f()
	close(in.changed)
	in.changed = make(chan struct{})
}

func (in *intake) stream() (proc *agent.Process, changed chan struct{}, over bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.proc, in.changed, in.over
}
