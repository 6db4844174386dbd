package trace

import "strings"

// goTrace reads the output of Go's runtime at the end of a program, from "panic: " through the first to the last goroutine.
func (p *parser) goTrace(line string) bool {
	kind := ""
	for _, k := range []string{"panic", "fatal error"} {
		if strings.HasPrefix(line, k+": ") {
			kind = k
		}
	}
	if kind == "" {
		return false
	}
	start := -1
	for n := 1; n < 256 && p.at+n < len(p.lines); n++ {
		s := p.line(n)
		if isGoroutine(s) {
			start = n
			break
		}
		if strings.HasPrefix(s, "panic: ") || strings.HasPrefix(s, "fatal error: ") {
			break
		}
	}
	if start < 0 {
		return false
	}
	t := Trace{Language: Go, Kind: KindException, Type: kind}
	again := t.goMessages(kind, p.lines[p.at:p.at+start])
	p.at += start + 1
	t.Frames = p.goFrames()
	if again {
		t.Frames = pastPanic(t.Frames)
	}
	for {
		n := 0
		for n < 2 && p.line(n) == "" && p.at+n < len(p.lines) {
			n++
		}
		if !isGoroutine(p.line(n)) {
			break
		}
		p.at += n + 1
		p.goFrames()
	}
	p.add(t)
	return true
}

// goMessages reads the panics above a goroutine. The last panic ended the program. Those that were recovered earlier are related.
// again reports that the last one has the value of an earlier one, whose frames are then the relevant ones.
func (t *Trace) goMessages(kind string, lines []string) (again bool) {
	var panics []string
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "[signal ") || line == "runtime stack:" {
			break
		}
		rest, ok := strings.CutPrefix(strings.TrimLeft(line, "\t"), kind+": ")
		switch {
		case ok:
			panics = append(panics, rest)
		case i > lookBack:
		default:
			panics[len(panics)-1] += "\n" + strings.TrimPrefix(line, "\t")
		}
	}
	for i, s := range panics {
		if rest, ok := strings.CutSuffix(s, " [recovered, repanicked]"); ok {
			s, again = rest, true
		}
		panics[i] = strings.TrimSuffix(s, " [recovered]")
	}
	last := len(panics) - 1
	t.Message = panics[last]
	for _, s := range panics[:last] {
		if s == t.Message {
			again = true
		} else if len(t.Related) < mostRelated {
			t.Related = append(t.Related, Trace{Language: Go, Kind: KindException, Type: kind, Message: s})
		}
	}
	return again
}

func isGoroutine(line string) bool {
	return strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, "]:") && strings.Contains(line, " [")
}

// goFrames reads the frames of one goroutine, which are pairs of lines.
func (p *parser) goFrames() (frames []Frame) {
	for p.at < len(p.lines) {
		function := p.lines[p.at]
		if strings.HasPrefix(function, "...") { // "...additional frames elided..."
			p.at++
			continue
		}
		place, ok := strings.CutPrefix(p.line(1), "\t")
		if !ok || function == "" || function[0] == '\t' {
			return frames
		}
		place, _, _ = strings.Cut(place, " +0x")
		place, _, _ = strings.Cut(place, " fp=")
		f, ok := position(place)
		if !ok {
			return frames
		}
		p.at += 2
		f.Function = function
		if created, ok := strings.CutPrefix(function, "created by "); ok {
			f.Function, _, _ = strings.Cut(created, " in goroutine ")
		} else if i := strings.LastIndexByte(function, '('); i > 0 {
			f.Function = function[:i]
		}
		if isGoRuntime(f) {
			f.Skipped = SkippedRuntime
		}
		if len(frames) < mostFrames {
			frames = append(frames, f)
		}
	}
	return frames
}

