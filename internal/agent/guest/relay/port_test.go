//go:build linux

package relay

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

func TestListener(t *testing.T) {
	const rest = " 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0"
	for local, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000:0050":                         "0.0.0.0:80",
		"00000000000000000000000000000000:0BB8": "[::]:3000",
		"00000000000000000000000001000000:0BB8": "[::1]:3000",
		"0000000000000000FFFF00000100007F:0BB8": "127.0.0.1:3000",
		"3500007F:0035":                         "", // the agent's resolver
		"0200407F:01BB":                         "", // a name's address
		"0A00000A:0050":                         "",
		"0100007F":                              "",
		"zz00007F:0050":                         "",
		"0100:0050":                             "",
	} {
		addr, inode, ok := listener("   0: " + local + rest)
		if got := addr.String(); ok != (want != "") || ok && (got != want || inode != "4711") {
			t.Errorf("%s: %s, %s, %v", local, got, inode, ok)
		}
	}
	for _, line := range []string{"", "  sl  local_address rem_address   st", "   0: 0100007F:1F90 0100007F:1234 01 0:0 0:0 0 1000 0 4711"} {
		if addr, _, ok := listener(line); ok {
			t.Errorf("%q: %s", line, addr)
		}
	}
}

// A listener is listed with its program. A listener at another address is not, nor is any after it closes.
func TestPorts(t *testing.T) {
	open := func(addr string) (net.Listener, uint16) {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l, uint16(l.Addr().(*net.TCPAddr).Port)
	}
	find := func(port uint16) (wire.Listener, bool) {
		list, _, err := Ports()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(list, func(l wire.Listener) bool { return l.Port == port })
		if at < 0 {
			return wire.Listener{}, false
		}
		return list[at], true
	}
	l, port := open("127.0.0.1:0")
	_, elsewhere := open("127.0.0.53:0")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	comm := filepath.Base(exe)
	want := wire.Listener{Port: port, Address: "127.0.0.1", Pid: os.Getpid(), Program: comm[:min(len(comm), 15)]}
	if got, ok := find(port); !ok || got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	// Other programs of the host may listen on the same port of another address.
	if got, ok := find(elsewhere); ok && (got.Pid == want.Pid || got.Address == "127.0.0.53") {
		t.Errorf("listed: %+v", got)
	}
	l.Close()
	if got, ok := find(port); ok && got.Pid == want.Pid {
		t.Errorf("closed: %+v", got)
	}
}
