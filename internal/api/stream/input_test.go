package stream

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/internal/event"
)

func TestDecodeInput(t *testing.T) {
	for _, test := range []struct {
		raw  string
		data string
		last bool
		code websocket.StatusCode // 0 if it is accepted
	}{
		{`{"type":"stdin","encoding":"utf8","data":"hé\n"}`, "hé\n", false, 0},
		{`{"data":"aGk=","encoding":"base64","type":"stdin"}`, "hi", false, 0},
		{` { "type" : "stdin" , "encoding" : "utf8" , "data" : "" } `, "", false, 0},
		{`{"type":"stdin","encoding":"utf8","data":"\ud83d\ude00\\ud83d"}`, "😀\\ud83d", false, 0},
		{`{"type":"stdin_close"}`, "", true, 0},
		{`{"type":"stdin","encoding":"utf8","data":"` + "\xff" + `"}`, "", false, 1007},
		{`{"type":"stdin","encoding":"utf8","data":"\ud83d"}`, "", false, 1007},
		{`{"type":"stdin","encoding":"utf8","data":"\ude00\ud83d"}`, "", false, 1007},
		{`{"type":"stdin","encoding":"utf8","data":"\ud83d\u0041"}`, "", false, 1007},
		{`{"type":"stdin","encoding":"base64","data":"*"}`, "", false, 1007},
		{`{"type":"stdin","encoding":"base64","data":"aGk"}`, "", false, 1007},
		{``, "", false, 1007},
		{`null`, "", false, 1007},
		{`[]`, "", false, 1007},
		{`"stdin"`, "", false, 1007},
		{`{"type":"stdin"`, "", false, 1007},
		{`{"type":"stdin_close"}}`, "", false, 1007},
		{`{"type":"stdin_close"}{"type":"stdin_close"}`, "", false, 1007},
		{`{"type":"stdin_close",}`, "", false, 1007},
		{`{}`, "", false, 1008},
		{`{"type":"resize"}`, "", false, 1008},
		{`{"TYPE":"stdin_close"}`, "", false, 1008},
		{`{"type":"stdin_close","data":"x"}`, "", false, 1008},
		{`{"type":"stdin_close","type":"stdin_close"}`, "", false, 1008},
		{`{"type":"stdin","data":"x"}`, "", false, 1008},
		{`{"type":"stdin","encoding":"utf8"}`, "", false, 1008},
		{`{"type":"stdin","encoding":"hex","data":"00"}`, "", false, 1008},
		{`{"type":"stdin","encoding":"utf8","data":5}`, "", false, 1008},
		{`{"type":"stdin","encoding":"utf8","data":{}}`, "", false, 1008},
		{`{"type":"stdin","encoding":"utf8","data":"x","seq":1}`, "", false, 1008},
	} {
		got, err := decodeInput([]byte(test.raw))
		var v closeReason
		if errors.As(err, &v) != (test.code != 0) || v.code != test.code || string(got.data) != test.data || got.last != test.last {
			t.Errorf("%s: %q %t, %v %d; want %q %t, %d", test.raw, got.data, got.last, err, v.code, test.data, test.last, test.code)
		}
		if len(v.reason) > 123 {
			t.Errorf("reason of %d bytes does not fit a close frame: %q", len(v.reason), v.reason)
		}
	}
}

