package wire_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/belljar/belljar/internal/agent/wire"
)

// TestDataArrivesAsSent reads Data frames in pieces of any size, from a stream that fails now and then like one with deadlines.
func TestDataArrivesAsSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var raw bytes.Buffer
		w := wire.NewWriter(&raw)
		var sent []byte
		for range rapid.IntRange(0, 6).Draw(t, "frames") {
			b := rapid.SliceOfN(rapid.Byte(), 0, 9000).Draw(t, "data")
			sent = append(sent, b...)
			if err := w.Data(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.EOF(), w.JSON(wire.KindReply, wire.Reply{Done: true})); err != nil {
			t.Fatal(err)
		}
		in := &moody{r: bytes.NewReader(raw.Bytes()), most: rapid.IntRange(1, 9000).Draw(t, "most")}
		r := wire.NewReader(in)
		var got []byte
		for {
			size, err := r.Await()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			if err == io.EOF {
				break
			}
			if err != nil || size <= 0 {
				t.Fatalf("%d bytes, %v", size, err)
			}
			p := make([]byte, rapid.IntRange(1, 9000).Draw(t, "piece"))
			n, err := r.Data(p)
			if err != nil && (n != 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
				t.Fatalf("%d bytes, %v", n, err)
			}
			got = append(got, p[:n]...)
		}
		if !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes arrived, not the %d that were sent", len(got), len(sent))
		}
		for {
			_, err := r.Await()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			if err != wire.ErrOther {
				t.Fatalf("before a reply: %v", err)
			}
			break
		}
	})
}

// moody fails every other time with a deadline error, and reads a few bytes at a time.
type moody struct {
	r    io.Reader
	most int
	fail bool
}

func (m *moody) Read(p []byte) (int, error) {
	if m.fail = !m.fail; m.fail {
		return 0, os.ErrDeadlineExceeded
	}
	return m.r.Read(p[:min(len(p), m.most)])
}

func TestDataEnds(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want error
	}{
		"nothing":          {"", io.ErrUnexpectedEOF},
		"half a head":      {"\x05\x00", io.ErrUnexpectedEOF},
		"half a frame":     {"\x05\x00\x00\x00\x02x", io.ErrUnexpectedEOF},
		"no EOF":           {"\x05\x00\x00\x00\x01x", io.ErrUnexpectedEOF},
		"an EOF":           {"\x05\x00\x00\x00\x00\x05\x00\x00\x00\x01x\x06\x00\x00\x00\x00", io.EOF},
		"an EOF with data": {"\x06\x00\x00\x00\x01x", wire.ErrFrame},
		"too much":         {"\x05\x00\x01\x00\x01", wire.ErrFrame},
		"an unknown kind":  {"\x09\x00\x00\x00\x00", wire.ErrFrame},
		"a reply":          {"\x04\x00\x00\x00\x02{}", wire.ErrOther},
	} {
		r := wire.NewReader(iotest.OneByteReader(bytes.NewReader([]byte(c.raw))))
		var err error
		for err == nil {
			_, err = r.Data(make([]byte, 10))
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	r := wire.NewReader(bytes.NewReader([]byte("\x05\x00\x00\x00\x02xy\x06\x00\x00\x00\x00")))
	if n, err := r.Data(make([]byte, 1)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := r.Read(); !errors.Is(err, wire.ErrFrame) {
		t.Errorf("a frame in the middle of another: %v", err)
	}
}

// A frame is in use while its reader waits for more than a buffer.
func TestDataAfterADeadline(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() {
		w := wire.NewWriter(b)
		w.Data([]byte("first"))
	}()
	r := wire.NewReader(a)
	p := make([]byte, 100)
	if n, err := r.Data(p); string(p[:n]) != "first" || err != nil {
		t.Fatalf("%q, %v", p[:n], err)
	}
	a.SetReadDeadline(time.Unix(1, 0))
	if _, err := r.Data(p); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	a.SetReadDeadline(time.Time{})
	go wire.NewWriter(b).Data([]byte("second"))
	if n, err := r.Data(p); string(p[:n]) != "second" || err != nil {
		t.Fatalf("%q, %v", p[:n], err)
	}
}

func FuzzData(f *testing.F) {
	f.Add([]byte("\x05\x00\x00\x00\x01x\x06\x00\x00\x00\x00"), 3)
	f.Add([]byte("\x05\x00\x00\x00\x00\x04\x00\x00\x00\x02{}"), 1)
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		if piece < 1 || piece > 1<<16 {
			return
		}
		// Reading the frames one by one returns the same.
		var want []byte
		whole := wire.NewReader(bytes.NewReader(in))
		fr, err := whole.Read()
		for err == nil && fr.Kind == wire.KindData {
			want = append(want, fr.Payload...)
			fr, err = whole.Read()
		}
		var got []byte
		r := wire.NewReader(bytes.NewReader(in))
		var end error
		for end == nil {
			p := make([]byte, piece)
			var n int
			n, end = r.Data(p)
			got = append(got, p[:n]...)
		}
		ended, other := err == nil && fr.Kind == wire.KindEOF, err == nil && fr.Kind != wire.KindEOF
		if !bytes.HasPrefix(got, want) || (end == io.EOF) != ended || other && !errors.Is(end, wire.ErrOther) {
			t.Fatalf("%q, %v; want %q, kind %d, %v", got, end, want, fr.Kind, err)
		}
	})
}
