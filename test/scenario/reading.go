package scenario

import (
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// reading is a log that is read piece by piece.
type reading struct {
	args   Args
	next   uint64 // seq of the next piece's first frame
	taken  int    // frames of this piece
	gaps   bool
	stdout Bytes
	phase  any // phase at the end of the log
	done   bool
}

// begin begins a piece.
func (r *reading) begin() {
	r.taken = 0
	r.next = max(r.next, 1)
}

// take takes a frame and reports whether the piece continues.
func (r *reading) take(f belljar.Frame) bool {
	r.gaps = r.gaps || f.Seq != r.next
	r.next = f.Seq + 1
	r.taken++
	switch {
	case f.Type == belljar.FrameStdout:
		r.stdout = append(r.stdout, f.Output...)
		r.done = r.args.Until != "" && strings.Contains(string(r.stdout), r.args.Until)
	case f.Type == belljar.FrameEvent && f.Event == belljar.EventEnd:
		r.phase, r.done = f.Data["phase"], true
	}
	return !r.done && r.taken != r.args.Piece
}

func (r *reading) over() bool { return r.done }

func (r *reading) result() Result {
	return Result{"stdout": r.stdout, "gapless": !r.gaps, "phase": r.phase}
}

// left returns a run's artifacts as results.
func left(list []belljar.Artifact) []Result {
	all := []Result{}
	for _, a := range list {
		all = append(all, Result{"path": a.Path, "size": a.Size})
	}
	return all
}

// scopes returns the scopes of sessions, sorted.
func scopes(list []belljar.Session) []string {
	all := []string{}
	for _, s := range list {
		all = append(all, s.ScopeKey)
	}
	slices.Sort(all)
	return all
}

// entries returns a listing as results: the sizes of folders are omitted.
func entries(list []belljar.FileEntry) []Result {
	all := []Result{}
	for _, e := range list {
		one := Result{"path": e.Path, "type": e.Type}
		if e.Type == "file" {
			one["size"] = e.Size
		}
		all = append(all, one)
	}
	return all
}