// FuzzDecodeInput: encoding/json decodes an accepted message to the same input, and every refusal fits a close frame.
func FuzzDecodeInput(f *testing.F) {
	for _, seed := range []string{
		`{"type":"stdin","encoding":"utf8","data":"x\u00e9\ud83d\ude00"}`, `{"type":"stdin","encoding":"base64","data":"//4="}`,
		`{"type":"stdin_close"}`, `{"type":"stdin","encoding":"utf8","data":"\ud83d"}`, `{"type":"\u0000"}`, `[1]`, `{"a":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := decodeInput(raw)
		if err != nil {
			var v closeReason
			if !errors.As(err, &v) || v.code < 1007 || v.code > 1008 || len(v.reason) > 123 || !utf8.ValidString(v.reason) {
				t.Fatalf("%#v", err)
			}
			return
		}
		var want struct{ Type, Encoding, Data string }
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("%q is taken, but %v", raw, err)
		}
		data := want.Data
		if want.Encoding == "base64" {
			b, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				t.Fatal(err)
			}
			data = string(b)
		}
		if string(got.data) != data || got.last != (want.Type == "stdin_close") {
			t.Errorf("%q is taken as %q %t", raw, got.data, got.last)
		}
	})
}

// Input reaches the program in order. Every reader gets one note of the end of input, before the end event.
func TestInput(t *testing.T) {
	b := newBench(t)
	r := b.add("r", interactive)
	one, two := b.open("r", ""), b.open("r", "")
	for i := range 100 {
		text, err := json.Marshal(map[string]string{"type": "stdin", "encoding": "utf8", "data": fmt.Sprintf("line %d\n", i)})
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Write(b.context(), websocket.MessageText, text); err != nil {
			t.Fatal(err)
		}
		if got := r.stdin.read(t); string(got) != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("the program read %q", got)
		}
	}
	r.print("hello")
	b.want(one, hello)
	// A connection that ends leaves input open for the others.
	_ = one.Close(websocket.StatusNormalClosure, "")
	b.diary.await(t, event.StreamClosed, 1)
	b.want(two, hello)
	if err := two.Write(b.context(), websocket.MessageText, []byte(`{"type":"stdin_close"}`)); err != nil {
		t.Fatal(err)
	}
	b.want(two, `{"type":"event","event":"stdin_closed","data":{"reason":"client"},"seq":1}`)
	// Input after stdin_closed is dropped, and the connection continues.
	if err := two.Write(b.context(), websocket.MessageText, []byte(`{"type":"stdin","encoding":"utf8","data":"x"}`)); err != nil {
		t.Fatal(err)
	}
	r.end()
	b.want(two, `{"type":"event","event":"end","data":{"exit_code":0},"seq":2}`)
	b.wantClose(two, websocket.StatusNormalClosure, "end of log")
}

// An exceeded limit closes input for all clients, with its name as the reason.
func TestInputLimit(t *testing.T) {
	b := newBench(t)
	r := b.add("r", interactive)
	r.print("hello")
	r.print("more")
	conn, next, tail, beyond := b.open("r", ""), b.open("r", "?since_seq=2"), b.open("r", "?from_seq=tail"), b.open("r", "?from_seq=9")
	b.want(conn, hello, `{"type":"stdout","encoding":"utf8","data":"more","seq":2}`)
	b.diary.await(t, event.StreamOpened, 4)
	r.stdin.close("stdin_bps")
	note := `{"type":"event","event":"stdin_closed","data":{"hint":"wait","maximum":5,"message":"too fast","reason":"stdin_bps"},"seq":2}`
	for _, reader := range []*websocket.Conn{conn, next, tail, beyond} {
		b.want(reader, note)
	}
	r.end()
	b.want(conn, `{"type":"event","event":"end","data":{"exit_code":0},"seq":3}`)
}

// A signed URL only reads: it may be in a log or a history. A ticket sends input.
func TestInputThroughSignedURL(t *testing.T) {
	b := newBench(t, func(o *Options) { o.SignedURLs = true })
	r := b.add("r", interactive)
	r.print("hello")
	sender := httptest.NewRequest("GET", "http://x/", nil)
	sender = sender.WithContext(api.WithCaller(sender.Context(), belljar.Caller{ID: "ann", Role: belljar.RoleUser}))
	_, query, _ := strings.Cut(b.door.RunURL(sender, belljar.Run{ID: "r"}), "?")
	for _, message := range []string{`{"type":"stdin","encoding":"utf8","data":"x"}`, `{"type":"stdin_close"}`} {
		signed, _, err := b.dial("r", "?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		b.want(signed, hello)
		if err := signed.Write(b.context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		b.wantClose(signed, websocket.StatusPolicyViolation, "a signed url only reads")
	}
	ticket, _, err := b.dial("r", "?token="+ticketFor(b, "ann", ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.want(ticket, hello)
	if err := ticket.Write(b.context(), websocket.MessageText, []byte(`{"type":"stdin","encoding":"utf8","data":"y"}`)); err != nil {
		t.Fatal(err)
	}
	if got := r.stdin.read(t); string(got) != "y" {
		t.Errorf("the program read %q", got)
	}
	r.end()
}

// The end of a run closes its input: the note comes once, before the end event.
func TestInputEndsWithRun(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		r := b.add(fmt.Sprint("r", i), interactive)
		conn := b.open(r.state.ID, "")
		b.diary.await(t, event.StreamOpened, i+1)
		r.end()
		b.want(conn, `{"type":"event","event":"stdin_closed","data":{"reason":"run_ended"},"seq":1}`,
			`{"type":"event","event":"end","data":{"exit_code":0},"seq":1}`)
		b.wantClose(conn, websocket.StatusNormalClosure, "end of log")
	}
}

// A run that ends between Get and Stdin is read like any ended run.
func TestInputTooLate(t *testing.T) {
	b := newBench(t)
	r := b.add("r", interactive)
	r.refuse = &belljar.Error{Code: belljar.CodeConflict, Message: "has ended"}
	conn := b.open("r", "")
	if err := conn.Write(b.context(), websocket.MessageText, []byte(`{"type":"stdin_close"}`)); err != nil {
		t.Fatal(err)
	}
	r.end()
	b.want(conn, `{"type":"event","event":"end","data":{"exit_code":0},"seq":1}`)
	b.wantClose(conn, websocket.StatusNormalClosure, "end of log")
}

// While the program does not read, the server reads only one message. It still answers pings and sends output.
func TestInputBackpressure(t *testing.T) {
	onLine(t, func(o *Options) { o.PingEvery = time.Second }, func(t *testing.T, b *bench, _ *linetest.Line) {
		r := b.add("r", interactive)
		conn := b.open("r", "")
		send := func(text string) error {
			return conn.Write(b.context(), websocket.MessageText, []byte(`{"type":"stdin","encoding":"utf8","data":"`+text+`"}`))
		}
		if err := send("first"); err != nil {
			t.Fatal(err)
		}
		frames := make(chan belljar.Frame, 100)
		go func() {
			defer close(frames)
			for {
				f, _, err := b.read(conn)
				if err != nil {
					return
				}
				frames <- f
			}
		}()
		if err := conn.Ping(b.context()); err != nil {
			t.Fatalf("a ping while the program does not read: %v", err)
		}
		big := strings.Repeat("x", 60<<10)
		sent := make(chan error, 1)
		go func() {
			for range 40 { // 2.4 MB: more than all buffers on the way
				if err := send(big); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		r.print("hello")
		if f := <-frames; string(f.Output) != "hello" {
			t.Errorf("frame %+v", f)
		}
		select {
		case err := <-sent:
			t.Fatalf("2.4 MB of input went somewhere: %v", err)
		case <-time.After(20 * time.Second): // longer than the limit for silent readers, which does not apply while the server does not read
		}
		if got := r.stdin.read(t); string(got) != "first" {
			t.Errorf("the program read %q", got)
		}
		for range 40 {
			if got := r.stdin.read(t); len(got) != len(big) {
				t.Fatalf("the program read %d bytes", len(got))
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		r.end()
		for range frames {
		}
		if n, _ := b.diary.count(func(e event.Event) bool { return e.Name == event.StreamDropped }); n != 0 {
			t.Error("he was dropped")
		}
	})
}

// Clients that start a message and do not finish it are cut off in time. Until then they delay the input of others.
func TestInputUnfinished(t *testing.T) {
	onLine(t, func(o *Options) { o.WriteTimeout = 2 * time.Second }, func(t *testing.T, b *bench, _ *linetest.Line) {
		r := b.add("r", interactive)
		var stuck []*websocket.Conn
		for range maxRunInputs {
			conn := b.open("r", "")
			w, err := conn.Writer(b.context(), websocket.MessageText)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(`{"type":"stdin","data":"` + strings.Repeat("x", 8<<10))); err != nil {
				t.Fatal(err)
			}
			stuck = append(stuck, conn)
		}
		var group sync.WaitGroup
		for range 3 * maxRunInputs {
			conn := b.open("r", "")
			group.Go(func() {
				if err := conn.Write(b.context(), websocket.MessageText, []byte(`{"type":"stdin","encoding":"utf8","data":"y"}`)); err != nil {
					t.Error(err)
				}
			})
		}
		for range 3 * maxRunInputs {
			if got := r.stdin.read(t); string(got) != "y" {
				t.Fatalf("the program read %q", got)
			}
		}
		group.Wait()
		for _, conn := range stuck {
			if _, _, err := conn.Read(b.context()); err == nil || b.context().Err() != nil {
				t.Errorf("who stopped in a message: %v", err)
			}
		}
		r.end()
	})
}

