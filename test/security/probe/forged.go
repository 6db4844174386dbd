//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// taken is a stream of the host that its agent, the forger, has handed over to this program.
type taken struct {
	net.Conn
	r *wire.Reader
	w *wire.Writer
}

// takeRelay takes the relay. The host opens another one after this one is lost.
func takeRelay() (*taken, error) {
	c, err := net.DialTimeout("tcp", frontAddress, patience)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	return &taken{c, wire.NewReader(c), wire.NewWriter(c)}, nil
}

// takeConn takes the stream that the host opens for a connection, and reports whether it is open.
func takeConn(id uint64) (*taken, error) {
	for {
		c, err := net.DialTimeout("tcp", "127.0.0.53:1081", patience)
		if err != nil {
			return nil, err
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		b := bufio.NewReader(c)
		line, err := b.ReadString('\n')
		if err != nil {
			return nil, closed(c, err)
		}
		if strings.TrimSpace(line) == strconv.FormatUint(id, 10) {
			return &taken{c, wire.NewReader(b), wire.NewWriter(c)}, nil
		}
		c.Close() // of an earlier attack
	}
}

func (t *taken) ask(a wire.Ask) error {
	_ = t.SetDeadline(time.Now().Add(patience))
	return t.w.JSON(wire.KindReply, wire.Reply{Ask: &a})
}

// answer reads the host's answer.
func (t *taken) answer() (wire.Answer, error) {
	f, err := t.r.Read()
	if err != nil {
		return wire.Answer{}, err
	}
	var c wire.Control
	if err := f.JSON(&c); err != nil {
		return wire.Answer{}, err
	}
	if f.Kind != wire.KindControl || c.Answer == nil {
		return wire.Answer{}, fmt.Errorf("frame %d: %s", f.Kind, f.Payload)
	}
	return *c.Answer, nil
}

// greet accepts a connection as an agent does.
func (t *taken) greet() {
	_ = t.w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version})
	_ = t.w.JSON(wire.KindReply, wire.Reply{Done: true})
}

// Read reads the bytes that the host sends to a program.
func (t *taken) Read(p []byte) (int, error) { return t.r.Data(p) }

