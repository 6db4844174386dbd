package client

import (
	"bufio"
	"bytes"
	"io"
	"iter"
)

// maxEvent bounds a line of a stream of events, in bytes.
const maxEvent = 4 << 20

// serverEvent is one server-sent event.
type serverEvent struct {
	name string
	data []byte
}

// events reads server-sent events as servers of Belljar write them. It ends with the stream; what comes then is told by an
// error, if it is one. An event that the stream breaks off in is left out.
func events(r io.Reader) iter.Seq2[serverEvent, error] {
	return func(yield func(serverEvent, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxEvent)
		var e serverEvent
		for lines.Scan() {
			line := lines.Bytes()
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch {
			case len(line) == 0:
				if e.name != "" && !yield(e, nil) {
					return
				}
				e = serverEvent{}
			case string(name) == "event":
				e.name = string(value)
			case string(name) == "data":
				if e.data != nil {
					e.data = append(e.data, '\n')
				}
				e.data = append(e.data, value...)
			}
		}
		if err := lines.Err(); err != nil {
			yield(serverEvent{}, err)
		}
	}
}
