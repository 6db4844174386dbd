//go:build linux

package keep

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/belljar/belljar/internal/agent/wire"
)

// relayBytes is the buffer size of one copy. A stream has two while it is open.
const relayBytes = 16 << 10

// relay connects each connection of l to a stream of the multiplexer, until either ends.
func relay(l net.Listener, host *wire.MuxHost) {
	buffers := &sync.Pool{New: func() any { return new([relayBytes]byte) }}
	for {
		conn, err := l.Accept()
		if err != nil {
			if outOfResources(err) && pause(host.Done()) {
				continue
			}
			return
		}
		go join(conn, host, buffers)
	}
}

// join copies both ways between a connection and a new stream. As the protocol requires, the end of either direction ends the
// other.
func join(conn net.Conn, host *wire.MuxHost, buffers *sync.Pool) {
	defer conn.Close()
	stream, err := host.Dial(context.Background()) // ends with the host, which ends with this process
	if err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		if err := carry(stream, conn, buffers); errors.Is(err, io.ErrClosedPipe) {
			// The agent has closed its end. The other direction may still have its reply. A host that waits until we have read its data
			// would not get it otherwise.
			_ = carry(io.Discard, conn, buffers)
			return
		}
		stream.Close()
	})
	_ = carry(conn, stream, buffers)
	conn.Close()
	both.Wait()
	stream.Close()
}

func carry(to io.Writer, from io.Reader, buffers *sync.Pool) error {
	b := buffers.Get().(*[relayBytes]byte)
	defer buffers.Put(b)
	// Hide both ends' own copy methods, which would each allocate a buffer.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, b[:])
	return err
}