// A message that breaks the protocol ends the connection with its own code; the run continues.
func TestOutOfProtocol(t *testing.T) {
	b := newBench(t)
	b.add("plain")
	r := b.add("talk", interactive)
	text := func(s string) func(*websocket.Conn) error {
		return func(c *websocket.Conn) error { return c.Write(b.context(), websocket.MessageText, []byte(s)) }
	}
	for _, test := range []struct {
		name, id string
		send     func(*websocket.Conn) error
		code     websocket.StatusCode
		reason   string
	}{
		{"binary", "talk", func(c *websocket.Conn) error { return c.Write(b.context(), websocket.MessageBinary, []byte("x")) }, 1003, "binary"},
		{"binary, not interactive", "plain", func(c *websocket.Conn) error { return c.Write(b.context(), websocket.MessageBinary, nil) }, 1003, "binary"},
		{"not interactive", "plain", text(`{"type":"stdin_close"}`), 1008, "not interactive"},
		{"no json", "talk", text(`hello`), 1007, "json"},
		{"no utf-8", "talk", text("\xff"), 1007, "utf-8"},
		{"unknown type", "talk", text(`{"type":"signal"}`), 1008, "stdin"},
		{"unknown field", "talk", text(`{"type":"stdin_close","now":"yes"}`), 1008, `"now"`},
		{"too long", "talk", text(`{"type":"stdin","encoding":"utf8","data":"` + strings.Repeat("x", maxInput) + `"}`), 1009, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := b.open(test.id, "")
			if err := test.send(conn); err != nil {
				t.Fatal(err)
			}
			b.wantClose(conn, test.code, test.reason)
		})
	}
	for name, raw := range map[string][]byte{
		"unmasked":                {0x81, 0x02, '{', '}'},
		"reserved bits":           {0xf1, 0x82, 0, 0, 0, 0, '{', '}'},
		"unknown opcode":          {0x83, 0x80, 0, 0, 0, 0},
		"fragmented ping":         {0x09, 0x80, 0, 0, 0, 0},
		"long ping":               {0x89, 0xfe, 0, 126, 0, 0, 0, 0},
		"continuation of nothing": {0x80, 0x80, 0, 0, 0, 0},
		"close with half a code":  {0x88, 0x81, 0, 0, 0, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			conn := rawSocket(t, b, "talk")
			in := answered(t, conn)
			if _, err := conn.Write(raw); err != nil {
				t.Fatal(err)
			}
			op, payload := readFrame(t, in)
			if code := uint(payload[0])<<8 | uint(payload[1]); op != 8 || code != 1002 {
				t.Errorf("message %d, close %d %q", op, code, payload[2:])
			}
		})
	}
	r.end()
	frames, _ := b.drain(b.open("talk", ""))
	if len(frames) != 1 {
		t.Errorf("frames %+v", frames)
	}
}
