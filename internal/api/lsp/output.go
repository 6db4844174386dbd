package lsp

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	gosync "sync"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar/internal/char"
)

// Limits of the output that an editor gets of a run.
const (
	mostShown   = 100 << 10             // bytes of a stream
	mostNote    = 64 << 10              // bytes of a notification
	logPause    = 50 * time.Millisecond // between two notifications
	mostWaiting = 32
	mostSent    = 20 // notifications in a second
)

// logNote is the notification belljar/log.
type logNote struct {
	RunID    string `json:"run_id"`
	Seq      uint64 `json:"seq"`
	Stream   string `json:"stream"`
	Data     string `json:"data"`
	Encoding string `json:"encoding,omitempty"` // base64, or "" for text
}

// truncatedNote is the notification belljar/logTruncated.
type truncatedNote struct {
	RunID      string `json:"run_id"`
	Stream     string `json:"stream"`
	ShownBytes int    `json:"shown_bytes"`
	WebURL     string `json:"web_url,omitempty"`
	Title      string `json:"title"`
}

// chunk is output that waits to be sent.
type chunk struct {
	stream int
	data   []byte
	seq    uint64
	cut    bool // the rest of the stream is not shown
}

// pump sends output to the editor: immediately if it is slow, and in larger pieces if it is fast.
type pump struct {
	reporter *reporter
	run      *run

	mu      gosync.Mutex
	paused  bool // output was sent just now
	waiting []chunk
	taken   [2]int              // bytes of each stream that are shown or waiting
	shown   [2][]byte           // the output shown
	rest    [2]chunk            // the beginning of an incomplete character
	sent    [mostSent]time.Time // of the last notifications, the oldest first
}

// add sends output of a run, up to the limit.
func (p *pump) add(stream int, data []byte, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	room := mostShown - p.taken[stream]
	if room < 0 {
		return // the editor already knows
	}
	p.taken[stream] += len(data)
	if n := min(room, len(data)); n > 0 {
		if c := p.last(stream); c != nil && len(c.data)+n <= mostNote {
			c.data, c.seq = append(c.data, data[:n]...), seq
		} else {
			p.waiting = append(p.waiting, chunk{stream: stream, data: slices.Clone(data[:n]), seq: seq})
		}
	}
	if len(data) > room {
		p.waiting = append(p.waiting, chunk{stream: stream, seq: seq, cut: true})
	}
	p.next()
}

// last returns the chunk to append more of a stream to; nil for none. It keeps the order of both streams, unless they alternate too
// often.
func (p *pump) last(stream int) *chunk {
	for i := len(p.waiting) - 1; i >= 0; i-- {
		if p.waiting[i].stream == stream {
			return &p.waiting[i]
		}
		if len(p.waiting) < mostWaiting {
			break
		}
	}
	return nil
}

// next sends the first waiting chunk, unless output was sent just now.
func (p *pump) next() {
	if p.paused || len(p.waiting) == 0 {
		return
	}
	stream, before, began := p.waiting[0].stream, len(p.shown[p.waiting[0].stream]), time.Now()
	p.send()
	p.reporter.early(p.run, string(p.shown[stream]), len(p.shown[stream])-before)
	p.paused = true
	// A program's output may be hostile: the search for messages may take at most a twentieth of the time.
	time.AfterFunc(max(logPause, 20*time.Since(began)), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.paused = false
		p.next()
	})
}

// end sends the waiting chunks. It keeps the order of both streams if the limit of a second has room for that.
func (p *pump) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	room := 0
	for room < mostSent && time.Since(p.sent[room]) >= time.Second {
		room++
	}
	if len(p.waiting) > room {
		p.join()
	}
	for len(p.waiting) > 0 {
		p.send()
	}
	for stream := range p.rest {
		p.flush(stream)
	}
}

// join makes one chunk of each stream of the waiting ones.
func (p *pump) join() {
	var joined []chunk
	for stream := range p.rest {
		all := chunk{stream: stream}
		for _, c := range p.waiting {
			if c.stream == stream {
				all.data, all.seq, all.cut = append(all.data, c.data...), c.seq, c.cut
			}
		}
		if len(all.data) > 0 || all.cut {
			joined = append(joined, all)
		}
	}
	p.waiting = joined
}

// send sends the first waiting chunk, or the part of it that a notification may have.
func (p *pump) send() {
	c := &p.waiting[0]
	data := append(p.rest[c.stream].data, c.data...)
	whole := char.WholeEnd(data[:min(len(data), mostNote)])
	p.emit(c.stream, whole, c.seq)
	p.shown[c.stream] = append(p.shown[c.stream], whole...)
	p.rest[c.stream] = chunk{}
	if c.data = data[len(whole):]; len(data) > mostNote {
		return
	}
	p.rest[c.stream] = chunk{data: slices.Clone(c.data), seq: c.seq}
	if c.cut {
		p.flush(c.stream)
		p.truncated(c.stream)
	}
	p.waiting = p.waiting[1:]
}

// flush sends an incomplete character.
func (p *pump) flush(stream int) {
	p.emit(stream, p.rest[stream].data, p.rest[stream].seq)
	p.rest[stream] = chunk{}
}

func streamName(stream int) string { return [...]string{"stdout", "stderr"}[stream] }

func (p *pump) emit(stream int, data []byte, seq uint64) {
	if len(data) == 0 {
		return
	}
	copy(p.sent[:], p.sent[1:])
	p.sent[mostSent-1] = time.Now()
	if !p.reporter.desk.options.Notifications {
		p.reporter.desk.log(strings.TrimSuffix(strings.ToValidUTF8(string(data), "\ufffd"), "\n"))
		return
	}
	note := logNote{RunID: p.run.id, Seq: seq, Stream: streamName(stream), Data: string(data)}
	if !utf8.Valid(data) {
		note.Data, note.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
	}
	p.reporter.desk.notify("belljar/log", note)
}

func (p *pump) truncated(stream int) {
	page := p.reporter.desk.webURL(p.run.id)
	if p.reporter.desk.options.Notifications {
		p.reporter.desk.notify("belljar/logTruncated", truncatedNote{p.run.id, streamName(stream), mostShown, page, fullLogs})
		return
	}
	text := fmt.Sprintf("Belljar: %s continues, and its first %d KB are shown.", streamName(stream), mostShown>>10)
	if page != "" {
		text += " " + fullLogs + ": " + page
	}
	p.reporter.desk.log(text)
}
