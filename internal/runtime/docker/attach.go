package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/agent/wire"
)

// attach connects to the stdin and stdout of a container's agent, which carry the multiplexer's byte stream. The
// agent's standard error is copied to stderr.
func (e *engine) attach(ctx context.Context, container string, stderr *tail) (*wire.MuxHost, error) {
	got, err := e.api().ContainerAttach(ctx, container, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, err
	}
	return wire.NewMuxHost(&line{Reader: &demux{r: got.Reader, stderr: stderr}, WriteCloser: got.Conn}), nil
}

// line is an attached connection.
type line struct {
	io.Reader
	io.WriteCloser
}

// The streams that an engine mixes into one connection. The first byte of a frame names its stream.
const (
	frameStdin  = 0 // echoed; never seen
	frameStdout = 1
	frameStderr = 2
	frameSystem = 3 // an error of the engine itself
)

// frameHeader is the size of a frame's header: the stream, three zeros and the length of the data (big endian).
const frameHeader = 8

// errFrame means that an engine's stream is not in the multiplexed format.
var errFrame = errors.New("the engine sends no container output")

// demux reads the stdout of a container from an attached connection.
type demux struct {
	r      io.Reader
	stderr *tail
	left   int64 // remaining bytes of the current frame
	kind   byte
}

// Read returns the next bytes of stdout.
func (d *demux) Read(b []byte) (int, error) {
	for {
		if len(b) == 0 {
			return 0, nil
		}
		if d.left == 0 {
			var h [frameHeader]byte
			if _, err := io.ReadFull(d.r, h[:]); err != nil {
				return 0, err
			}
			if h[0] > frameSystem || h[1]|h[2]|h[3] != 0 {
				return 0, errFrame
			}
			d.kind, d.left = h[0], int64(binary.BigEndian.Uint32(h[4:]))
			continue
		}
		part := b[:min(int64(len(b)), d.left)]
		n, err := d.r.Read(part)
		if d.left -= int64(n); err == io.EOF && d.left > 0 {
			err = io.ErrUnexpectedEOF
		}
		switch d.kind {
		case frameStdout:
			if n > 0 || err != nil {
				return n, err
			}
		case frameStderr:
			d.stderr.add(part[:n])
		case frameSystem:
			if n > 0 {
				return 0, fmt.Errorf("the engine reports: %s", strings.TrimSpace(string(part[:n])))
			}
		}
		if err != nil {
			return 0, err
		}
	}
}

// maxTail is how many bytes of an agent's stderr are kept, from its end.
const maxTail = 2 << 10

// tail keeps the end of a text. Safe for concurrent use; the zero value is empty.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
}

// String returns the kept text for a log line, without control characters.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	clean := func(c rune) rune {
		if c < ' ' && c != '\t' || c == 0x7f {
			return ' '
		}
		return c
	}
	return strings.TrimSpace(strings.Map(clean, strings.ToValidUTF8(string(t.text), "?")))
}
