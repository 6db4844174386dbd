package lsp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/creachadair/jrpc2"
)

// Limits of one message.
const (
	mostHeader = 8 << 10
	mostBody   = 64 << 20
)

// BrokenStream is the error for input without messages, or with a message over the limits. The rest of the input cannot be read.
type BrokenStream struct{ Reason string }

func (e *BrokenStream) Error() string {
	return "standard input is not the Language Server Protocol: " + e.Reason
}

// stream is the framing of messages; it implements channel.Channel.
type stream struct {
	in     *bufio.Reader
	out    io.Writer
	closed func()
	end    <-chan struct{} // closed when the server ends
	broken error           // set by Recv, and read when the server has ended

	mu       sync.Mutex
	awaited  string        // the id of the request that the next message waits for; "" for none
	answered chan struct{} // closed when its answer is written
}

// Recv reads one message. Requests are handled concurrently, but messages after initialize or shutdown wait for its response: they
// may depend on it, or end the server.
func (s *stream) Recv() ([]byte, error) {
	s.mu.Lock()
	answered := s.answered
	s.mu.Unlock()
	if answered != nil {
		select {
		case <-answered:
		case <-s.end:
			return nil, io.EOF
		}
	}
	body, err := s.read()
	if broken := (*BrokenStream)(nil); errors.As(err, &broken) {
		s.broken = err
	}
	if id, method := envelopeOf(body); method == "initialize" || method == "shutdown" {
		s.mu.Lock()
		s.awaited, s.answered = id, make(chan struct{})
		s.mu.Unlock()
	}
	return body, err
}

// envelopeOf returns the id and the method of a request as jrpc2 parses it. The id is "" for messages without a response, and for
// responses.
func envelopeOf(body []byte) (id, method string) {
	list, err := jrpc2.ParseRequests(body)
	if err != nil || len(list) != 1 || list[0].Batch || list[0].Error != nil || list[0].ID == "" {
		return "", ""
	}
	return list[0].ID, list[0].Method
}

// wrote records that a response was written.
func (s *stream) wrote(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaited == "" {
		return
	}
	if id, method := envelopeOf(body); method == "" && id == s.awaited {
		close(s.answered)
		s.awaited, s.answered = "", nil
	}
}

func (s *stream) read() ([]byte, error) {
	left, size := mostHeader, -1
	for {
		raw, err := s.in.ReadSlice('\n')
		if left -= len(raw); left < 0 || errors.Is(err, bufio.ErrBufferFull) {
			return nil, &BrokenStream{fmt.Sprintf("a header is longer than %d bytes", mostHeader)}
		}
		if err != nil {
			return nil, err
		}
		line := strings.TrimRight(string(raw), "\r\n")
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, &BrokenStream{fmt.Sprintf("a header line is %.40q", line)}
		}
		if !strings.EqualFold(strings.TrimSpace(name), "content-length") {
			continue
		}
		if size, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || size < 0 {
			return nil, &BrokenStream{fmt.Sprintf("Content-Length is %.40q", value)}
		}
	}
	switch {
	case size < 0:
		return nil, &BrokenStream{"a message has no Content-Length"}
	case size > mostBody:
		return nil, &BrokenStream{fmt.Sprintf("a message has %d bytes, and may have %d", size, mostBody)}
	}
	body := make([]byte, size)
	_, err := io.ReadFull(s.in, body)
	return body, err
}

// The error with which jrpc2 answers a request that is cancelled before its handler begins, and what the server writes instead.
const (
	cancelledEarly = `"error":{"code":-32097,"message":"context canceled"}`
	cancelledLate  = `"error":{"code":-32800,"message":"` + cancelledText + `"}`
)

// Send writes one message.
func (s *stream) Send(body []byte) error {
	body = bytes.ReplaceAll(body, []byte(cancelledEarly), []byte(cancelledLate))
	message := make([]byte, 0, len(body)+32)
	message = append(message, "Content-Length: "...)
	message = strconv.AppendInt(message, int64(len(body)), 10)
	message = append(message, "\r\n\r\n"...)
	_, err := s.out.Write(append(message, body...))
	s.wrote(body)
	return err
}

// Close stops reading messages.
func (s *stream) Close() error {
	s.closed()
	return nil
}
