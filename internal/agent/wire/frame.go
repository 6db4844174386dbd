package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Kind is the type of a frame.
type Kind uint8

// The kinds of frame. Unknown kinds are a protocol error.
const (
	KindHello   Kind = 1 // JSON Hello, both ways, first
	KindRequest Kind = 2 // JSON Request, host to agent, second
	KindControl Kind = 3 // JSON Control, host to agent, on exec and attach
	KindReply   Kind = 4 // JSON Reply, agent to host
	KindData    Kind = 5 // raw bytes: stdin, file contents, tar
	KindEOF     Kind = 6 // empty: no Data follows in this direction
	KindOutput  Kind = 7 // 8 bytes position, 1 byte Stream, raw bytes; agent to host
)

// Limits of a frame's payload, in bytes.
const (
	MaxJSON = 4 << 20  // Hello, Request, Control, Reply; a request carries a 1 MiB command line
	MaxData = 64 << 10 // Data, and the bytes of Output
)

// MaxValues limits the values of a Hello or a Reply. A host cannot trust an agent, and a value can take a hundred times as much memory
// as its text. Agents send a list in smaller parts.
const MaxValues = 16 << 10

// outputHead is the size of an Output frame's position and stream.
const outputHead = 9

// ErrFrame is a malformed or oversized frame. The stream is unusable after it.
var ErrFrame = errors.New("malformed frame")

// Frame is one decoded frame. Payload is valid until the next Read.
type Frame struct {
	Kind    Kind
	Payload []byte
}

// JSON decodes the payload of a control frame.
func (f Frame) JSON(v any) error {
	if (f.Kind == KindReply || f.Kind == KindHello) && !moderate(f.Payload) {
		return fmt.Errorf("%w: more than %d values in an answer", ErrFrame, MaxValues)
	}
	if plainly(f.Payload, v) {
		return nil
	}
	if err := json.Unmarshal(f.Payload, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

// moderate reports whether JSON has at most [MaxValues] values. It counts the commas outside strings.
func moderate(text []byte) bool {
	if len(text) < 2*MaxValues {
		return true
	}
	values, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ',':
			if !quoted {
				values++
			}
		}
	}
	return values <= MaxValues
}

// Output splits the payload of an Output frame.
func (f Frame) Output() (position int64, stream Stream, data []byte, err error) {
	if f.Kind != KindOutput || len(f.Payload) < outputHead {
		return 0, 0, nil, fmt.Errorf("%w: output of %d bytes", ErrFrame, len(f.Payload))
	}
	position = int64(binary.BigEndian.Uint64(f.Payload))
	stream = Stream(f.Payload[8])
	if position < 0 || stream < Stdout || stream > Result {
		return 0, 0, nil, fmt.Errorf("%w: output at %d on stream %d", ErrFrame, position, stream)
	}
	return position, stream, f.Payload[outputHead:], nil
}

// Reader decodes frames. Not safe for concurrent use.
type Reader struct {
	r    *bufio.Reader
	buf  []byte
	left int // bytes of a Data frame that Data has not read

	every, frames int
	wait          func() // after each every frames; may be nil
}

// readAhead is the buffer size of a Reader. The rest of a larger frame is read past the buffer. Most streams carry a few hundred
// bytes, and each has its own Reader.
const readAhead = 4 << 10

// NewReader reads frames from r, with a buffer of [readAhead] bytes.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, readAhead)}
}

// Pace makes the reader call wait after every n frames.
func (r *Reader) Pace(n int, wait func()) { r.every, r.wait = n, wait }

// pace counts a frame.
func (r *Reader) pace() {
	if r.frames++; r.wait != nil && r.frames >= r.every {
		r.frames = 0
		r.wait()
	}
}

// Read returns the next frame. io.EOF means a clean end between two frames; an end inside one is
// io.ErrUnexpectedEOF.
func (r *Reader) Read() (Frame, error) {
	if r.left > 0 {
		return Frame{}, fmt.Errorf("%w: %d bytes of the previous frame have not been read", ErrFrame, r.left)
	}
	var head [headSize]byte
	if _, err := io.ReadFull(r.r, head[:1]); err != nil {
		return Frame{}, err
	}
	if _, err := io.ReadFull(r.r, head[1:]); err != nil {
		return Frame{}, noEOF(err)
	}
	kind := Kind(head[0])
	size := binary.BigEndian.Uint32(head[1:])
	most, ok := bound(kind)
	if !ok || size > most {
		return Frame{}, fmt.Errorf("%w: kind %d of %d bytes", ErrFrame, kind, size)
	}
	if uint32(cap(r.buf)) < size {
		r.buf = make([]byte, size)
	}
	r.buf = r.buf[:size]
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		return Frame{}, noEOF(err)
	}
	r.pace()
	return Frame{Kind: kind, Payload: r.buf}, nil
}

// Buffered returns the number of bytes that are read but not part of a returned frame. At 0 the next Read may block.
func (r *Reader) Buffered() int { return r.r.Buffered() }

func bound(k Kind) (uint32, bool) {
	switch k {
	case KindHello, KindRequest, KindControl, KindReply:
		return MaxJSON, true
	case KindData:
		return MaxData, true
	case KindOutput:
		return MaxData + outputHead, true
	case KindEOF:
		return 0, true
	}
	return 0, false
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Writer encodes frames, each in one Write. Safe for concurrent use.
type Writer struct {
	mu  sync.Mutex // guards w and buf
	w   io.Writer
	buf []byte
}

// NewWriter writes frames to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// JSON writes a control frame.
func (w *Writer) JSON(k Kind, v any) error {
	raw, ok := writePlain(v)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return err
		}
	}
	if len(raw) > MaxJSON {
		return fmt.Errorf("%w: %d bytes of kind %d", ErrFrame, len(raw), k)
	}
	return w.write(k, nil, raw)
}

// Data writes b as Data frames.
func (w *Writer) Data(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), MaxData)
		if err := w.write(KindData, nil, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// DataRoom is how many bytes [Writer.DataInPlace] needs in front of the data.
const DataRoom = 5

// DataInPlace writes one Data frame with the bytes of b after the first [DataRoom], which it overwrites. It copies nothing. The data
// has at most MaxData bytes.
func (w *Writer) DataInPlace(b []byte) error {
	b[0] = byte(KindData)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-DataRoom))
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(b)
	return err
}

// EOF writes an EOF frame: no Data follows.
func (w *Writer) EOF() error { return w.write(KindEOF, nil, nil) }

// Output writes one Output frame; b is at most MaxData bytes.
func (w *Writer) Output(position int64, s Stream, b []byte) error {
	var head [outputHead]byte
	binary.BigEndian.PutUint64(head[:], uint64(position))
	head[8] = byte(s)
	return w.write(KindOutput, head[:], b)
}

func (w *Writer) write(k Kind, head, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := len(head) + len(body)
	w.buf = append(w.buf[:0], byte(k), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(w.buf[1:], uint32(size))
	w.buf = append(append(w.buf, head...), body...)
	_, err := w.w.Write(w.buf)
	return err
}
