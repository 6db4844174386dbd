package install

import "bytes"

// printout is what a command prints. A program in the sandbox can print single bytes, so the work for a piece does not depend on what came
// before it.
type printout struct{ all, line []byte }

// add appends a piece. It moves the kept bytes once in maxPrinted bytes.
func (o *printout) add(p []byte) {
	if o.all = append(o.all, p...); len(o.all) > 2*maxPrinted {
		o.all = append(o.all[:0], o.kept()...)
	}
}

// kept returns the last bytes, up to the bound.
func (o *printout) kept() []byte { return o.all[max(0, len(o.all)-maxPrinted):] }

// lines passes on the lines that a piece ends. It cuts long ones.
func (o *printout) lines(p []byte, tell func(string)) {
	for {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		o.line = append(o.line, part[:min(len(part), maxPrinted-len(o.line))]...)
		if end < 0 {
			return
		}
		tell(string(o.line))
		o.line, p = o.line[:0], p[end+1:]
	}
}
