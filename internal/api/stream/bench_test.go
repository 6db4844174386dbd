package stream

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// BenchmarkStream measures one run's output to one reader over loopback TCP, which does not decode the messages.
func BenchmarkStream(b *testing.B) {
	line := "2025-10-28T12:00:00Z INFO the quick brown fox jumps over the lazy dog 0123456789\n"
	for _, size := range []int{100, 4 << 10, belljar.MaxFrameBytes} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			bench := newBench(b)
			r := bench.add("r")
			text := []byte(strings.Repeat(line, size/len(line)+1)[:size])
			for range 1000 {
				r.say(belljar.Frame{Type: belljar.FrameStdout, Output: text})
			}
			r.end()
			b.SetBytes(int64(size) * 1000)
			for b.Loop() {
				conn := bench.open("r", "")
				conn.SetReadLimit(-1)
				buf := make([]byte, 64<<10)
				messages := 0
				for {
					_, body, err := conn.Reader(b.Context())
					if err != nil {
						if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
							b.Fatal(err)
						}
						break
					}
					for {
						if _, err := body.Read(buf); err != nil {
							break
						}
					}
					messages++
				}
				if messages != 1001 {
					b.Fatalf("%d messages", messages)
				}
			}
		})
	}
}

// BenchmarkLatency measures the time from the append of a frame to its arrival at the reader.
func BenchmarkLatency(b *testing.B) {
	bench := newBench(b)
	r := bench.add("r")
	conn := bench.open("r", "")
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		r.print("x")
		if _, _, err := conn.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// TestThousandReaders: during a burst of frames of all sizes, a thousand readers of one run take less than 200 MB, including
// their clients and the test. Each reader gets all frames.
func TestThousandReaders(t *testing.T) {
	const frames = 200
	readers := 1000
	if raceEnabled { // the race detector itself needs memory
		readers = 50
	}
	b := newBench(t)
	r := b.add("r")
	before := resident(t)
	conns := make([]*bufio.Reader, readers)
	for i := range conns {
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nX-User: ann\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", b.path("r", "stream"))
		conns[i] = bufio.NewReaderSize(conn, 512)
		if answer, err := http.ReadResponse(conns[i], nil); err != nil || answer.StatusCode != 101 {
			t.Fatal(err)
		}
	}
	idle := resident(t)
	most := idle
	done := make(chan struct{})
	var watching, reading sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				most = max(most, resident(t))
			}
		}
	})
	begun := time.Now()
	for i := range conns {
		reading.Go(func() {
			for want := uint64(1); ; want++ {
				n, err := skipFrame(conns[i])
				if err != nil {
					t.Errorf("reader %d, frame %d: %v", i, want, err)
					return
				}
				if n == 0 { // the close
					if want != frames+2 {
						t.Errorf("reader %d got %d frames", i, want-1)
					}
					return
				}
			}
		})
	}
	for i := range frames {
		size := 80
		if i%20 == 0 {
			size = belljar.MaxFrameBytes
		}
		r.print(strings.Repeat("x", size))
	}
	r.end()
	reading.Wait()
	close(done)
	watching.Wait()
	t.Logf("%d readers: %d MB idle, %d MB at most, %v for %d frames each", readers,
		(idle-before)>>20, (most-before)>>20, time.Since(begun).Round(time.Millisecond), frames)
	if got := most - before; got > 200<<20 && !raceEnabled {
		t.Errorf("%d readers take %d MB", readers, got>>20)
	}
}

// skipFrame reads one WebSocket frame and returns its length; 0 for the close.
func skipFrame(in *bufio.Reader) (int, error) {
	var head [10]byte
	if _, err := readFull(in, head[:2]); err != nil {
		return 0, err
	}
	n, more := int(head[1]), 0
	switch n {
	case 126:
		more = 2
	case 127:
		more = 8
	}
	if _, err := readFull(in, head[2:2+more]); err != nil {
		return 0, err
	}
	if more > 0 {
		n = 0
		for _, c := range head[2 : 2+more] {
			n = n<<8 | int(c)
		}
	}
	if _, err := in.Discard(n); err != nil {
		return 0, err
	}
	if head[0]&0xf == 8 {
		return 0, nil
	}
	return n, nil
}

// resident returns the memory of this process in bytes: the kernel's figure, or Go's if there is none.
func resident(t *testing.T) int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.Sys - m.HeapReleased)
	}
	fields := strings.Fields(string(raw))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Error(err)
	}
	return pages * int64(os.Getpagesize())
}
