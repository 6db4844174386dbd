package client

import (
	"bufio"
	"bytes"
	"io"
	"iter"
)

// maxEvent limits a line of an event stream, in bytes.
const maxEvent = 4 << 20

// serverEvent is one server-sent event.
type serverEvent struct {
	name string
	data []byte
}

// events yields the server-sent events of a Belljar server until the end of the stream, and a read error as the last
// element. It drops an incomplete event.
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