// get gets a path of an allowed host over a separate connection.
func (t *taken) get(id uint64, host, path string) (string, error) {
	if err := t.ask(wire.Ask{ID: id, Open: &wire.Open{Host: host, Port: 80, Via: wire.ViaAddress}}); err != nil {
		return "", err
	}
	c, err := takeConn(id)
	if err != nil { // the host may have sent the reason
		_ = t.SetDeadline(time.Now().Add(time.Second))
		reply, _ := t.answer()
		return "", fmt.Errorf("%w: %+v", err, reply)
	}
	defer c.Close()
	c.greet()
	if err := c.w.Data([]byte(page(path, host))); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// helloFrom is the control of the relay: an allowed host answers.
func (r *report) helloFrom(t *taken, id uint64) {
	reply, err := t.get(id, "api.test", "/")
	if err == nil && !strings.Contains(reply, "hello from api.test") {
		err = fmt.Errorf("it replied %q", reply)
	}
	r.works("a connection of the forged agent", err)
}

// taker takes the relay, or fails.
func (r *report) taker(use func(*taken)) {
	t, err := takeRelay()
	r.works("take the relay", err)
	if err == nil {
		use(t)
		t.Close()
	}
}

// forged runs the attacks of a compromised agent.
func forged(r *report, args []string) {
	for _, what := range args {
		attack, ok := map[string]func(*report){"asks": forgedAsks, "frames": forgedFrames, "connections": forgedConns, "flood": forgedFlood}[what]
		if !ok {
			r.breach("no attack %s", what)
			continue
		}
		attack(r)
	}
	r.taker(func(t *taken) { r.helloFrom(t, 1) })
}

// forgedAsks requests everything that no rule allows. The host must deny each request.
func forgedAsks(r *report) {
	bait, peer := os.Getenv("LANE_BAIT"), os.Getenv("LANE_PEER")
	shared, _ := strconv.ParseUint(os.Getenv("LANE_PORT"), 10, 16)
	long := strings.Repeat("a", 1<<20)
	var asks []wire.Ask
	for _, name := range []string{
		"other.test", "api.test.other.test", "xapi.test", "wild.test", "", ".", "*", "*.wild.test", "api.test\x00.other.test", "other.test\x00.wild.test", "a..wild.test",
		"bait.wild.test", "special-2.wild.test", "special-4.wild.test", "special-6.wild.test", "localhost", "127.0.0.1", bait, peer, "\xff\xfe", "../../api.test",
	} {
		asks = append(asks, wire.Ask{Name: name})
		for _, port := range []uint16{80, 443, uint16(shared)} {
			if name != peer {
				asks = append(asks, wire.Ask{Open: &wire.Open{Host: name, Port: port, Via: wire.ViaConnect}})
			}
		}
	}
	asks = append(asks, wire.Ask{Name: long}, wire.Ask{Name: long + ".wild.test"}, wire.Ask{Open: &wire.Open{Host: long + ".wild.test", Port: 80}})
	for _, host := range []string{"::ffff:" + bait, "[" + bait + "]", "::1", "0.0.0.0", "0x7f000001", "127.1", "64:ff9b::7f00:1", "fe80::1%lo", "169.254.169.254", "10.0.0.1", "8.8.8.8", "api.test:80", "http://api.test/"} {
		asks = append(asks, wire.Ask{Open: &wire.Open{Host: host, Port: 80, Via: wire.ViaSocks}}, wire.Ask{Name: "api.test", Open: &wire.Open{Host: host, Port: uint16(shared)}})
	}
	for _, port := range []uint16{0, 22, 25, 8080, 65535} { // the server lists 53, 80, 443 and the bait's port
		asks = append(asks, wire.Ask{Open: &wire.Open{Host: "api.test", Port: port, Via: "nonsense"}}, wire.Ask{Open: &wire.Open{Host: peer, Port: port, Via: wire.ViaConnect}})
	}
	r.taker(func(t *taken) {
		r.helloFrom(t, 1<<40)
		for i, a := range asks {
			what := fmt.Sprintf("ask %d: %.60q %+.60v", i, a.Name, a.Open)
			for _, id := range []uint64{uint64(i), 1<<64 - 1} { // a new id, and one that all use
				a.ID = id
				err := t.ask(a)
				var reply wire.Answer
				if err == nil {
					reply, err = t.answer()
				}
				if err != nil || reply.ID != id || reply.OK || reply.Reason == "" {
					r.breach("%s: %+v, %v", what, reply, err)
					return
				}
				fmt.Printf("%s: %s\n", what, reply.Reason)
			}
		}
		r.helloFrom(t, 1<<41)
	})
}

// raw returns a frame of any kind, with any length in its header.
func raw(kind byte, size uint32, payload string) string {
	return string([]byte{kind, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}) + payload
}

func ofReply(reply wire.Reply) string {
	text, _ := json.Marshal(reply)
	return raw(byte(wire.KindReply), uint32(len(text)), string(text))
}

// misplaced are frames that break the protocol of a relay, and of a connection.
func misplaced() map[string]string {
	return map[string]string{
		"an unknown kind":          raw(99, 0, ""),
		"4 GiB of a reply":         raw(byte(wire.KindReply), 1<<32-1, "{"),
		"data without an end":      raw(byte(wire.KindData), 1<<31, strings.Repeat("x", 1<<16)),
		"an exit":                  ofReply(wire.Reply{Exit: &wire.Exit{}}),
		"output":                   raw(byte(wire.KindOutput), 10, "\x00\x00\x00\x00\x00\x00\x00\x00\x01x"),
		"a request":                raw(byte(wire.KindRequest), 13, `{"op":"relay"}`),
		"JSON of a million braces": raw(byte(wire.KindReply), 1<<20, strings.Repeat("{", 1<<20)),
	}
}

// forgedFrames breaks the protocol. The host must end only that relay, and open another.
func forgedFrames(r *report) {
	for what, text := range misplaced() {
		r.taker(func(t *taken) {
			if _, err := io.WriteString(t.Conn, text); err != nil {
				fmt.Printf("%s: %v\n", what, err)
				return
			}
			_, err := t.answer()
			if late, ok := errors.AsType[net.Error](err); err == nil || ok && late.Timeout() {
				r.breach("%s: the host goes on: %v", what, err)
				return
			}
			fmt.Printf("%s: %v\n", what, err)
		})
	}
}

// forgedConns breaks the protocol and the rules of connections: for another host, after their end.
func forgedConns(r *report) {
	id := uint64(1000)
	r.taker(func(t *taken) {
		open := func(port uint16) *taken {
			id++
			err := t.ask(wire.Ask{ID: id, Open: &wire.Open{Host: "api.test", Port: port, Via: wire.ViaAddress}})
			var c *taken
			if err == nil {
				c, err = takeConn(id)
			}
			if err != nil {
				r.breach("control: a connection: %v", err)
			}
			return c
		}
		for what, text := range misplaced() {
			for _, greeted := range []bool{true, false} {
				c := open(80)
				if c == nil {
					return
				}
				if greeted {
					c.greet()
				}
				_, err := io.WriteString(c.Conn, text)
				if err == nil {
					_, err = io.ReadAll(c)
				}
				if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
					r.breach("%s on a connection: nothing for %v", what, patience)
				}
				c.Close()
			}
		}
		const right = "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"
		for what, say := range map[string]func(c *taken){
			"another host":                 func(c *taken) { _ = c.w.Data([]byte(page("/", "other.test"))) },
			"another host after the right": func(c *taken) { _ = c.w.Data([]byte(right + page("/", "other.test"))) },
			"after the end":                func(c *taken) { _ = c.w.EOF(); _ = c.w.Data([]byte(page("/", "other.test"))) },
			"after two ends":               func(c *taken) { _ = c.w.EOF(); _ = c.w.EOF(); _ = c.w.Data([]byte(right)) },
			"before the greeting":          func(c *taken) { _ = c.w.Data([]byte(page("/", "other.test"))); c.greet() },
		} {
			c := open(80)
			if c == nil {
				return
			}
			if what != "before the greeting" {
				c.greet()
			}
			say(c)
			reply, err := io.ReadAll(c)
			if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() || strings.Contains(string(reply), "hello from other") {
				r.breach("%s: %q, %v", what, reply, err)
			}
			fmt.Printf("%s: %d answers\n", what, strings.Count(string(reply), "hello from api.test"))
			c.Close()
		}
		c := open(443)
		if c == nil {
			return
		}
		c.greet()
		_ = c.w.Data(hello("other.test"))
		head := make([]byte, 1)
		if n, err := io.ReadFull(c, head); n > 0 && head[0] == 22 {
			r.breach("another name in TLS: a handshake, %v", err)
		}
		c.Close()
		r.helloFrom(t, id+1)
	})
}

