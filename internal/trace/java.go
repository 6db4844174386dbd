package trace

import (
	"slices"
	"strconv"
	"strings"
)

// java reads a stack of the JVM.
func (p *parser) java(line string) bool {
	if _, ok := javaFrame(line); !ok {
		return false
	}
	raised := p.raised(lookBack, javaHeader)
	// chain has the reported exception, its cause, the cause's cause and so on. aside has the suppressed exceptions.
	chain, aside := []Trace{javaTrace(raised[0], raised[1:])}, []Trace(nil)
	current := &chain[0]
	depths := []int{0} // of each exception in chain: the number of its frames, including those not kept
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		trimmed := strings.TrimLeft(line, "\t ")
		last := len(chain) - 1
		if f, ok := javaFrame(line); ok {
			if len(current.Frames) < mostFrames {
				current.Frames = append(current.Frames, f)
			}
			if current == &chain[last] {
				depths[last]++
			}
			continue
		}
		if n := javaShared(trimmed); n >= 0 {
			// The JVM omits the last frames if the wrapper above has the same.
			if from := depths[max(0, last-1)] - n; current == &chain[last] && last > 0 && from >= 0 {
				outer := chain[last-1].Frames
				shared := outer[min(from, len(outer)):]
				current.Frames = append(current.Frames, shared[:min(len(shared), mostFrames-len(current.Frames))]...)
				depths[last] += n
			}
			continue
		}
		isSuppressed := strings.HasPrefix(trimmed, "Suppressed: ")
		cause, isCause := strings.CutPrefix(trimmed, "Caused by: ")
		switch {
		case len(chain)+len(aside) > mostRelated && (isSuppressed || isCause), strings.Contains(trimmed, "[CIRCULAR REFERENCE"):
			continue
		case isSuppressed, isCause && trimmed != line: // the cause of a suppressed exception
			aside = append(aside, javaTrace(strings.TrimPrefix(cause, "Suppressed: "), p.javaMore()))
			current = &aside[len(aside)-1]
		case isCause:
			chain, depths = append(chain, javaTrace(cause, p.javaMore())), append(depths, 0)
			current = &chain[len(chain)-1]
		default:
			p.addJava(chain, aside)
			return true
		}
	}
	p.addJava(chain, aside)
	return true
}

// javaShared parses "... N more"; -1 for any other line.
func javaShared(trimmed string) int {
	number, prefix := strings.CutPrefix(trimmed, "... ")
	number, suffix := strings.CutSuffix(number, " more")
	if n, err := strconv.Atoi(number); err == nil && n > 0 && prefix && suffix {
		return n
	}
	return -1
}

// addJava adds a chain, with the first exception in time first.
func (p *parser) addJava(chain, aside []Trace) {
	slices.Reverse(chain)
	chain[0].Related = append(chain[1:len(chain):len(chain)], aside...)
	p.add(chain[0])
}

// javaMore consumes the further lines of a message, up to the line before the first frame.
func (p *parser) javaMore() (rest []string) {
	for n := 1; n <= lookBack && p.at+n < len(p.lines); n++ {
		line := p.lines[p.at+n]
		trimmed := strings.TrimLeft(line, "\t ")
		if _, ok := javaFrame(line); ok || strings.HasPrefix(trimmed, "... ") {
			p.at += n - 1
			return rest
		}
		if strings.HasPrefix(trimmed, "Caused by: ") || strings.HasPrefix(trimmed, "Suppressed: ") {
			return nil
		}
		rest = append(rest, line)
	}
	return nil
}

func javaTrace(first string, rest []string) Trace {
	if s, ok := strings.CutPrefix(first, `Exception in thread "`); ok {
		if _, after, ok := strings.Cut(s, `" `); ok {
			first = after
		}
	}
	t := Trace{Language: Java, Kind: KindException}
	t.Type, t.Message = cutType(first)
	t.Message = join(t.Message, rest)
	return t
}

// javaHeader reports whether a line is the header of an exception.
func javaHeader(line string) bool {
	if strings.HasPrefix(line, `Exception in thread "`) {
		return true
	}
	name, _, _ := strings.Cut(line, ": ")
	return isName(name) && (strings.HasSuffix(name, "Exception") || strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Throwable"))
}

// javaFrame parses "\tat [module/]pkg.Class.method(File.java:N)".
func javaFrame(line string) (f Frame, ok bool) {
	trimmed := strings.TrimLeft(line, "\t ")
	rest, ok := strings.CutPrefix(trimmed, "at ")
	if !ok || trimmed == line || !strings.HasSuffix(rest, ")") {
		return f, false
	}
	function, place, ok := strings.Cut(rest[:len(rest)-1], "(")
	if !ok || strings.ContainsAny(place, `/\(`) || strings.HasSuffix(function, " ") || !strings.Contains(function, ".") {
		return f, false
	}
	module := ""
	if i := strings.LastIndexByte(function, '/'); i >= 0 {
		module, function = function[:i], function[i+1:]
	}
	f.Function = function
	for _, own := range []string{"java.", "javax.", "jdk.", "sun.", "com.sun."} {
		if strings.HasPrefix(module, own) || module == "" && strings.HasPrefix(function, own) {
			f.Skipped = SkippedRuntime
		}
	}
	switch place {
	case "Native Method", "Unknown Source", "<generated>":
		f.Skipped = SkippedRuntime
		return f, true
	}
	f.File = place
	if file, n, ok := lastNumber(place); ok {
		f.File, f.Line = file, n
	}
	if !strings.Contains(f.File, ".") {
		return Frame{}, false
	}
	// The folders are those of the package: the class' name without the class and the method.
	class := function
	if i := strings.LastIndexByte(class, '.'); i >= 0 {
		class = class[:i]
	}
	if i := strings.LastIndexByte(class, '.'); i >= 0 {
		f.File = strings.ReplaceAll(class[:i], ".", "/") + "/" + f.File
	}
	return f, true
}