// isGoRuntime reports whether a frame is in Go's runtime or standard library. Without paths of GOROOT (-trimpath) only the names
// show it: the standard library has no dot before its first slash, but a module may have such a name, too.
func isGoRuntime(f Frame) bool {
	if f.Function == "panic" || strings.HasPrefix(f.Function, "runtime.") {
		return true
	}
	if strings.HasPrefix(f.File, "/") || strings.HasPrefix(f.File, ".") {
		return strings.HasSuffix(f.File, "/src/testing/testing.go")
	}
	first, _, _ := strings.Cut(f.File, "/")
	switch first {
	case "bufio", "bytes", "context", "database", "encoding", "errors", "fmt", "internal", "io", "iter", "log", "maps", "math", "net", "os", "reflect",
		"regexp", "runtime", "slices", "sort", "strconv", "strings", "sync", "syscall", "testing", "text", "time", "unicode":
		return strings.HasPrefix(f.Function, first)
	}
	return false
}

// pastPanic returns the frames below the last call of panic.
func pastPanic(frames []Frame) []Frame {
	for i := len(frames) - 1; i >= 0; i-- {
		if frames[i].Function == "panic" {
			return frames[i+1:]
		}
	}
	return frames
}

// goTests collects the output of failing tests until the line that names their package.
type goTests struct {
	name    string   // of the test of the following lines, with -v
	names   []string // of the failed tests of the following lines, by depth, without -v
	pending []goLine
}

type goLine struct {
	test  string
	fails bool
	trace Trace
}

// goTest reads a line of "go test".
func (p *parser) goTest(line string) bool {
	g := &p.golang
	trimmed := strings.TrimLeft(line, " ")
	for _, mark := range []string{"=== RUN   ", "=== NAME  ", "=== CONT  "} {
		if name, ok := strings.CutPrefix(line, mark); ok {
			g.name, g.names = name, nil
			return false
		}
	}
	if rest, ok := strings.CutPrefix(trimmed, "--- FAIL: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		depth := min((len(line)-len(trimmed))/4, len(g.names))
		g.names = append(g.names[:depth], name)
		for i := len(g.pending) - 1; i >= 0 && !g.pending[i].fails; i-- {
			g.pending[i].fails = g.pending[i].test == name
		}
		return false
	}
	for _, mark := range []string{"--- PASS: ", "--- SKIP: "} {
		if strings.HasPrefix(trimmed, mark) {
			g.name, g.names = "", nil
			return false
		}
	}
	if rest, ok := strings.CutPrefix(line, "FAIL\t"); ok {
		name, _, _ := strings.Cut(rest, "\t")
		name, _, _ = strings.Cut(name, " ")
		p.endGoTests(name)
		return false
	}
	depth := (len(line) - len(trimmed)) / 4
	name := g.name
	if n := len(g.names); n > 0 {
		name = g.names[min(max(depth, 1), n)-1]
	}
	if name == "" || depth == 0 {
		return false
	}
	head, message, ok := strings.Cut(trimmed, ": ")
	f, placed := position(head)
	if !ok || !placed || !strings.HasSuffix(f.File, ".go") || strings.Contains(f.File, " ") || f.Column != 0 || len(g.pending) >= mostTraces {
		return false
	}
	f.Function = name
	var rest []string
	for n := 1; n <= lookBack; n++ {
		more := p.line(n)
		if indent(more) < len(line)-len(trimmed)+4 {
			break
		}
		rest = append(rest, strings.TrimSpace(more))
	}
	p.at += 1 + len(rest)
	g.pending = append(g.pending, goLine{test: name, fails: len(g.names) > 0, trace: Trace{
		Language: Go, Kind: KindTest, Type: "FAIL", Message: join(message, rest), Frames: []Frame{f},
	}})
	return true
}

// endGoTests adds the collected failures of a package's tests. Their files lack folders, which only the package determines.
func (p *parser) endGoTests(name string) {
	for _, line := range p.golang.pending {
		if !line.fails {
			continue
		}
		if name != "" && name != "command-line-arguments" && !strings.Contains(line.trace.Frames[0].File, "/") {
			line.trace.Frames[0].File = name + "/" + line.trace.Frames[0].File
		}
		p.add(line.trace)
	}
	p.golang = goTests{}
}