// forgedFlood requests more than the limits, reads no answer and accepts no connection. The host's descriptors must be
// released.
func forgedFlood(r *report) {
	settle := func() {
		t, err := takeRelay()
		r.works("take the relay", err)
		if err != nil {
			return
		}
		defer t.Close()
		var reply string
		for id, begin := uint64(1), time.Now(); time.Since(begin) < 2*time.Minute; id++ {
			_ = t.SetDeadline(time.Now().Add(patience))
			if reply, err = t.get(id, "api.test", "/mark"); err != nil || strings.Contains(reply, "settled") {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil || !strings.Contains(reply, "settled") {
			r.breach("the host does not settle: %q, %v", reply, err)
		}
		fmt.Print(reply)
	}
	settle()
	floods := []func(i uint64) wire.Ask{
		func(i uint64) wire.Ask { return wire.Ask{ID: i, Name: fmt.Sprintf("n%d.wild.test", i)} },
		func(i uint64) wire.Ask { return wire.Ask{ID: 1<<31 + i, Open: &wire.Open{Host: "api.test", Port: 80}} },
		func(uint64) wire.Ask { return wire.Ask{ID: 7, Open: &wire.Open{Host: "api.test", Port: 443}} },
	}
	most := uint64(20_000)
	if ownKernel() && os.Getenv("LANE_TIER") == "test" {
		most = 8_000 // more answers than sockets can hold
	}
	for what, ask := range floods {
		r.taker(func(t *taken) {
			_ = t.SetDeadline(time.Now().Add(3 * time.Second))
			n, err := uint64(0), error(nil)
			for ; n < most && err == nil; n++ {
				a := ask(n)
				err = t.w.JSON(wire.KindReply, wire.Reply{Ask: &a})
			}
			fmt.Printf("flood %d: %d asks\n", what, n)
			if n < 50 {
				r.breach("control: only %d asks in flood %d", n, what)
			}
		})
	}
	settle()
}
